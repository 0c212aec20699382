"""A cluster seen with replicas on their way to it: its summary, and the nodes that its models tell of."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec.structs

from extender.scheduling.resources import CPU, PODS, Requests, amount_of, counts_for_nodes
from fleet.model.base import INT64_MAX
from fleet.model.cluster import AllocatableModeling, Cluster, ResourceModel, ResourceModelRange, ResourceSummary
from fleet.model.quantity import MILLI_NANOS, NANOS, Quantity

_PODS_OF_A_NODE: Final = 110
_MOST_NODE_CLASSES: Final = 64

_Node = tuple[tuple[str, int], ...]
"""What is free of each resource, sorted by name; nodes with the same are one class."""


def with_loads(cluster: Cluster, loads: Mapping[Requests, int]) -> Cluster:
    """A cluster with replicas that are on their way counted as being created there.

    Args:
        cluster: as the API server knows it.
        loads: how many replicas, by what each of them needs.
    """
    summary = cluster.status.resource_summary
    if not loads or summary is None:
        return cluster
    spec, allocating = cluster.spec, _allocating(summary, loads)
    models, modelings = spec.resource_models, summary.allocatable_modelings
    if models and modelings and all(each.count >= 0 for each in modelings):
        models, modelings = _as_models(_placed(_nodes(models, modelings), loads))
        spec = msgspec.structs.replace(spec, resource_models=models)
    summary = msgspec.structs.replace(summary, allocating=allocating, allocatable_modelings=modelings)
    status = msgspec.structs.replace(cluster.status, resource_summary=summary)
    return msgspec.structs.replace(cluster, spec=spec, status=status)


def _allocating(summary: ResourceSummary, loads: Mapping[Requests, int]) -> dict[str, Quantity]:
    allocating = dict(summary.allocating)
    for requests, replicas in loads.items():
        for name, amount in ((PODS, 1), *requests):
            before = allocating[name].nanos if name in allocating else 0
            allocating[name] = Quantity(before + _quantity(name, amount * replicas).nanos, "")
    return {name: _quantity(name, amount_of(name, each)) for name, each in allocating.items()}


def _nodes(models: Iterable[ResourceModel], modelings: Iterable[AllocatableModeling]) -> list[tuple[_Node, int]]:
    """The classes of nodes, from the smallest grade up, with how many there are of each."""
    counts: dict[int, int] = {}
    for modeling in modelings:
        counts[modeling.grade] = counts.get(modeling.grade, 0) + modeling.count
    return [
        (_node({each.name: amount_of(each.name, each.min) for each in model.ranges}), counts.get(model.grade, 0))
        for model in sorted(models, key=lambda model: model.grade)
    ]


def _placed(nodes: list[tuple[_Node, int]], loads: Mapping[Requests, int]) -> list[tuple[_Node, int]]:
    """The classes after everything on its way found its node, each replica the first that holds it."""
    for requests, replicas in sorted(loads.items()):
        asked = [(name, amount) for name, amount in requests if counts_for_nodes((name, amount))]
        nodes = _first_fit(nodes, asked, replicas)
    return nodes


def _first_fit(nodes: list[tuple[_Node, int]], asked: list[tuple[str, int]], replicas: int) -> list[tuple[_Node, int]]:
    after: dict[_Node, int] = {}

    def keep(node: _Node, count: int) -> None:
        if count:
            after[node] = after.get(node, 0) + count

    for node, count in nodes:
        free = dict(node)
        fitting = min([_PODS_OF_A_NODE, *(free.get(name, 0) // amount for name, amount in asked)])
        if not fitting or not replicas:
            keep(node, count)
            continue
        full = min(count, replicas // fitting)
        keep(_less(free, asked, fitting), full)
        replicas -= full * fitting
        partly = 1 if replicas and full < count else 0
        if partly:
            keep(_less(free, asked, replicas), 1)
            replicas = 0
        keep(node, count - full - partly)
    return list(after.items())


def _less(free: Mapping[str, int], asked: Iterable[tuple[str, int]], replicas: int) -> _Node:
    return _node({**free, **{name: free[name] - amount * replicas for name, amount in asked}})


def _node(free: Mapping[str, int]) -> _Node:
    return tuple(sorted((name, max(0, amount)) for name, amount in free.items()))


def _as_models(
    nodes: list[tuple[_Node, int]],
) -> tuple[tuple[ResourceModel, ...], tuple[AllocatableModeling, ...]]:
    """The classes as grades. Of very many the emptiest are kept, which can only make a cluster look smaller."""
    kept = nodes if len(nodes) <= _MOST_NODE_CLASSES else sorted(nodes, reverse=True)[:_MOST_NODE_CLASSES]
    models = tuple(
        ResourceModel(grade, tuple(_range(name, amount) for name, amount in node))
        for grade, (node, _) in enumerate(kept)
    )
    return models, tuple(AllocatableModeling(grade, count) for grade, (_, count) in enumerate(kept))


def _range(name: str, amount: int) -> ResourceModelRange:
    quantity = _quantity(name, amount)
    return ResourceModelRange(name, quantity, quantity)


def _quantity(name: str, amount: int) -> Quantity:
    """An amount in the unit of its column as a quantity; nobody will read its text."""
    return Quantity(min(amount, INT64_MAX) * (MILLI_NANOS if name == CPU else NANOS), "")
