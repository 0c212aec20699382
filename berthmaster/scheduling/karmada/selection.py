"""Candidates and selection: how many replicas fit each cluster, and which clusters the spread constraints select.

Sources: karmada ``calAvailableReplicas``, ``spreadconstraint/select_clusters_by_cluster.go``.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.model.placement import SpreadConstraint
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import Strategy
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.placement import KarmadaPlacement
from berthmaster.scheduling.karmada.regions import select_by_region
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED, Estimate

ITS_ESTIMATOR: Final = "its scheduler estimator"
"""What limits a cluster whose scheduler estimator reports less than the fleet's own numbers."""


def candidates_of(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """Return the candidates on some rows, which are ascending. Of several estimates the smallest counts."""
    fleet, request = context.fleet, context.request
    if request.replicas == 0 and not request.components:
        allocatable = np.full(len(rows), UNLIMITED, dtype=np.int64)
    else:
        allocatable = fleet.resources.estimate(request.requests).current()[rows]
        if request.bounds:
            np.minimum(allocatable, _bounds(fleet, request.bounds)[rows], out=allocatable)
        # A cluster without any limit holds all of the replicas. Karmada counts it as no more than that.
        allocatable[allocatable == UNLIMITED] = request.replicas
    return Candidates(fleet, rows, allocatable, _assigned(fleet, request, rows), scores, context.group.tiers(rows))


def estimate_of(fleet: Fleet, request: Request, row: int) -> Estimate:
    """Return how many more replicas fit one row, as in ``candidates_of``, and what limits them."""
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
        return select_by_region(compiled, replicas, candidates)
    if "cluster" in compiled.spread:
        # Without division every selected cluster takes all replicas, so that their sum does not matter.
        needed = None if compiled.strategy is Strategy.DUPLICATED else replicas
        return select_by_cluster(compiled.spread["cluster"], needed, candidates)
    fields = sorted(
        each.spread_by_field or f"label {each.spread_by_label}" for each in compiled.placement.spread_constraints
    )
    return Failure(
        FailureKind.SELECT_FAILED,
        f"cannot spread by {' and '.join(fields)} alone: a constraint on cluster or region is required",
    )


def select_by_cluster(constraint: SpreadConstraint, needed: int | None, candidates: Candidates) -> Candidates | Failure:
    """Return the best ``maxGroups`` clusters, changed as little as necessary to hold ``needed`` replicas.

    If ``needed`` is None, available replicas do not matter.
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
    chosen, rest = order[:count].copy(), order[count:].copy()
    available = candidates.available
    total = int(available[chosen].sum())
    for slot in range(count - 1, -1, -1):
        if total >= needed or not len(rest):
            break
        # argmax returns the first of equals, which is the best of them in the order.
        largest = int(available[rest].argmax())
        gain = int(available[rest[largest]] - available[chosen[slot]])
        if gain > 0:
            chosen[slot], rest[largest] = rest[largest], chosen[slot]
            total += gain
    return chosen


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
