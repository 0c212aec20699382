"""A thread that calls one function again and again."""

import logging
import threading
from collections.abc import Callable

from berthmaster.runtime.logs import log_exceptions


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
        """Start no further call. Returns at once."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the last call has returned, or a time passes."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            log_exceptions(self._call, self._log, "%s", self._problem)
