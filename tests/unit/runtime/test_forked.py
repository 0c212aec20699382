"""Computations in a process of their own: values, errors, and how the process ends."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from tables import cases
from waiting import LIMIT_S, wait_for

from berthmaster.model.cached import cached_property
from berthmaster.model.errors import DamagedLedgerError, FieldError, InputError, ManifestError
from berthmaster.runtime.forked import Forked

LOWEST = 19
"""The lowest priority that there is. A process of a parent that has it is not behind its parent."""


def no_check():
    pass


def sleeps(send):
    send(os.getpid())
    time.sleep(LIMIT_S)


def has_ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_values_arrive_in_order():
    base = [3, 1, 2]

    def compute(send):
        for each in sorted(base):
            send(each)
        base.clear()

    assert list(Forked(compute, no_check)) == [1, 2, 3]
    assert base == [3, 1, 2], "the process has a copy"


@cases(
    "error",
    {
        "a message": InputError("no"),
        "a field": FieldError("spec.a", "is wrong", "mend it").below("items[3]"),
        "a file": ManifestError("a.yaml", 2, "is no list", "spec"),
        "another argument than the message": DamagedLedgerError("a chain is cut"),
    },
)
def test_an_error_arrives_as_it_was_raised(error):
    def compute(send):
        send(1)
        raise error

    values = iter(Forked(compute, no_check))
    assert next(values) == 1
    with pytest.raises(type(error)) as raised:
        next(values)
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


def test_a_crash_is_logged_in_the_process_and_is_an_error_here(capfd, monkeypatch):
    monkeypatch.setattr(
        logging.getLogger("berthmaster.forked"), "handlers", [logging.StreamHandler(os.fdopen(2, "w", closefd=False))]
    )
    with pytest.raises(RuntimeError, match="ended with status 1"):
        list(Forked(lambda _send: 1 / 0, no_check))
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_killed_process_is_an_error():
    values = iter(Forked(sleeps, no_check))
    os.kill(next(values), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ended with status -9"):
        next(values)


def test_a_check_that_raises_ends_the_process():
    pids = []

    def check():
        if pids:
            raise InputError("enough")

    with pytest.raises(InputError, match="enough"):
        pids.extend(Forked(sleeps, check))
    assert has_ended(pids[0])


def test_the_end_of_the_iteration_ends_the_process():
    values = iter(Forked(sleeps, no_check))
    pid = next(values)
    values.close()
    assert has_ended(pid)


def test_a_process_from_any_thread_leaves_signals_and_priority_to_others():
    found = []

    def compute(send):
        own, parent = (os.getpriority(os.PRIO_PROCESS, each) for each in (0, os.getppid()))
        behind = own > parent or own == LOWEST
        send((signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1), behind))

    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    before = signal.set_wakeup_fd(ours.fileno())
    thread = threading.Thread(target=lambda: found.extend(Forked(compute, no_check)))
    thread.start()
    thread.join(LIMIT_S)
    signal.set_wakeup_fd(before)
    ours.close()
    theirs.close()
    assert found == [(signal.SIG_DFL, -1, True)]


def test_a_process_does_not_keep_connections_open():
    ours, theirs = socket.socketpair()
    values = iter(Forked(sleeps, no_check))
    next(values)
    ours.close()
    theirs.settimeout(LIMIT_S)
    assert theirs.recv(1) == b"", "the client sees the end, although the process goes on"
    values.close()
    theirs.close()


def test_a_process_ends_with_its_parent():
    program = (
        "import os, time\n"
        "from berthmaster.runtime.forked import Forked\n"
        "values = iter(Forked(lambda send: (send(os.getpid()), time.sleep(600)), lambda: None))\n"
        "print(next(values), flush=True)\n"
        "os._exit(0)\n"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)  # noqa: S603 - ours
    wait_for(lambda: has_ended(int(run.stdout)))


class Named:
    def __init__(self, compute):
        self.compute = compute

    @cached_property
    def name(self):
        return self.compute()


def test_a_property_that_another_thread_computes_does_not_hold_up_a_process():
    begun, may_end = threading.Event(), threading.Event()
    slow, quick = Named(lambda: begun.set() or may_end.wait(LIMIT_S)), Named(lambda: "computed")
    thread = threading.Thread(target=lambda: slow.name)
    thread.start()
    assert begun.wait(LIMIT_S)
    until_s = time.monotonic() + LIMIT_S

    def check():
        assert time.monotonic() < until_s, "the process waits"

    assert list(Forked(lambda send: send(quick.name), check)) == ["computed"]
    may_end.set()
    thread.join(LIMIT_S)
    assert slow.name is True
