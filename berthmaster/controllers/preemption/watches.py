"""The watches of the kinds that policies name.

Karmada examines a resource only when the policy that preempts changes. These watches also show when a weaker policy
claims a resource later.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from berthmaster.controllers.preemption.claim_store import ClaimStore, metadata_of
from berthmaster.controllers.preemption.policy_index import NamedKind, PolicyIndex
from berthmaster.kube.informer import Handler, Informer
from berthmaster.kube.served_types import ServedType
from berthmaster.model import claims
from berthmaster.model.binding import holder
from berthmaster.model.meta import Key
from berthmaster.model.policy import PolicyReference
from berthmaster.model.policy_preemption import Resource
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields

MAX_WATCHES: Final = 64
"""How many kinds are watched at once. Resources of further kinds are examined when a policy changes."""
_LOG: Final = logging.getLogger("berthmaster.preemption")


class ClaimState(NamedTuple):
    """The part of a resource that decides whether it can be taken over."""

    holder: PolicyReference | None = None
    claimed_externally: bool = False
    deleting: bool = False


_UNCLAIMED: Final = ClaimState()


class _Watch(NamedTuple):
    served: ServedType
    informer: Informer[ClaimState]


class ResourceWatches:
    """The watches of resources: one for each kind that a policy names, for as long as one does.

    Args:
        enqueue: puts a named resource on the queue when its holder may have changed.
    """

    def __init__(
        self, store: ClaimStore, clock: Clock, index: PolicyIndex, enqueue: Callable[[Resource], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._index = index
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._running: dict[NamedKind, _Watch] = {}
        self._closed = False

    def sync(self, kind: NamedKind) -> bool:
        """Start or stop the watch of a kind: it runs if a policy names the kind and the API server serves it.

        Two threads must not call this for the same kind at the same time.

        Returns:
            False if the kind is named, but is not served or exceeds the limit of watches.
        """
        wanted = self._index.names_kind(kind)
        served = self._store.served_kind(kind) if wanted else None
        with self._lock:
            running = self._running.get(kind)
        if running is not None and running.served != served:
            self._end(kind)
            running = None
        if served is None or running is not None:
            return served is not None or not wanted
        return self._begin(kind, served)

    def running(self) -> dict[NamedKind, ServedType]:
        """Return the kinds that are watched, and what serves them."""
        with self._lock:
            return {kind: each.served for kind, each in self._running.items()}

    def stop(self) -> None:
        """Stop all watches. No watch starts afterwards."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, {}
        for watch in running.values():
            watch.informer.stop()

    def _begin(self, kind: NamedKind, served: ServedType) -> bool:
        informer = Informer(served.collection, claim_state_of, self._clock)
        informer.subscribe(self._handler(kind))
        with self._lock:
            if self._closed:
                return True
            if len(self._running) >= MAX_WATCHES:
                message = (
                    "%s are not watched, because policies with preemption Always name more than %d kinds: a resource "
                    "that a weaker policy claims is taken over when one of these policies changes, and not at once; "
                    "name fewer kinds in these policies"
                )
                _LOG.warning(message, served.collection.plural, MAX_WATCHES, extra=fields(kind=kind.kind))
                return False
            self._running[kind] = _Watch(served, informer)
            informer.start(self._store.metadata_client)
        return True

    def _end(self, kind: NamedKind) -> None:
        with self._lock:
            watch = self._running.pop(kind, None)
        if watch is not None:
            watch.informer.stop()

    def _handler(self, kind: NamedKind) -> Handler[ClaimState]:
        def handle(key: Key, before: ClaimState | None, after: ClaimState | None) -> None:  # noqa: ARG001 - see Handler
            resource = Resource(*kind, *key)
            if after is not None and self._index.names(resource):
                self._enqueue(resource)

        return handle


def claim_state_of(raw: bytes) -> ClaimState:
    """Decode the claim state of a resource. All unclaimed resources share one value, which saves memory."""
    metadata = metadata_of(raw)
    state = ClaimState(holder(metadata), claims.claimed_externally(metadata), metadata.deletion_timestamp is not None)
    return state if state != _UNCLAIMED else _UNCLAIMED
