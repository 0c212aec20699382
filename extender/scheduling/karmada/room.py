"""How many replicas each cluster takes (karmada ``calAvailableReplicas``)."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from extender.scheduling.columns import IntArray
from extender.scheduling.context import Context
from extender.scheduling.fleet import Fleet
from extender.scheduling.request import Request
from extender.scheduling.resources import UNLIMITED, Estimate

ITS_ESTIMATOR: Final = "its scheduler estimator"
"""What bounds a cluster of which an estimator inside it says less than the fleet's own numbers."""


def room(context: Context, rows: IntArray) -> IntArray:
    """Replicas that fit each row, by the general estimator, and by those inside clusters where they say less."""
    request = context.request
    if request.replicas == 0 and not request.components:
        return np.full(len(rows), UNLIMITED, dtype=np.int64)
    allocatable = context.fleet.resources.estimate(request.requests).current()[rows]
    if request.bounds:
        np.minimum(allocatable, _bounds(context.fleet, request.bounds)[rows], out=allocatable)
    # What nothing bounds holds all of the replicas, and is not said to hold more.
    allocatable[allocatable == UNLIMITED] = request.replicas
    return allocatable


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
