"""The cache of bindings: as observed, or as written by this process."""

import threading
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.deciding.writes import effective
from berthmaster.kube.informer import Handler, Informer
from berthmaster.kube.requests import CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS
from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.binding import Binding, holder
from berthmaster.model.cluster import Cluster
from berthmaster.model.kinds import group_of, metadata_suffices
from berthmaster.model.meta import Key
from berthmaster.model.move import MOVE, move_of
from berthmaster.model.policy import PolicyReference
from berthmaster.model.shared_parts import SharingReader
from berthmaster.model.template_facts import kind_of

K = TypeVar("K")
V = TypeVar("V")

_ANY_NAME: Final = ""
"""Stands for the names of clusters of an affinity that names none."""
_EVERY: Final = ClusterAffinity()


def has_move(binding: Binding) -> bool:
    """Whether a binding has the record of a move."""
    return MOVE in binding.metadata.annotations


class _IndexedBinding(NamedTuple):
    """Where a binding is in the index. The affinity is that of its placement: its id identifies it."""

    clusters: frozenset[str]
    policy: PolicyReference | None
    moves: bool
    affinity: ClusterAffinity | None


class _Affected(NamedTuple):
    """The bindings that a change of a cluster may move if the cluster matches an affinity."""

    affinity: ClusterAffinity
    term: AffinityTerm
    keys: set[Key]


