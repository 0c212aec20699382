"""A placement taken apart once: the groups of clusters that the walk goes over, and the strategy it names."""

from collections.abc import Sequence
from enum import Enum

from berthmaster.model.placement import ClusterAffinityTerm, Placement, ReplicaSchedulingStrategy
from berthmaster.scheduling.group import Affinities, Group


class Strategy(Enum):
    """How a placement wants replicas assigned, as its API says it; triggers and estimators ask, too."""

    DUPLICATED = "Duplicated"
    STATIC_WEIGHT = "StaticWeight"
    DYNAMIC_WEIGHT = "DynamicWeight"
    AGGREGATED = "Aggregated"
    UNKNOWN = "unknown"


class Plan:
    """What a placement means on one fleet, whichever profile reads it. Profiles add to it what only they ask.

    Attributes:
        placement: what it was made of.
        groups: in the order of the walk. A placement without ``clusterAffinities`` has one, nameless; an empty list
            has none.
    """

    __slots__ = ("groups", "placement")

    def __init__(self, placement: Placement, affinities: Affinities) -> None:
        self.placement = placement
        self.groups: Sequence[Group] = _groups(placement, affinities)

    def group_index(self, name: str) -> int:
        """Where the group of that name stands; 0 for none of that name."""
        return next((index for index, group in enumerate(self.groups) if group.name == name), 0) if name else 0


def strategy_of(scheduling: ReplicaSchedulingStrategy | None) -> Strategy:
    """The strategy that a placement asks for (karmada ``newAssignState``)."""
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
    # With both given the walk goes over the terms, but the single affinity decides which clusters fit.
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
