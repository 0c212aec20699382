"""A source that watches an API server: its clusters or nodes, and its policies.

Nothing is told to the state before everything was listed once. An object that cannot be read is passed over, and what
was known of it stays; a server that cannot be reached leaves all as it was, marked as stale.
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
from extender.state.state import Memory, State


def watch_source(options: WatchOptions, clock: Clock) -> "WatchSource":
    """The source that options ask for.

    Raises:
        InputError: they ask for no kind of cluster, or for several.
    """
    clusters = [kind for kind in options.kinds if kind in CLUSTER_KINDS]
    if len(clusters) != 1:
        found = " and ".join(clusters) or "none"
        raise InputError(
            f"one kind of cluster has to be watched, and it is {found}; known are {', '.join(CLUSTER_KINDS)}"
        )

    def client() -> APIClient:
        from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - a large library, that only a watch needs

        return load_client(options.kubeconfig, options.context)

    return WatchSource(
        client,
        CLUSTER_KINDS[clusters[0]],
        KARMADA_POLICIES if POLICIES in options.kinds else (),
        clock=clock,
    )


class WatchSource:
    """Feeds a state from an API server, with one informer for each collection."""

    def __init__(
        self,
        connect: Callable[[], APIClient],
        clusters: Watched[Cluster],
        policies: Sequence[Watched[Policy]] = (),
        *,
        clock: Clock,
    ) -> None:
        """Watch through a connection that is made when the watch starts, in the process that it starts in."""
        self._connect = connect
        self._clock = clock
        self._state: State | None = None
        self._synced = False
        self._lock = threading.Lock()
        self._clusters = Informer(clusters.collection, clusters.read, clock)
        self._policies = [Informer(each.collection, each.read, clock) for each in policies]
        self._feeds = [_Feed(self._clusters, self._tell_clusters, self._lock)]
        self._feeds += [_Feed(each, self._tell_policies, self._lock) for each in self._policies]
        for feed in self._feeds:
            feed.informer.on_contact(partial(self._follow, feed))

    def prepare(self) -> None:
        """See that there is access to an API server. Whether it answers shows once the watch has started.

        Raises:
            InputError: the configuration cannot be used.
        """
        self._connect()

    def start(self, state: State) -> None:
        """Begin to watch."""
        self._state = state
        client = self._connect()
        for feed in self._feeds:
            feed.informer.start(client)

    def stop(self) -> None:
        """Stop watching."""
        for feed in self._feeds:
            feed.informer.stop()

    def _follow(self, feed: "_Feed") -> None:
        """A collection was heard of or lost: tell the state what is new, and how far it can be trusted."""
        with self._lock:
            if self._state is None:
                return
            if not feed.informer.problem:
                self._tell(self._state, feed)
            self._assess(self._state)

    def _tell(self, state: State, heard: "_Feed") -> None:
        """Tell the state what one feed has for it; what they all have, once all have listed."""
        if not all(feed.informer.listed for feed in self._feeds) or (self._synced and not heard.owed):
            return
        with suppress(InputError), state.feeding(self._clock.now()) as memory:  # the feed remembers what it was refused
            for feed in [heard] if self._synced else self._feeds:
                feed.tell(memory)
            self._synced = True

    def _assess(self, state: State) -> None:
        now = self._clock.now()
        problems = [problem for feed in self._feeds for problem in feed.problems(now)]
        if problems:
            state.mark_stale("; ".join(text for text, _ in problems), min(since for _, since in problems))
        elif self._synced:
            state.mark_current(now)

    def _tell_clusters(self, memory: Memory, owed: dict[Key, None]) -> None:
        """Tell what became of clusters.

        Raises:
            InputError: the fleet is full; those that do not fit are owed still, all others were told.
        """
        refusal: InputError | None = None
        for key in sorted(owed, key=lambda key: self._clusters.get(key) is not None):  # what is gone makes room
            owed[key] = owed.pop(key)  # the last one from now on: should it crash, others go first next time
            cluster = self._clusters.get(key)
            try:
                if cluster is None:
                    memory.drop_cluster(key[1])
                else:
                    memory.take_cluster(cluster)
            except InputError as error:
                refusal = error
            else:
                del owed[key]
        if refusal is not None:
            raise refusal

    def _tell_policies(self, memory: Memory, owed: dict[Key, None]) -> None:
        if owed:
            memory.take_policies(tuple(policy for informer in self._policies for _, policy in informer.items()))
            owed.clear()


class _Feed:
    """An informer, and what the state has not been told yet of what it holds.

    Attributes:
        informer: mirrors the collection.
        owed: the objects that have changed since, by key and in order; touched while the lock is held.
    """

    def __init__(
        self, informer: Informer[Any], tell: Callable[[Memory, dict[Key, None]], None], lock: threading.Lock
    ) -> None:
        """Feed what ``tell`` tells of the objects that are owed; it takes away what it has told."""
        self.informer = informer
        self.owed: dict[Key, None] = {}
        self._tell = tell
        self._refusal = ""
        self._lock = lock
        informer.subscribe(self._changed)

    def tell(self, memory: Memory) -> None:
        """Tell what is owed.

        Raises:
            InputError: the state cannot take it.
        """
        try:
            self._tell(memory, self.owed)
        except InputError as error:
            self._refusal = str(error)
            raise
        self._refusal = ""

    def problems(self, now: datetime) -> Iterator[tuple[str, datetime]]:
        """What is wrong, and since when."""
        # Another thread may find the server again between the two looks; it says so itself.
        problem, since = self.informer.problem, self.informer.stale_since
        if problem and since is not None:
            yield f"{self.informer.collection.plural}: {problem}", since
        if self._refusal:
            yield self._refusal, now

    def _changed(self, key: Key, _before: object, _after: object) -> None:
        """See ``Handler``."""
        with self._lock:
            self.owed[key] = None
