"""How a test run ends."""

import signal

import pytest
from e2e.processes import sigterm_as_ctrl_c


def test_a_second_sigterm_does_not_end_the_stopping() -> None:
    before, stopped = signal.getsignal(signal.SIGTERM), []

    def run() -> None:
        with sigterm_as_ctrl_c():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)
                stopped.append("everything")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert stopped
    assert signal.getsignal(signal.SIGTERM) is before
