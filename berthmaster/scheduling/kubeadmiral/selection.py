"""KubeAdmiral's select plugins: each takes scored candidates and leaves some, in an order."""

from collections.abc import Callable
from typing import Final

import numpy as np

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.kubeadmiral.request import unit_of
from berthmaster.scheduling.kubeadmiral.unit import ReplicasStrategy, SchedulingUnit

PRIORITY_SORT: Final = "PrioritySort"

Selector = Callable[[SchedulingUnit, Candidates], Candidates | Failure]


def scored(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """The candidates on some rows. Their room plays no part in KubeAdmiral's selection, so that all have none."""
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Candidates(context.fleet, rows, nothing, None, nothing if scores is None else scores)


def select(names: tuple[str, ...], context: Context, candidates: Candidates) -> Candidates | Failure:
    """What the select plugins of these names leave, or the first failure; without any all are selected.

    Where no plugin sorts, clusters stand by name. In KubeAdmiral they stand in random order.
    """
    unit = unit_of(context)
    if names[:1] != (PRIORITY_SORT,):
        candidates = candidates.at(candidates.name_rank().argsort())
    for name in names:
        left = SELECTORS[name](unit, candidates)
        if isinstance(left, Failure):
            return left
        candidates = left
    return candidates


def priority_sort(unit: SchedulingUnit, candidates: Candidates) -> Candidates:
    """PrioritySort: by score, then name; priorities, where there are any or in Binpack, replace the scores."""
    prioritised = any(each.priority is not None for each in unit.preferences.values())
    if prioritised or (unit.divide and unit.strategy is ReplicasStrategy.BINPACK):
        priorities = [unit.preference(name).priority or 0 for name in candidates.names()]
        candidates = candidates.with_scores(np.array(priorities, dtype=np.int64))
    return candidates.at(candidates.best(len(candidates)))


def max_cluster(unit: SchedulingUnit, candidates: Candidates) -> Candidates | Failure:
    """MaxCluster: the first ``maxClusters`` by score; of equal scores those that come first."""
    limit = unit.max_clusters
    if limit is None:
        return candidates
    if limit < 0:
        return Failure(FailureKind.SELECT_FAILED, f"maxClusters is {limit}; accepted are 0 and more")
    scores = np.zeros(len(candidates)) if candidates.scores is None else candidates.scores
    return candidates.at((-scores).argsort(kind="stable")[:limit])


SELECTORS: Final[dict[str, Selector]] = {PRIORITY_SORT: priority_sort, "MaxCluster": max_cluster}
DEFAULT_SELECTORS: Final = tuple(SELECTORS)
