"""What a policy asks."""

from collections.abc import Sequence
from typing import Literal

from berthmaster.model.cluster import Cluster, Toleration
from berthmaster.model.meta import Int64, Value
from berthmaster.model.selector import (
    NODE_OPERATORS,
    LabelSelector,
    Requirement,
    SelectorRequirement,
    parse_requirements,
)


class FieldSelector(Value, frozen=True):
    """Expressions over a cluster's provider, region and zone."""

    match_expressions: tuple[SelectorRequirement, ...] = ()


class ClusterAffinity(Value, frozen=True):
    """Which clusters a workload may go to; every part that is given must hold."""

    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class NamedAffinity(ClusterAffinity, frozen=True, kw_only=True):
    """An affinity with a name: an entry of ``overflowAffinities``."""

    affinity_name: str


class ClusterAffinityTerm(NamedAffinity, frozen=True, kw_only=True):
    """A group of clusters, tried in its turn. ``overflow_affinities`` widen it, in order, once it is full."""

    overflow_affinities: tuple[NamedAffinity, ...] | None = None


class StaticClusterWeight(Value, frozen=True):
    """How much a cluster that matches weighs."""

    target_cluster: ClusterAffinity
    weight: Int64


class ClusterPreferences(Value, frozen=True):
    """How weighted division gets its weights."""

    static_weight_list: tuple[StaticClusterWeight, ...] = ()
    dynamic_weight: Literal["AvailableReplicas", ""] = ""


class ReplicaSchedulingStrategy(Value, frozen=True):
    """How replicas are spread over the selected clusters."""

    replica_scheduling_type: Literal["Duplicated", "Divided", ""] = ""
    replica_division_preference: Literal["Aggregated", "Weighted", ""] = ""
    weight_preference: ClusterPreferences | None = None


class SpreadConstraint(Value, frozen=True):
    """Over how many groups of clusters a workload goes. ``max_groups`` 0 is what Karmada makes of an absent one."""

    spread_by_field: Literal["cluster", "region", "zone", "provider", ""] = ""
    spread_by_label: str = ""
    max_groups: Int64 = 0
    min_groups: Int64 = 0


class WorkloadAffinityTerm(Value, frozen=True):
    """Workloads with the same value of this label form a group."""

    group_by_label_key: str


class WorkloadAffinity(Value, frozen=True):
    """Keep workloads of a group together, or apart."""

    affinity: WorkloadAffinityTerm | None = None
    anti_affinity: WorkloadAffinityTerm | None = None


class Placement(Value, frozen=True):
    """What a policy asks. An absent ``cluster_affinities`` and an empty one differ, as they do in Karmada."""

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: tuple[ClusterAffinityTerm, ...] | None = None
    cluster_tolerations: tuple[Toleration, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    replica_scheduling: ReplicaSchedulingStrategy | None = None
    workload_affinity: WorkloadAffinity | None = None


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
