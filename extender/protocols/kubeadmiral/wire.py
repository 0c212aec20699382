"""The requests and responses of KubeAdmiral's scheduler webhook (payload version v1alpha1)."""

from berthmaster.model.kubeadmiral.clusters import FederatedClusterResources, FederatedClusterSpec
from berthmaster.model.kubeadmiral.policies import ClusterSelectorTerm
from berthmaster.model.meta import Int64, ObjectMeta, Value
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Toleration


class PlacementPreferences(Value, frozen=True):
    """The limits and the weight of a cluster. KubeAdmiral never sends a priority."""

    min_replicas: Int64 = 0
    max_replicas: Int64 | None = None
    weight: Int64 | None = None


class ClusterPlacement(Value, frozen=True):
    """A cluster of the policy's placement list."""

    cluster: str
    preferences: PlacementPreferences = PlacementPreferences()


class PluginSchedulingUnit(Value, frozen=True):
    """The object to schedule. ``desired_replicas`` is set in mode Divide only. Lists are in random order."""

    api_version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    scheduling_mode: str = ""
    desired_replicas: Int64 | None = None
    resource_request: dict[str, Quantity] = {}
    current_clusters: tuple[str, ...] = ()
    current_replica_distribution: dict[str, Int64] = {}
    cluster_selector: dict[str, str] = {}
    cluster_affinity: tuple[ClusterSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: Int64 | None = None
    placements: tuple[ClusterPlacement, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class MemberStatus(Value, frozen=True):
    """The part of a cluster's status that groups use."""

    resources: FederatedClusterResources = FederatedClusterResources()


class Member(Value, frozen=True):
    """The part of a FederatedCluster that groups use. The hundreds of resource kinds are not decoded."""

    metadata: ObjectMeta
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: MemberStatus = MemberStatus()


class ClusterRequest(Value, frozen=True):
    """A filter or score request: one cluster."""

    scheduling_unit: PluginSchedulingUnit
    cluster: Member


class ClusterScore(Value, frozen=True):
    """A cluster with the sum of its scores."""

    cluster: Member
    score: Int64 = 0


class SelectRequest(Value, frozen=True):
    """A select request: all remaining clusters. The list is required: an absent list must not select nothing."""

    scheduling_unit: PluginSchedulingUnit
    cluster_scores: tuple[ClusterScore, ...]


class FilterResponse(Value, frozen=True, omit_defaults=False):
    """Whether the cluster may be selected. An error rejects it."""

    selected: bool
    error: str = ""


class ScoreResponse(Value, frozen=True, omit_defaults=False):
    """The score of the cluster. KubeAdmiral requires an integer literal, and scales the best score to 100."""

    score: int
    error: str = ""


class SelectResponse(Value, frozen=True, omit_defaults=False):
    """The selected clusters, the best first. An empty list places nothing; an error changes nothing."""

    selected_cluster_names: list[str]
    error: str = ""
