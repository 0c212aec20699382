"""The kinds of which decisions read only the metadata."""

from typing import Final

from berthmaster.model.kinds import group_of

# These kinds have no replicas, and nothing that they depend on is propagated with them.
_METADATA_SUFFICES: Final = frozenset(
    (group, kind)
    for group, kinds in {
        "": """
            ConfigMap Endpoints LimitRange Namespace PersistentVolume PersistentVolumeClaim ResourceQuota Secret Service
            ServiceAccount""",
        "admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        "apiextensions.k8s.io": "CustomResourceDefinition",
        "networking.k8s.io": "IngressClass NetworkPolicy",
        "policy": "PodDisruptionBudget",
        "policy.karmada.io": "ClusterOverridePolicy OverridePolicy",
        "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "scheduling.k8s.io": "PriorityClass",
        "storage.k8s.io": "StorageClass",
    }.items()
    for kind in kinds.split()
)


def metadata_suffices(api_version: str, kind: str) -> bool:
    """Return whether a decision depends on nothing but the metadata of the objects of a kind."""
    return (group_of(api_version), kind) in _METADATA_SUFFICES
