"""Continuous requests beside another test action, with the result of each."""

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from e2e.api import Api, RefusedError
from e2e.processes import wait_for

END_LIMIT_S: Final = 40.0
_SHOWN_FAILURES: Final = 5


class Load:
    """Several clients that create dry runs one after the other.

    Attributes:
        answered: requests that were answered as they should.
        failures: what the others got, with the second they ended at.
    """

    def __init__(self, api: Api, make: Callable[[], Mapping[str, Any]], clients: int = 4) -> None:
        self._api = api
        self._make = make
        self._end = threading.Event()
        self._started_s = time.monotonic()
        self._lock = threading.Lock()
        self.answered = 0
        self.failures: list[str] = []
        self._threads = [threading.Thread(target=self._run, name=f"client-{number}") for number in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(END_LIMIT_S)

    def more(self, requests: int, timeout_s: float = 30.0) -> None:
        goal = self.answered + len(self.failures) + requests
        wait_for(f"{requests} more requests", lambda: self.answered + len(self.failures) >= goal, timeout_s)

    def report(self) -> str:
        first = "\n".join(self.failures[:_SHOWN_FAILURES])
        return f"{len(self.failures)} of {self.answered + len(self.failures)} requests failed:\n{first}"

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self._api.create(self._make(), dry_run=True)
            except RefusedError as refusal:
                with self._lock:
                    self.failures.append(f"after {time.monotonic() - self._started_s:.2f} s: {refusal}")
            else:
                with self._lock:
                    self.answered += 1
