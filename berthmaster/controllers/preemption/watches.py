"""The watches of resources that policies may take over: one for each kind that any of them names, no longer than that.

Karmada looks at a resource only when the policy that preempts changes. Watching the resource as well shows when it
falls to a weaker policy later on.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from berthmaster.controllers.preemption.challengers import Challengers, Kind
from berthmaster.controllers.preemption.store import Store, metadata_of
from berthmaster.kube.discovery import ServedKind
from berthmaster.kube.informer import Handler, Informer
from berthmaster.kube.requests import Key
from berthmaster.model.claims import Resource, claimed_externally, holder
from berthmaster.model.policy import PolicyReference
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields

MAX_WATCHES: Final = 64
"""How many kinds are watched at once. Resources of further ones are looked at when policies change."""
_LOG: Final = logging.getLogger("berthmaster.controllers")


class Standing(NamedTuple):
    """All that matters of a resource."""

    holder: PolicyReference | None = None
    claimed_externally: bool = False
    going: bool = False


_NOBODYS: Final = Standing()


class _Watch(NamedTuple):
    served: ServedKind
    informer: Informer[Standing]


class Watches:
    """The watches that run.

    Args:
        store: where resources are.
        clock: tells the time.
        challengers: know what is named.
        changed: is told of a resource that is named and may have another holder now.
    """

    def __init__(
        self, store: Store, clock: Clock, challengers: Challengers, changed: Callable[[Resource], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._challengers = challengers
        self._changed = changed
        self._lock = threading.Lock()
        self._running: dict[Kind, _Watch] = {}
        self._closed = False

    @property
    def kinds(self) -> set[Kind]:
        """What is watched."""
        with self._lock:
            return set(self._running)

    def keep(self, kind: Kind) -> bool:
        """Watch a kind if it is named and served, and else do not. Not to be called for a kind by two threads at once.

        Returns:
            whether all is as it should be: False for a kind that is named, but not served or one too many.

        Raises:
            ApiError: the API server does not say what it serves.
        """
        wanted = self._challengers.wants(kind)
        served = self._store.served(*kind) if wanted else None
        with self._lock:
            running = self._running.get(kind)
        if running is not None and running.served != served:
            self._end(kind)
            running = None
        if served is None or running is not None:
            return served is not None or not wanted
        return self._begin(kind, served)

    def stop(self) -> None:
        """End all watches, for good."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, {}
        for watch in running.values():
            watch.informer.stop()

    def _begin(self, kind: Kind, served: ServedKind) -> bool:
        informer = Informer(served.collection, standing_of, self._clock)
        informer.subscribe(self._handler(kind))
        with self._lock:
            if self._closed:
                return True
            if len(self._running) >= MAX_WATCHES:
                said = "%s are not watched: policies that preempt name more than %d kinds"
                _LOG.warning(said, served.collection.what, MAX_WATCHES, extra=fields(kind=kind.kind))
                return False
            self._running[kind] = _Watch(served, informer)
            informer.start(self._store.client)
        return True

    def _end(self, kind: Kind) -> None:
        with self._lock:
            watch = self._running.pop(kind, None)
        if watch is not None:
            watch.informer.stop()

    def _handler(self, kind: Kind) -> Handler[Standing]:
        def heard(key: Key, before: Standing | None, after: Standing | None) -> None:  # noqa: ARG001 - see Handler
            resource = Resource(*kind, *key)
            if after is not None and self._challengers.is_named(resource):
                self._changed(resource)

        return heard


def standing_of(raw: bytes) -> Standing:
    """What matters of a resource; most have nothing, and share one value.

    Raises:
        FieldError: it cannot be read.
    """
    metadata = metadata_of(raw)
    standing = Standing(holder(metadata), claimed_externally(metadata), metadata.deletion_timestamp is not None)
    return standing if standing != _NOBODYS else _NOBODYS
