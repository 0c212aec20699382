"""What each process has: settings, memory, threads, and its end."""

import json
import logging
import platform
import subprocess
import sys
import threading
import time
from textwrap import dedent

import pytest
from tables import cases
from waiting import LIMIT_S

from berthmaster.model.errors import InputError
from berthmaster.runtime import installation
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.runtime.feature_gates import FeatureGates, Gate, gates_help
from berthmaster.runtime.installation import extra_remedy
from berthmaster.runtime.stopping import RepeatingThread, Stop


@pytest.mark.parametrize(
    ("url", "namespace", "binding", "address"),
    [
        ("https://console.example/", "shop", "web-deployment", "https://console.example/workloads/shop/web-deployment"),
        ("http://h:1/base", "", "admin-clusterrole", "http://h:1/base/workloads/-/admin-clusterrole"),
        ("https://h", "a/b", "c?d#e\n", "https://h/workloads/a%2Fb/c%3Fd%23e%0A"),
    ],
)
def test_the_page_of_a_workload(url, namespace, binding, address):
    assert ConsoleLink(url).workload(namespace, binding) == address


@pytest.mark.parametrize(
    "url",
    [
        "console.example", "ftp://h", "https://", "https://h?a=b", "https://u:p@h", "https://h/ x",
        f"https://{'h' * 300}",
    ],
)  # fmt: skip
def test_anything_else_is_no_address_of_a_console(url):
    with pytest.raises(InputError, match="is not the address of a console"):
        ConsoleLink(url)


NEW = Gate("New", "alpha", default=False, summary="tries something")
OLD = Gate("Old", "beta", default=True, summary="does something")
KNOWN = (NEW, OLD)


@cases(
    ("text", "on"),
    {
        "the defaults": ("", (False, True)),
        "one gate on": ("New=true", (True, True)),
        "one gate on and one off": ("New=true,Old=false", (True, False)),
        "spaces and empty parts": (" New = true , ", (True, True)),
        "the last value counts": ("New=true,New=false", (False, True)),
        "any letter case": ("New=True,Old=FALSE", (True, False)),
    },
)
def test_gates_are_parsed(text, on):
    gates = FeatureGates.parse(text, KNOWN)
    assert (gates.on(NEW), gates.on(OLD)) == on


@cases(
    ("text", "words"),
    {
        "unknown": ("Nwe=true", "unknown gate 'Nwe'; known are New, Old"),
        "no value": ("New", "'New' is not NAME=true or NAME=false"),
        "an empty value": ("New=", "'New=' is not NAME=true"),
        "another value": ("New=yes", "'New=yes' is not NAME=true"),
        "a name in another letter case": ("new=true", "unknown gate 'new'"),
    },
)
def test_invalid_gates_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        FeatureGates.parse(text, KNOWN)


def test_help_lists_gates_with_stage_and_default():
    assert (
        gates_help(KNOWN)
        == "New (alpha, false by default): tries something; Old (beta, true by default): does something"
    )


def test_gates_can_be_logged():
    assert str(FeatureGates.parse("New=true", KNOWN)) == "New=true,Old=true"


@pytest.mark.parametrize(
    ("origin", "remedy"),
    [
        ({"url": "file:///src/b", "dir_info": {"editable": True}}, "pip install --editable '/src/b[ledger]'"),
        ({"url": "file:///b.whl", "archive_info": {}}, "pip install 'berthmaster[ledger] @ file:///b.whl'"),
        (
            {"url": "https://git.example/b", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "pip install 'berthmaster[ledger] @ git+https://git.example/b@c0ffee'",
        ),
        (None, "install this copy of berthmaster again, from the same file or folder, with its extra 'ledger'"),
    ],
)
def test_an_extra_comes_from_where_the_copy_came_from(monkeypatch, origin, remedy):
    class Installed:
        def read_text(self, _name: str) -> str | None:
            return json.dumps(origin) if origin is not None else None

    monkeypatch.setattr(installation, "distribution", lambda _name: Installed())
    assert extra_remedy("ledger") == remedy
    monkeypatch.setattr(sys, "prefix", "/home/u/.local/share/pipx/venvs/berthmaster")
    assert extra_remedy("ledger") == remedy.replace("pip install", "pipx install --force")
    monkeypatch.setenv("BERTHMASTER_ZIPAPP", "/opt/berthmaster.pyz")
    assert extra_remedy("ledger").startswith("/opt/berthmaster.pyz has no extras; install the wheel of this release")


_PROGRAM = """
from pathlib import Path
from berthmaster.runtime.memory import return_large_blocks

def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4

{prepare}
first = bytearray(30 * 2**20)
del first
before = resident_kib()
bodies = [bytearray(b"x" * 2**20) for _ in range(64)]
kept = bodies[-1]
del bodies
print(resident_kib() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such option")
@cases(
    ("prepare", "keeps_memory"),
    {
        "by default glibc keeps freed bodies below one that is in use": ("", True),
        "large blocks return to the system": ("return_large_blocks()", False),
    },
)
def test_freed_bodies(prepare, keeps_memory):
    program = _PROGRAM.format(prepare=prepare)
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout  # noqa: S603 - this program
    assert (int(output) > 16 * 1024) is keeps_memory


LOG = logging.getLogger("berthmaster.test")


def test_a_crash_is_logged_and_the_next_call_follows(caplog):
    calls, again = [], threading.Event()

    def call():
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            raise OSError("no space left on device")
        again.set()

    thread = RepeatingThread("ticker", call, lambda: 0.0, LOG, "the ticker crashed")
    thread.start()
    assert again.wait(LIMIT_S)
    thread.stop()
    thread.join(LIMIT_S)
    assert set(calls) == {"ticker"}
    [record] = [each for each in caplog.records if each.name == LOG.name]
    assert record.getMessage() == "the ticker crashed"
    assert "no space left on device" in caplog.text


def test_a_stop_ends_a_pause():
    asked = threading.Event()

    def pause_s():
        asked.set()
        return 3600.0

    calls = []
    thread = RepeatingThread("ticker", lambda: calls.append("call"), pause_s, LOG, "the ticker crashed")
    thread.start()
    assert asked.wait(LIMIT_S)
    thread.stop()
    thread.join(LIMIT_S)
    assert "ticker" not in [each.name for each in threading.enumerate()]
    assert not calls


@pytest.mark.parametrize("step", range(6))
def test_a_signal_handler_may_interrupt_the_waiting_thread_at_any_step(step):
    # A separate process can be killed after a timeout: a deadlock raises no exception.
    program = f"""
        import sys
        from berthmaster.runtime.stopping import Stop

        stop, seen = Stop(), 0

        def trace(frame, event, argument):
            global seen
            seen += event == "line"
            if seen > {step}:
                sys.settrace(None)
                stop.ask()
            return trace

        sys.settrace(trace)
        asked = stop.wait(20)
        sys.settrace(None)
        assert asked
    """
    subprocess.run([sys.executable, "-c", dedent(program)], timeout=60, check=True)  # noqa: S603 - ours


def test_another_thread_ends_the_wait():
    stop = Stop()
    timer = threading.Timer(0.05, stop.ask)
    timer.start()
    began_s = time.monotonic()
    assert stop.wait()
    assert stop.wait(0)
    assert time.monotonic() - began_s < 30
    timer.join()


def test_a_wait_ends_after_its_timeout():
    began_s = time.monotonic()
    assert not Stop().wait(0.15)
    assert time.monotonic() - began_s >= 0.15
