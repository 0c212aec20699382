"""Stops of a running extender."""

import signal
import time

import msgspec
from servers import Wire, request, running

from extender.protocols.native import examples

GOOD = request("POST", "/v1/schedule", msgspec.json.encode(examples.SCHEDULE_OWN_FLEET))


def test_running_requests_are_answered_before_the_end(tmp_path):
    with running("extender", "--workers", 1, log=tmp_path / "log") as server:
        with Wire(server.port) as idle, Wire(server.port) as busy:
            idle.send(GOOD)
            assert idle.answer().status == 200
            busy.send(GOOD[:-10])
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            busy.send(GOOD[-10:])
            assert busy.answer().status == 200
        assert server.process.wait(timeout=10) == 0


def test_a_draining_service_answers_and_is_not_ready(tmp_path):
    with running("extender", "--workers", 1, "--drain-s", 2, log=tmp_path / "log") as server:
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert server.probe("/readyz") == (503, "draining\n")
        with Wire(server.port) as wire:
            wire.send(GOOD)
            assert wire.answer().status == 200
