"""A placement compiled for one fleet: its groups of clusters, and the replica strategy that it names."""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import Any, Final

import numpy as np

from berthmaster.model.decode import encode_json
from berthmaster.model.policy import (
    AffinityTerm,
    ClusterAffinity,
    ClusterAffinityTerm,
    Placement,
    ReplicaSchedulingStrategy,
)
from berthmaster.model.selector import LABEL_OPERATORS, Requirement
from berthmaster.scheduling.columns import (
    AFFINITY_STEPS,
    BYTES_OF_JSON,
    BoolArray,
    BoundedCache,
    Column,
    IntArray,
    column_steps,
)
from berthmaster.scheduling.fleet import Fleet

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
        for requirement in term.labels:
            mask &= fleet.labels.matching(requirement, length)
        for requirement in term.fields:
            mask &= fleet.fields.matching(requirement, length)
        for requirement in term.zones:
            mask &= self._zones_matching(requirement, length)
        mask[[fleet.row_of[name] for name in term.excluded if name in fleet.row_of]] = False
        return mask

    def compute_row(self, row: int) -> bool:
        cluster = self._fleet.clusters[row]
        return cluster is not None and self.term.matches(cluster)

    def steps(self, rows: int) -> int:
        fleet, term = self._fleet, self.term
        steps = column_steps(rows) + _NAME_STEPS * (len(term.names) + len(term.excluded))
        for index, requirements in (
            (fleet.labels, term.labels),
            (fleet.fields, term.fields),
            (fleet.zones, term.zones),
        ):
            for each in requirements:
                steps += index.steps(each, rows)
        return steps

    def _zones_matching(self, requirement: Requirement, length: int) -> BoolArray:
        """Match nothing for an operator that zones do not support. Stored objects may have any operator and values."""
        if requirement.operator not in LABEL_OPERATORS:
            return np.zeros(length, dtype=np.bool_)
        return self._fleet.zones.matching(requirement, length)


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
    """

    __slots__ = ("_shared", "groups", "placement", "steps")

    def __init__(self, placement: Placement, affinities: Affinities) -> None:
        self.placement = placement
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


class Strategy(Enum):
    """How a placement divides replicas, in the words of its API."""

    DUPLICATED = "Duplicated"
    STATIC_WEIGHT = "StaticWeight"
    DYNAMIC_WEIGHT = "DynamicWeight"
    AGGREGATED = "Aggregated"
    UNKNOWN = "unknown"


def strategy_of(scheduling: ReplicaSchedulingStrategy | None) -> Strategy:
    """Return the strategy that a placement names (karmada ``newAssignState``)."""
    if scheduling is None or scheduling.replica_scheduling_type == "Duplicated":
        return Strategy.DUPLICATED
    if scheduling.replica_scheduling_type != "Divided":
        return Strategy.UNKNOWN
    if scheduling.replica_division_preference == "Aggregated":
        return Strategy.AGGREGATED
    if scheduling.replica_division_preference != "Weighted":
        return Strategy.UNKNOWN
    preference = scheduling.weight_preference
    return Strategy.DYNAMIC_WEIGHT if preference and preference.dynamic_weight else Strategy.STATIC_WEIGHT


def _groups(placement: Placement, affinities: Affinities) -> tuple[Group, ...]:
    single = None if placement.cluster_affinity is None else affinities.column(placement.cluster_affinity)
    if placement.cluster_affinities is None:
        return (Group(None, single),)
    # With both fields set, the scheduler tries the terms, but the single affinity decides which clusters fit.
    return tuple(
        _group(term, affinities) if single is None else Group(term.affinity_name, single)
        for term in placement.cluster_affinities
    )


def _group(term: ClusterAffinityTerm, affinities: Affinities) -> Group:
    overflow = term.overflow_affinities
    return Group(
        term.affinity_name,
        affinities.column(term),
        None if overflow is None else [affinities.column(each) for each in overflow],
    )
