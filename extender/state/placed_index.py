"""The workloads of a service by place: lists of them, and what each cluster has.

A service that is never asked for its workloads keeps no index. The first question builds it. After that, only the
workloads of changed bindings are derived again. Lists stay sorted between two changes.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.model.binding import Binding
from berthmaster.native_api.fleet import CLUSTER_SCOPED, SortKey
from extender.state.placed_workload import (
    PlacedWorkload,
    arriving,
    clusters_of,
    leaving,
    not_running_yet,
    placed_workload,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Key = tuple[str, str]
"""The namespace of a binding, empty for a cluster-scoped one, and its name."""
_ORDERS: Final = 4
_VIEWS: Final = 8


class ClusterUse:
    """What is assigned to a cluster. The attributes are those of ``berthmaster.native_api.fleet.FleetCluster``.

    Attributes:
        assumed: the amounts of resources, pods included, that workloads request which it does not run yet.
    """

    __slots__ = ("arriving", "assumed", "by_group", "leaving", "replicas", "without_groups", "workloads")

    def __init__(self) -> None:
        self.workloads = 0
        self.replicas = 0
        self.by_group: Counter[int] = Counter()
        self.without_groups = 0
        self.arriving = 0
        self.leaving = 0
        self.assumed: Counter[str] = Counter()

    def groups(self) -> list[int]:
        """Return how many workloads are in their first group, in their second, and so on."""
        last = max((index for index, count in self.by_group.items() if count), default=-1)
        return [self.by_group[index] for index in range(last + 1)]


class VisibleWorkloads(NamedTuple):
    """The workloads of some namespaces, and how many have each value.

    Attributes:
        rows: the workloads by namespace and name.
        namespaces, policies, clusters, groups, states: the number of workloads by value.
        held: the workloads with a hold-down, which may be over.
    """

    rows: list[PlacedWorkload]
    namespaces: Counter[str]
    policies: Counter[str]
    clusters: Counter[str]
    groups: Counter[str]
    states: Counter[str]
    held: list[PlacedWorkload]


class PlacedIndex:
    """Workloads by place. Use it only in ``reading``."""

    def __init__(self) -> None:
        self._placed: dict[Key, PlacedWorkload] = {}
        self._uses: dict[str, ClusterUse] = {}
        self._orders: OrderedDict[tuple[SortKey, bool], list[PlacedWorkload]] = OrderedDict()
        self._views: OrderedDict[frozenset[str] | None, VisibleWorkloads] = OrderedDict()

    def __len__(self) -> int:
        return len(self._placed)

    def put(self, key: Key, placed: PlacedWorkload | None) -> None:
        """Replace the workload of a binding. None removes it."""
        before = self._placed.get(key)
        if before is not None:
            self._count(before, -1)
        if placed is None:
            self._placed.pop(key, None)
        else:
            self._placed[key] = placed
            self._count(placed, 1)
        self._orders.clear()
        self._views.clear()

    def use(self, cluster: str) -> ClusterUse:
        """Return what is assigned to a cluster."""
        return self._uses.get(cluster) or ClusterUse()

    def ordered(self, sort: SortKey, *, descending: bool) -> list[PlacedWorkload]:
        """Return all workloads in an order. The caller must not change the list. Equal ones are sorted by name."""
        return _kept(self._orders, (sort, descending), _ORDERS, lambda: self._sorted(sort, descending=descending))

    def visible(self, namespaces: frozenset[str] | None) -> VisibleWorkloads:
        """Return the workloads of some namespaces, or all of them, with totals."""
        rows = self.ordered(SortKey.NAMESPACE, descending=False)
        return _kept(self._views, namespaces, _VIEWS, lambda: _view(rows, namespaces))

    def _sorted(self, sort: SortKey, *, descending: bool) -> list[PlacedWorkload]:
        if sort is SortKey.NAMESPACE and not descending:
            return sorted(self._placed.values(), key=_by_name)
        rows, value_of = self.ordered(SortKey.NAMESPACE, descending=False), _VALUES[sort]
        known = [each for each in rows if value_of(each) is not None]
        unknown = [each for each in rows if value_of(each) is None] if len(known) < len(rows) else []
        return sorted(known, key=value_of, reverse=descending) + unknown

    def _count(self, placed: PlacedWorkload, sign: int) -> None:
        """Add what a workload contributes to its clusters, or take it away."""
        binding = placed.binding
        for name, replicas in clusters_of(binding).items():
            use = self._use(name)
            use.workloads += sign
            use.replicas += sign * replicas
            if placed.group_index is not None:
                use.by_group[placed.group_index] += sign
            elif not placed.groups:
                use.without_groups += sign
        for name in arriving(binding):
            self._use(name).arriving += sign
        for name in leaving(binding):
            self._use(name).leaving += sign
        for name, amounts in not_running_yet(binding):
            _add(self._use(name).assumed, amounts, sign)

    def _use(self, cluster: str) -> ClusterUse:
        return self._uses.setdefault(cluster, ClusterUse())


class ObservedIndex:
    """A ``PlacedIndex`` of bindings that change. Safe for several threads."""

    def __init__(
        self, get: Callable[[Key], Binding | None], items: Callable[[], Iterable[tuple[Key, Binding]]]
    ) -> None:
        """Start without an index.

        Args:
            get: returns a binding; None if there is none.
            items: returns all bindings.
        """
        self._get = get
        self._items = items
        self._index: PlacedIndex | None = None
        self._recording = False
        self._changed: dict[Key, None] = {}
        self._lock = threading.Lock()

    def changed(self, key: Key, _before: object, _after: object) -> None:
        """Record that a binding changed: an event handler of an informer."""
        if self._recording:
            self._changed[key] = None

    @contextmanager
    def reading(self) -> Iterator[PlacedIndex]:
        """Return the index with all changes so far. It does not change until the end of the context."""
        with self._lock:
            index, self._index = self._index, None  # after an error, the next question builds a new index
            if index is None:
                self._recording = True  # before the list is read, so that no change is lost
                index = index_of((key, placed_workload(binding)) for key, binding in self._items())
            while self._changed:
                key, _ = self._changed.popitem()
                binding = self._get(key)
                index.put(key, None if binding is None else placed_workload(binding))
            self._index = index
            yield index


def index_of(workloads: Iterable[tuple[Key, PlacedWorkload]]) -> PlacedIndex:
    """Return an index of workloads by the keys of their bindings."""
    index = PlacedIndex()
    for key, placed in workloads:
        index.put(key, placed)
    return index


def _view(rows: list[PlacedWorkload], namespaces: frozenset[str] | None) -> VisibleWorkloads:
    if namespaces is not None:
        rows = [each for each in rows if namespace_of(each) in namespaces]
    return VisibleWorkloads(
        rows,
        Counter(map(namespace_of, rows)),
        Counter(each.policy for each in rows if each.policy),
        Counter(name for each in rows for name in clusters_of(each.binding)),
        Counter(each.group for each in rows if each.group),
        Counter(each.state.value for each in rows),
        [each for each in rows if each.held_down_until is not None],
    )


def namespace_of(placed: PlacedWorkload) -> str:
    """Return the namespace of a workload, or ``CLUSTER_SCOPED``."""
    return placed.binding.spec.resource.namespace or CLUSTER_SCOPED


def _by_name(placed: PlacedWorkload) -> tuple[str, str, str]:
    resource = placed.binding.spec.resource
    return resource.namespace, resource.name, resource.kind


_VALUES: Final[Mapping[SortKey, Callable[[PlacedWorkload], Any]]] = {
    SortKey.NAME: lambda each: each.binding.spec.resource.name,
    SortKey.NAMESPACE: lambda each: each.binding.spec.resource.namespace,
    SortKey.REPLICAS: lambda each: each.binding.spec.replicas,
    SortKey.CLUSTERS: lambda each: len(clusters_of(each.binding)),
    SortKey.GROUP: lambda each: each.group_index,
    SortKey.POLICY: lambda each: each.policy or None,
    SortKey.SCHEDULED: lambda each: each.binding.status.last_scheduled_time,
}


def _kept(cache: OrderedDict[K, V], key: K, most: int, make: Callable[[], V]) -> V:
    """Return a value of a cache, which keeps the ``most`` values that were read last."""
    found = cache.pop(key, None)
    cache[key] = found = make() if found is None else found
    if len(cache) > most:
        cache.popitem(last=False)
    return found


def _add(counts: Counter[str], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        counts[name] += sign * amount
        if not counts[name]:
            del counts[name]
