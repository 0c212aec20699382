import subprocess
import sys
import threading
import time
from textwrap import dedent

import pytest

from berthmaster.runtime.stopping import Stop


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
