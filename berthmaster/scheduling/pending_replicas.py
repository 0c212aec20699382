"""Replicas that are assigned to a cluster and do not show in its status yet: what they leave free.

A cluster has its free capacity as amounts (summary), and may describe its nodes by resource models. Pending replicas
are deducted from both.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec.structs
import numpy as np

from berthmaster.model.cluster import AllocatableModeling, Cluster, ResourceModel, ResourceModelRange, ResourceSummary
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.quantity import MILLI_NANOS, NANOS, Quantity
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.component_sets import ComponentSet
from berthmaster.scheduling.resources import CPU, PODS, Requests, amount_of, counts_for_nodes

Key = tuple[str, str]
MAX_NODES: Final = 2**13
"""The number of nodes of a cluster that are tracked. Each grade may have more; no replica is placed on those."""
MAX_NODE_CLASSES: Final = 64
_PODS_PER_NODE: Final = 110
_PODS_COLUMN: Final = 0


class PendingReplicas(NamedTuple):
    """Replicas of one binding that are assumed on one cluster.

    Attributes:
        replicas: the number; for a workload of several pod templates, the number of sets of its pods.
    """

    replicas: int
    requests: Requests
    until_s: float
    templates: ComponentSet = ()

    @property
    def pods(self) -> list[tuple[int, Requests]]:
        """The pods with equal requests: how many, and what each requests."""
        if not self.templates:
            return [(self.replicas, self.requests)]
        return [(self.replicas * each.replicas, each.requests or ()) for each in self.templates]


class AssumedCluster:
    """A cluster with the replicas that are assumed on it, by binding.

    The cost of adding or removing replicas does not depend on the number of pending ones: a burst has thousands.

    Attributes:
        pending: by binding. Only ``put`` may change it.
    """

    __slots__ = ("_amounts", "_cluster", "_nodes", "_replicas", "pending")

    def __init__(self, cluster: Cluster) -> None:
        self.pending: dict[Key, PendingReplicas] = {}
        self._cluster = cluster
        self._replicas: Counter[Requests] = Counter()
        self._amounts: Counter[str] = Counter()
        self._nodes: ModelNodes | None = None

    def update(self, cluster: Cluster) -> None:
        if _modeled(cluster) != _modeled(self._cluster):
            self._nodes = None
        self._cluster = cluster

    def put(self, key: Key, pending: PendingReplicas | None) -> None:
        """Replace what is pending for a binding; None removes it."""
        before = self.pending.pop(key, None)
        if before is not None:
            self._count(before, -1)
            if self._nodes is not None:
                self._nodes.remove(key)
        if pending is not None:
            self.pending[key] = pending
            self._count(pending, 1)
            if self._nodes is not None:
                self._place(self._nodes, key, pending)

    def equivalent_replicas(self, requests: Requests) -> int:
        """Return how many replicas with these requests would need the resources that are pending."""
        if not requests:
            return self._replicas.total()
        return sum(
            max(-(-replicas * dict(pending).get(name, 0) // amount) for name, amount in requests)
            for pending, replicas in self._replicas.items()
        )

    def equivalent_sets(self, demand: Requests) -> int:
        """Return how many sets of pods with this demand together would need the resources that are pending."""
        return max((-(-self._amounts.get(name, 0) // amount) for name, amount in demand), default=0)

    def view(self) -> Cluster:
        """Return the cluster with pending replicas counted as ``allocating``, and deducted from its models' nodes."""
        cluster, classes = self.left()
        summary = cluster.status.resource_summary
        if classes is None or summary is None:
            return cluster
        models, modelings = _as_models(classes)
        summary = msgspec.structs.replace(summary, allocatable_modelings=modelings)
        return msgspec.structs.replace(
            cluster,
            spec=msgspec.structs.replace(cluster.spec, resource_models=models),
            status=msgspec.structs.replace(cluster.status, resource_summary=summary),
        )

    def left(self) -> tuple[Cluster, list["NodeClass"] | None]:
        """Return the cluster with pending replicas counted as ``allocating``, and what is left of its models' nodes.

        The nodes are None if nothing is pending, or without models. The cluster itself keeps its models.
        """
        cluster, summary = self._cluster, self._cluster.status.resource_summary
        if not self.pending or summary is None:
            self._nodes = None
            return cluster, None
        if self._nodes is None and (nodes := nodes_of(cluster)) is not None:
            for key, each in self.pending.items():
                self._place(nodes, key, each)
            self._nodes = nodes
        summary = msgspec.structs.replace(summary, allocating=_allocating(summary, self._amounts))
        status = msgspec.structs.replace(cluster.status, resource_summary=summary)
        classes = self._nodes.classes() if self._nodes is not None else None
        return msgspec.structs.replace(cluster, status=status), classes

    @staticmethod
    def _place(nodes: "ModelNodes", key: Key, pending: PendingReplicas) -> None:
        for count, requests in pending.pods:
            nodes.place(key, requests, count)

    def _count(self, pending: PendingReplicas, sign: int) -> None:
        for count, requests in pending.pods:
            self._replicas[requests] += sign * count
            if not self._replicas[requests]:
                del self._replicas[requests]
            for name, amount in ((PODS, 1), *requests):
                self._amounts[name] += sign * amount * count
                if not self._amounts[name]:
                    del self._amounts[name]


def _modeled(cluster: Cluster) -> tuple[object, object]:
    """Return the fields that a cluster's nodes derive from."""
    summary = cluster.status.resource_summary
    return cluster.spec.resource_models, summary and summary.allocatable_modelings


