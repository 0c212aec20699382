"""Which bindings a cluster, a policy or a group of workloads concerns."""

import threading
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from berthmaster.deciding.writes import effective
from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.binding import Binding, holder
from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import Key
from berthmaster.model.move import MOVE, move_of
from berthmaster.model.policy import PolicyReference
from berthmaster.scheduling.karmada.trigger import queuing_affinity

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
        """Return the bindings whose affinity matches one of a cluster's versions, and those that any change affects."""
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
            discard_from(self._clusters, name, key)
        self._moving.discard(key)
        if place.policy is not None:
            discard_from(self._policies, place.policy, key)
        if (affinity := place.affinity) is not None:
            number = id(affinity)
            self._affected[number].keys.discard(key)
            if not self._affected[number].keys:
                del self._affected[number]
                for name in affinity.cluster_names or (_ANY_NAME,):
                    discard_from(self._naming, name, number)


def discard_from(sets: dict[K, set[V]], key: K, value: V) -> None:
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
    return queuing_affinity(effective(binding), placement) or _EVERY
