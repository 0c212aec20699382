"""How many replicas each cluster takes, and which overflow it is of (karmada ``calAvailableReplicas``)."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED, Estimate

ITS_ESTIMATOR: Final = "its scheduler estimator"
"""What bounds a cluster of which an estimator inside it says less than the fleet's own numbers."""


def estimated(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """The candidates on some rows, ascending, with what estimators say of them: the least counts."""
    fleet, request = context.fleet, context.request
    if request.replicas == 0 and not request.components:
        allocatable = np.full(len(rows), UNLIMITED, dtype=np.int64)
    else:
        allocatable = fleet.resources.estimate(request.requests).current()[rows]
        if request.bounds:
            np.minimum(allocatable, _bounds(fleet, request.bounds)[rows], out=allocatable)
        # What nothing bounds holds all of the replicas, and is not said to hold more.
        allocatable[allocatable == UNLIMITED] = request.replicas
    return Candidates(fleet, rows, allocatable, _assigned(fleet, request, rows), scores, context.group.tiers(rows))


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


def estimate_of(fleet: Fleet, request: Request, row: int) -> Estimate:
    """How many more replicas fit one row, as ``estimated`` has it, and what allows no more."""
    estimate = fleet.resources.estimate_row(row, request.requests)
    cluster = fleet.clusters[row]
    if not request.bounds or cluster is None:
        return estimate
    bound = request.bounds.get(cluster.name, UNLIMITED)
    return Estimate(bound, ITS_ESTIMATOR) if bound < estimate.replicas else estimate


def _bounds(fleet: Fleet, bounds: Mapping[str, int]) -> IntArray:
    """The external bound of each row, ``UNLIMITED`` where there is none."""
    column = np.full(fleet.capacity, UNLIMITED, dtype=np.int64)
    for name, bound in bounds.items():
        row = fleet.row_of.get(name)
        if row is not None:
            column[row] = min(bound, UNLIMITED)
    return column
