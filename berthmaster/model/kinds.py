"""Known kinds: which are namespaced, and which Karmada propagates.

Scopes are those that API discovery would return. The rules of propagation are those of Karmada's ``pkg/detector``
with the default flags of karmada-controller-manager.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from typing import Final

from berthmaster.model.errors import FieldError, shown

_CLUSTER_KINDS: Final[Mapping[str, str]] = {
    "": "ComponentStatus Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": """
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration""",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "authentication.k8s.io": "SelfSubjectReview TokenReview",
    "authorization.k8s.io": "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "internal.apiserver.k8s.io": "StorageVersion",
    "networking.k8s.io": "IPAddress IngressClass ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "policy": "PodSecurityPolicy",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass DeviceTaintRule ResourceSlice",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
    "storagemigration.k8s.io": "StorageVersionMigration",
    "apps.karmada.io": "WorkloadRebalancer",
    "cluster.karmada.io": "Cluster",
    "config.karmada.io": "ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration",
    "policy.karmada.io": "ClusterOverridePolicy ClusterPropagationPolicy ClusterTaintPolicy",
    "remedy.karmada.io": "Remedy",
    "search.karmada.io": "ResourceRegistry",
    "work.karmada.io": "ClusterResourceBinding",
    "core.kubeadmiral.io": """
        ClusterCollectedStatus ClusterFederatedObject ClusterOverridePolicy ClusterPropagatedVersion
        ClusterPropagationPolicy FederatedCluster FederatedTypeConfig SchedulerPluginWebhookConfiguration
        SchedulingProfile""",
}
_NAMESPACED_KINDS: Final[Mapping[str, str]] = {
    "": """
        Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate
        ReplicationController ResourceQuota Secret Service ServiceAccount""",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "authorization.k8s.io": "LocalSubjectAccessReview",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "certificates.k8s.io": "PodCertificateRequest",
    "coordination.k8s.io": "Lease LeaseCandidate",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
    "resource.k8s.io": "ResourceClaim ResourceClaimTemplate",
    "storage.k8s.io": "CSIStorageCapacity",
    "autoscaling.karmada.io": "CronFederatedHPA FederatedHPA",
    "networking.karmada.io": "MultiClusterIngress MultiClusterService",
    "operator.karmada.io": "Karmada",
    "policy.karmada.io": "FederatedResourceQuota OverridePolicy PropagationPolicy",
    "work.karmada.io": "ResourceBinding Work",
    "core.kubeadmiral.io": """
        CollectedStatus FederatedObject OverridePolicy PropagatedVersion PropagationPolicy""",
}
_PEER_SUFFIXES: Final = (".karmada.io", ".kubeadmiral.io")
_VERSIONS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("work.karmada.io", "ClusterResourceBinding"): ("v1alpha2", "v1alpha1"),
    ("work.karmada.io", "ResourceBinding"): ("v1alpha2", "v1alpha1"),
}
_ONLY_VERSION: Final = ("v1alpha1",)
"""All other kinds of Karmada and KubeAdmiral have this version."""
_SKIPPED_GROUPS: Final = frozenset(
    f"{name}.karmada.io"
    for name in ("cluster", "policy", "work", "config", "networking", "autoscaling", "remedy", "apps")
) | {"events.k8s.io"}
_SKIPPED_KINDS: Final = frozenset({("v1", "Event")})
_SKIPPED_GROUP_VERSIONS: Final = frozenset({"coordination.k8s.io/v1"})
_RESERVED_NAMESPACES: Final = frozenset({"karmada-system", "karmada-cluster"})
_RESERVED_PREFIX: Final = "karmada-es-"
# The flag's pattern is not anchored: it matches anywhere in a name.
_SKIPPED_NAMESPACES: Final = re.compile(r"kube-.*")


class Scope(Enum):
    """Whether the objects of a kind belong to a namespace."""

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


def _by_kind(kinds: Mapping[str, str], scope: Scope) -> dict[tuple[str, str], Scope]:
    return {(group, kind): scope for group, names in kinds.items() for kind in names.split()}


_SCOPES: Final = {**_by_kind(_CLUSTER_KINDS, Scope.CLUSTER), **_by_kind(_NAMESPACED_KINDS, Scope.NAMESPACED)}


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
    return _SCOPES.get((group, kind))


def is_namespaced(api_version: str, kind: str) -> bool:
    """Return whether a kind is namespaced. Unknown kinds count as namespaced, as most custom resources are."""
    return scope_of(api_version, kind) is not Scope.CLUSTER


def unknown_type(api_version: str, kind: str) -> FieldError | None:
    """Return why a type of Karmada or KubeAdmiral does not exist; None if it exists or belongs to another API.

    Source: the CustomResourceDefinitions of Karmada 1.19 and of KubeAdmiral, and Karmada's aggregated APIs.
    """
    group, version = group_of(api_version), api_version.rpartition("/")[2]
    if not group.endswith(_PEER_SUFFIXES):
        return None
    kinds = {each for known, each in _SCOPES if known == group}
    if not kinds:
        groups = sorted({known for known, _ in _SCOPES if known.endswith(_PEER_SUFFIXES)})
        return FieldError("apiVersion", f"unknown API group {shown(group)}; {_hint(group, groups)}")
    if kind not in kinds:
        return FieldError("kind", f"{group} has no kind {shown(kind)}; {_hint(kind, sorted(kinds))}")
    versions = _VERSIONS.get((group, kind), _ONLY_VERSION)
    if version not in versions:
        accepted = ", ".join(f"{group}/{each}" for each in versions)
        return FieldError("apiVersion", f"{kind} has no version {shown(version)}; accepted is {accepted}")
    return None


def _hint(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"accepted are {', '.join(known)}"


def reason_not_propagated(api_version: str, kind: str, namespace: str = "") -> str | None:
    """Return why Karmada never propagates a resource; None if a policy may claim it."""
    group = group_of(api_version)
    if group in _SKIPPED_GROUPS:
        return f"the API group {group} is not propagated"
    if (api_version, kind) in _SKIPPED_KINDS or api_version in _SKIPPED_GROUP_VERSIONS:
        return f"{kind} of {api_version} is not propagated"
    if namespace in _RESERVED_NAMESPACES or namespace.startswith(_RESERVED_PREFIX):
        return f"the namespace {namespace} is reserved"
    if _SKIPPED_NAMESPACES.search(namespace):
        return f"the namespace {namespace} is not propagated"
    return None
