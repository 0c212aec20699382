import signal
import subprocess
import sys

import pytest

CRASHES = """
import os, signal, sys
from berthmaster_cli.main import main, run
main.command("crash")(lambda: os.kill(os.getpid(), signal.SIGSEGV))
sys.argv[1:] = ["crash"]
run()
"""


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        pytest.param("2>&1", b"Fatal Python error: Segmentation fault", id="standard error has the stacks"),
        pytest.param("2>&-", b"", id="standard error is closed"),
    ],
)
def test_a_crash_in_c_code_is_reported(stderr, message):
    command = ["/bin/sh", "-c", f'exec "$0" -c "$1" {stderr}', sys.executable, CRASHES]
    child = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)  # noqa: S603 - ours
    assert child.returncode == -signal.SIGSEGV
    assert child.stdout.startswith(message)
    assert (b"most recent call first" in child.stdout) == bool(message)
