"""A thread that calls one function again and again."""

import logging
import threading

from waiting import LIMIT_S

from berthmaster.runtime.repeating_thread import RepeatingThread

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
