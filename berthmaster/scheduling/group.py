"""A group of clusters and the placement it belongs to, taken apart for evaluation on one fleet."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from berthmaster.model.decode import encode_json
from berthmaster.model.placement import AffinityTerm, ClusterAffinity
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.fleet import Fleet

UNMATCHED_TIER: Final = 1000
"""The overflow order of a cluster that no affinity of the group means."""


class AffinityColumn(Column[np.bool_]):
    """Which rows an affinity means."""

    __slots__ = ("_fleet", "term")

    def __init__(self, fleet: Fleet, term: AffinityTerm) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self.term = term

    def compute(self) -> BoolArray:
        """All rows, through the indexes."""
        fleet, term, length = self._fleet, self.term, self._fleet.capacity
        mask = np.full(length, not term.names and not term.invalid, dtype=np.bool_)
        if not term.invalid:
            mask[[fleet.row_of[name] for name in term.names if name in fleet.row_of]] = True
        for requirement in term.labels:
            mask &= fleet.labels.matching(requirement, length)
        for requirement in term.fields:
            mask &= fleet.fields.matching(requirement, length)
        for requirement in term.zones:
            mask &= self._zones_matching(requirement.operator, fleet.zones.matching(requirement, length))
        mask[[fleet.row_of[name] for name in term.excluded if name in fleet.row_of]] = False
        return mask

    def compute_row(self, row: int) -> bool:
        """One row."""
        cluster = self._fleet.clusters[row]
        return cluster is not None and self.term.matches(cluster)

    @staticmethod
    def _zones_matching(operator: str, mask: BoolArray) -> BoolArray:
        """Zones know no Gt and Lt."""
        return mask if operator in {"In", "NotIn", "Exists", "DoesNotExist"} else np.zeros_like(mask)


class Affinities:
    """The affinity columns of a fleet, one for each distinct affinity."""

    _KEPT: Final = 4096

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._columns: dict[bytes, AffinityColumn] = {}

    def column(self, affinity: ClusterAffinity) -> AffinityColumn:
        """The column of an affinity; equal content shares one. A term's name and overflow play no part."""
        bare = ClusterAffinity(
            affinity.label_selector, affinity.field_selector, affinity.cluster_names, affinity.exclude
        )  # fmt: skip
        key = encode_json(bare)
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= self._KEPT:
                self._columns.clear()
            column = self._columns[key] = AffinityColumn(self._fleet, AffinityTerm(bare))
        return column


class Group:
    """One turn of the walk.

    Attributes:
        name: the affinity's name; None for a placement without groups.
        own: the group's own affinity; None if it means every cluster.
        overflow: the affinities that widen it once it is full, in order; None where the field is absent.
    """

    __slots__ = ("name", "overflow", "own")

    def __init__(
        self, name: str | None, own: AffinityColumn | None, overflow: Sequence[AffinityColumn] | None = None
    ) -> None:
        self.name = name
        self.own = own
        self.overflow = overflow

    def tiers(self, rows: IntArray) -> IntArray | None:
        """For each row its overflow order: 0 for the group's own, then 1, 2, ...; None if all are the group's own."""
        if not self.overflow:
            return None
        order = np.full(len(rows), UNMATCHED_TIER, dtype=np.int64)
        for index in range(len(self.overflow) - 1, -1, -1):
            order[self.overflow[index].current()[rows]] = index + 1
        order[self.own.current()[rows] if self.own is not None else slice(None)] = 0
        return order
