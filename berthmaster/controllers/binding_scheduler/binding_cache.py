"""The cache of bindings: as observed, or as written by this process."""

import threading
from collections.abc import Iterator

from berthmaster.controllers.binding_scheduler.binding_index import BindingIndex
from berthmaster.controllers.binding_scheduler.need_index import NeedIndex
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.informer import Handler, Informer
from berthmaster.kube.requests import CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS
from berthmaster.model.binding import Binding
from berthmaster.model.meta import Key
from berthmaster.model.shared_parts import SharingReader


class BindingCache:
    """The bindings of both kinds: as observed, or as written by this process if that is newer.

    An informer observes a write some milliseconds later. Until then the object that the write returned is the latest
    one. A decision on the older one would end in a conflict.
    """

    def __init__(self, context: ControllerContext, *, hold_unknown: bool = True) -> None:
        """Subscribe to bindings.

        Args:
            hold_unknown: whether a placement with unknown fields becomes an ``UnsupportedPlacement``. Otherwise the
                fields are ignored.
        """
        read = SharingReader(hold_unknown=hold_unknown).binding
        self._informers = [
            context.informer(collection, read) for collection in (RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS)
        ]
        self.index = BindingIndex()
        self.needs = NeedIndex()
        for informer in self._informers:
            informer.subscribe(self.index.changed, standby=True)  # before handlers that ask the index
            informer.subscribe(self.needs.changed, standby=True)
        self._written: dict[Key, tuple[frozenset[str], Binding]] = {}
        self._writing = threading.Lock()

    def subscribe(self, *handlers: Handler[Binding], standby: Handler[Binding] | None = None) -> None:
        """Set the event handlers, once. ``is_own`` answers for the event that a handler is called with.

        Args:
            standby: is called before the others, also in a standby process.
        """
        for informer in self._informers:
            if standby is not None:
                informer.subscribe(standby, standby=True)
            for each in (*handlers, self._observed):
                informer.subscribe(each)

    def observed(self, key: Key) -> Binding | None:
        """Return a binding as the API server sent it last; None if it does not exist."""
        return self._informer(key).get(key)

    def get(self, key: Key) -> Binding | None:
        """Return the latest version of a binding; None if it does not exist."""
        observed = self._informer(key).get(key)
        older, written = self._written.get(key, (frozenset(), None))
        if observed is not None and written is not None and observed.metadata.resource_version in older:
            return written
        return observed

    def priority(self, key: Key) -> int:
        binding = self.get(key)
        priority = binding.spec.schedule_priority if binding is not None else None
        return priority.priority if priority is not None else 0

    def items(self) -> Iterator[tuple[Key, Binding]]:
        for informer in self._informers:
            yield from informer.items()

    def moving(self) -> Iterator[tuple[Key, Binding]]:
        """Yield the bindings that have the record of a move."""
        return ((key, found) for key in self.index.moving() if (found := self.observed(key)) is not None)

    def add_written(self, key: Key, before: Binding, after: Binding) -> None:
        """Store the binding that a write returned; ``before`` is the version that it replaced."""
        with self._writing:
            older, _ = self._written.get(key, (frozenset(), None))
            older |= {before.metadata.resource_version}
            observed = self._informer(key).get(key)
            # If the informer was faster than the response, no later event would remove the entry.
            if observed is None or observed.metadata.resource_version not in older:
                self._written.pop(key, None)
            else:
                self._written[key] = older, after

    def is_own(self, key: Key, observed: Binding) -> bool:
        """Whether an observed binding is just what this process wrote."""
        older, written = self._written.get(key, (frozenset(), None))
        version = observed.metadata.resource_version
        return written is not None and (version in older or version == written.metadata.resource_version)

    def _observed(self, key: Key, _before: Binding | None, after: Binding | None) -> None:
        """Remove a written binding once it, or a later version, was observed."""
        with self._writing:
            known = self._written.get(key)
            if known is not None and (after is None or after.metadata.resource_version not in known[0]):
                del self._written[key]

    def _informer(self, key: Key) -> Informer[Binding]:
        return self._informers[0 if key[0] else 1]
