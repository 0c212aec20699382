"""A source that watches the clusters or nodes, and the policies, of an API server.

The first update of the state contains every collection. An object that cannot be decoded is skipped, and its last valid
version stays. While the server cannot be reached, the state stays unchanged and is stale.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from berthmaster.kube.client import APIClient
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import CLUSTER_KINDS, KARMADA_POLICIES, POLICIES, Watched, WatchOptions
from berthmaster.kube.requests import Key
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.model.policy import Policy
from berthmaster.runtime.clock import Clock
from extender.state.state import FleetCache, State

Apply = Callable[[FleetCache, dict[Key, None]], None]
"""Apply the changed objects with these keys to the cache, and remove the keys."""


def watch_source(options: WatchOptions, clock: Clock) -> "WatchSource":
    """Return the source that options describe.

    Raises:
        InputError: the options select no kind of cluster, or several.
    """
    clusters = [kind for kind in options.kinds if kind in CLUSTER_KINDS]
    if len(clusters) != 1:
        found = " and ".join(clusters) or "none"
        raise InputError(f"one kind of cluster must be watched, got {found}; known are {', '.join(CLUSTER_KINDS)}")

    def client() -> APIClient:
        from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - a large library that only a watch needs

        return load_client(options.kubeconfig, options.context)

    return WatchSource(
        client,
        CLUSTER_KINDS[clusters[0]],
        KARMADA_POLICIES if POLICIES in options.kinds else (),
        clock=clock,
    )


class WatchSource:
    """Updates a state from an API server, with one informer for each collection."""

    def __init__(
        self,
        connect: Callable[[], APIClient],
        clusters: Watched[Cluster],
        policies: Sequence[Watched[Policy]] = (),
        *,
        clock: Clock,
    ) -> None:
        """Prepare the source. ``start`` makes the client, in the process that watches."""
        self._connect = connect
        self._clock = clock
        self._state: State | None = None
        self._synced = False
        self._lock = threading.Lock()
        self._clusters = Informer(clusters.collection, clusters.read, clock)
        self._policies = [Informer(each.collection, each.read, clock) for each in policies]
        self._feeds = [_Feed(self._clusters, self._apply_clusters, self._lock)]
        self._feeds += [_Feed(each, self._apply_policies, self._lock) for each in self._policies]
        for feed in self._feeds:
            feed.informer.on_contact(partial(self._follow, feed))

    def prepare(self) -> None:
        """Check the access to an API server, without a request.

        Raises:
            InputError: the configuration is invalid.
        """
        self._connect()

    def start(self, state: State) -> None:
        self._state = state
        client = self._connect()
        for feed in self._feeds:
            feed.informer.start(client)

    def stop(self) -> None:
        for feed in self._feeds:
            feed.informer.stop()

    def _follow(self, feed: "_Feed") -> None:
        """Update the state after a collection changed, was confirmed, or was lost."""
        with self._lock:
            if self._state is None:
                return
            if not feed.informer.problem:
                self._update(self._state, feed)
            self._mark(self._state)

    def _update(self, state: State, changed: "_Feed") -> None:
        """Apply the changes of one feed; of all feeds once, when every collection is listed."""
        if not all(feed.informer.listed for feed in self._feeds) or (self._synced and not changed.pending):
            return
        with suppress(InputError), state.updating(self._clock.now()) as cache:  # the feed keeps the error
            for feed in [changed] if self._synced else self._feeds:
                feed.apply(cache)
            self._synced = True

    def _mark(self, state: State) -> None:
        now = self._clock.now()
        problems = [problem for feed in self._feeds for problem in feed.problems(now)]
        if problems:
            state.mark_stale("; ".join(text for text, _ in problems), min(since for _, since in problems))
        elif self._synced:
            state.mark_current(now)

    def _apply_clusters(self, cache: FleetCache, pending: dict[Key, None]) -> None:
        """Apply changed clusters.

        Raises:
            InputError: the fleet is full. The clusters that do not fit stay pending; all others are applied.
        """
        full: InputError | None = None
        for key in sorted(pending, key=lambda key: self._clusters.get(key) is not None):  # removals first
            pending[key] = pending.pop(key)  # move to the end: after a crash, other clusters come first
            cluster = self._clusters.get(key)
            try:
                if cluster is None:
                    cache.remove_cluster(key[1])
                else:
                    cache.apply_cluster(cluster)
            except InputError as error:
                full = error
            else:
                del pending[key]
        if full is not None:
            raise full

    def _apply_policies(self, cache: FleetCache, pending: dict[Key, None]) -> None:
        if pending:
            cache.replace_policies(tuple(policy for informer in self._policies for _, policy in informer.items()))
            pending.clear()


class _Feed:
    """An informer, and the changes that are not applied to the state yet.

    Attributes:
        pending: the keys of changed objects, in order; guarded by the lock.
    """

    def __init__(self, informer: Informer[Any], apply: Apply, lock: threading.Lock) -> None:
        self.informer = informer
        self.pending: dict[Key, None] = {}
        self._apply = apply
        self._error = ""
        self._lock = lock
        informer.subscribe(self._changed)

    def apply(self, cache: FleetCache) -> None:
        """Apply the pending changes.

        Raises:
            InputError: the cache is full.
        """
        try:
            self._apply(cache, self.pending)
        except InputError as error:
            self._error = str(error)
            raise
        self._error = ""

    def problems(self, now: datetime) -> Iterator[tuple[str, datetime]]:
        """Yield each problem and its start."""
        # Another thread may reach the server again between these reads. It then updates the state itself.
        problem, since = self.informer.problem, self.informer.stale_since
        if problem and since is not None:
            yield f"{self.informer.collection.plural}: {problem}", since
        if self._error:
            yield self._error, now

    def _changed(self, key: Key, _before: object, _after: object) -> None:
        with self._lock:
            self.pending[key] = None
