"""KubeAdmiral's select plugins."""

from collections.abc import Callable
from typing import Final

import numpy as np

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import CompiledPlacement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.kubeadmiral.unit import (
    ReplicasStrategy,
    SchedulingUnit,
    unit_of,
)

Selector = Callable[[SchedulingUnit, Candidates], Candidates | Failure]


def scored(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """Return the candidates on some rows. KubeAdmiral does not select by available replicas, so all have 0."""
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Candidates(context.fleet, rows, nothing, None, nothing if scores is None else scores)


def select(
    plugins: tuple[Selector, ...], context: Context, _compiled: CompiledPlacement, candidates: Candidates
) -> Candidates | Failure:
    """Apply select plugins in order. Return the first failure if there is one.

    If the first plugin does not sort, clusters are in the order of their names. In KubeAdmiral their order is random.
    """
    unit = unit_of(context)
    if plugins[:1] != (priority_sort,):
        candidates = candidates.at(candidates.name_rank().argsort())
    for plugin in plugins:
        selected = plugin(unit, candidates)
        if isinstance(selected, Failure):
            return selected
        candidates = selected
    return candidates


def priority_sort(unit: SchedulingUnit, candidates: Candidates) -> Candidates:
    """Sort by score, then name. With priorities, or for Binpack, priorities replace the scores."""
    priorities = {name: each.priority for name, each in unit.preferences.items() if each.priority is not None}
    if priorities:
        found = [priorities.get(name, 0) for name in candidates.names()]
        candidates = candidates.with_scores(np.array(found, dtype=np.int64))
    elif unit.divide and unit.strategy is ReplicasStrategy.BINPACK:
        candidates = candidates.with_scores(np.zeros(len(candidates), dtype=np.int64))
    return candidates.at(candidates.best(len(candidates)))


def max_cluster(unit: SchedulingUnit, candidates: Candidates) -> Candidates | Failure:
    """Select the ``maxClusters`` clusters with the best scores. Of equal scores the first ones are selected."""
    limit = unit.max_clusters
    if limit is None:
        return candidates
    if limit < 0:
        return Failure(FailureKind.SELECT_FAILED, f"maxClusters is {limit}; accepted are 0 and more")
    scores = np.zeros(len(candidates)) if candidates.scores is None else candidates.scores
    return candidates.at((-scores).argsort(kind="stable")[:limit])


SELECTORS: Final[dict[str, Selector]] = {"PrioritySort": priority_sort, "MaxCluster": max_cluster}
DEFAULT_SELECTORS: Final = tuple(SELECTORS)
