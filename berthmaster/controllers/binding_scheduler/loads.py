"""A cluster seen with replicas on their way to it: its summary, and the nodes that its models tell of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec.structs

from berthmaster.controllers.binding_scheduler.nodes import NodeClass, Nodes, nodes_of
from berthmaster.kube.requests import Key
from berthmaster.model.cluster import AllocatableModeling, Cluster, ResourceModel, ResourceModelRange, ResourceSummary
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.quantity import MILLI_NANOS, NANOS, Quantity
from berthmaster.scheduling.resources import CPU, PODS, Requests, amount_of


class Load(NamedTuple):
    """Replicas on their way to a cluster.

    Attributes:
        replicas: how many.
        requests: what each of them needs.
        until_s: the monotonic time at which they are counted no more.
    """

    replicas: int
    requests: Requests
    until_s: float


class LoadedCluster:
    """A cluster and what is on its way there, by binding.

    A load that comes or goes costs the same however many others there are: in a burst there are thousands.

    Attributes:
        loads: by binding; to be changed by ``put`` alone.
    """

    __slots__ = ("_amounts", "_cluster", "_nodes", "_together", "loads")

    def __init__(self, cluster: Cluster) -> None:
        self.loads: dict[Key, Load] = {}
        self._cluster = cluster
        self._together: Counter[Requests] = Counter()
        self._amounts: Counter[str] = Counter()
        self._nodes: Nodes | None = None

    def become(self, cluster: Cluster) -> None:
        """The API server says that it is so."""
        if _modeled(cluster) != _modeled(self._cluster):
            self._nodes = None
        self._cluster = cluster

    def put(self, key: Key, load: Load | None) -> None:
        """What is on its way for a binding, instead of what was; None for nothing."""
        before = self.loads.pop(key, None)
        if before is not None:
            self._count(before, -1)
            if self._nodes is not None:
                self._nodes.take_away(key)
        if load is not None:
            self.loads[key] = load
            self._count(load, 1)
            if self._nodes is not None:
                self._nodes.place(key, load.requests, load.replicas)

    def held(self, requests: Requests) -> int:
        """How many replicas with these requests would take up what is on its way."""
        if not requests:
            return self._together.total()
        return sum(
            max(-(-replicas * dict(asked).get(name, 0) // amount) for name, amount in requests)
            for asked, replicas in self._together.items()
        )

    def seen(self) -> Cluster:
        """The cluster with replicas that are on their way counted as being created there."""
        cluster, summary = self._cluster, self._cluster.status.resource_summary
        if not self.loads or summary is None:
            self._nodes = None
            return cluster
        if self._nodes is None and (nodes := nodes_of(cluster)) is not None:
            for key, load in self.loads.items():
                nodes.place(key, load.requests, load.replicas)
            self._nodes = nodes
        spec = cluster.spec
        summary = msgspec.structs.replace(summary, allocating=_allocating(summary, self._amounts))
        if self._nodes is not None:
            models, modelings = _as_models(self._nodes.classes())
            spec = msgspec.structs.replace(spec, resource_models=models)
            summary = msgspec.structs.replace(summary, allocatable_modelings=modelings)
        status = msgspec.structs.replace(cluster.status, resource_summary=summary)
        return msgspec.structs.replace(cluster, spec=spec, status=status)

    def _count(self, load: Load, sign: int) -> None:
        self._together[load.requests] += sign * load.replicas
        if not self._together[load.requests]:
            del self._together[load.requests]
        for name, amount in ((PODS, 1), *load.requests):
            self._amounts[name] += sign * amount * load.replicas
            if not self._amounts[name]:
                del self._amounts[name]


def _modeled(cluster: Cluster) -> tuple[object, object]:
    """All of a cluster that its nodes are made of."""
    summary = cluster.status.resource_summary
    return cluster.spec.resource_models, summary and summary.allocatable_modelings


def _allocating(summary: ResourceSummary, amounts: Mapping[str, int]) -> dict[str, Quantity]:
    allocating = dict(summary.allocating)
    for name, amount in amounts.items():
        before = allocating[name].nanos if name in allocating else 0
        together = Quantity(before + _quantity(name, amount).nanos, "")
        allocating[name] = _quantity(name, amount_of(name, together))
    return allocating


def _as_models(
    classes: Sequence[NodeClass],
) -> tuple[tuple[ResourceModel, ...], tuple[AllocatableModeling, ...]]:
    """The classes as grades."""
    models = tuple(
        ResourceModel(grade, tuple(_range(name, amount) for name, amount in each.left.items()))
        for grade, each in enumerate(classes)
    )
    return models, tuple(AllocatableModeling(grade, each.nodes) for grade, each in enumerate(classes))


def _range(name: str, amount: int) -> ResourceModelRange:
    quantity = _quantity(name, amount)
    return ResourceModelRange(name, quantity, quantity)


def _quantity(name: str, amount: int) -> Quantity:
    """An amount in the unit of its column as a quantity; nobody will read its text."""
    return Quantity(min(amount, INT64_MAX) * (MILLI_NANOS if name == CPU else NANOS), "")
