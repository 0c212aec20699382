"""All bindings, each as new as this process knows it."""

import threading
from collections.abc import Iterator
from typing import Final

import msgspec.structs

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.informer import Handler, Informer
from berthmaster.kube.requests import Collection, Key
from berthmaster.model.binding import Binding
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.placement import Placement

RESOURCE_BINDINGS: Final = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
CLUSTER_RESOURCE_BINDINGS: Final = Collection.of("work.karmada.io/v1alpha2", "clusterresourcebindings")
_PLACEMENTS_SHARED: Final = 4096


def collection_of(key: Key) -> Collection:
    """Where a binding is: with a namespace it is a ResourceBinding, without one a ClusterResourceBinding."""
    return RESOURCE_BINDINGS if key[0] else CLUSTER_RESOURCE_BINDINGS


class Bindings:
    """The bindings of both kinds: what informers heard, unless what was written here is newer.

    An informer hears of a write some milliseconds later. Until then the object that the write returned is the latest
    one; deciding on the older one would only end in a conflict.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._placements: dict[bytes, Placement] = {}
        self._informers = [
            context.informer(collection, self._read) for collection in (RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS)
        ]
        self._written: dict[Key, tuple[frozenset[str], Binding]] = {}
        self._writing = threading.Lock()

    def subscribe(self, handler: Handler[Binding]) -> None:
        """Tell the one ``handler`` there is what informers hear; while it listens, ``is_own`` tells what is no news."""
        for informer in self._informers:
            informer.subscribe(handler)
            informer.subscribe(self._heard)

    def get(self, key: Key) -> Binding | None:
        """The latest of a binding; None if there is none."""
        heard = self._informer(key).get(key)
        older, written = self._written.get(key, (frozenset(), None))
        if heard is not None and written is not None and heard.metadata.resource_version in older:
            return written
        return heard

    def items(self) -> Iterator[tuple[Key, Binding]]:
        """All of them, as informers heard."""
        for informer in self._informers:
            yield from informer.items()

    def __len__(self) -> int:
        return sum(len(informer) for informer in self._informers)

    def written(self, key: Key, before: Binding, after: Binding) -> None:
        """A write made ``after`` of ``before``."""
        with self._writing:
            older, _ = self._written.get(key, (frozenset(), None))
            older |= {before.metadata.resource_version}
            heard = self._informer(key).get(key)
            # An informer may be quicker than the answer to a write: nothing would take the entry away again.
            if heard is None or heard.metadata.resource_version not in older:
                self._written.pop(key, None)
            else:
                self._written[key] = older, after

    def is_own(self, key: Key, heard: Binding) -> bool:
        """Whether what an informer heard is only what was written here: there is nothing new in it."""
        older, written = self._written.get(key, (frozenset(), None))
        version = heard.metadata.resource_version
        return written is not None and (version in older or version == written.metadata.resource_version)

    def _heard(self, key: Key, _before: Binding | None, after: Binding | None) -> None:
        """Forget what was written once it, or what came after it, was heard of."""
        with self._writing:
            known = self._written.get(key)
            if known is not None and (after is None or after.metadata.resource_version not in known[0]):
                del self._written[key]

    def _informer(self, key: Key) -> Informer[Binding]:
        return self._informers[0 if key[0] else 1]

    def _read(self, raw: bytes) -> Binding:
        """A binding; thousands share the few placements of their policies."""
        binding = decode_json(Binding, raw)
        placement = binding.spec.placement
        if placement is None:
            return binding
        if len(self._placements) >= _PLACEMENTS_SHARED:
            self._placements.clear()
        shared = self._placements.setdefault(encode_json(placement), placement)
        if shared is placement:
            return binding
        return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, placement=shared))
