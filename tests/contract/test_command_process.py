"""The command as a process: streams that cannot be used, encodings, interruptions, what it imports."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "karmada"
START = "import sys; sys.argv[0] = 'berthmaster'; from berthmaster_cli.entry import berthmaster; berthmaster()"


def called(arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command with arguments and redirections of a shell, in the folder of the examples."""
    return subprocess.run(  # noqa: S603 - ours
        ["bash", "-c", f'"$0" -c "$1" {arguments}', sys.executable, START],  # noqa: S607
        capture_output=True, text=True, timeout=60, check=False, cwd=EXAMPLES.parents[1],
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shell", "code", "message"),
    [
        ("simulate -f examples/karmada <&-", 0, ""),
        ("lint examples/karmada <&-", 0, ""),
        ("simulate -f - <&-", 2, "<stdin>: cannot be read: standard input is closed"),
        ("lint - <&- >&2", 2, "standard input is closed"),
        ("--help >/dev/full", 2, "cannot write the output: No space left on device"),
        ("simulate -f examples/karmada >/dev/full", 2, "cannot write the output"),
        ("simulate -f examples/karmada -o json >/dev/full", 2, "cannot write the output"),
        ("simulate -f none 2>/dev/full", 2, ""),
        ("simulate -f none 2>&-", 2, ""),
        ("none >/dev/full 2>/dev/full", 2, ""),
    ],
)
def test_a_stream_that_cannot_be_used_has_no_traceback(shell, code, message):
    found = called(shell)
    assert (found.returncode, "Traceback" in found.stderr) == (code, False), found.stderr
    assert message in found.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_without_arrows_gets_plain_text_and_valid_json(encoding):
    change = "simulate -f examples/karmada --scale Deployment/checkout=9"
    assert "->" in called(change, PYTHONIOENCODING=encoding).stdout
    found = called(f"{change} -o json", PYTHONIOENCODING=encoding)
    assert (found.returncode, bool(json.loads(found.stdout))) == (0, True)


@pytest.mark.parametrize("module", ["click", "msgspec", "numpy"])
def test_an_interruption_during_an_import_has_no_traceback(module):
    interrupt = (
        "import sys, os, signal\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    found = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", interrupt + START, "simulate", "-f", str(EXAMPLES)],
        capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (130, "")
    assert "Traceback" not in found.stderr


def test_the_command_starts_without_numpy():
    code = "import sys, berthmaster_cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0  # noqa: S603 - our own command
