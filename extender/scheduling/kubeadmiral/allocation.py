"""What clusters have and use, in columns, in KubeAdmiral's units: CPU in millicores, everything else in whole units."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from extender.scheduling.cluster_column import ClusterColumn
from extender.scheduling.columns import BoolArray, Column, IntArray
from extender.scheduling.fleet import Fleet
from extender.scheduling.resources import CPU, amount_of, left_of
from fleet.model.cluster import Cluster, ResourceSummary
from fleet.model.quantity import Quantity

_NOTHING: Final = Quantity(0, "0")
_MILLI: Final = 1000
_MOST: Final = 2**55
"""Amounts beyond it count as so much: a hundred times as many are still an int64."""

Amount = Callable[[ResourceSummary, str], int]


def there(summary: ResourceSummary, name: str) -> int:
    """What there is of a resource; 0 for what is not named."""
    return amount_of(name, summary.allocatable.get(name, _NOTHING))


def left(summary: ResourceSummary, name: str) -> int:
    """What of it is not given away; may be negative."""
    return amount_of(name, left_of(summary, name))


def amount_column(fleet: Fleet, amount: Amount, name: str) -> Column[np.int64]:
    """An amount in each row; 0 for a cluster that reports nothing."""

    def of(cluster: Cluster) -> int:
        summary = cluster.status.resource_summary
        return 0 if summary is None else max(-_MOST, min(_MOST, amount(summary, name)))

    def make(fleet: Fleet) -> ClusterColumn[np.int64]:
        return ClusterColumn(fleet, fleet.resources.journal, of, np.int64(0))

    return fleet.kept(f"{amount.__name__} {name}", make)


class Allocation(NamedTuple):
    """One resource: what each row has and what is left of it there, and what a replica wants of it."""

    name: str
    allocatable: Column[np.int64]
    available: Column[np.int64]
    wanted: int

    def capacity(self, rows: IntArray) -> IntArray:
        """What there is in some rows."""
        return self.allocatable.current()[rows]

    def taken(self, rows: IntArray) -> IntArray:
        """What is used with one more replica. More available than there is cannot be: KubeAdmiral takes all as used."""
        capacity, available = self.capacity(rows), self.available.current()[rows]
        used: IntArray = np.where(available > capacity, capacity, capacity - available)
        return used + self.wanted

    def fits(self, rows: IntArray) -> BoolArray:
        """Where one more replica fits."""
        fitting: BoolArray = self.taken(rows) <= self.capacity(rows)
        return fitting

    def capacity_units(self, rows: IntArray) -> IntArray:
        """What there is in whole units, rounded up: cores for CPU."""
        return _whole(self.name, self.capacity(rows))

    def available_units(self, rows: IntArray) -> IntArray:
        """What is not used, in whole units, rounded away from zero; may be negative."""
        return _whole(self.name, self.available.current()[rows])


def allocation_of(fleet: Fleet, name: str, requests: Mapping[str, Quantity]) -> Allocation:
    """A resource, as requests want it."""
    return Allocation(
        name,
        amount_column(fleet, there, name),
        amount_column(fleet, left, name),
        min(_MOST, amount_of(name, requests.get(name, _NOTHING))),
    )


def _whole(name: str, amounts: IntArray) -> IntArray:
    """Amounts in whole units. What was rounded up to a millicore is rounded up once more to the same core."""
    if name != CPU:
        return amounts
    whole: IntArray = np.sign(amounts) * -(-np.abs(amounts) // _MILLI)
    return whole
