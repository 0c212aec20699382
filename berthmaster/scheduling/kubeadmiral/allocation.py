"""The allocatable and free resources of clusters, in columns: CPU in millicores, all others in whole units."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.fleet import ClusterColumn, Fleet
from berthmaster.scheduling.resources import CPU, amount_of

_MILLI: Final = 1000


def allocatable_column(fleet: Fleet, name: str) -> Column[np.int64]:
    """Return the allocatable amount of a resource in each row, 0 for a cluster without it."""

    def of(cluster: Cluster) -> int:
        summary = cluster.status.resource_summary
        amount = summary.allocatable.get(name) if summary is not None else None
        return 0 if amount is None else min(INT64_MAX, amount_of(name, amount))

    def make(fleet: Fleet) -> ClusterColumn[np.int64]:
        return ClusterColumn(fleet, fleet.resources.journal, of, np.int64(0))

    return fleet.kept(f"allocatable {name}", make)


class Allocation:
    """One resource in some rows: what is allocatable, what is free, and what one replica requests.

    Attributes:
        free: the amount that is not allocated. It may be negative.
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

    def capacity_units(self) -> IntArray:
        """Return what is allocatable in whole units, rounded up. CPU is in cores."""
        return _whole(self.name, self.capacity)

    def free_units(self) -> IntArray:
        """Return what is free in whole units, rounded away from zero. It may be negative."""
        return _whole(self.name, self.free)


def _whole(name: str, amounts: IntArray) -> IntArray:
    """Return amounts in whole units. Rounding up millicores, which are rounded up, gives the same cores."""
    if name != CPU:
        return amounts
    whole: IntArray = np.sign(amounts) * -(-np.abs(amounts) // _MILLI)
    return whole
