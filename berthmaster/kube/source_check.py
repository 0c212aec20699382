"""Finds out whether watched objects can still be current, which a watch cannot show."""

import logging
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.responses import ProbedList, decode_response
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.stopping import RepeatingThread

_LOG: Final = logging.getLogger("berthmaster.kube")
INTERVAL_S: Final = 15.0
"""The mean pause between two checks."""
READ_TIMEOUT_S: Final = 15.0
RETRY_S: Final = 2.0
UNCONFIRMED_S: Final = 30.0
"""Checks must fail for this long. One lost connection says nothing about etcd."""


class SourceCheck:
    """Finds out whether watched objects can still be current, which a watch cannot show.

    An API server that cannot reach etcd keeps watches open, sends bookmarks and starts new watches, all from its
    memory. Only a read that etcd must confirm fails. The check reads one object per API group at intervals, in a thread
    of its own. The reads bypass the API server's memory.

    It checks each API group once, because the aggregation layer can serve a group by another server.

    A read can also show that the API server has gone back: its resource versions only rise, except after a restore of
    etcd. Watches of later versions then wait in silence, and writes conflict. Only a restart of this process ends that.

    Attributes:
        problem: why watched objects may be out of date although they are watched; empty if they are current.
        stale_since: when the last successful check began, if there is a problem; else None.
        went_back: whether the API server has gone back to a lower resource version.
    """

    def __init__(
        self,
        collections: Iterable[requests.Collection],
        clock: Clock,
        report: Callable[[], None] | None = None,
        restored: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare the check of collections that the client may list.

        Args:
            report: called after the problem has changed. It must not raise.
            restored: called with the reason when the API server has gone back. It must not raise.
        """
        self.problem = ""
        self.stale_since: datetime | None = None
        self._collections = list({each.path.removesuffix(each.plural): each for each in collections}.values())
        self._clock = clock
        self._report = report
        self._restored = restored
        self._versions: dict[str, int] = {}
        self.went_back = False
        self._confirmed_at, self._confirmed_s = clock.now(), clock.monotonic_s()
        self._failed = False
        self._thread: RepeatingThread | None = None

    def start(self, client: APIClient) -> None:
        self._confirmed_at, self._confirmed_s = self._clock.now(), self._clock.monotonic_s()
        self._thread = RepeatingThread(
            "source-check", lambda: self.check(client), self._pause_s, _LOG, "the API server could not be checked"
        )
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()

    def check(self, client: APIClient) -> None:
        began_at, began_s = self._clock.now(), self._clock.monotonic_s()
        try:
            for collection in self._collections:
                self._compare(collection, ask(client, requests.probe(collection, READ_TIMEOUT_S)))
        except ApiError as error:
            self._fail(error)
        else:
            self._failed = False
            if self.went_back:
                return
            self._confirmed_at, self._confirmed_s = began_at, began_s
            if self.problem:
                _LOG.info("the API server returns current objects again")
                self._set("", None)

    def _compare(self, collection: requests.Collection, body: bytes) -> None:
        """Compare the version of a collection with the last one. What is no number cannot be compared."""
        version = decode_response(ProbedList, body, collection.plural).metadata.resource_version
        if not version.isdecimal():
            return
        before, now = self._versions.get(collection.path, 0), int(version)
        self._versions[collection.path] = now
        if now >= before or self.went_back:
            return
        self.went_back = True
        problem = (
            f"the API server has gone back from version {before} to {now} of {collection.plural}, as after a restore "
            "of etcd; this process must start again"
        )
        _LOG.error("watched objects are from a time that is lost: %s", problem)
        self._set(problem, self._confirmed_at)
        if self._restored is not None:
            self._restored(problem)

    def _fail(self, error: ApiError) -> None:
        self._failed = True
        if self.went_back or self._clock.monotonic_s() - self._confirmed_s < UNCONFIRMED_S:
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
