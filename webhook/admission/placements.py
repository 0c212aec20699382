"""What a placement asks for, as rules and checks need to know it."""

from berthmaster.model.affinity import ClusterAffinity


def matches_every_cluster(affinity: ClusterAffinity) -> bool:
    """Return whether an affinity has no conditions."""
    selects = affinity.label_selector is not None or affinity.field_selector is not None
    return not (selects or affinity.cluster_names or affinity.exclude)


def named_clusters(affinity: ClusterAffinity) -> frozenset[str] | None:
    """Return the only clusters that an affinity can match; None if it does not list names."""
    return frozenset(affinity.cluster_names) - frozenset(affinity.exclude) if affinity.cluster_names else None
