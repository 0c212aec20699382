"""The capacity of clusters: how many replicas fit (karmada ``pkg/estimator/client/general.go``).

Amounts are int64: CPU in millicores, all other resources in whole units.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import INT32_MAX, INT64_MAX, INT64_MIN
from berthmaster.model.quantity import MILLI_NANOS, NANOS, Quantity, rounded_up
from berthmaster.scheduling.bounded_cache import ArrayBudget
from berthmaster.scheduling.columns import Column, IntArray, Journal, Scalar

PODS: Final = "pods"
CPU: Final = "cpu"
_NOTHING: Final = Quantity(0, "0")
UNLIMITED: Final = INT32_MAX
"""The estimate if no resource limits it."""

_PODS_OF_A_MODEL_NODE: Final = 110
_MAX_MODEL_COUNT: Final = INT32_MAX
_COLUMNS_KEPT: Final = 512
_ALL: Final = slice(None)
MAX_RESOURCE_NAMES: Final = 512
"""The most names of resources in a fleet. Each has a column, so names and clusters together need their product."""
MAX_GRADES: Final = 64
"""The most resource models of a cluster. Karmada's default is 9."""

EstimateOf = TypeVar("EstimateOf", bound=Column[np.int64])
Requests = tuple[tuple[str, int], ...]
"""Positive amounts of resources that one replica needs, sorted by name."""


class Estimate(NamedTuple):
    """How many replicas fit a cluster, and the resource that limits them."""

    replicas: int
    bound_by: str


def requests_of(amounts: Mapping[str, Quantity]) -> Requests:
    """Return a resource request in the units of the columns, without zero amounts."""
    return tuple(sorted([(name, amount_of(name, each)) for name, each in amounts.items() if each.nanos > 0]))


def amount_of(name: str, quantity: Quantity) -> int:
    """Return a quantity in the unit of its column."""
    return quantity.milli_value() if name == CPU else quantity.value()


