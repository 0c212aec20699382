"""A placement taken apart once: its groups, how to select and how to assign."""

from enum import Enum
from functools import reduce

import numpy as np

from extender.scheduling.columns import Column, IntArray, Journal
from extender.scheduling.fleet import Fleet
from extender.scheduling.group import Affinities, AffinityColumn, Group
from fleet.model.cluster import Cluster
from fleet.model.placement import ClusterAffinityTerm, Placement, ReplicaSchedulingStrategy, SpreadConstraint


class Strategy(Enum):
    """How replicas are assigned to the selected clusters."""

    DUPLICATED = "Duplicated"
    STATIC_WEIGHT = "StaticWeight"
    DYNAMIC_WEIGHT = "DynamicWeight"
    AGGREGATED = "Aggregated"
    UNKNOWN = "unknown"


class Plan:
    """What a placement means on one fleet.

    Attributes:
        placement: what it was made of.
        groups: in the order of the walk. A placement without ``clusterAffinities`` has one, nameless; an empty list
            has none.
        strategy: how replicas are assigned.
        weights: the static weight of each row; None where every cluster weighs the same.
        constrained: selection obeys the spread constraints; otherwise it takes every cluster that fits.
        spread: the last constraint for each field, the empty one for a constraint by label.
    """

    __slots__ = ("constrained", "groups", "placement", "spread", "strategy", "weights")

    def __init__(self, placement: Placement, fleet: Fleet, affinities: Affinities) -> None:
        self.placement = placement
        self.groups = _groups(placement, affinities)
        self.strategy = strategy_of(placement.replica_scheduling)
        self.weights = _static_weights(placement.replica_scheduling, fleet, affinities)
        self.constrained = bool(placement.spread_constraints) and not _ignores_constraints(placement.replica_scheduling)
        self.spread: dict[str, SpreadConstraint] = {
            constraint.spread_by_field: constraint for constraint in placement.spread_constraints
        }

    def group_index(self, name: str) -> int:
        """Where the group of that name stands; 0 for none of that name."""
        return next((index for index, group in enumerate(self.groups) if group.name == name), 0) if name else 0


class StaticWeights(Column[np.int64]):
    """The static weight of each row: the largest of the rules that mean it, 0 for none."""

    __slots__ = ("_rules",)

    def __init__(self, journal: Journal, rules: list[tuple[AffinityColumn, int]]) -> None:
        super().__init__(journal)
        self._rules = rules

    def compute(self) -> IntArray:
        """All rows."""
        weights = [np.where(column.current(), np.int64(weight), np.int64(0)) for column, weight in self._rules]
        return reduce(np.maximum, weights)

    def compute_row(self, row: int) -> int:
        """One row."""
        return max(weight if column.current()[row] else 0 for column, weight in self._rules)

    def weight_of(self, cluster: Cluster) -> int:
        """The weight of a cluster, be it in the fleet or not."""
        return max(weight if column.term.matches(cluster) else 0 for column, weight in self._rules)


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


def _ignores_constraints(scheduling: ReplicaSchedulingStrategy | None) -> bool:
    """Whether static weights rule spread constraints out; a weight preference without any content does not."""
    if strategy_of(scheduling) is not Strategy.STATIC_WEIGHT or scheduling is None:
        return False
    return scheduling.weight_preference is None or bool(scheduling.weight_preference.static_weight_list)


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


def _static_weights(
    scheduling: ReplicaSchedulingStrategy | None, fleet: Fleet, affinities: Affinities
) -> StaticWeights | None:
    preference = scheduling.weight_preference if scheduling is not None else None
    if preference is None or not preference.static_weight_list:
        return None
    rules = [(affinities.column(rule.target_cluster), rule.weight) for rule in preference.static_weight_list]
    return StaticWeights(fleet.structure, rules)
