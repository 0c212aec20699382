"""What a policy asks: Karmada's Placement, shared by policies and bindings."""

from typing import Literal

from berthmaster.model.base import Int64, Value
from berthmaster.model.selector import LabelSelector, SelectorRequirement
from berthmaster.model.taint import Toleration


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
