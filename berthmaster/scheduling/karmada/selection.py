"""Candidates and selection: how many replicas fit each cluster, and which clusters the spread constraints select.

Sources: karmada ``calAvailableReplicas``, ``spreadconstraint/select_clusters_by_cluster.go``.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heapreplace
from typing import Final

import numpy as np

from berthmaster.model.placement import SpreadConstraint
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.compiled_placement import CompiledPlacement, Strategy
from berthmaster.scheduling.component_sets import sets_column
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.placement import KarmadaPlacement
from berthmaster.scheduling.karmada.regions import select_by_region
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED, Estimate
from berthmaster.scheduling.work import PYTHON_STEPS, Work

ITS_ESTIMATOR: Final = "its scheduler estimator"
"""What limits a cluster whose scheduler estimator reports less than the fleet's own numbers."""


def candidates_of(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """Return the candidates on some rows, which are ascending. Of several estimates the smallest counts."""
    fleet, request = context.fleet, context.request
    if request.replicas == 0 and not request.components:
        allocatable = np.full(len(rows), UNLIMITED, dtype=np.int64)
    else:
        allocatable = _estimates(context).current()[rows]
        if request.bounds:
            np.minimum(allocatable, _bounds(fleet, request.bounds)[rows], out=allocatable)
        # A cluster without any limit holds all of the replicas. Karmada counts it as no more than that.
        allocatable[allocatable == UNLIMITED] = request.replicas
    return Candidates(fleet, rows, allocatable, _assigned(fleet, request, rows), scores, context.group.tiers(rows))


def places_whole_sets(request: Request, compiled: CompiledPlacement) -> bool:
    """Whether the available replicas of a workload are complete sets of the pods of its templates."""
    return bool(request.component_set) and isinstance(compiled, KarmadaPlacement) and compiled.whole_sets


def _estimates(context: Context) -> Column[np.int64]:
    """Return the column of the available replicas, or of the available sets of a workload of several templates."""
    resources, request = context.fleet.resources, context.request
    if places_whole_sets(request, context.compiled):
        return sets_column(resources, request.component_set)
    return resources.estimate(request.requests)


def estimate_of(fleet: Fleet, request: Request, compiled: CompiledPlacement, row: int) -> Estimate:
    """Return how many more replicas fit one row, as in ``candidates_of``, and what limits them."""
    if places_whole_sets(request, compiled):
        estimate = sets_column(fleet.resources, request.component_set).estimate_row(row)
    else:
        estimate = fleet.resources.estimate_row(row, request.requests)
    cluster = fleet.clusters[row]
    if not request.bounds or cluster is None:
        return estimate
    bound = request.bounds.get(cluster.name, UNLIMITED)
    return Estimate(bound, ITS_ESTIMATOR) if bound < estimate.replicas else estimate


def select(context: Context, compiled: KarmadaPlacement, candidates: Candidates) -> Candidates | Failure:
    """Return the selected candidates in selection order, or why the constraints cannot be satisfied."""
    if not compiled.constrained:
        return candidates
    replicas = context.request.replicas
    if "region" in compiled.spread:
        return select_by_region(compiled, replicas, candidates, context.work)
    if "cluster" in compiled.spread:
        # Without division every selected cluster takes all replicas, so that their sum does not matter.
        needed = None if compiled.strategy is Strategy.DUPLICATED else replicas
        if needed is not None and places_whole_sets(context.request, compiled):
            needed = 1  # one complete set
        return select_by_cluster(compiled.spread["cluster"], needed, candidates, context.work)
    fields = sorted(
        each.spread_by_field or f"label {each.spread_by_label}" for each in compiled.placement.spread_constraints
    )
    return Failure(
        FailureKind.SELECT_FAILED,
        f"cannot spread by {' and '.join(fields)} alone: a constraint on cluster or region is required",
    )


def select_by_cluster(
    constraint: SpreadConstraint, needed: int | None, candidates: Candidates, work: Work | None = None
) -> Candidates | Failure:
    """Return the best ``maxGroups`` clusters, changed as little as necessary to hold ``needed`` replicas.

    Args:
        needed: the number of replicas; None if available replicas do not matter.

    Raises:
        TooLargeError: the selection takes too many steps.
    """
    if len(candidates) < constraint.min_groups:
        return Failure(
            FailureKind.SELECT_FAILED,
            f"{len(candidates)} clusters fit, but the spread constraint requires at least {constraint.min_groups}",
        )
    count = max(0, min(len(candidates), constraint.max_groups))
    if needed is None:
        return candidates.at(candidates.best(count))
    chosen = candidates.best(count)
    if count and int(candidates.available[chosen].sum()) < needed:
        if work is not None:
            work.spend(PYTHON_STEPS * len(candidates) // 2)
        chosen = _exchanged(candidates, count, needed)
    available = int(candidates.available[chosen].sum())
    if not count or available < needed:
        limit = "maxGroups is not set, which allows none" if not count else f"{count} clusters hold {available} at most"
        return Failure(FailureKind.SELECT_FAILED, f"{needed} replicas are requested, but {limit}")
    return candidates.at(chosen)


def _exchanged(candidates: Candidates, count: int, needed: int) -> np.ndarray:
    """Exchange selected clusters, the last one first, for unselected ones until all replicas fit.

    Each selected cluster is considered once. It is exchanged for the unselected cluster with the most available
    replicas, if that one has more.
    """
    order = candidates.best(len(candidates))
    chosen, available = order[:count].copy(), candidates.available
    total = int(available[chosen].sum())
    # The unselected clusters, the largest first. Of equals the one that is first in the order comes first. A cluster
    # that is exchanged takes the place of the other one.
    rest = [(-replicas, place, position) for place, (replicas, position) in enumerate(_pairs(available, order[count:]))]
    heapify(rest)
    for slot in range(count - 1, -1, -1):
        if total >= needed or not rest:
            break
        smaller = int(available[chosen[slot]])
        largest, place, position = rest[0]
        if -largest > smaller:
            heapreplace(rest, (-smaller, place, int(chosen[slot])))
            chosen[slot] = position
            total += -largest - smaller
    return chosen


def _pairs(available: IntArray, positions: IntArray) -> Iterator[tuple[int, int]]:
    return zip(available[positions].tolist(), positions.tolist(), strict=True)


def _assigned(fleet: Fleet, request: Request, rows: IntArray) -> IntArray | None:
    if not request.current or not len(rows):
        return None
    assigned = np.zeros(len(rows), dtype=np.int64)
    for name, replicas in request.current.items():
        row = fleet.row_of.get(name)
        if row is not None:
            position = int(rows.searchsorted(row))
            if position < len(rows) and rows[position] == row:
                assigned[position] = replicas
    return assigned


def _bounds(fleet: Fleet, bounds: Mapping[str, int]) -> IntArray:
    """Return the external bound of each row, ``UNLIMITED`` if it has none."""
    column = np.full(fleet.capacity, UNLIMITED, dtype=np.int64)
    for name, bound in bounds.items():
        row = fleet.row_of.get(name)
        if row is not None:
            column[row] = min(bound, UNLIMITED)
    return column
