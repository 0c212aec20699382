"""Which policy claims a resource, and which policy may take it over."""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.kinds import reason_not_propagated
from berthmaster.model.meta import Int32, ObjectMeta, Value, is_valid_name
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.replicas import Template


class MatchLevel(IntEnum):
    """How closely a selector names a resource: the implicit priority among policies of equal explicit priority."""

    NONE = 0
    KIND = 1
    LABELS = 2
    NAME = 3


class Claim(NamedTuple):
    """A policy that matches a resource, with what it won or lost by."""

    policy: Policy
    level: MatchLevel

    def rank(self) -> tuple[int, int, int, str]:
        """The smallest rank wins: namespaced before cluster-wide, then priority, closeness, name."""
        return (
            int(self.policy.cluster_scoped), -self.policy.explicit_priority, -self.level, self.policy.metadata.name
        )  # fmt: skip


def match_level(selector: ResourceSelector, template: Template) -> MatchLevel:
    """How closely one selector names a resource. A name makes the label selector play no part."""
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
    """The policies that match a resource, the one that claims it first.

    A policy that is being deleted claims nothing; a PropagationPolicy claims in its own namespace only.
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


PERMANENT_ID: Final = {
    "PropagationPolicy": "propagationpolicy.karmada.io/permanent-id",
    "ClusterPropagationPolicy": "clusterpropagationpolicy.karmada.io/permanent-id",
}
"""The label that tells policies of the same name apart; on a policy, and on what it claims."""
_NAMESPACE: Final = "propagationpolicy.karmada.io/namespace"
_NAME: Final = "propagationpolicy.karmada.io/name"
_CLUSTER_ID: Final = PERMANENT_ID["ClusterPropagationPolicy"]
_CLUSTER_NAME: Final = "clusterpropagationpolicy.karmada.io/name"
_SET_ASIDE: Final = "resourcetemplate.karmada.io/claimed-by"

MetadataPatch = dict[str, dict[str, str | None]]


def permanent_id(policy: Policy) -> str:
    """The permanent id of a policy; empty as long as Karmada's webhook has not given it one."""
    return policy.metadata.labels.get(PERMANENT_ID[policy.kind], "")


def holder(resource: ObjectMeta) -> PolicyReference | None:
    """Who claims a resource, as its annotations say; None for nobody."""
    annotations = resource.annotations
    namespace, name = annotations.get(_NAMESPACE, ""), annotations.get(_NAME, "")
    if is_valid_name(namespace) and is_valid_name(name):
        return PolicyReference("PropagationPolicy", namespace, name)
    name = annotations.get(_CLUSTER_NAME, "")
    return PolicyReference("ClusterPropagationPolicy", "", name) if is_valid_name(name) else None


def claimed_externally(resource: ObjectMeta) -> bool:
    """Whether something other than policies propagates a resource, so that the detector passes it over."""
    return bool(resource.labels.get(_SET_ASIDE))


def claim_patch(resource: ObjectMeta, policy: Policy) -> MetadataPatch:
    """What changes in a resource's metadata when a policy claims it.

    Args:
        resource: the metadata as it is.
        policy: who claims it; it has a permanent id.

    Returns:
        A merge patch of ``metadata``: labels and annotations by key, None for those that go.
    """
    labels: dict[str, str | None] = {PERMANENT_ID[policy.kind]: permanent_id(policy)}
    if policy.cluster_scoped:
        return {"labels": labels, "annotations": {_CLUSTER_NAME: policy.metadata.name}}
    annotations: dict[str, str | None] = {_NAMESPACE: policy.metadata.namespace, _NAME: policy.metadata.name}
    labels |= {key: None for key in (_CLUSTER_ID,) if key in resource.labels}
    annotations |= {key: None for key in (_CLUSTER_NAME,) if key in resource.annotations}
    return {"labels": labels, "annotations": annotations}


_API_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?v[a-z0-9]{1,61}")


PRIORITY_DROP_ANNOTATION: Final = "policy.berthmaster.io/priority-drop"


class PriorityDrop(Value, frozen=True):
    """An interval of priorities, open below and closed above: ``(to, from_]``."""

    from_: Int32 = msgspec.field(name="from")
    to: Int32

    def opens_to(self, priority: int) -> bool:
        """Whether a policy of a priority may preempt now, and had to wait before."""
        return self.to < priority <= self.from_


def parse_priority_drop(text: str | None) -> PriorityDrop | None:
    """The interval of an annotation; None if there is none, or none that a review can have written."""
    if text is None:
        return None
    try:
        drop = _DROP_DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return drop if drop.from_ > drop.to else None


def format_priority_drop(drop: PriorityDrop) -> str:
    """The text of an annotation."""
    return f'{{"from": {drop.from_}, "to": {drop.to}}}'


_DROP_DECODER: Final = msgspec.json.Decoder(PriorityDrop)


class Rank(NamedTuple):
    """What decides; the larger one is the stronger one."""

    namespaced: bool
    priority: int


class Resource(NamedTuple):
    """A resource as a selector names it; ``namespace`` is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def addressable(self) -> bool:
        """Whether there can be such a resource."""
        named = is_valid_name(self.name) and (not self.namespace or is_valid_name(self.namespace))
        return named and _API_VERSION.fullmatch(self.api_version) is not None

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, self[2:]))}"


def rank(policy: Policy) -> Rank:
    """The rank of a policy."""
    return Rank(not policy.cluster_scoped, policy.explicit_priority)


def may_preempt(challenger: Policy, holder: Policy) -> bool:
    """Whether a policy may take over what another one claims, if it names it."""
    return challenger.spec.preemption == "Always" and rank(challenger) > rank(holder)


def named_resources(policy: Policy) -> tuple[Resource, ...]:
    """What a policy may take over: nothing unless it preempts, then the resources that its selectors name.

    A PropagationPolicy names resources of its namespace. A ClusterPropagationPolicy's selector without a namespace
    names a cluster-scoped resource.
    """
    if policy.spec.preemption != "Always" or policy.metadata.deletion_timestamp is not None:
        return ()
    named = (_named(selector, policy) for selector in policy.spec.resource_selectors)
    return tuple(dict.fromkeys(resource for resource in named if resource is not None))


def strongest_first(policies: Iterable[Policy]) -> list[Policy]:
    """Policies by descending rank, those of the same rank by name."""
    return sorted(policies, key=lambda policy: (*(-each for each in rank(policy)), policy.reference))


def newly_eligible(drop: PriorityDrop, dropped: Policy, policies: Iterable[Policy]) -> list[Policy]:
    """Whose turn it may be now that a policy has dropped in priority, the strongest first.

    That is each policy of the same kind, of the same namespace if it has one, which preempts and whose priority lies
    in the interval that has opened.
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
    """The resource that a selector names; None if it names none that the policy reaches.

    What is never propagated is not there to be claimed, even if it looks claimed: a binding carries what its workload
    says of its claim, and by that the detector finds it.
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
