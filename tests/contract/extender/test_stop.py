"""Stops of a running extender."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from servers import Wire, request, running
from waiting import wait_for

from extender.protocols.native import examples

GOOD = request("POST", "/v1/schedule", msgspec.json.encode(examples.SCHEDULE_OWN_FLEET))


def test_running_requests_are_answered_before_the_end(tmp_path):
    with running("extender", "--workers", 1, "--grace-s", 60, log=tmp_path / "log") as server:
        with Wire(server.port) as idle, Wire(server.port) as busy:
            idle.send(GOOD)
            assert idle.answer().status == 200
            busy.send(GOOD[:-10])
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            busy.send(GOOD[-10:])
            assert busy.answer().status == 200
        assert server.process.wait(timeout=30) == 0


def test_a_draining_service_answers_and_is_not_ready(tmp_path):
    with running("extender", "--workers", 1, "--drain-s", 300, log=tmp_path / "log") as server, ExitStack() as stack:
        stack.callback(server.process.send_signal, signal.SIGQUIT)  # ends the time for which it drains
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.probe("/readyz") == (503, "draining\n"))
        with Wire(server.port) as wire:
            wire.send(GOOD)
            assert wire.answer().status == 200


def test_clients_that_have_connected_before_the_stop_are_answered_and_later_ones_refused(tmp_path):
    with running("extender", "--workers", 1, "--grace-s", 60, log=tmp_path / "log") as server, ExitStack() as stack:
        [worker] = filter(stops_at_term, children(server.process.pid))
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_for(lambda: set(states(worker)) == {"T"})  # a thread that still runs could take the next signal
            clients = [stack.enter_context(Wire(server.port, timeout_s=60)) for _ in range(3)]
            for client in clients:
                client.send(GOOD)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: has_term(worker, "ShdPnd"))
        finally:
            os.kill(worker, signal.SIGCONT)
        answers = [final_answer(client) for client in clients]
        assert [(each.status, each.headers["connection"]) for each in answers] == [(200, "close")] * 3
        with pytest.raises(ConnectionRefusedError):
            Wire(server.port)


def final_answer(client):
    """Return the next response that is not an interim one."""
    while (answer := client.answer()).status == 100:
        pass
    return answer


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stops_at_term(pid):
    """Return whether a process is a worker: the one that serves the probes ignores SIGTERM."""
    return not has_term(pid, "SigIgn")


def has_term(pid, field):
    signals = int(status(Path(f"/proc/{pid}"), field), 16)
    return bool(signals >> (signal.SIGTERM - 1) & 1)


def states(pid):
    """Return the states of all threads of a process: ``T`` is stopped."""
    return [status(task, "State") for task in Path(f"/proc/{pid}/task").iterdir()]


def status(folder, field):
    """Return the first word of a field in the status of a process or a thread."""
    lines = (folder / "status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
