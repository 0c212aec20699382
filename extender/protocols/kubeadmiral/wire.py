"""The payloads of KubeAdmiral's scheduler webhook (``pkg/apis/schedulerwebhook/v1alpha1``)."""

from berthmaster.model.cluster import Toleration
from berthmaster.model.kubeadmiral import ClusterSelectorTerm, FederatedClusterResources, FederatedClusterSpec
from berthmaster.model.meta import Int64, ObjectMeta, Value
from berthmaster.model.quantity import Quantity


class PlacementPreferences(Value, frozen=True):
    """Bounds and weight of a cluster. KubeAdmiral never fills in a priority."""

    min_replicas: Int64 = 0
    max_replicas: Int64 | None = None
    weight: Int64 | None = None


class Placement(Value, frozen=True):
    """A cluster that the policy lists."""

    cluster: str
    preferences: PlacementPreferences = PlacementPreferences()


class SchedulingUnit(Value, frozen=True):
    """The object. ``desired_replicas`` is there in Divide mode only; lists come in random order."""

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
    placements: tuple[Placement, ...] = ()


class MemberStatus(Value, frozen=True):
    """What groups look at of what a cluster reports."""

    resources: FederatedClusterResources = FederatedClusterResources()


class Member(Value, frozen=True):
    """A FederatedCluster, without what only KubeAdmiral's own filters ask about: hundreds of kinds among it."""

    metadata: ObjectMeta
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: MemberStatus = MemberStatus()


class ClusterRequest(Value, frozen=True):
    """What filter and score are asked: one cluster."""

    scheduling_unit: SchedulingUnit
    cluster: Member


class ClusterScore(Value, frozen=True):
    """A cluster with the sum of its scores."""

    cluster: Member
    score: Int64 = 0


class SelectRequest(Value, frozen=True):
    """What select is asked: all clusters that are left. The list is always sent: to miss it must not select nothing."""

    scheduling_unit: SchedulingUnit
    cluster_scores: tuple[ClusterScore, ...]


class FilterResponse(Value, frozen=True, omit_defaults=False):
    """Whether the cluster may be chosen; an error counts as no."""

    selected: bool
    error: str = ""


class ScoreResponse(Value, frozen=True, omit_defaults=False):
    """How good the cluster is: an integer literal, which KubeAdmiral scales so that the best gets 100."""

    score: int
    error: str = ""


class SelectResponse(Value, frozen=True, omit_defaults=False):
    """The clusters, the best first. None at all means "place nowhere"; an error leaves everything as it is."""

    selected_cluster_names: list[str]
    error: str = ""
