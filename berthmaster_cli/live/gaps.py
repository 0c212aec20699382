"""What a missing right hides, and what follows for the answer."""

from typing import Final

from berthmaster.kube.served_types import ServedType
from berthmaster.model.kinds import group_of

_POLICIES: Final = (
    "workloads that only such policies claim are not scheduled, and explanations do not name these policies"
)
_BINDINGS: Final = (
    "their current assignments, replicas and evictions are not known, so each answer is a first decision and not what "
    "would move"
)
_INTERPRETERS: Final = (
    "the replicas of custom resources are taken from their bindings; without a binding they are not known"
)
_CONSEQUENCES: Final = {
    ("cluster.karmada.io", "Cluster"): "what Karmada schedules here is left out",
    ("core.kubeadmiral.io", "FederatedCluster"): "what KubeAdmiral schedules here is left out",
    ("policy.karmada.io", "PropagationPolicy"): _POLICIES,
    ("policy.karmada.io", "ClusterPropagationPolicy"): _POLICIES,
    ("work.karmada.io", "ResourceBinding"): _BINDINGS,
    ("work.karmada.io", "ClusterResourceBinding"): _BINDINGS,
    ("config.karmada.io", "ResourceInterpreterCustomization"): _INTERPRETERS,
    ("config.karmada.io", "ResourceInterpreterWebhookConfiguration"): _INTERPRETERS,
    ("core.kubeadmiral.io", "PropagationPolicy"): _POLICIES,
    ("core.kubeadmiral.io", "ClusterPropagationPolicy"): _POLICIES,
    ("core.kubeadmiral.io", "SchedulingProfile"): "policies that name a profile are not scheduled",
    ("core.kubeadmiral.io", "FederatedObject"): _BINDINGS,
    ("core.kubeadmiral.io", "ClusterFederatedObject"): _BINDINGS,
}
_TEMPLATES: Final = "their replicas and labels are taken from their bindings, and those without a binding are missing"
_NO_OBJECTS: Final = "a policy selects it, but it has no objects"
REQUIRED: Final = frozenset({("cluster.karmada.io", "Cluster"), ("core.kubeadmiral.io", "FederatedCluster")})
"""The kinds without which there is no answer."""


def is_required(served: ServedType) -> bool:
    """Return whether there is no answer without the objects of a type."""
    return (group_of(served.api_version), served.kind) in REQUIRED


def forbidden(served: ServedType, namespace: str, verb: str = "list") -> str:
    """Return the sentence for a type that the user may not read."""
    where = f" in the namespace {namespace}" if namespace else ""
    consequence = _CONSEQUENCES.get((group_of(served.api_version), served.kind), _TEMPLATES)
    return f"no right to {verb} {served}{where}: {consequence}"


def not_served(api_version: str, kind: str, *, bound: bool) -> str:
    """Return the sentence for a kind that a binding or a policy names and the server does not serve."""
    return f"{kind} of {api_version} is not served: {_TEMPLATES if bound else _NO_OBJECTS}"


def can_change_answers(gap: str) -> bool:
    """Return whether a gap can change an answer. A kind that is not served, and that no binding names, cannot."""
    return not gap.endswith(_NO_OBJECTS)