class BindingIndex:
    """Indexes bindings. It is an event handler. Safe for several threads.

    Bindings of one policy share one affinity, which is compiled and matched once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clusters: dict[str, set[Key]] = {}
        self._moving: set[Key] = set()
        self._policies: dict[PolicyReference, set[Key]] = {}
        self._affected: dict[int, _Affected] = {}
        self._naming: dict[str, set[int]] = {}

    def changed(self, key: Key, before: Binding | None, after: Binding | None) -> None:
        """Index the latest version of a binding. It is an event handler: ``before`` was the last ``after``."""
        old, new = (None if each is None else _place(each) for each in (before, after))
        if old is not None and new is not None and old[:3] == new[:3] and old.affinity is new.affinity:
            return
        with self._lock:
            if old is not None:
                self._remove(key, old)
            if new is not None:
                self._add(key, new)

    def on(self, cluster: str) -> list[Key]:
        with self._lock:
            return sorted(self._clusters.get(cluster, ()))

    def moving(self) -> list[Key]:
        with self._lock:
            return sorted(self._moving)

    def held_by(self, policy: PolicyReference) -> list[Key]:
        with self._lock:
            return sorted(self._policies.get(policy, ()))

    def affected(self, versions: Iterable[Cluster]) -> list[Key]:
        """Return the bindings whose affinity matches one of a cluster's versions, and those that any change affects.

        Overflow does not count (karmada ``enqueueAffectedBindings``).
        """
        with self._lock:
            return sorted({key for each in self._matching(versions) for key in each.keys})

    def _matching(self, versions: Iterable[Cluster]) -> Iterator[_Affected]:
        for cluster in versions:
            for number in self._naming.get(cluster.name, set()) | self._naming.get(_ANY_NAME, set()):
                found = self._affected[number]
                if found.term.matches(cluster):
                    yield found

    def _add(self, key: Key, place: _IndexedBinding) -> None:
        for name in place.clusters:
            self._clusters.setdefault(name, set()).add(key)
        if place.moves:
            self._moving.add(key)
        if place.policy is not None:
            self._policies.setdefault(place.policy, set()).add(key)
        if (affinity := place.affinity) is not None:
            number = id(affinity)
            if number not in self._affected:
                self._affected[number] = _Affected(affinity, AffinityTerm(affinity), set())
                for name in affinity.cluster_names or (_ANY_NAME,):
                    self._naming.setdefault(name, set()).add(number)
            self._affected[number].keys.add(key)

    def _remove(self, key: Key, place: _IndexedBinding) -> None:
        for name in place.clusters:
            _discard(self._clusters, name, key)
        self._moving.discard(key)
        if place.policy is not None:
            _discard(self._policies, place.policy, key)
        if (affinity := place.affinity) is not None:
            number = id(affinity)
            self._affected[number].keys.discard(key)
            if not self._affected[number].keys:
                del self._affected[number]
                for name in affinity.cluster_names or (_ANY_NAME,):
                    _discard(self._naming, name, number)


def _discard(sets: dict[K, set[V]], key: K, value: V) -> None:
    """Remove a value from one of several sets, and the set once it is empty."""
    found = sets.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del sets[key]


def _place(binding: Binding) -> _IndexedBinding:
    names = frozenset(each.name for each in binding.spec.clusters)
    return _IndexedBinding(names, holder(binding.metadata), has_move(binding), _affinity(binding))


def _affinity(binding: Binding) -> ClusterAffinity | None:
    """Return the affinity that a cluster must match to affect a binding; None if no cluster affects it."""
    placement = binding.spec.placement
    if placement is None:
        return None
    if has_move(binding) and (move := move_of(binding)) is not None and move.under_way:
        return _EVERY
    if placement.cluster_affinities is None:
        return placement.cluster_affinity or _EVERY
    if binding.status.scheduler_observed_generation != binding.metadata.generation:
        return _EVERY
    observed = effective(binding).status.scheduler_observing_affinity_name
    terms = placement.cluster_affinities
    return next((each for each in terms if each.affinity_name == observed), terms[0] if terms else _EVERY)


_NEEDING_SHOWN: Final = 4


class NeedIndex:
    """Indexes which workloads are in a cluster, so that what they need there stays. Safe for several threads.

    It holds what runs, or may run: resources of kinds that are more than metadata (``metadata_suffices``). A workload
    is in a cluster as long as its binding names the cluster: in the assignment, in an eviction task, because another
    workload requires it there, or because a move under way may start it there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there: dict[tuple[str, str], set[str]] = {}

    def changed(self, _key: Key, before: Binding | None, after: Binding | None) -> None:
        """Index the latest version of a binding. It is an event handler: ``before`` was the last ``after``."""
        if before is not None and after is not None and _clusters_named(before) == _clusters_named(after):
            return  # by far most events
        with self._lock:
            for place, name in () if before is None else _presence(before):
                _discard(self._there, place, name)
            for place, name in () if after is None else _presence(after):
                self._there.setdefault(place, set()).add(name)

    def needing(self, binding: Binding, cluster: str, defines: str) -> tuple[str, ...]:
        """Return the first workloads in a cluster that need a resource there, by name.

        A custom resource needs its CustomResourceDefinition. A workload may need any ConfigMap, Service or account of
        its namespace, and any resource without a namespace: manifests do not name all that they need.

        Args:
            defines: the kind that the resource defines, as ``TemplateFacts.defines``.
        """
        resource = binding.spec.resource
        if not defines and not metadata_suffices(resource.api_version, resource.kind):
            return ()
        with self._lock:
            found = self._there.get((cluster, defines or resource.namespace), ())
            return tuple(nsmallest(_NEEDING_SHOWN, found))


def _clusters_named(binding: Binding) -> set[str]:
    spec = binding.spec
    found = {each.name for each in spec.clusters}
    if spec.graceful_eviction_tasks:
        found.update(each.from_cluster for each in spec.graceful_eviction_tasks)
    if spec.required_by:
        found.update(each.name for snapshot in spec.required_by for each in snapshot.clusters)
    if (move := move_of(binding)) is not None and move.under_way:
        found.update((*move.target, *move.home))
    return found


def _presence(binding: Binding) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what a binding means for ``NeedIndex``: a cluster with a namespace or a kind, and the name."""
    resource = binding.spec.resource
    if metadata_suffices(resource.api_version, resource.kind):
        return
    name = "/".join(filter(None, (resource.namespace, resource.kind, resource.name)))
    topics = {"", resource.namespace, kind_of(resource.kind, group_of(resource.api_version))}
    for cluster in _clusters_named(binding):
        for topic in topics:
            yield (cluster, topic), name


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
