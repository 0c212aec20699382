"""Complete sets of the pods of a workload with several templates (karmada ``MaxAvailableComponentSets``).

A set has all pods of all templates. Such a workload is never divided: one cluster gets the whole set.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.resources import (
    PODS,
    UNLIMITED,
    Estimate,
    NodeGrade,
    Requests,
    Resources,
    counts_for_nodes,
)

MAX_SETS: Final = 1000
"""The most sets that are placed on model nodes. A cluster that fits more counts as one that fits this many."""


MAX_NODES: Final = 2**13
"""The most nodes of a cluster that sets are placed on."""


class SetTemplate(NamedTuple):
    """One pod template of a workload."""

    replicas: int
    requests: Requests | None


ComponentSet = tuple[SetTemplate, ...]


def pods_of(replicas: int, requests: Requests, templates: ComponentSet) -> list[tuple[int, Requests]]:
    """Return the pods of replicas, or of sets of pods, with equal requests: how many, and what each requests."""
    if not templates:
        return [(replicas, requests)]
    return [(replicas * each.replicas, each.requests or ()) for each in templates]


def demand_of(templates: ComponentSet) -> Requests:
    """Return what one set requests, pods included, without zero amounts."""
    total = {PODS: sum(each.replicas for each in templates)}
    for each in templates:
        for name, amount in each.requests or ():
            total[name] = total.get(name, 0) + each.replicas * amount
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


def sets_column(resources: Resources, templates: ComponentSet) -> "ComponentSetsColumn":
    """Return the column of how many sets fit each row."""
    return resources.shared(templates, lambda: ComponentSetsColumn(resources, templates))


class ComponentSetsColumn(Column[np.int64]):
    """How many sets fit each row.

    The free amounts of the summary limit them, and so do the model nodes of a cluster that has some. A workload whose
    templates have no pods is limited by free pod slots.
    """

    __slots__ = ("_demand", "_resources", "_templates")

    def __init__(self, resources: Resources, templates: ComponentSet) -> None:
        super().__init__(resources.journal)
        self._resources = resources
        self._templates = templates
        self._demand = demand_of(templates)

    def compute(self) -> IntArray:
        resources = self._resources
        bound = resources.allowed_pods.copy()
        pods = dict(self._demand).get(PODS, 0)
        if not pods:
            return np.minimum(bound, UNLIMITED)
        bound //= pods
        for name, amount in self._demand:
            if name != PODS:
                np.minimum(bound, resources.free(name) // amount, out=bound)
        np.clip(bound, 0, UNLIMITED, out=bound)
        for row in np.flatnonzero(bound).tolist():
            nodes = resources.model_nodes(row)
            if nodes is not None:
                bound[row] = sets_on_nodes(nodes, self._templates, int(bound[row]))
        return bound

    def compute_row(self, row: int) -> int:
        return self.estimate_row(row).replicas

    def estimate_row(self, row: int) -> Estimate:
        """Return how many sets fit one row, and what limits them."""
        resources = self._resources
        free_pods = int(resources.allowed_pods[row])
        pods = dict(self._demand).get(PODS, 0)
        if not pods:
            return Estimate(min(free_pods, UNLIMITED), PODS)
        bounds = [Estimate(free_pods // pods, PODS)]
        bounds += [
            Estimate(max(0, int(resources.free(name)[row])) // amount, name)
            for name, amount in self._demand
            if name != PODS
        ]
        tightest = min(bounds, key=lambda each: each.replicas)
        nodes = resources.model_nodes(row) if tightest.replicas else None
        if nodes is not None:
            placed = sets_on_nodes(nodes, self._templates, tightest.replicas)
            if placed < tightest.replicas:
                return Estimate(placed, "the nodes of its resource models")
        return tightest if tightest.replicas < UNLIMITED else Estimate(UNLIMITED, tightest.bound_by)


def sets_on_nodes(grades: Sequence[NodeGrade], templates: ComponentSet, limit: int) -> int:
    """Return how many sets fit nodes, placed one after the other by first fit (karmada ``SchedulingSimulator``).

    The pods of a template go to the first node that fits one, as many as it holds, and the rest to the nodes after it.
    A set that does not fit ends the count. What it took is not given back. ``limit``: the most sets to place. Above
    ``MAX_SETS``, the result is the limit if ``MAX_SETS`` sets fit.
    """
    named = sorted({name for each in templates for name, _ in filter(counts_for_nodes, each.requests or ())} | {PODS})
    asked = [_asked(each, named) for each in templates]
    nodes = list(_nodes(grades, named))
    # Free amounts only shrink: a node that is too full for a template stays so.
    first = [0] * len(templates)
    for placed in range(min(limit, MAX_SETS)):
        for index, (replicas, amounts) in enumerate(asked):
            remaining = replicas
            while remaining:
                if first[index] == len(nodes):
                    return placed
                free = nodes[first[index]]
                taken = min(remaining, *(free[column] // amount for column, amount in amounts))
                if not taken:
                    first[index] += 1
                    continue
                for column, amount in amounts:
                    free[column] -= taken * amount
                remaining -= taken
    return limit


def _asked(template: SetTemplate, named: Sequence[str]) -> tuple[int, list[tuple[int, int]]]:
    amounts = {**dict(filter(counts_for_nodes, template.requests or ())), PODS: 1}
    return template.replicas, [(named.index(name), amount) for name, amount in amounts.items()]


def _nodes(grades: Sequence[NodeGrade], named: Sequence[str]) -> Iterable[list[int]]:
    """Yield the free amounts of each node, by column."""
    most = MAX_NODES // max(1, len(grades))
    for capacity, count in grades:
        for _ in range(min(count, most)):
            yield [capacity.get(name, 0) for name in named]
