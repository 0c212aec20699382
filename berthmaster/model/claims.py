"""Which policy claims a resource, which metadata records the claim, and which policy may take the resource over.

Claims follow karmada ``pkg/detector/compare.go`` and ``pkg/util/selector.go``; their labels and annotations follow
``pkg/detector/claim.go``. A claim of a PropagationPolicy removes the record of a ClusterPropagationPolicy, but not the
other way round. A resource that carries both records belongs to the PropagationPolicy.

Preemption follows karmada ``pkg/detector/preemption.go``. Policies have a *rank*: every PropagationPolicy ranks above
every ClusterPropagationPolicy, and within a kind the higher priority ranks higher. A policy with ``preemption: Always``
may take a resource that it names from a policy of strictly lower rank. Neither the closeness of selectors, nor names,
nor the ``preemption`` field of the other policy matter.

Each takeover raises the rank of the holder of a resource, and the number of policies is finite. Takeovers therefore
end in any order, and no two policies take a resource from each other repeatedly.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.kinds import reason_not_propagated
from berthmaster.model.meta import Int32, ObjectMeta, Value, is_valid_name
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.replicas import Template

PERMANENT_ID: Final = {
    "PropagationPolicy": "propagationpolicy.karmada.io/permanent-id",
    "ClusterPropagationPolicy": "clusterpropagationpolicy.karmada.io/permanent-id",
}
"""The label that distinguishes policies of the same name. Policies and the resources that they claim carry it."""
MANAGED_BY: Final = (*PERMANENT_ID.values(), "binding.karmada.io/managed-by")
"""A binding without any of these labels follows another binding, and is not scheduled itself."""
PRIORITY_DROP_ANNOTATION: Final = "policy.berthmaster.io/priority-drop"
"""Records that the priority of a policy dropped. The webhook writes it; the preemption controller removes it."""
_NAMESPACE: Final = "propagationpolicy.karmada.io/namespace"
_NAME: Final = "propagationpolicy.karmada.io/name"
_CLUSTER_ID: Final = PERMANENT_ID["ClusterPropagationPolicy"]
_CLUSTER_NAME: Final = "clusterpropagationpolicy.karmada.io/name"
_CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"
_API_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?v[a-z0-9]{1,61}")

MetadataPatch = dict[str, dict[str, str | None]]


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
        """Return the sort key: namespaced before cluster-scoped, then priority, match level and name."""
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


def holder(resource: ObjectMeta) -> PolicyReference | None:
    """Return the policy that claims a resource according to its annotations, or None."""
    annotations = resource.annotations
    namespace, name = annotations.get(_NAMESPACE, ""), annotations.get(_NAME, "")
    if is_valid_name(namespace) and is_valid_name(name):
        return PolicyReference("PropagationPolicy", namespace, name)
    name = annotations.get(_CLUSTER_NAME, "")
    return PolicyReference("ClusterPropagationPolicy", "", name) if is_valid_name(name) else None


def claimed_externally(resource: ObjectMeta) -> bool:
    """Return whether something other than a policy propagates a resource, so that Karmada's detector ignores it."""
    return bool(resource.labels.get(_CLAIMED_BY))


def claim_patch(resource: ObjectMeta, policy: Policy) -> MetadataPatch:
    """Return the change of a resource's metadata when a policy claims it.

    Args:
        resource: the current metadata.
        policy: the claiming policy; it has a permanent ID.

    Returns:
        A merge patch of ``metadata``: labels and annotations by key; None removes a key.
    """
    labels: dict[str, str | None] = {PERMANENT_ID[policy.kind]: permanent_id(policy)}
    if policy.cluster_scoped:
        return {"labels": labels, "annotations": {_CLUSTER_NAME: policy.metadata.name}}
    annotations: dict[str, str | None] = {_NAMESPACE: policy.metadata.namespace, _NAME: policy.metadata.name}
    labels |= {key: None for key in (_CLUSTER_ID,) if key in resource.labels}
    annotations |= {key: None for key in (_CLUSTER_NAME,) if key in resource.annotations}
    return {"labels": labels, "annotations": annotations}


