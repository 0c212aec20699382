"""The control planes that place workloads: what they call their own, and what their objects are to a scheduler."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.kubeadmiral.clusters import FederatedCluster, as_cluster


class Role(Enum):
    """What the objects of a kind are to a scheduler."""

    CLUSTER = auto()
    POLICY = auto()
    PROFILE = auto()
    """The plugins that schedule the workloads of policies that name it."""
    TAINT_POLICY = auto()
    OVERRIDE = auto()
    """What changes copies. Some set replicas."""
    BINDING = auto()
    """A workload, and the clusters that it is assigned to."""
    INTERPRETER = auto()
    """What reads the replicas of custom resources."""


class PlaneKind(NamedTuple):
    api_version: str
    kind: str
    role: Role

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]


class ControlPlane(NamedTuple):
    """A control plane.

    Attributes:
        domain: the domain of its API groups, and of its labels and annotations.
        kinds: its kinds by API group, as ``kinds`` lists them.
        read: the kinds that decisions depend on. The first one is that of clusters.
        decoded_cluster: decodes a cluster; raises ``FieldError``.
        template_annotations: the annotations that hold a part of the template, or values of overrides.
        binds_templates: whether its bindings hold the templates of their workloads.
    """

    name: str
    domain: str
    kinds: Mapping[str, str]
    read: tuple[PlaneKind, ...]
    decoded_cluster: Callable[[bytes], Cluster]
    template_annotations: tuple[str, ...]
    binds_templates: bool

    @property
    def cluster(self) -> PlaneKind:
        """The kind of its clusters."""
        return self.read[0]

    @property
    def clusters(self) -> str:
        """The plural of that kind, as in paths of the API."""
        return f"{self.cluster.kind.lower()}s"


KARMADA: Final = ControlPlane(
    "Karmada",
    "karmada.io",
    {
        "cluster.karmada.io": "*Cluster/clusters",
        "policy.karmada.io": """
            *ClusterOverridePolicy/clusteroverridepolicies/cop
            *ClusterPropagationPolicy/clusterpropagationpolicies/cpp *ClusterTaintPolicy
            FederatedResourceQuota/federatedresourcequotas OverridePolicy/overridepolicies/op
            PropagationPolicy/propagationpolicies/pp""",
        "work.karmada.io": """
            *ClusterResourceBinding/clusterresourcebindings/crb ResourceBinding/resourcebindings/rb Work/works/wk""",
        "apps.karmada.io": "*WorkloadRebalancer/workloadrebalancers",
        "config.karmada.io": """
            *ResourceInterpreterCustomization/resourceinterpretercustomizations/ric
            *ResourceInterpreterWebhookConfiguration""",
        "remedy.karmada.io": "*Remedy",
        "search.karmada.io": "*ResourceRegistry",
        "autoscaling.karmada.io": "CronFederatedHPA FederatedHPA",
        "networking.karmada.io": "MultiClusterIngress MultiClusterService",
        "operator.karmada.io": "Karmada",
    },
    (
        PlaneKind("cluster.karmada.io/v1alpha1", "Cluster", Role.CLUSTER),
        PlaneKind("policy.karmada.io/v1alpha1", "PropagationPolicy", Role.POLICY),
        PlaneKind("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", Role.POLICY),
        PlaneKind("policy.karmada.io/v1alpha1", "ClusterTaintPolicy", Role.TAINT_POLICY),
        PlaneKind("policy.karmada.io/v1alpha1", "OverridePolicy", Role.OVERRIDE),
        PlaneKind("policy.karmada.io/v1alpha1", "ClusterOverridePolicy", Role.OVERRIDE),
        PlaneKind("work.karmada.io/v1alpha2", "ResourceBinding", Role.BINDING),
        PlaneKind("work.karmada.io/v1alpha2", "ClusterResourceBinding", Role.BINDING),
        PlaneKind("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", Role.INTERPRETER),
        PlaneKind("config.karmada.io/v1alpha1", "ResourceInterpreterWebhookConfiguration", Role.INTERPRETER),
    ),
    lambda raw: decode_json(Cluster, raw),
    ("policy.karmada.io/applied-overrides", "policy.karmada.io/applied-cluster-overrides"),
    binds_templates=False,
)
KUBEADMIRAL: Final = ControlPlane(
    "KubeAdmiral",
    "kubeadmiral.io",
    {
        "core.kubeadmiral.io": """
            *ClusterCollectedStatus *ClusterFederatedObject/clusterfederatedobjects/cfo *ClusterOverridePolicy
            *ClusterPropagatedVersion *ClusterPropagationPolicy *FederatedCluster/federatedclusters/fcluster
            *FederatedTypeConfig *SchedulerPluginWebhookConfiguration *SchedulingProfile/schedulingprofiles/sp
            CollectedStatus FederatedObject/federatedobjects/fo OverridePolicy PropagatedVersion PropagationPolicy""",
    },
    (
        PlaneKind("core.kubeadmiral.io/v1alpha1", "FederatedCluster", Role.CLUSTER),
        PlaneKind("core.kubeadmiral.io/v1alpha1", "PropagationPolicy", Role.POLICY),
        PlaneKind("core.kubeadmiral.io/v1alpha1", "ClusterPropagationPolicy", Role.POLICY),
        PlaneKind("core.kubeadmiral.io/v1alpha1", "SchedulingProfile", Role.PROFILE),
        PlaneKind("core.kubeadmiral.io/v1alpha1", "FederatedObject", Role.BINDING),
        PlaneKind("core.kubeadmiral.io/v1alpha1", "ClusterFederatedObject", Role.BINDING),
    ),
    lambda raw: as_cluster(decode_json(FederatedCluster, raw)),
    ("kubeadmiral.io/template-generator-merge-patch",),
    binds_templates=True,
)
CONTROL_PLANES: Final = (KARMADA, KUBEADMIRAL)
DOMAINS: Final = tuple(each.domain for each in CONTROL_PLANES)
CLUSTER_KINDS: Final = frozenset((each.cluster.group, each.cluster.kind) for each in CONTROL_PLANES)
"""The kinds of clusters, with their API groups."""


def is_owned(key: str, domains: Iterable[str] = DOMAINS) -> bool:
    """Return whether the prefix of a label or an annotation is one of the domains, or below one."""
    prefix = key.partition("/")[0]
    return any(prefix == each or prefix.endswith(f".{each}") for each in domains)
