"""Which clusters an affinity of a placement selects."""

from collections.abc import Sequence

from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import Value
from berthmaster.model.selector import (
    NODE_OPERATORS,
    LabelSelector,
    Requirement,
    SelectorRequirement,
    parse_requirements,
)

ZONE = "zone"


class FieldSelector(Value, frozen=True):
    """Expressions over a cluster's provider, region and zone."""

    match_expressions: tuple[SelectorRequirement, ...] = ()


class ClusterAffinity(Value, frozen=True):
    """The clusters that a workload may run on. Every part that is set must hold."""

    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class NamedAffinity(ClusterAffinity, frozen=True, kw_only=True):
    """A named affinity: an entry of ``overflowAffinities``."""

    affinity_name: str


class ClusterAffinityTerm(NamedAffinity, frozen=True, kw_only=True):
    """A group of clusters. Groups are tried in order; ``overflow_affinities`` extend a full group, in order."""

    overflow_affinities: tuple[NamedAffinity, ...] | None = None


class AffinityTerm:
    """A compiled affinity (karmada ``util.ClusterMatches``).

    Attributes:
        names: the clusters that it names; empty means any.
        fields: requirements on provider and region, evaluated like labels.
        zones: requirements on zones, evaluated on the whole list.
    """

    __slots__ = ("_texts", "excluded", "fields", "invalid", "labels", "names", "zones")

    def __init__(self, affinity: ClusterAffinity) -> None:
        labels: Sequence[Requirement] | None = ()
        if affinity.label_selector is not None:
            labels = affinity.label_selector.requirements()
        expressions = affinity.field_selector.match_expressions if affinity.field_selector is not None else ()
        fields = parse_requirements((each for each in expressions if each.key != ZONE), NODE_OPERATORS)
        # The rules for label values do not apply to zones.
        zones = [
            Requirement(each.key, each.operator, frozenset(each.values)) for each in expressions if each.key == ZONE
        ]
        self.names = frozenset(affinity.cluster_names)
        self.excluded = frozenset(affinity.exclude)
        self.invalid = labels is None or fields is None
        self.labels = tuple(labels or ())
        self.fields = tuple(fields or ())
        self.zones = tuple(zones)
        self._texts: dict[int, str] = {}

    def matches(self, cluster: Cluster) -> bool:
        return self.mismatch(cluster) is None

    def mismatch(self, cluster: Cluster) -> str | None:
        """Describe the first part of the affinity that a cluster does not satisfy; None if the cluster matches."""
        if cluster.name in self.excluded:
            return "is excluded by name"
        if self.invalid:
            return "the affinity has an invalid selector, which matches no cluster"
        for requirement in self.labels:
            if not requirement.matches(cluster.metadata.labels):
                actual = _actual(requirement.key, cluster.metadata.labels)
                return f"label {self._text(requirement)} does not match ({actual})"
        for requirement in self.zones:
            if not zones_match(requirement, cluster.spec.zones):
                zones = ", ".join(cluster.spec.zones) or "not set"
                return f"field {self._text(requirement)} does not match (zones are {zones})"
        fields = cluster.fields() if self.fields else {}
        for requirement in self.fields:
            if not requirement.matches(fields):
                return f"field {self._text(requirement)} does not match ({_actual(requirement.key, fields)})"
        return None if not self.names or cluster.name in self.names else "is not among the named clusters"

    def _text(self, requirement: Requirement) -> str:
        """Return the text of a requirement of this term. It is made once: the values are many, and so are clusters."""
        text = self._texts.get(id(requirement))
        if text is None:
            text = self._texts[id(requirement)] = str(requirement)
        return text


def zones_match(requirement: Requirement, zones: Sequence[str]) -> bool:
    """Return whether the zones of a cluster satisfy an expression (karmada ``matchZones``)."""
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
