"""What a placement asks for, as rules and checks need to know it."""

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.placement import ReplicaSchedulingStrategy


def matches_every_cluster(affinity: ClusterAffinity) -> bool:
    """Return whether an affinity has no conditions."""
    selects = affinity.label_selector is not None or affinity.field_selector is not None
    return not (selects or affinity.cluster_names or affinity.exclude)


def named_clusters(affinity: ClusterAffinity) -> frozenset[str] | None:
    """Return the only clusters that an affinity can match; None if it does not list names."""
    return frozenset(affinity.cluster_names) - frozenset(affinity.exclude) if affinity.cluster_names else None


def divides_by_static_weight(strategy: ReplicaSchedulingStrategy | None) -> bool:
    """Return whether the scheduler divides by static weights, and so ignores spread constraints."""
    if strategy is None or not _is_divided(strategy, "Weighted"):
        return False
    weights = strategy.weight_preference
    return weights is None or (bool(weights.static_weight_list) and not weights.dynamic_weight)


def allows_overflow(strategy: ReplicaSchedulingStrategy | None) -> bool:
    """Return whether replicas are divided by available replicas, which overflow affinities need."""
    if strategy is None:
        return False
    weights = strategy.weight_preference
    dynamic = weights is not None and bool(weights.dynamic_weight)
    return _is_divided(strategy, "Aggregated") or (_is_divided(strategy, "Weighted") and dynamic)


def _is_divided(strategy: ReplicaSchedulingStrategy, preference: str) -> bool:
    return strategy.replica_scheduling_type == "Divided" and strategy.replica_division_preference == preference
