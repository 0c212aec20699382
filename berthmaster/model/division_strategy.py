"""The strategy by which a placement divides replicas."""

from enum import Enum

from berthmaster.model.placement import ReplicaSchedulingStrategy


class Strategy(Enum):
    """How a placement divides replicas, in the words of its API."""

    DUPLICATED = "Duplicated"
    STATIC_WEIGHT = "StaticWeight"
    DYNAMIC_WEIGHT = "DynamicWeight"
    AGGREGATED = "Aggregated"
    UNKNOWN = "unknown"

    @property
    def by_capacity(self) -> bool:
        """Whether the replicas that clusters have available decide. Only then may a policy have overflow."""
        return self in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}


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


def ignores_constraints(scheduling: ReplicaSchedulingStrategy | None) -> bool:
    """Return whether static weights disable spread constraints. An empty weight preference does not."""
    if strategy_of(scheduling) is not Strategy.STATIC_WEIGHT or scheduling is None:
        return False
    return scheduling.weight_preference is None or bool(scheduling.weight_preference.static_weight_list)
