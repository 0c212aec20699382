"""Known kinds and their scopes.

The table holds what API discovery returns for Kubernetes, Karmada and KubeAdmiral, for commands that read files only.
"""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from berthmaster.model.control_planes import CONTROL_PLANES

_KINDS: Final[Mapping[str, str]] = {
    "": """
        *ComponentStatus *~Namespace/namespaces/ns *Node/nodes/no *~PersistentVolume/persistentvolumes/pv
        Binding ~ConfigMap/configmaps/cm ~Endpoints/endpoints/ep Event ~LimitRange/limitranges/limits
        ~PersistentVolumeClaim/persistentvolumeclaims/pvc Pod/pods/po PodTemplate
        ReplicationController/replicationcontrollers/rc ~ResourceQuota/resourcequotas/quota ~Secret/secrets
        ~Service/services/svc ~ServiceAccount/serviceaccounts/sa""",
    "apps": """
        ControllerRevision/controllerrevisions DaemonSet/daemonsets/ds Deployment/deployments/deploy
        ReplicaSet/replicasets/rs StatefulSet/statefulsets/sts""",
    "batch": "CronJob/cronjobs/cj Job/jobs",
    "autoscaling": "HorizontalPodAutoscaler/horizontalpodautoscalers/hpa",
    "networking.k8s.io": """
        *IPAddress *~IngressClass/ingressclasses *ServiceCIDR Ingress/ingresses/ing
        ~NetworkPolicy/networkpolicies/netpol""",
    "policy": "*PodSecurityPolicy ~PodDisruptionBudget/poddisruptionbudgets/pdb",
    "rbac.authorization.k8s.io": """
        *~ClusterRole/clusterroles *~ClusterRoleBinding/clusterrolebindings ~Role/roles
        ~RoleBinding/rolebindings""",
    "scheduling.k8s.io": "*~PriorityClass/priorityclasses/pc",
    "storage.k8s.io": """
        *CSIDriver *CSINode *~StorageClass/storageclasses/sc *VolumeAttachment *VolumeAttributesClass
        CSIStorageCapacity""",
    "apiextensions.k8s.io": "*~CustomResourceDefinition/customresourcedefinitions/crd/crds",
    "admissionregistration.k8s.io": """
        *MutatingAdmissionPolicy *MutatingAdmissionPolicyBinding *~MutatingWebhookConfiguration
        *ValidatingAdmissionPolicy *ValidatingAdmissionPolicyBinding *~ValidatingWebhookConfiguration""",
    "apiregistration.k8s.io": "*APIService",
    "authentication.k8s.io": "*SelfSubjectReview *TokenReview",
    "authorization.k8s.io": """
        *SelfSubjectAccessReview *SelfSubjectRulesReview *SubjectAccessReview LocalSubjectAccessReview""",
    "certificates.k8s.io": "*CertificateSigningRequest *ClusterTrustBundle PodCertificateRequest",
    "flowcontrol.apiserver.k8s.io": "*FlowSchema *PriorityLevelConfiguration",
    "internal.apiserver.k8s.io": "*StorageVersion",
    "node.k8s.io": "*RuntimeClass",
    "resource.k8s.io": "*DeviceClass *DeviceTaintRule *ResourceSlice ResourceClaim ResourceClaimTemplate",
    "storagemigration.k8s.io": "*StorageVersionMigration",
    "coordination.k8s.io": "Lease LeaseCandidate",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    **{group: kinds for plane in CONTROL_PLANES for group, kinds in plane.kinds.items()},
}
"""The kinds of each group. ``*`` marks a cluster-scoped kind. ``~`` marks a kind of which decisions read only the
metadata: it has no replicas, and nothing that it depends on is propagated with it. The plural and the short names that
people write follow."""
_SERVING_GROUPS: Final = frozenset({"gateway.networking.k8s.io", "multicluster.x-k8s.io", "networking.istio.io"})
_SERVING_KINDS: Final = frozenset({("networking.k8s.io", "Ingress"), ("autoscaling", "HorizontalPodAutoscaler")})
"""What sends requests to workloads, exports them to other clusters, or scales them."""


class Scope(Enum):
    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


class KnownKind(NamedTuple):
    """A kind of the table.

    Attributes:
        names: the plural and the short names; empty if few people write them.
        metadata_suffices: whether decisions read only the metadata of its objects.
    """

    group: str
    kind: str
    scope: Scope
    names: tuple[str, ...]
    metadata_suffices: bool

    @classmethod
    def read(cls, group: str, entry: str) -> "KnownKind":
        """Read an entry of the table, such as ``*~Namespace/namespaces/ns``."""
        kind, *names = entry.lstrip("*~").split("/")
        scope = Scope.CLUSTER if entry.startswith("*") else Scope.NAMESPACED
        return cls(group, kind, scope, tuple(names), "~" in entry)


KNOWN_KINDS: Final = tuple(KnownKind.read(group, each) for group, kinds in _KINDS.items() for each in kinds.split())
SCOPES: Final = {(each.group, each.kind): each.scope for each in KNOWN_KINDS}
_METADATA_SUFFICES: Final = frozenset((each.group, each.kind) for each in KNOWN_KINDS if each.metadata_suffices)


@lru_cache(maxsize=1024)
def group_of(api_version: str) -> str:
    """Return the API group of an ``apiVersion``; empty for the core group."""
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


def scope_of(api_version: str, kind: str) -> Scope | None:
    """Return the scope of a Kubernetes, Karmada or KubeAdmiral kind in any version; None for other kinds."""
    return scope_of_group(group_of(api_version), kind)


def scope_of_group(group: str, kind: str) -> Scope | None:
    """Return the scope of a kind by its API group, as ``scope_of``."""
    return SCOPES.get((group, kind))


def is_namespaced(api_version: str, kind: str) -> bool:
    """Return whether a kind is namespaced. Unknown kinds count as namespaced, as most custom resources are."""
    return scope_of(api_version, kind) is not Scope.CLUSTER


def metadata_suffices(api_version: str, kind: str) -> bool:
    """Return whether a decision depends on nothing but the metadata of the objects of a kind."""
    return (group_of(api_version), kind) in _METADATA_SUFFICES


def serves_workloads(api_version: str, kind: str) -> bool:
    """Return whether objects of a kind run nothing, and workloads of their namespace may need them in their cluster."""
    group = group_of(api_version)
    return metadata_suffices(api_version, kind) or group in _SERVING_GROUPS or (group, kind) in _SERVING_KINDS
