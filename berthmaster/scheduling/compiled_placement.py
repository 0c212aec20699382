"""A placement compiled for a fleet: its groups, and the clusters that their affinities match."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.decode import encode_json
from berthmaster.model.placement import Placement
from berthmaster.model.selector import LABEL_OPERATORS, Requirement
from berthmaster.scheduling.bounded_cache import BYTES_OF_JSON, BoundedCache
from berthmaster.scheduling.columns import BoolArray, Column, IntArray, InvertedIndex
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.steps import AFFINITY_STEPS, column_steps

_NAME_STEPS: Final = 10
_MAX_SHARED: Final = 64
_AFFINITY_BYTES: Final = 16 * 2**20
UNMATCHED_TIER: Final = 1000
"""The overflow order of a cluster that no affinity of the group matches."""


class AffinityColumn(Column[np.bool_]):
    """Which rows an affinity matches."""

    __slots__ = ("_fleet", "term")

    def __init__(self, fleet: Fleet, term: AffinityTerm) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self.term = term

    def compute(self) -> BoolArray:
        fleet, term, length = self._fleet, self.term, self._fleet.capacity
        mask = np.full(length, not term.names and not term.invalid, dtype=np.bool_)
        if not term.invalid:
            mask[[fleet.row_of[name] for name in term.names if name in fleet.row_of]] = True
        for index, requirement in self._requirements():
            # Zones match nothing by an operator that they do not support. Stored objects may have any.
            unknown = index is fleet.zones and requirement.operator not in LABEL_OPERATORS
            mask &= np.False_ if unknown else index.matching(requirement, length)
        mask[[fleet.row_of[name] for name in term.excluded if name in fleet.row_of]] = False
        return mask

    def compute_row(self, row: int) -> bool:
        cluster = self._fleet.clusters[row]
        return cluster is not None and self.term.matches(cluster)

    def steps(self, rows: int) -> int:
        steps = column_steps(rows) + _NAME_STEPS * (len(self.term.names) + len(self.term.excluded))
        return steps + sum(index.steps(requirement, rows) for index, requirement in self._requirements())

    def _requirements(self) -> Iterator[tuple[InvertedIndex, Requirement]]:
        fleet, term = self._fleet, self.term
        for index, found in ((fleet.labels, term.labels), (fleet.fields, term.fields), (fleet.zones, term.zones)):
            yield from ((index, each) for each in found)


class Affinities:
    """The affinity columns of a fleet, one for each distinct affinity."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._columns: BoundedCache[bytes, AffinityColumn] = BoundedCache(_AFFINITY_BYTES)

    def column(self, affinity: ClusterAffinity) -> AffinityColumn:
        """Return the column of an affinity. Affinities of equal content share one; name and overflow do not count."""
        bare = ClusterAffinity(
            affinity.label_selector, affinity.field_selector, affinity.cluster_names, affinity.exclude
        )  # fmt: skip
        key = encode_json(bare)
        column = self._columns.get(key)
        if column is None:
            column = AffinityColumn(self._fleet, AffinityTerm(bare))
            self._columns.add(key, column, BYTES_OF_JSON * len(key))
        return column


class Group:
    """One term of ``clusterAffinities``. The scheduler tries the groups of a placement in order.

    Attributes:
        own: the group's own affinity. None if it matches every cluster.
        overflow: the affinities that widen the group when it is full, in order. None if the field is absent.
    """

    __slots__ = ("feasible", "name", "overflow", "own")

    def __init__(
        self, name: str | None, own: AffinityColumn | None, overflow: Sequence[AffinityColumn] | None = None
    ) -> None:
        self.name = name
        self.own = own
        self.overflow = overflow
        self.feasible: dict[tuple[str, str, bool], Any] = {}

    def tiers(self, rows: IntArray) -> IntArray | None:
        """Return the overflow order of each row: 0 for the group's own affinity, then 1, 2, ...

        Returns None if the group has no overflow, so that every order is 0.
        """
        if not self.overflow:
            return None
        order = np.full(len(rows), UNMATCHED_TIER, dtype=np.int64)
        for index in range(len(self.overflow) - 1, -1, -1):
            order[self.overflow[index].current()[rows]] = index + 1
        order[self.own.current()[rows] if self.own is not None else slice(None)] = 0
        return order


class CompiledPlacement:
    """The meaning of a placement on one fleet. A profile may extend it with what its stages need.

    Attributes:
        groups: in the order in which they are tried. A placement without ``clusterAffinities`` has one group without a
            name. A placement with an empty list has no group.
        steps: the steps that do not depend on the groups that are tried, see ``Work``.
        text: the placement as schedulers write it on the bindings that they place.
    """

    __slots__ = ("_shared", "groups", "placement", "steps", "text")

    def __init__(self, placement: Placement, affinities: Affinities) -> None:
        self.placement, self.text = placement, encoded_placement(placement)
        self.groups: Sequence[Group] = _groups(placement, affinities)
        self.steps = AFFINITY_STEPS * sum(1 + len(group.overflow or ()) for group in self.groups)
        self._shared: dict[Hashable, Column[np.bool_]] = {}

    def shared(self, key: Hashable, make: Callable[[], Column[np.bool_]]) -> Column[np.bool_]:
        """Return a column that is the same for all groups. Make it once, then share it by key."""
        column = self._shared.get(key)
        if column is None:
            if len(self._shared) >= _MAX_SHARED:
                self._shared.clear()
            column = self._shared[key] = make()
        return column

    def group_index(self, name: str) -> int:
        """Return the position of the group with a name, or 0 if there is none."""
        return next((index for index, group in enumerate(self.groups) if group.name == name), 0) if name else 0


def _groups(placement: Placement, affinities: Affinities) -> tuple[Group, ...]:
    single = None if placement.cluster_affinity is None else affinities.column(placement.cluster_affinity)
    if placement.cluster_affinities is None:
        return (Group(None, single),)
    # With both fields set, the scheduler tries the terms, but the single affinity decides which clusters fit.
    if single is not None:
        return tuple(Group(term.affinity_name, single) for term in placement.cluster_affinities)
    groups = []
    for term in placement.cluster_affinities:
        overflow = None if term.overflow_affinities is None else [*map(affinities.column, term.overflow_affinities)]
        groups.append(Group(term.affinity_name, affinities.column(term), overflow))
    return tuple(groups)
