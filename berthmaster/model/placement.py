"""What a policy of Karmada asks for: clusters, spread, and the division of replicas."""

from typing import Literal

from berthmaster.model.affinity import ClusterAffinity, ClusterAffinityTerm
from berthmaster.model.meta import Int64, Value
from berthmaster.model.taint import Toleration


class StaticClusterWeight(Value, frozen=True):
    """The weight of the clusters that match."""

    target_cluster: ClusterAffinity
    weight: Int64


class ClusterPreferences(Value, frozen=True):
    """The source of the weights of weighted division."""

    static_weight_list: tuple[StaticClusterWeight, ...] = ()
    dynamic_weight: Literal["AvailableReplicas", ""] = ""


class ReplicaSchedulingStrategy(Value, frozen=True):
    """How replicas are distributed over the selected clusters."""

    replica_scheduling_type: Literal["Duplicated", "Divided", ""] = ""
    replica_division_preference: Literal["Aggregated", "Weighted", ""] = ""
    weight_preference: ClusterPreferences | None = None


class SpreadConstraint(Value, frozen=True):
    """The number of cluster groups that a workload spreads over. As in Karmada, an absent ``max_groups`` is 0."""

    spread_by_field: Literal["cluster", "region", "zone", "provider", ""] = ""
    spread_by_label: str = ""
    max_groups: Int64 = 0
    min_groups: Int64 = 0


class WorkloadAffinityTerm(Value, frozen=True):
    """The label whose value puts workloads into a group."""

    group_by_label_key: str


class WorkloadAffinity(Value, frozen=True):
    """Keep the workloads of a group on the same clusters, or on different ones."""

    affinity: WorkloadAffinityTerm | None = None
    anti_affinity: WorkloadAffinityTerm | None = None


class Placement(Value, frozen=True):
    """What a policy asks for. As in Karmada, an absent ``cluster_affinities`` differs from an empty one."""

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: tuple[ClusterAffinityTerm, ...] | None = None
    cluster_tolerations: tuple[Toleration, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    replica_scheduling: ReplicaSchedulingStrategy | None = None
    workload_affinity: WorkloadAffinity | None = None

    @property
    def divides(self) -> bool:
        """Whether clusters share the replicas of a workload. Otherwise each has all of them."""
        scheduling = self.replica_scheduling
        return scheduling is not None and scheduling.replica_scheduling_type == "Divided"

    def group(self, name: str) -> ClusterAffinityTerm | None:
        """Return the first group with a name; None if there is none."""
        return next((each for each in self.cluster_affinities or () if each.affinity_name == name), None)