def available_replicas(cluster: Cluster, requests: Requests) -> int:
    """Return how many replicas with these requests fit one cluster by its summary, without resource models.

    ``Resources`` gives the same answer for all clusters.
    """
    summary = cluster.status.resource_summary
    if summary is None:
        return 0
    bounds = (free_amount(summary, name) // amount for name, amount in requests)
    return max(0, min(_whole_pods(summary), min(bounds, default=UNLIMITED), UNLIMITED))


class NodeGrade(NamedTuple):
    """Nodes of the same capacity: the smallest amounts of a grade, in the units of the columns.

    ``capacity``: by resource, pods included.
    """

    capacity: dict[str, int]
    nodes: int


class NodeClasses(NamedTuple):
    """Nodes, grouped by their free amounts in the units of the columns.

    ``names``: the resources, in the order of the amounts.
    """

    names: Sequence[str]
    free: Sequence[tuple[int, ...]]
    nodes: Sequence[int]


class Resources:
    """The capacity of all clusters in columns. ``models``: the nodes of the clusters' resource models."""

    def __init__(self, arrays: ArrayBudget | None = None) -> None:
        self.journal = Journal(arrays)
        self.allowed_pods: IntArray = np.zeros(0, dtype=np.int64)
        self._free: dict[str, IntArray] = {}
        self._nothing: IntArray = np.zeros(0, dtype=np.int64)
        self.models = ModelColumns()
        self._estimates: dict[Hashable, Column[np.int64]] = {}

    def estimate(self, requests: Requests | None) -> "EstimateColumn":
        """Return the column of how many replicas fit each row. None is a replica without requirements."""
        return self.shared(requests, lambda: EstimateColumn(self, requests))

    def shared(self, key: Hashable, make: Callable[[], EstimateOf]) -> EstimateOf:
        """Return the column of estimates with a key. The same key must always mean the same class."""
        column: Any = self._estimates.get(key)
        if column is None:
            if len(self._estimates) >= _COLUMNS_KEPT:
                self._estimates.clear()
            column = self._estimates[key] = make()
        found: EstimateOf = column
        return found

    def model_nodes(self, row: int) -> list[NodeGrade] | None:
        """Return the nodes that the resource models of a row describe; None if it has none."""
        return self.models.nodes(row) if self.models.present(row) else None

    def grow(self, capacity: int) -> None:
        self.allowed_pods = _grown(self.allowed_pods, capacity)
        self._free = {name: _grown(column, capacity) for name, column in self._free.items()}
        self._nothing = _grown(self._nothing, capacity)
        self.models.grow(capacity)
        self.journal.reset()

    def require_space(self, cluster: Cluster) -> None:
        """Check that the columns can hold a cluster.

        Raises:
            FieldError: the fleet would have too many names of resources, or the cluster has too many grades.
        """
        summary, models = cluster.status.resource_summary, cluster.spec.resource_models
        if summary is not None and not summary.allocatable.keys() <= self._free.keys():
            self._require_names("status.resourceSummary.allocatable", self._free.keys() | summary.allocatable.keys())
        if len(models) > MAX_GRADES:
            raise FieldError("spec.resourceModels", f"{len(models)} grades; at most {MAX_GRADES} are scheduled")
        named = {each.name for model in models for each in model.ranges}
        self._require_names("spec.resourceModels", self.models.names() | named if named else named)

    @staticmethod
    def _require_names(path: str, names: Collection[str]) -> None:
        if len(names) > MAX_RESOURCE_NAMES:
            problem = f"the clusters have {len(names)} names of resources; at most {MAX_RESOURCE_NAMES} are scheduled"
            raise FieldError(path, f"{problem}; remove names that no workload requests")

    def set(self, row: int, cluster: Cluster) -> None:
        self._zero(row)
        summary = cluster.status.resource_summary
        if summary is not None:
            self.set_free(row, summary, summary.allocatable)
            self.models.set(row, cluster)
        self.journal.record(row)

    def set_free(self, row: int, summary: ResourceSummary, names: Iterable[str]) -> None:
        """Set what is free of some resources in a row that has all of their names, and its free pod slots."""
        self.allowed_pods[row] = max(0, _whole_pods(summary))
        for name in names:
            free = free_amount(summary, name)
            if free or name in self._free:
                self._column(name)[row] = free

    def clear(self, row: int) -> None:
        self._zero(row)
        self.journal.record(row)

    def estimate_rows(self, requests: Requests | None, rows: IntArray | slice = _ALL) -> IntArray:
        result = np.minimum(self.allowed_pods[rows], UNLIMITED)
        if requests is None:
            return result
        bound = np.full(len(result), INT64_MAX, dtype=np.int64)
        for name, amount in requests:
            np.minimum(bound, self.free(name)[rows] // amount, out=bound)
        self.models.override(bound, requests, rows)
        return np.maximum(np.minimum(result, bound, out=bound), 0, out=bound)

    def estimate_row(self, row: int, requests: Requests | None) -> Estimate:
        """Return how many replicas fit one row, and what limits them."""
        pods = Estimate(int(self.allowed_pods[row]), PODS)
        if requests is None:
            bounds = []
        elif self.models.present(row):
            bounds = [self.models.estimate_row(row, requests)]
        else:
            bounds = [Estimate(max(0, int(self.free(name)[row]) // amount), name) for name, amount in requests]
        tightest = min([pods, *bounds], key=lambda each: each.replicas)
        return tightest if tightest.replicas < UNLIMITED else Estimate(UNLIMITED, tightest.bound_by)

    def free(self, name: str) -> IntArray:
        """Return the free amount of a resource in each row. The caller must not keep the array.

        The amount is negative if more is allocated than is allocatable.
        """
        return self._free.get(name, self._nothing)

    def _column(self, name: str) -> IntArray:
        column = self._free.get(name)
        if column is None:
            column = self._free[name] = self._nothing.copy()
        return column

    def _zero(self, row: int) -> None:
        self.allowed_pods[row] = 0
        for column in self._free.values():
            column[row] = 0
        self.models.zero(row)


class EstimateColumn(Column[np.int64]):
    """How many replicas with the given requests fit each row, at most ``UNLIMITED``."""

    clusters_a_row_is_worth = 8  # rows are computed together
    __slots__ = ("_requests", "_resources")

    def __init__(self, resources: Resources, requests: Requests | None) -> None:
        super().__init__(resources.journal)
        self._resources = resources
        self._requests = requests

    def compute(self) -> IntArray:
        return self._resources.estimate_rows(self._requests)

    def compute_rows(self, rows: Collection[int]) -> IntArray:
        return self._resources.estimate_rows(self._requests, np.array([*rows], dtype=np.int64))

    def compute_row(self, row: int) -> int:
        return self._resources.estimate_row(row, self._requests).replicas


class _Slots(NamedTuple):
    """Where a row has its classes of nodes.

    Attributes:
        of: the index of each class, by its free amounts.
        unused: the indexes that classes had.
    """

    of: dict[tuple[int, ...], int]
    unused: list[int]


class ModelColumns:
    """Resource models as virtual nodes: for each grade and row the number of nodes and their minimum capacity."""

    def __init__(self) -> None:
        self._capacity = 0
        self._counts: IntArray = np.zeros((0, 0), dtype=np.int64)
        self._minima: dict[str, IntArray] = {}
        self._present = np.zeros(0, dtype=np.bool_)
        self._slots: dict[int, _Slots] = {}

    def names(self) -> set[str]:
        return set(self._minima)

    def present(self, row: int) -> bool:
        return bool(self._present[row])

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._present = _grown(self._present, capacity)
        self._counts = _grown(self._counts, capacity)
        self._minima = {name: _grown(column, capacity) for name, column in self._minima.items()}

    def zero(self, row: int) -> None:
        self._slots.pop(row, None)
        if self._present[row]:
            self._present[row] = False
            self._counts[:, row] = 0
            for minima in self._minima.values():
                minima[:, row] = 0

    def set(self, row: int, cluster: Cluster) -> None:
        summary = cluster.status.resource_summary
        models = sorted(cluster.spec.resource_models, key=lambda model: model.grade)
        if summary is None or not summary.allocatable_modelings or not models:
            return
        counts: dict[int, int] = {}
        for modeling in summary.allocatable_modelings:
            counts[modeling.grade] = counts.get(modeling.grade, 0) + modeling.count
        if any(modeling.count < 0 for modeling in summary.allocatable_modelings):
            return
        capacities = [{each.name: max(0, amount_of(each.name, each.min)) for each in model.ranges} for model in models]
        names = sorted({name for each in capacities for name in each})
        free = [tuple(each.get(name, 0) for name in names) for each in capacities]
        self.put(row, NodeClasses(names, free, [counts.get(model.grade, 0) for model in models]))

    def change(self, row: int, classes: NodeClasses) -> None:
        """Set the numbers of nodes of some classes. The first call for a row has all its classes."""
        slots = self._slots.get(row)
        if slots is None:
            self._counts[:, row] = 0
            slots = self._slots[row] = _Slots({}, [])
        for free, nodes in zip(classes.free, classes.nodes, strict=True):
            slot = slots.of.get(free)
            if slot is None and nodes:
                slot = slots.of[free] = slots.unused.pop() if slots.unused else len(slots.of)
                self._reserve(slot + 1)
                for name, amount in zip(classes.names, free, strict=True):
                    self._minimum(name)[slot, row] = amount
            if slot is not None:
                self._counts[slot, row] = min(nodes, _MAX_MODEL_COUNT)
                if not nodes:
                    slots.unused.append(slots.of.pop(free))

    def put(self, row: int, classes: NodeClasses) -> None:
        self._slots.pop(row, None)
        size = len(classes.nodes)
        self._present[row] = True
        self._reserve(size)
        self._counts[:size, row] = [min(count, _MAX_MODEL_COUNT) for count in classes.nodes]
        self._counts[size:, row] = 0
        for name, amounts in zip(classes.names, zip(*classes.free, strict=True), strict=True):
            self._minimum(name)[:size, row] = amounts

    def override(self, bound: IntArray, requests: Requests, among: IntArray | slice) -> None:
        """Replace the bounds of the rows with models. ``among`` says which rows have a bound."""
        positions = self._present[among].nonzero()[0]
        if not len(positions):
            return
        rows = positions if isinstance(among, slice) else among[positions]
        per_node = np.full((len(self._counts), len(rows)), _PODS_OF_A_MODEL_NODE, dtype=np.int64)
        for name, amount in filter(counts_for_nodes, requests):
            np.minimum(per_node, self._node_capacity(name).take(rows, axis=1) // amount, out=per_node)
        bound[positions] = np.add.reduce(per_node * self._counts.take(rows, axis=1))

    def estimate_row(self, row: int, requests: Requests) -> Estimate:
        """Return how many replicas fit the virtual nodes of a row, limited by what limits most of the nodes."""
        counted = list(filter(counts_for_nodes, requests))
        total, votes = 0, dict.fromkeys([PODS, *(name for name, _ in counted)], 0)
        for index, count in enumerate(self._counts[:, row].tolist()):
            bounds = [Estimate(int(self._node_capacity(name)[index, row]) // amount, name) for name, amount in counted]
            tightest = min([Estimate(_PODS_OF_A_MODEL_NODE, PODS), *bounds], key=lambda each: each.replicas)
            total += tightest.replicas * count
            votes[tightest.bound_by] += count
        return Estimate(total, max(votes, key=votes.__getitem__))

    def nodes(self, row: int) -> list[NodeGrade]:
        minima = {name: each[:, row].tolist() for name, each in sorted(self._minima.items()) if name != PODS}
        found = [
            NodeGrade({PODS: _PODS_OF_A_MODEL_NODE} | {name: each[index] for name, each in minima.items()}, count)
            for index, count in enumerate(self._counts[:, row].tolist())
            if count
        ]
        # Grades keep their order, classes have the order of their free amounts.
        return sorted(found, key=lambda each: [*each.capacity.values()]) if row in self._slots else found

    def _reserve(self, grades: int) -> None:
        missing = grades - len(self._counts)
        if missing > 0:
            more = np.zeros((missing, self._capacity), dtype=np.int64)
            self._counts = np.concatenate([self._counts.reshape(-1, self._capacity), more])
            self._minima = {name: np.concatenate([minima, more]) for name, minima in self._minima.items()}

    def _minimum(self, name: str) -> IntArray:
        minima = self._minima.get(name)
        if minima is None:
            minima = self._minima[name] = np.zeros_like(self._counts)
        return minima

    def _node_capacity(self, name: str) -> IntArray:
        """Return what a node of each grade and row has: nothing of a resource that no model names."""
        if name == PODS:
            return np.full_like(self._counts, _PODS_OF_A_MODEL_NODE)
        # A name that only a request has gets no column: users choose the names of requests.
        minima = self._minima.get(name)
        return np.zeros_like(self._counts) if minima is None else minima


def counts_for_nodes(request: tuple[str, int]) -> bool:
    """Return whether a resource counts on model nodes. Native and scalar ones do, other names are ignored."""
    name, _ = request
    if name in {CPU, PODS, "memory", "ephemeral-storage"}:
        return True
    return name.startswith(("hugepages-", "attachable-volumes-")) or ("/" in name and not name.startswith("requests."))


def free_amount(summary: ResourceSummary, name: str) -> int:
    """Return the amount of a resource that is neither allocated nor being allocated, in the unit of its column.

    It is negative if more is allocated than is allocatable, and 0 for a resource that is not allocatable.
    """
    total = summary.allocatable.get(name)
    if total is None:
        return 0
    nanos = total.nanos
    for amounts in (summary.allocated, summary.allocating):
        if (used := amounts.get(name)) is not None:
            nanos -= used.nanos
    return max(INT64_MIN, min(INT64_MAX, rounded_up(nanos, MILLI_NANOS if name == CPU else NANOS)))


def _whole_pods(summary: ResourceSummary) -> int:
    """Return how many pods may still be created. Each part is rounded separately."""
    parts = (summary.allocatable, summary.allocated, summary.allocating)
    allocatable, allocated, allocating = [each.get(PODS, _NOTHING).value() for each in parts]
    return min(allocatable - allocated - allocating, INT64_MAX)


def _grown(column: NDArray[Scalar], capacity: int) -> NDArray[Scalar]:
    more = np.zeros((*column.shape[:-1], capacity - column.shape[-1]), dtype=column.dtype)
    return np.concatenate([column, more], axis=-1)
