"""What clusters have and use, in columns, in KubeAdmiral's units: CPU in millicores, everything else in whole units."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.cluster_column import ClusterColumn
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.resources import CPU, amount_of

_MILLI: Final = 1000


def allocatable_column(fleet: Fleet, name: str) -> Column[np.int64]:
    """What there is of a resource in each row; 0 for a cluster that does not name it."""

    def of(cluster: Cluster) -> int:
        summary = cluster.status.resource_summary
        there = summary.allocatable.get(name) if summary is not None else None
        return 0 if there is None else min(INT64_MAX, amount_of(name, there))

    def make(fleet: Fleet) -> ClusterColumn[np.int64]:
        return ClusterColumn(fleet, fleet.resources.journal, of, np.int64(0))

    return fleet.kept(f"allocatable {name}", make)


class Allocation:
    """One resource in some rows: what there is, what is left of it, and what a replica wants of it.

    Attributes:
        name: of the resource.
        capacity: what there is.
        left: what of it is not given away; may be negative.
        wanted: by one replica.
    """

    __slots__ = ("capacity", "left", "name", "wanted")

    def __init__(self, fleet: Fleet, rows: IntArray, name: str, requests: Mapping[str, Quantity]) -> None:
        self.name = name
        self.capacity: IntArray = allocatable_column(fleet, name).current()[rows]
        self.left = fleet.resources.left(name)[rows]
        self.wanted = min(INT64_MAX, amount_of(name, requests[name])) if name in requests else 0

    def taken(self) -> IntArray:
        """What is used with one more replica. More left than there is cannot be: KubeAdmiral takes all as used."""
        used: IntArray = np.where(self.left > self.capacity, self.capacity, self.capacity - self.left)
        return used + self.wanted

    def capacity_units(self) -> IntArray:
        """What there is in whole units, rounded up: cores for CPU."""
        return _whole(self.name, self.capacity)

    def left_units(self) -> IntArray:
        """What is left in whole units, rounded away from zero; may be negative."""
        return _whole(self.name, self.left)


def _whole(name: str, amounts: IntArray) -> IntArray:
    """Amounts in whole units. What was rounded up to a millicore is rounded up once more to the same core."""
    if name != CPU:
        return amounts
    whole: IntArray = np.sign(amounts) * -(-np.abs(amounts) // _MILLI)
    return whole
