"""The workloads of a service by place: lists of them, and what each cluster has.

The first question builds the index, and a service does so as soon as it has read everything. After that, only the
workloads of changed bindings are derived again.
"""

import threading
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypeVar

from berthmaster.model.binding import Binding
from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.fleet import SortKey
from berthmaster.views.move_rows import BindingMove, moves_among
from extender.state.placed_workload import PlacedWorkload, moving_between, not_running_yet, placed_workload
from extender.state.workload_order import in_order

K = TypeVar("K", bound=Hashable)
Key = tuple[str, str]
"""The namespace of a binding, empty for a cluster-scoped one, and its name."""
_KEPT: Final = 8
"""The most results about all workloads that are kept, such as orders of them."""
_MANY: Final = 8
"""To sort an eighth of the workloads takes as long as to look at all of them."""


@dataclass(eq=False, slots=True)
class ClusterUse:
    """What is assigned to a cluster. The attributes are those of ``berthmaster.native_api.fleet.FleetCluster``.

    Attributes:
        keys: the keys of the bindings of its workloads.
        assumed: the amounts of resources, pods included, that workloads request which it does not run yet.
    """

    keys: set[Key] = field(default_factory=set)
    replicas: int = 0
    by_group: Counter[int] = field(default_factory=Counter)
    without_groups: int = 0
    arriving: int = 0
    leaving: int = 0
    assumed: Counter[str] = field(default_factory=Counter)

    @property
    def workloads(self) -> int:
        return len(self.keys)

    def groups(self) -> list[int]:
        return [self.by_group[index] for index in range(max(self.by_group, default=-1) + 1)]


@dataclass(eq=False, slots=True)
class WorkloadTotals:
    """How many workloads have each value.

    Attributes:
        policies, clusters, groups, states: the number of workloads by value. Values without workloads are absent.
        held: when the hold-downs of workloads end, by the keys of their bindings. Some may be over.
    """

    workloads: int = 0
    policies: Counter[str] = field(default_factory=Counter)
    clusters: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    not_preferred: int = 0
    moving: int = 0
    held: dict[Key, datetime] = field(default_factory=dict)

    def count(self, key: Key, placed: PlacedWorkload, sign: int) -> None:
        self.workloads += sign
        self.not_preferred += sign * (placed.preferred is False)
        self.moving += sign * placed.moving
        _count(self.states, placed.state.value, sign)
        if placed.policy:
            _count(self.policies, placed.policy, sign)
        if placed.group:
            _count(self.groups, placed.group, sign)
        for name in placed.binding.deployed:
            _count(self.clusters, name, sign)
        if placed.held_down_until is not None and sign > 0:
            self.held[key] = placed.held_down_until
        else:
            self.held.pop(key, None)

    def held_down(self, now: datetime) -> int:
        return sum(until > now for until in self.held.values())

    def add(self, other: "WorkloadTotals") -> None:
        self.workloads += other.workloads
        self.not_preferred += other.not_preferred
        self.moving += other.moving
        for name in ("policies", "clusters", "groups", "states", "held"):
            getattr(self, name).update(getattr(other, name))


def _count(counts: Counter[K], value: K, number: int) -> None:
    """Add to the count of a value, and remove a value without count."""
    total = counts[value] + number
    if total:
        counts[value] = total
    else:
        counts.pop(value, None)


T = TypeVar("T")


