"""Which clusters an affinity means (karmada ``util.ClusterMatches``)."""

from collections.abc import Sequence

from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import ClusterAffinity
from berthmaster.model.selector import NODE_OPERATORS, Requirement, parse_requirements

ZONE = "zone"


class AffinityTerm:
    """An affinity taken apart once, evaluated often.

    Attributes:
        names: the clusters it names; empty means any.
        excluded: the clusters it never means.
        labels: requirements on the cluster's labels.
        fields: requirements on its provider and region, evaluated like labels.
        zones: requirements on its zones, evaluated on the whole list.
        broken: a selector is invalid, so that it means no cluster at all.
    """

    __slots__ = ("broken", "excluded", "fields", "labels", "names", "zones")

    def __init__(self, affinity: ClusterAffinity) -> None:
        labels: Sequence[Requirement] | None = ()
        if affinity.label_selector is not None:
            labels = affinity.label_selector.requirements()
        expressions = affinity.field_selector.match_expressions if affinity.field_selector is not None else ()
        fields = parse_requirements((each for each in expressions if each.key != ZONE), NODE_OPERATORS)
        # Zones are compared as they are: no rule for label values applies to them.
        zones = [
            Requirement(each.key, each.operator, frozenset(each.values)) for each in expressions if each.key == ZONE
        ]
        self.names = frozenset(affinity.cluster_names)
        self.excluded = frozenset(affinity.exclude)
        self.broken = labels is None or fields is None
        self.labels = tuple(labels or ())
        self.fields = tuple(fields or ())
        self.zones = tuple(zones)

    def matches(self, cluster: Cluster) -> bool:
        """Whether the cluster is meant."""
        return self.mismatch(cluster) is None

    def mismatch(self, cluster: Cluster) -> str | None:
        """The first part of the affinity that does not hold for a cluster, in words; None if it is meant."""
        if cluster.name in self.excluded:
            return "is excluded by name"
        if self.broken:
            return "the affinity has an invalid selector, which matches no cluster"
        for requirement in self.labels:
            if not requirement.matches(cluster.metadata.labels):
                return f"label {requirement} does not hold ({_actual(requirement.key, cluster.metadata.labels)})"
        for requirement in self.zones:
            if not zones_match(requirement, cluster.spec.zones):
                return f"field {requirement} does not hold (zones are {', '.join(cluster.spec.zones) or 'not set'})"
        fields = cluster.fields() if self.fields else {}
        for requirement in self.fields:
            if not requirement.matches(fields):
                return f"field {requirement} does not hold ({_actual(requirement.key, fields)})"
        return None if not self.names or cluster.name in self.names else "is not among the named clusters"


def zones_match(requirement: Requirement, zones: Sequence[str]) -> bool:
    """Whether a cluster's list of zones satisfies an expression (karmada ``matchZones``)."""
    match requirement.operator:
        case "In":
            return any(zone in requirement.values for zone in zones)
        case "NotIn":
            return not any(zone in requirement.values for zone in zones)
        case "Exists":
            return bool(zones)
        case "DoesNotExist":
            return not zones
        case _:
            return False


def _actual(key: str, labels: dict[str, str]) -> str:
    return f"it is {labels[key]!r}" if key in labels else "it is not set"
