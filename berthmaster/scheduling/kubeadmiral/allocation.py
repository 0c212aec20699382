"""What clusters can allocate, in the units of KubeAdmiral's plugins."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.unit import (
    unit_of,
)
from berthmaster.scheduling.resources import CPU, amount_of

_MILLI: Final = 1000
PLAIN_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def allocatable_column(fleet: Fleet, name: str) -> Column[np.int64]:
    """Return the allocatable amount of a resource in each row, 0 for a cluster without it."""

    def of(cluster: Cluster) -> int:
        summary = cluster.status.resource_summary
        amount = summary.allocatable.get(name) if summary is not None else None
        return 0 if amount is None else min(INT64_MAX, amount_of(name, amount))

    return fleet.column(f"allocatable {name}", of, np.int64(0), fleet.resources.journal)


class Allocation:
    """One resource in some rows: what is allocatable, what is free, and what one replica requests.

    ``free``: the amount that is not allocated. It may be negative.
    """

    __slots__ = ("capacity", "free", "name", "requested")

    def __init__(self, fleet: Fleet, rows: IntArray, name: str, requests: Mapping[str, Quantity]) -> None:
        self.name = name
        self.capacity: IntArray = allocatable_column(fleet, name).current()[rows]
        self.free = fleet.resources.free(name)[rows]
        self.requested = min(INT64_MAX, amount_of(name, requests[name])) if name in requests else 0

    def taken(self) -> IntArray:
        """Return the used amount with one more replica. If more is free than allocatable, all of it counts as used."""
        used: IntArray = np.where(self.free > self.capacity, self.capacity, self.capacity - self.free)
        return used + self.requested


def whole_units(name: str, amounts: IntArray) -> IntArray:
    """Return amounts of a resource, CPU in cores, rounded away from zero. Millicores are rounded up already."""
    if name != CPU:
        return amounts
    whole: IntArray = np.sign(amounts) * -(-np.abs(amounts) // _MILLI)
    return whole


def compared(context: Context, rows: IntArray) -> list[Allocation]:
    """Return the resources that are compared: CPU, memory and others that are requested."""
    unit = unit_of(context)
    # As in KubeAdmiral, a scalar resource counts even with amount 0.
    if not any(amount.nanos or name not in PLAIN_RESOURCES for name, amount in unit.requests.items()):
        return []
    names = ["cpu", "memory", *(name for name in unit.requests if name not in PLAIN_RESOURCES)]
    allocations = [Allocation(context.fleet, rows, name, unit.requests) for name in names]
    return [each for each in allocations if each.requested or each.name in {"cpu", "memory"}]