def _allocating(summary: ResourceSummary, amounts: Mapping[str, int]) -> dict[str, Quantity]:
    allocating = dict(summary.allocating)
    for name, amount in amounts.items():
        before = allocating[name].nanos if name in allocating else 0
        total = Quantity(before + _quantity(name, amount).nanos, "")
        allocating[name] = _quantity(name, amount_of(name, total))
    return allocating


def _as_models(classes: Sequence["NodeClass"]) -> tuple[tuple[ResourceModel, ...], tuple[AllocatableModeling, ...]]:
    models = tuple(
        ResourceModel(grade, tuple(_range(name, amount) for name, amount in each.free.items()))
        for grade, each in enumerate(classes)
    )
    return models, tuple(AllocatableModeling(grade, each.nodes) for grade, each in enumerate(classes))


@lru_cache(maxsize=4096)
def _range(name: str, amount: int) -> ResourceModelRange:
    quantity = _quantity(name, amount)
    return ResourceModelRange(name, quantity, quantity)


def _quantity(name: str, amount: int) -> Quantity:
    """Return an amount in its column's unit as a quantity. Its text is never read."""
    return Quantity(min(amount, INT64_MAX) * (MILLI_NANOS if name == CPU else NANOS), "")


class NodeClass(NamedTuple):
    """Nodes with the same free capacity.

    Attributes:
        free: amounts by resource, in the units of ``berthmaster.scheduling.resources``.
    """

    free: dict[str, int]
    nodes: int


class _Placed(NamedTuple):
    """A workload's replicas on each of these nodes, and the amounts of these columns that one replica takes."""

    nodes: IntArray
    replicas: IntArray
    columns: list[int]
    amounts: IntArray


class ModelNodes:
    """The nodes that one cluster's resource models describe, with the pending replicas placed on them.

    A model has the number of nodes of a grade and the capacity of its smallest node. Replicas go to the first node
    that holds one, from the smallest grade up. The nodes of each workload are stored, so that
    the cost of removing it does not depend on the number of other workloads. A node holds 110 pods.
    """

    def __init__(self, models: Iterable[ResourceModel], modelings: Iterable[AllocatableModeling]) -> None:
        grades = sorted(models, key=lambda model: model.grade)
        counts = dict.fromkeys((model.grade for model in grades), 0)
        for modeling in modelings:
            if modeling.grade in counts:
                counts[modeling.grade] += modeling.count
        self._names = sorted({each.name for model in grades for each in model.ranges} - {PODS})
        self._grades = np.array([self._smallest(model) for model in grades], dtype=np.int64)
        self._counts = np.array([counts[model.grade] for model in grades], dtype=np.int64)
        self._grade_of = np.repeat(np.arange(len(grades)), np.minimum(self._counts, MAX_NODES // len(grades)))
        self._free = self._grades[self._grade_of]
        self._placed: dict[Key, list[_Placed]] = {}

    def place(self, key: Key, requests: Requests, replicas: int) -> None:
        """Place replicas of a workload by first fit, beside those that it has. Those that fit no node take nothing."""
        asked = {**dict(filter(counts_for_nodes, requests)), PODS: 1}
        if not asked.keys() <= {PODS, *self._names}:
            return
        columns = [_PODS_COLUMN if name == PODS else self._names.index(name) + 1 for name in asked]
        amounts = np.array(list(asked.values()), dtype=np.int64)
        fitting = (self._free[:, columns] // amounts).min(axis=1)
        taken = np.minimum(np.cumsum(fitting), replicas)
        taken[1:] -= taken[:-1].copy()
        nodes = np.flatnonzero(taken)
        placed = _Placed(nodes, taken[nodes], columns, amounts)
        self._placed.setdefault(key, []).append(placed)
        self._add(placed, -1)

    def remove(self, key: Key) -> None:
        """Take a workload's replicas off the nodes."""
        for placed in self._placed.pop(key, ()):
            self._add(placed, 1)

    def classes(self) -> list[NodeClass]:
        """Return all nodes, grouped by their free capacity.

        Above ``MAX_NODE_CLASSES`` only the emptiest classes are returned, which can only make a cluster look smaller.
        """
        touched = self._free[:, _PODS_COLUMN] < _PODS_PER_NODE
        whole = self._counts - np.bincount(self._grade_of[touched], minlength=len(self._counts))
        # A node without a free pod slot has no free capacity.
        busy = np.where(self._free[touched, :1] > 0, self._free[touched], 0)
        counts = Counter(map(tuple, busy[:, 1:].tolist()))
        for grade, nodes in zip(map(tuple, self._grades[:, 1:].tolist()), whole.tolist(), strict=True):
            counts[grade] += nodes
        shown = sorted(free for free, nodes in counts.items() if nodes)[-MAX_NODE_CLASSES:] or [min(counts)]
        return [NodeClass(dict(zip(self._names, free, strict=True)), counts[free]) for free in shown]

    def _smallest(self, model: ResourceModel) -> list[int]:
        capacity = {each.name: max(0, amount_of(each.name, each.min)) for each in model.ranges}
        return [_PODS_PER_NODE, *(capacity.get(name, 0) for name in self._names)]

    def _add(self, placed: _Placed, sign: int) -> None:
        self._free[placed.nodes[:, None], placed.columns] += sign * placed.replicas[:, None] * placed.amounts


def nodes_of(cluster: Cluster) -> ModelNodes | None:
    """Return the nodes of a cluster; None if its models do not count (see ``berthmaster.scheduling.resources``)."""
    summary, models = cluster.status.resource_summary, cluster.spec.resource_models
    if summary is None or not models or not summary.allocatable_modelings:
        return None
    if any(each.count < 0 for each in summary.allocatable_modelings):
        return None
    return ModelNodes(models, summary.allocatable_modelings)
