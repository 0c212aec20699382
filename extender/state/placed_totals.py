"""Totals of workloads: of each cluster, and of namespaces. A change of one workload costs its own contribution."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from extender.state.placed_workload import PlacedWorkload, arriving, clusters_of, leaving, not_running_yet

K = TypeVar("K", bound=Hashable)
Key = tuple[str, str]
"""The namespace of a binding, empty for a cluster-scoped one, and its name."""


class ClusterUse:
    """What is assigned to a cluster. The attributes are those of ``berthmaster.native_api.fleet.FleetCluster``.

    Attributes:
        keys: the keys of the bindings of its workloads.
        assumed: the amounts of resources, pods included, that workloads request which it does not run yet.
    """

    __slots__ = ("arriving", "assumed", "by_group", "keys", "leaving", "replicas", "without_groups")

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.replicas = 0
        self.by_group: Counter[int] = Counter()
        self.without_groups = 0
        self.arriving = 0
        self.leaving = 0
        self.assumed: Counter[str] = Counter()

    @property
    def workloads(self) -> int:
        return len(self.keys)

    def groups(self) -> list[int]:
        """Return how many workloads are in their first group, in their second, and so on."""
        return [self.by_group[index] for index in range(max(self.by_group, default=-1) + 1)]


class ClusterUses:
    """What is assigned to each cluster."""

    def __init__(self) -> None:
        self._uses: dict[str, ClusterUse] = {}

    def of(self, cluster: str) -> ClusterUse:
        return self._uses.get(cluster) or ClusterUse()

    def count(self, key: Key, placed: PlacedWorkload, sign: int) -> None:
        """Add what a workload contributes (1), or take it away (-1)."""
        binding = placed.binding
        for name, replicas in clusters_of(binding).items():
            use = self._use(name)
            if sign > 0:
                use.keys.add(key)
            else:
                use.keys.discard(key)
            use.replicas += sign * replicas
            if placed.group_index is not None:
                _count(use.by_group, placed.group_index, sign)
            elif not placed.groups:
                use.without_groups += sign
        for name in arriving(binding):
            self._use(name).arriving += sign
        for name in leaving(binding):
            self._use(name).leaving += sign
        for name, amounts in not_running_yet(binding):
            for resource, amount in amounts.items():
                _count(self._use(name).assumed, resource, sign * amount)

    def _use(self, cluster: str) -> ClusterUse:
        use = self._uses.get(cluster)
        if use is None:
            use = self._uses[cluster] = ClusterUse()
        return use


class WorkloadTotals:
    """How many workloads have each value.

    Attributes:
        policies, clusters, groups, states: the number of workloads by value. Values without workloads are absent.
        held: when the hold-downs of workloads end, by the keys of their bindings. Some may be over.
    """

    __slots__ = ("clusters", "groups", "held", "moving", "not_preferred", "policies", "states", "workloads")

    def __init__(self) -> None:
        self.workloads = 0
        self.policies: Counter[str] = Counter()
        self.clusters: Counter[str] = Counter()
        self.groups: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.not_preferred = 0
        self.moving = 0
        self.held: dict[Key, datetime] = {}

    def count(self, key: Key, placed: PlacedWorkload, sign: int) -> None:
        """Add what a workload contributes (1), or take it away (-1)."""
        self.workloads += sign
        self.not_preferred += sign * (placed.preferred is False)
        self.moving += sign * placed.moving
        _count(self.states, placed.state.value, sign)
        if placed.policy:
            _count(self.policies, placed.policy, sign)
        if placed.group:
            _count(self.groups, placed.group, sign)
        for name in clusters_of(placed.binding):
            _count(self.clusters, name, sign)
        if placed.held_down_until is not None and sign > 0:
            self.held[key] = placed.held_down_until
        else:
            self.held.pop(key, None)

    def held_down(self, now: datetime) -> int:
        """Return how many workloads may not move yet."""
        return sum(until > now for until in self.held.values())

    def add(self, other: "WorkloadTotals") -> None:
        self.workloads += other.workloads
        self.not_preferred += other.not_preferred
        self.moving += other.moving
        self.policies.update(other.policies)
        self.clusters.update(other.clusters)
        self.groups.update(other.groups)
        self.states.update(other.states)
        self.held.update(other.held)


class NamespaceTotals:
    """The totals of all workloads, and of each namespace."""

    def __init__(self) -> None:
        self.all = WorkloadTotals()
        self.by_namespace: dict[str, WorkloadTotals] = {}

    def count(self, namespace: str, key: Key, placed: PlacedWorkload, sign: int) -> None:
        """Add what a workload contributes (1), or take it away (-1)."""
        self.all.count(key, placed, sign)
        totals = self.by_namespace.get(namespace)
        if totals is None:
            totals = self.by_namespace[namespace] = WorkloadTotals()
        totals.count(key, placed, sign)
        if not totals.workloads:
            del self.by_namespace[namespace]

    def of(self, namespaces: Iterable[str]) -> WorkloadTotals:
        found = WorkloadTotals()
        for each in namespaces:
            if each in self.by_namespace:
                found.add(self.by_namespace[each])
        return found

    def sizes(self, namespaces: frozenset[str] | None) -> Mapping[str, int]:
        """Return the number of workloads of each of the namespaces; of all by default."""
        return {
            name: totals.workloads
            for name, totals in self.by_namespace.items()
            if namespaces is None or name in namespaces
        }


def _count(counts: Counter[K], value: K, number: int) -> None:
    """Add to the count of a value, and remove a value without count."""
    total = counts[value] + number
    if total:
        counts[value] = total
    else:
        counts.pop(value, None)
