"""What a process that runs for long needs: a request to stop, and threads that repeat their work."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from berthmaster.runtime.logs import log_exceptions

_CHECK_INTERVAL_S: Final = 0.1


class Stop:
    """Whether this process should stop. Any thread and any signal handler may set it.

    A signal handler runs in the thread that waits, between two bytecode steps. A ``threading.Event`` fails here in two
    ways. If the waiting thread holds the event's lock, the handler waits for that lock forever. If the signal comes
    after the last check and before the wait, the wait does not end. ``Stop`` therefore takes no lock, and each of its
    sleeps is short.
    """

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        self.asked = True

    def wait(self, timeout_s: float = float("inf")) -> bool:
        """Wait for a request to stop, for at most ``timeout_s`` seconds. Return whether there is one."""
        deadline_s = time.monotonic() + timeout_s
        while not self.asked and (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(min(_CHECK_INTERVAL_S, left_s))
        return self.asked


class RepeatingThread:
    """Calls a function, with a pause before each call. An exception is logged, and the next call follows."""

    def __init__(
        self, name: str, call: Callable[[], object], pause_s: Callable[[], float], log: logging.Logger, problem: str
    ) -> None:
        self._call = call
        self._pause_s = pause_s
        self._log = log
        self._problem = problem
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            log_exceptions(self._call, self._log, "%s", self._problem)
