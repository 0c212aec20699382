"""A source that watches an API server: its clusters or nodes, and its policies.

Nothing is told to the state before everything was listed once. An object that cannot be read is passed over, and what
was known of it stays; a server that cannot be reached leaves all as it was, marked as stale.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from extender.state.kinds import CLUSTER_KINDS, KARMADA_POLICIES, POLICIES, Watched, WatchOptions
from extender.state.state import Memory, State
from fleet.errors import InputError
from fleet.kube.messages import Key
from fleet.kube.reflector import Reflector
from fleet.kube.transport import Connection
from fleet.model.cluster import Cluster
from fleet.model.policy import Policy
from fleet.ops.clock import Clock
from fleet.ops.logs import fields

T = TypeVar("T")


def watch_source(options: WatchOptions, clock: Clock, log: logging.Logger) -> "WatchSource":
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

    def connection() -> Connection:
        from fleet.kube.connection import connect  # noqa: PLC0415 - a large library, that only a watch needs

        return connect(options.kubeconfig, options.context)

    return WatchSource(
        connection,
        CLUSTER_KINDS[clusters[0]],
        KARMADA_POLICIES if POLICIES in options.kinds else (),
        clock=clock,
        log=log,
    )


class WatchSource:
    """Feeds a state from an API server, with one thread for each collection.

    Attributes:
        lock: held while what feeds hold is read or changed.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        clusters: Watched[Cluster],
        policies: Sequence[Watched[Policy]] = (),
        *,
        clock: Clock,
        log: logging.Logger,
    ) -> None:
        """Watch through a connection that is made when the watch starts, in the process that it starts in."""
        self._connect = connect
        self._clock = clock
        self.lock = threading.RLock()
        self._state: State | None = None
        self._told = False
        self._clusters = _Feed(self, clusters, _tell_cluster, log)
        self._policies = [_Feed(self, each, self._tell_policies, log) for each in policies]
        self._feeds: list[_Feed[Cluster] | _Feed[Policy]] = [self._clusters, *self._policies]
        self._reflectors: list[Reflector] = []

    def prepare(self) -> None:
        """See that there is access to an API server. Whether it answers shows once the watch has started.

        Raises:
            InputError: the configuration cannot be used.
        """
        self._connect()

    def start(self, state: State) -> None:
        """Begin to watch."""
        self._state = state
        connection = self._connect()
        self._reflectors = [Reflector(connection, feed.collection, feed) for feed in self._feeds]
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        """Stop watching."""
        for reflector in self._reflectors:
            reflector.stop()

    def told(self, tell: Callable[[Memory], None]) -> None:
        """A feed has something for the state, which waits until all feeds have listed once."""
        with self.lock:
            if self._state is None or not all(feed.listed for feed in self._feeds):
                return
            try:
                with self._state.feeding(self._clock.now()) as memory:
                    if self._told:
                        tell(memory)
                    else:
                        self._tell_all(memory)
                        self._told = True
            except InputError as error:
                self._state.mark_stale(str(error), self._clock.now())
            self.assessed()

    def assessed(self) -> None:
        """A feed was heard or lost: say how far the state can be trusted."""
        with self.lock:
            if self._state is None:
                return
            lost = [feed for feed in self._feeds if feed.problem]
            if lost:
                since = min(feed.lost_at for feed in lost)
                self._state.mark_stale("; ".join(feed.problem for feed in lost), since)
            elif self._told:
                self._state.mark_current(self._clock.now())

    def now(self) -> datetime:
        """The time of day."""
        return self._clock.now()

    def _tell_all(self, memory: Memory) -> None:
        for key in self._clusters.values:
            _tell_cluster(memory, self._clusters.values, key)
        self._tell_policies(memory, {}, ("", ""))

    def _tell_policies(self, memory: Memory, _values: Mapping[Key, Policy], _key: Key) -> None:
        memory.take_policies(tuple(policy for feed in self._policies for policy in feed.values.values()))


class _Feed(Generic[T]):
    """The mirror of one collection as values.

    Attributes:
        collection: what it mirrors.
        values: its objects by namespace and name.
        listed: whether they are known at all.
        problem: why the server is lost; empty if it is not.
        lost_at: since when.
    """

    def __init__(
        self,
        source: WatchSource,
        watched: Watched[T],
        tell: Callable[[Memory, Mapping[Key, T], Key], None],
        log: logging.Logger,
    ) -> None:
        self.collection = watched.collection
        self.values: dict[Key, T] = {}
        self.listed = False
        self.problem = ""
        self.lost_at = source.now()
        self._source = source
        self._read = watched.read
        self._tell = tell
        self._log = log

    def replace(self, objects: dict[Key, msgspec.Raw]) -> None:
        """See ``Mirror``."""
        before = self.values
        after = {key: value for key, raw in objects.items() if (value := self._value(key, raw)) is not None}
        changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]

        def tell(memory: Memory) -> None:
            for key in changed:
                self._tell(memory, after, key)

        with self._source.lock:
            self.values, self.listed = after, True
        self._source.told(tell)

    def put(self, key: Key, raw: msgspec.Raw) -> None:
        """See ``Mirror``."""
        value = self._value(key, raw)
        if value is None or value == self.values.get(key):
            return
        with self._source.lock:
            self.values[key] = value
        self._source.told(lambda memory: self._tell(memory, self.values, key))

    def drop(self, key: Key) -> None:
        """See ``Mirror``."""
        with self._source.lock:
            known = self.values.pop(key, None)
        if known is not None:
            self._source.told(lambda memory: self._tell(memory, self.values, key))

    def confirm(self) -> None:
        """See ``Mirror``."""
        if self.problem:
            self._log.info("%s are watched again", self.collection.what)
        self.problem = ""
        self._source.assessed()

    def lose(self, problem: str) -> None:
        """See ``Mirror``."""
        if not self.problem:
            self.lost_at = self._source.now()
            self._log.warning("%s are not watched any more: %s", self.collection.what, problem)
        self.problem = f"{self.collection.what}: {problem}"
        self._source.assessed()

    def _value(self, key: Key, raw: msgspec.Raw) -> T | None:
        """The value of an object; if it cannot be read, what was known of it, or None."""
        try:
            return self._read(bytes(raw))
        except InputError as error:
            name = "/".join(filter(None, key))
            self._log.warning("passed over: %s", error, extra=fields(kind=self.collection.what, name=name))
            return self.values.get(key)


def _tell_cluster(memory: Memory, values: Mapping[Key, Cluster], key: Key) -> None:
    """Tell of one cluster: what it is, or that it is gone."""
    cluster = values.get(key)
    if cluster is None:
        memory.drop_cluster(key[1])
    else:
        memory.take_cluster(cluster)