class PlacedIndex:
    """Workloads by place. Not safe for several threads."""

    def __init__(self, workloads: Iterable[tuple[Key, PlacedWorkload]] = ()) -> None:
        self._placed: dict[Key, PlacedWorkload] = {}
        self._uses: defaultdict[str, ClusterUse] = defaultdict(ClusterUse)
        self._totals = WorkloadTotals()
        self._by_namespace: defaultdict[str, WorkloadTotals] = defaultdict(WorkloadTotals)
        self._moves: dict[Key, BindingMove] = {}
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._rows: list[PlacedWorkload] | None = None
        for key, placed in workloads:
            self.put(key, placed)

    def __len__(self) -> int:
        return len(self._placed)

    def put(self, key: Key, placed: PlacedWorkload | None) -> None:
        """Replace the workload of a binding. None removes it."""
        before = self._placed.pop(key, None)
        self._moves.pop(key, None)
        if before is not None:
            self._count(key, before, -1)
        if placed is not None:
            self._placed[key] = placed
            self._count(key, placed, 1)
            if placed.present:
                self._moves.update((key, each) for each in moves_among([placed.binding]))
        if self._rows is not None:
            self._replace_row(self._rows, before, placed)
        self._kept.clear()

    def use(self, cluster: str) -> ClusterUse:
        return self._uses.get(cluster) or ClusterUse()

    def totals(self, namespaces: frozenset[str] | None = None) -> WorkloadTotals:
        """Return how many workloads of these namespaces have each value; of all namespaces by default."""
        if namespaces is None:
            return self._totals
        found = WorkloadTotals()
        for each in namespaces & self._by_namespace.keys():
            found.add(self._by_namespace[each])
        return found

    def sizes(self, namespaces: frozenset[str] | None = None) -> Mapping[str, int]:
        """Return the number of workloads of each of these namespaces; of all by default."""
        found = self._by_namespace.items()
        return {name: each.workloads for name, each in found if namespaces is None or name in namespaces}

    def in_namespaces(self, namespaces: Iterable[str]) -> Sequence[PlacedWorkload]:
        """Return the workloads of some namespaces, ``CLUSTER_SCOPED`` for those without one, in the order by name."""
        rows = self.by_name()
        found: list[PlacedWorkload] = []
        for name in sorted("" if each == CLUSTER_SCOPED else each for each in namespaces if each):
            first = bisect_left(rows, name, key=_namespace)
            found += rows[first : bisect_right(rows, name, lo=first, key=_namespace)]
        return found

    def on_clusters(self, names: Iterable[str]) -> Sequence[PlacedWorkload]:
        keys: set[Key] = set().union(*(self.use(each).keys for each in names))
        if _MANY * len(keys) < len(self):
            return sorted((self._placed[each] for each in keys), key=_by_name)
        return [each for each in self.by_name() if each.binding.metadata.key in keys]

    def by_name(self) -> Sequence[PlacedWorkload]:
        """Return all workloads by namespace, name and kind. The caller must not change the list."""
        if self._rows is None:
            self._rows = sorted(self._placed.values(), key=_by_name)
        return self._rows

    def ordered(self, sort: SortKey, *, descending: bool) -> Sequence[PlacedWorkload]:
        """Return all workloads in an order. The caller must not change the list. Equal ones are sorted by name."""
        return self.kept((sort, descending), lambda: in_order(self.by_name(), sort, descending=descending))

    def moves(self) -> Sequence[BindingMove]:
        return list(self._moves.values())

    def kept(self, question: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returned for a question since the last change of a workload, or call it."""
        if question not in self._kept:
            self._kept[question] = make()
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(question)
        found: T = self._kept[question]
        return found

    def _count(self, key: Key, placed: PlacedWorkload, sign: int) -> None:
        """Add what a workload contributes (1), or take it away (-1)."""
        self._totals.count(key, placed, sign)
        namespace = namespace_of(placed)
        self._by_namespace[namespace].count(key, placed, sign)
        if not self._by_namespace[namespace].workloads:
            del self._by_namespace[namespace]
        binding = placed.binding
        for name, replicas in binding.deployed.items():
            use = self._uses[name]
            if sign > 0:
                use.keys.add(key)
            else:
                use.keys.discard(key)
            use.replicas += sign * replicas
            if placed.group_index is not None:
                _count(use.by_group, placed.group_index, sign)
            elif not placed.groups:
                use.without_groups += sign
        arriving, leaving = moving_between(binding)
        for name in arriving:
            self._uses[name].arriving += sign
        for name in leaving:
            self._uses[name].leaving += sign
        for name, amounts in not_running_yet(binding):
            for resource, amount in amounts.items():
                _count(self._uses[name].assumed, resource, sign * amount)

    def _replace_row(
        self, rows: list[PlacedWorkload], before: PlacedWorkload | None, after: PlacedWorkload | None
    ) -> None:
        """Keep the list sorted by name: sorting a large list again takes longer than most answers."""
        if before is not None:
            position = bisect_left(rows, _by_name(before), key=_by_name)
            while rows[position] is not before:  # several bindings may name one workload
                position += 1
            del rows[position]
        if after is not None:
            rows.insert(bisect_left(rows, _by_name(after), key=_by_name), after)


class ObservedIndex:
    """A ``PlacedIndex`` of bindings that change. Safe for several threads."""

    def __init__(
        self, get: Callable[[Key], Binding | None], items: Callable[[], Iterable[tuple[Key, Binding]]]
    ) -> None:
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
                index = PlacedIndex((key, placed_workload(binding)) for key, binding in self._items())
            while self._changed:
                key, _ = self._changed.popitem()
                binding = self._get(key)
                index.put(key, None if binding is None else placed_workload(binding))
            self._index = index
            yield index


def namespace_of(placed: PlacedWorkload) -> str:
    """Return the namespace of a workload, or ``CLUSTER_SCOPED``."""
    return placed.binding.spec.resource.namespace or CLUSTER_SCOPED


_namespace: Final[Callable[[PlacedWorkload], str]] = attrgetter("binding.spec.resource.namespace")


def _by_name(placed: PlacedWorkload) -> tuple[str, str, str]:
    resource = placed.binding.spec.resource
    return resource.namespace, resource.name, resource.kind
