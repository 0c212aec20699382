"""Finds out whether watched objects can still be current.

A watch cannot show this. An API server that cannot reach etcd keeps watches open, sends bookmarks and starts new
watches, all from its memory. Only a read that etcd must confirm fails.
"""

import logging
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import Collection, probe
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.stopping import RepeatingThread

INTERVAL_S: Final = 15.0
"""The mean pause between two checks."""
READ_TIMEOUT_S: Final = 15.0
RETRY_S: Final = 2.0
UNCONFIRMED_S: Final = 30.0
"""Checks must fail for this long. One lost connection says nothing about etcd."""
_LOG: Final = logging.getLogger("berthmaster.kube")


class SourceCheck:
    """Reads one object per API group at intervals, in a thread of its own. The reads bypass the API server's memory.

    It checks each API group once, because the aggregation layer can serve a group by another server.

    Attributes:
        problem: why watched objects may be out of date although they are watched; empty if they are current.
        stale_since: when the last successful check began, if there is a problem; else None.
    """

    def __init__(
        self, collections: Iterable[Collection], clock: Clock, report: Callable[[], None] | None = None
    ) -> None:
        """Prepare the check.

        Args:
            collections: the watched collections that the client may list.
            report: called after ``problem`` changed. It must not raise.
        """
        self.problem = ""
        self.stale_since: datetime | None = None
        self._collections = list({each.path.removesuffix(each.plural): each for each in collections}.values())
        self._clock = clock
        self._report = report
        self._confirmed_at, self._confirmed_s = clock.now(), clock.monotonic_s()
        self._failed = False
        self._thread: RepeatingThread | None = None

    def start(self, client: APIClient) -> None:
        """Start the thread. The first check follows after ``INTERVAL_S``."""
        self._confirmed_at, self._confirmed_s = self._clock.now(), self._clock.monotonic_s()
        self._thread = RepeatingThread(
            "source-check", lambda: self.check(client), self._pause_s, _LOG, "the API server could not be checked"
        )
        self._thread.start()

    def stop(self) -> None:
        """Start no further check. Returns at once."""
        if self._thread is not None:
            self._thread.stop()

    def check(self, client: APIClient) -> None:
        """Check once."""
        began_at, began_s = self._clock.now(), self._clock.monotonic_s()
        try:
            for collection in self._collections:
                ask(client, probe(collection, READ_TIMEOUT_S))
        except ApiError as error:
            self._fail(error)
        else:
            self._confirmed_at, self._confirmed_s, self._failed = began_at, began_s, False
            if self.problem:
                _LOG.info("the API server returns current objects again")
                self._set("", None)

    def _fail(self, error: ApiError) -> None:
        self._failed = True
        if self._clock.monotonic_s() - self._confirmed_s < UNCONFIRMED_S:
            return
        problem = f"the API server does not return current objects; check it and its etcd: {error}"
        if not self.problem:
            _LOG.warning("watched objects may be out of date: %s", problem)
        if problem != self.problem:
            self._set(problem, self._confirmed_at)

    def _set(self, problem: str, since: datetime | None) -> None:
        self.problem, self.stale_since = problem, since
        if self._report is not None:
            self._report()

    def _pause_s(self) -> float:
        """Return the pause before the next check, with jitter: many processes start at once."""
        return RETRY_S if self._failed else INTERVAL_S * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