def record_keys(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels and the annotations that record a claim of a kind of policy. The name comes first."""
    if kind == "ClusterPropagationPolicy":
        return (_CLUSTER_ID,), (_CLUSTER_NAME,)
    return (PERMANENT_ID[kind],), (_NAME, _NAMESPACE)


class PriorityDrop(Value, frozen=True):
    """The priorities that a policy dropped past: the half-open interval ``(to, from_]``."""

    from_: Int32 = msgspec.field(name="from")
    to: Int32

    def opens_to(self, priority: int) -> bool:
        """Return whether a policy of this priority may preempt after the drop, but not before it."""
        return self.to < priority <= self.from_


def parse_priority_drop(text: str | None) -> PriorityDrop | None:
    """Parse the annotation; return None if it is absent or invalid."""
    if text is None:
        return None
    try:
        drop = _DROP_DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return drop if drop.from_ > drop.to else None


def format_priority_drop(drop: PriorityDrop) -> str:
    """Format the annotation."""
    return f'{{"from": {drop.from_}, "to": {drop.to}}}'


_DROP_DECODER: Final = msgspec.json.Decoder(PriorityDrop)


class Rank(NamedTuple):
    """The rank of a policy. The larger rank is the stronger one."""

    namespaced: bool
    priority: int


class Resource(NamedTuple):
    """The identity of a resource that a selector names. ``namespace`` is empty for a cluster-scoped resource."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def addressable(self) -> bool:
        """Whether such a resource can exist."""
        named = is_valid_name(self.name) and (not self.namespace or is_valid_name(self.namespace))
        return named and _API_VERSION.fullmatch(self.api_version) is not None

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, self[2:]))}"


def rank(policy: Policy) -> Rank:
    """Return the rank of a policy."""
    return Rank(not policy.cluster_scoped, policy.explicit_priority)


def may_preempt(preemptor: Policy, holder: Policy) -> bool:
    """Return whether a policy may take over a resource that it names and another policy claims."""
    return preemptor.spec.preemption == "Always" and rank(preemptor) > rank(holder)


def named_resources(policy: Policy) -> tuple[Resource, ...]:
    """Return the resources that a policy may take over: those that its selectors name, if it preempts.

    A PropagationPolicy names resources of its namespace. A selector of a ClusterPropagationPolicy without a namespace
    names a cluster-scoped resource.
    """
    if policy.spec.preemption != "Always" or policy.metadata.deletion_timestamp is not None:
        return ()
    named = (_named(selector, policy) for selector in policy.spec.resource_selectors)
    return tuple(dict.fromkeys(resource for resource in named if resource is not None))


def strongest_first(policies: Iterable[Policy]) -> list[Policy]:
    """Sort policies by descending rank, then by name."""
    return sorted(policies, key=lambda policy: (*(-each for each in rank(policy)), policy.reference))


def newly_eligible(drop: PriorityDrop, dropped: Policy, policies: Iterable[Policy]) -> list[Policy]:
    """Return the policies that may preempt because another policy dropped in priority, the strongest first.

    These are the preempting policies of the same kind and namespace whose priority is in the interval of the drop.
    """
    scope = dropped.reference[:2]
    return strongest_first(
        policy
        for policy in policies
        if policy.reference[:2] == scope
        and policy.reference != dropped.reference
        and policy.spec.preemption == "Always"
        and drop.opens_to(policy.explicit_priority)
    )


def _named(selector: ResourceSelector, policy: Policy) -> Resource | None:
    """Return the resource that a selector names, or None if the policy cannot claim it.

    A resource that Karmada never propagates cannot be claimed, even if its metadata records a claim: bindings carry
    the record of their workload, by which the detector finds them.
    """
    if reason_not_propagated(selector.api_version, selector.kind) is not None:
        return None
    namespace = selector.namespace
    if not policy.cluster_scoped:
        namespace = namespace or policy.metadata.namespace
        if namespace != policy.metadata.namespace:
            return None
    resource = Resource(selector.api_version, selector.kind, namespace, selector.name)
    return resource if resource.addressable else None
