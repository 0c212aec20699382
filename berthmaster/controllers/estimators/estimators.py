"""All estimators of a fleet, asked at the same time."""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from berthmaster.controllers.estimators.breaker import Breaker
from berthmaster.controllers.estimators.link import Directory, Link, Metadata, Result
from berthmaster.controllers.estimators.messages import encode_requirements
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields

T = TypeVar("T")

_LOG: Final = logging.getLogger("berthmaster.estimators")
_LOOKUPS_AT_ONCE: Final = 16
_GRACE_S: Final = 1.0  # for the loop to notice that the time is up
_CLOSING_LIMIT_S: Final = 5.0
_MAX_DESCRIPTION: Final = 512


class Meter(Protocol):
    """Counts; called from the estimators' thread."""

    def asked(self, result: str) -> None:
        """An estimator was asked for a decision; ``result`` is the value of a ``Result``."""

    def took(self, seconds: float) -> None:
        """A decision waited so long for all that it asked."""

    def broken(self, clusters: int) -> None:
        """So many clusters have an estimator that is not waited for."""


class Estimators:
    """The estimators of the clusters that have arrived and not left. Safe for several threads.

    All connections live in one event loop on a thread of its own: gRPC's blocking interface would start a thread for
    each cluster that is asked.
    """

    def __init__(self, directory: Directory, clock: Clock, meter: Meter) -> None:
        self._directory = directory
        self._clock = clock
        self._meter = meter
        self._links: dict[str, Link] = {}
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._lookups = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="estimator-lookup")
        self._loop.set_default_executor(self._lookups)
        self._thread = threading.Thread(target=self._loop.run_forever, name="estimators", daemon=True)
        self._thread.start()

    def add(self, cluster: str) -> None:
        """A cluster arrived, or is still there: connect to its estimator in the background."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._add, cluster)

    def remove(self, cluster: str) -> None:
        """A cluster left: hang up."""
        if not self._closed:
            self._submit(self._remove(cluster))

    def wait(self, timeout_s: float) -> bool:
        """Wait until each estimator was connected to, or that failed; whether it came to that in time."""
        try:
            self._submit(self._dialled()).result(timeout_s)
        except TimeoutError:
            return False
        return True

    def max_available(
        self, clusters: Iterable[str], requirements: ReplicaRequirements | None, described: str, timeout_s: float
    ) -> dict[str, int]:
        """How many more replicas fit each cluster, as its estimator says; those that do not answer are left out.

        All are asked at once, under one deadline. Nothing makes this fail.

        Args:
            clusters: whom to ask.
            requirements: what a replica needs; None where that is not known, which asks for pods alone.
            described: the workload, for people who read the estimators' logs.
            timeout_s: how long to wait at most.
        """
        if self._closed:
            return {}
        try:
            encoded = encode_requirements(requirements)
        except InputError as error:
            _LOG.warning("requirements cannot be told", extra=fields(workload=described, problem=str(error)))
            return {}
        metadata = (("object", _printable(described)),)
        asked = self._submit(self._ask(list(clusters), encoded, metadata, timeout_s))
        try:
            return asked.result(timeout_s + _GRACE_S)
        except TimeoutError:
            asked.cancel()
            return {}

    def close(self) -> None:
        """Hang up everywhere; not to be used any more."""
        self._closed = True
        closing = self._submit(self._close())
        try:
            closing.result(_CLOSING_LIMIT_S)
        except TimeoutError:
            _LOG.warning("connections to scheduler estimators did not close in time")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_LIMIT_S)
        self._lookups.shutdown(wait=False, cancel_futures=True)
        if not self._thread.is_alive():
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _add(self, cluster: str) -> None:
        if cluster not in self._links:
            self._links[cluster] = Link(cluster, self._directory, Breaker(self._clock))

    async def _remove(self, cluster: str) -> None:
        link = self._links.pop(cluster, None)
        if link is not None:
            await link.close()

    async def _dialled(self) -> None:
        await asyncio.gather(*(link.dialled() for link in list(self._links.values())))

    async def _ask(
        self, clusters: list[str], requirements: bytes, metadata: Metadata, timeout_s: float
    ) -> dict[str, int]:
        links = [link for name in clusters if (link := self._links.get(name)) is not None]
        began_s = self._clock.monotonic_s()
        results = await asyncio.gather(*(link.ask(requirements, metadata, timeout_s) for link in links))
        self._meter.took(self._clock.monotonic_s() - began_s)
        for result, _ in results:
            self._meter.asked(result.value)
        self._meter.broken(sum(not link.breaker.waited_for for link in self._links.values()))
        return {
            link.cluster: replicas
            for link, (result, replicas) in zip(links, results, strict=True)
            if result is Result.ANSWERED
        }

    async def _close(self) -> None:
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*(link.close() for link in links))


def _printable(described: str) -> str:
    """The text as gRPC's metadata takes it: printable ASCII, bounded."""
    return "".join(each if " " <= each <= "~" else "?" for each in described[:_MAX_DESCRIPTION])
