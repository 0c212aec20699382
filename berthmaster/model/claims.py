"""Which policies match a resource, which of them claims it, and how the claim is recorded.

Claims follow karmada ``pkg/detector`` (``compare.go``, ``claim.go``, ``detector.go``) and ``pkg/util/selector.go``. A
claim lasts: the labels and annotations of a resource, and of its binding, name the policy that holds it. A claim of a
PropagationPolicy removes the record of a ClusterPropagationPolicy, but not the other way round. A resource that carries
both records belongs to the PropagationPolicy. A resource that no policy holds goes to the first policy by rank.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from berthmaster.model.binding import CLUSTER_HOLDER_NAME, HOLDER_NAME, HOLDER_NAMESPACE
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, ResourceSelector
from berthmaster.model.replicas import Template

PERMANENT_ID: Final = {
    "PropagationPolicy": "propagationpolicy.karmada.io/permanent-id",
    "ClusterPropagationPolicy": "clusterpropagationpolicy.karmada.io/permanent-id",
}
"""The label that distinguishes policies of the same name. Policies and the resources that they claim carry it."""
MANAGED_BY: Final = (*PERMANENT_ID.values(), "binding.karmada.io/managed-by")
"""The labels of which a policy sets one on a binding that it holds."""
_CLUSTER_ID: Final = PERMANENT_ID["ClusterPropagationPolicy"]
CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"

MetadataPatch = dict[str, dict[str, str | None]]


def is_managed(binding: ObjectMeta) -> bool:
    """Whether a policy holds a binding. One without a policy follows another binding, and is not scheduled itself."""
    return any(map(binding.labels.get, MANAGED_BY))


class MatchLevel(IntEnum):
    """How closely a selector matches a resource: the implicit priority between policies of equal explicit priority."""

    NONE = 0
    KIND = 1
    LABELS = 2
    NAME = 3


class Claim(NamedTuple):
    """A policy that matches a resource, and how closely it does."""

    policy: Policy
    level: MatchLevel

    def rank(self) -> tuple[int, int, int, str]:
        """Return the sort key of claims: the first one claims the resource (karmada ``compare.go``)."""
        return (
            int(self.policy.cluster_scoped), -self.policy.explicit_priority, -self.level, self.policy.metadata.name
        )  # fmt: skip


def match_level(selector: ResourceSelector, template: Template) -> MatchLevel:
    """Return how closely a selector matches a resource. The label selector is ignored if there is a name."""
    if (selector.api_version, selector.kind) != (template.api_version, template.kind):
        return MatchLevel.NONE
    if selector.namespace and selector.namespace != template.namespace:
        return MatchLevel.NONE
    if selector.name:
        return MatchLevel.NAME if selector.name == template.name else MatchLevel.NONE
    if selector.label_selector is None:
        return MatchLevel.KIND
    return MatchLevel.LABELS if selector.label_selector.matches(template.labels) else MatchLevel.NONE


def claims(template: Template, policies: Iterable[Policy]) -> list[Claim]:
    """Return the policies that match a resource, starting with the one that claims it.

    A policy that is being deleted claims nothing. A PropagationPolicy claims only in its own namespace.
    """
    found = []
    for policy in policies:
        in_reach = policy.cluster_scoped or (template.namespace and policy.metadata.namespace == template.namespace)
        if not in_reach or policy.metadata.deletion_timestamp is not None:
            continue
        levels = (match_level(selector, template) for selector in policy.spec.resource_selectors)
        level = max(levels, default=MatchLevel.NONE)
        if level:
            found.append(Claim(policy, level))
    return sorted(found, key=Claim.rank)


def permanent_id(policy: Policy) -> str:
    """Return the permanent ID of a policy; empty until Karmada's webhook sets it."""
    return policy.metadata.labels.get(PERMANENT_ID[policy.kind], "")


def claimed_externally(resource: ObjectMeta) -> bool:
    """Return whether something other than a policy propagates a resource, so that Karmada's detector ignores it."""
    return bool(resource.labels.get(CLAIMED_BY))


def claim_patch(resource: ObjectMeta, policy: Policy) -> MetadataPatch:
    """Return the merge patch of ``metadata`` by which a policy with a permanent ID claims a resource."""
    labels: dict[str, str | None] = {PERMANENT_ID[policy.kind]: permanent_id(policy)}
    if policy.cluster_scoped:
        return {"labels": labels, "annotations": {CLUSTER_HOLDER_NAME: policy.metadata.name}}
    annotations: dict[str, str | None] = {
        HOLDER_NAMESPACE: policy.metadata.namespace,
        HOLDER_NAME: policy.metadata.name,
    }
    labels |= {key: None for key in (_CLUSTER_ID,) if key in resource.labels}
    annotations |= {key: None for key in (CLUSTER_HOLDER_NAME,) if key in resource.annotations}
    return {"labels": labels, "annotations": annotations}


def record_keys(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels and the annotations that record a claim of a kind of policy. The name comes first."""
    names = (CLUSTER_HOLDER_NAME,) if kind == "ClusterPropagationPolicy" else (HOLDER_NAME, HOLDER_NAMESPACE)
    return (PERMANENT_ID[kind],), names
