"""KubeAdmiral's select plugins: each takes scored clusters and leaves some, in an order."""

from collections.abc import Callable
from typing import Final, NamedTuple

from extender.scheduling.kubeadmiral.unit import ReplicasStrategy, SchedulingUnit
from fleet.errors import InputError
from fleet.model.cluster import Cluster


class Scored(NamedTuple):
    """A cluster with its total score."""

    cluster: Cluster
    score: int


Selector = Callable[[SchedulingUnit, list[Scored]], list[Scored]]


def priority_sort(unit: SchedulingUnit, scored: list[Scored]) -> list[Scored]:
    """PrioritySort: by score, then name; priorities, where there are any or in Binpack, replace the scores."""
    prioritised = any(each.priority is not None for each in unit.preferences.values())
    if prioritised or (unit.divide and unit.strategy is ReplicasStrategy.BINPACK):
        scored = [Scored(each.cluster, unit.preference(each.cluster.name).priority or 0) for each in scored]
    return sorted(scored, key=lambda each: (-each.score, each.cluster.name))


def max_cluster(unit: SchedulingUnit, scored: list[Scored]) -> list[Scored]:
    """MaxCluster: the first ``maxClusters`` by score.

    Raises:
        InputError: the limit is negative.
    """
    if unit.max_clusters is None:
        return scored
    if unit.max_clusters < 0:
        raise InputError(f"maxClusters is {unit.max_clusters}; accepted are 0 and more")
    return sorted(scored, key=lambda each: -each.score)[: unit.max_clusters]


SELECTORS: Final[dict[str, Selector]] = {"PrioritySort": priority_sort, "MaxCluster": max_cluster}
DEFAULT_SELECTORS: Final = tuple(SELECTORS)
