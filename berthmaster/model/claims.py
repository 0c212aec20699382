"""Which policy claims a resource, which others want it, and which of them may take it over.

Claims follow karmada ``pkg/detector`` (``compare.go``, ``claim.go``, ``detector.go``) and ``pkg/util/selector.go``. A
claim lasts: the labels and annotations of a resource, and of its binding, name the policy that holds it. A claim of a
PropagationPolicy removes the record of a ClusterPropagationPolicy, but not the other way round. A resource that carries
both records belongs to the PropagationPolicy. A resource that no policy holds goes to the first policy by rank.

Preemption follows karmada ``pkg/detector/preemption.go``. A policy with ``preemption: Always`` may take a resource that
it names from a policy of strictly lower rank. Each takeover raises the rank of the holder, so takeovers end.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.binding import CLUSTER_HOLDER_NAME, HOLDER_NAME, HOLDER_NAMESPACE, holder
from berthmaster.model.decode import NOT_JSON
from berthmaster.model.kinds import reason_not_propagated
from berthmaster.model.meta import Int32, Key, ObjectMeta, Value, is_valid_name
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
_CLUSTER_ID: Final = PERMANENT_ID["ClusterPropagationPolicy"]
_CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"

MetadataPatch = dict[str, dict[str, str | None]]


class MatchLevel(IntEnum):
    """How closely a selector matches a resource: the implicit priority between policies of equal explicit priority."""

    NONE = 0
    KIND = 1
    LABELS = 2
    NAME = 3


class Claim(NamedTuple):
    policy: Policy
    level: MatchLevel

    def rank(self) -> tuple[int, int, int, str]:
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
    return bool(resource.labels.get(_CLAIMED_BY))


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


class PriorityDrop(Value, frozen=True):
    """The priorities that a policy dropped past: the half-open interval ``(to, from_]``."""

    from_: Int32 = msgspec.field(name="from")
    to: Int32


def parse_priority_drop(text: str | None) -> PriorityDrop | None:
    if text is None:
        return None
    try:
        drop = _DROP_DECODER.decode(text)
    except NOT_JSON:
        return None
    return drop if drop.from_ > drop.to else None


def format_priority_drop(drop: PriorityDrop) -> str:
    return f'{{"from": {drop.from_}, "to": {drop.to}}}'


_DROP_DECODER: Final = msgspec.json.Decoder(PriorityDrop)


class Resource(NamedTuple):
    """The identity of a resource that a selector names. ``namespace`` is empty for a cluster-scoped resource."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, self[2:]))}"


def rank(policy: Policy) -> tuple[bool, int]:
    """Return whether a policy is namespaced, and its priority. The larger rank is the stronger one."""
    return not policy.cluster_scoped, policy.explicit_priority


def may_preempt(preemptor: Policy, holder: Policy) -> bool:
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
    return sorted(policies, key=lambda policy: (*(-each for each in rank(policy)), policy.reference))


def newly_eligible(drop: PriorityDrop, dropped: Policy, policies: Iterable[Policy]) -> list[Policy]:
    """Return the preempting policies of the same kind and namespace in the interval of a drop, the strongest first."""
    scope = dropped.reference[:2]
    return strongest_first(
        policy
        for policy in policies
        if policy.reference[:2] == scope
        and policy.reference != dropped.reference
        and policy.spec.preemption == "Always"
        and drop.to < policy.explicit_priority <= drop.from_
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
    if not is_valid_name(selector.name) or (namespace and not is_valid_name(namespace)):
        return None
    return Resource(selector.api_version, selector.kind, namespace, selector.name)


_EXTERNAL: Final = f"the label {_CLAIMED_BY} excludes it from policies"
_SelectorKey = tuple[str, str, str, str, str]
"""API version, kind and scope of a selector, and what it requires: a name, or a label and its value."""


class Holding(NamedTuple):
    """The policy that holds a resource, and the policies that match it.

    Attributes:
        reference: the policy that holds the resource; None if none does.
        claims: the policies that match. The holder is the first one, if it is known; the others are sorted by rank.
        note: why the record is not in effect, or what is not known about it; empty otherwise.
    """

    reference: PolicyReference | None
    claims: tuple[Claim, ...] = ()
    recorded: PolicyReference | None = None
    note: str = ""

    @property
    def claim(self) -> Claim | None:
        """The claim of the holder; None if no policy holds the resource, or the holder is unknown."""
        first = self.claims[0] if self.claims else None
        return first if first is not None and first.policy.reference == self.reference else None


class PolicyCatalog:
    """Policies by reference, and by the kinds that they select."""

    def __init__(self, policies: Iterable[Policy], *, preempts: bool = False) -> None:
        self._preempts = preempts
        self._by_reference: dict[PolicyReference, Policy] = {}
        self._candidates: dict[_SelectorKey, dict[PolicyReference, Policy]] = {}
        for policy in policies:
            self.put(policy.reference, policy)

    @property
    def policies(self) -> Iterable[Policy]:
        return self._by_reference.values()

    def put(self, reference: PolicyReference, policy: Policy | None) -> None:
        """Replace the policy with a reference; None removes it. The cost does not depend on the other policies."""
        before = self._by_reference.pop(reference, None)
        if before is not None:
            for key in _keys_for(before):
                self._candidates[key].pop(reference, None)
        if policy is not None:
            self._by_reference[reference] = policy
            for key in _keys_for(policy):
                self._candidates.setdefault(key, {})[reference] = policy

    def get(self, reference: PolicyReference) -> Policy | None:
        return self._by_reference.get(reference)

    def matching(self, template: Template) -> tuple[Claim, ...]:
        found: dict[PolicyReference, Policy] = {}
        for scope in dict.fromkeys((template.namespace, "")):
            for key in _keys_of(template, scope):
                found.update(self._candidates.get(key, {}))
        return tuple(claims(template, found.values()))

    def holding(self, template: Template, records: Iterable[ObjectMeta]) -> Holding:
        """Return the policy that holds a resource.

        A record that names a policy which is being deleted, or no longer selects the resource, is not in effect:
        the detector removes it, and the next policy claims the resource. A policy that the control plane does not
        have yet takes the resource over if preemption allows it. A policy that is stored already had its chance.

        Args:
            records: the metadata of the resource and of its binding. The first record counts.
        """
        matching, records = self.matching(template), tuple(records)
        if any(map(claimed_externally, records)):
            return Holding(None, (), note=_EXTERNAL)
        recorded = next(filter(None, map(holder, records)), None)
        if recorded is None:
            return Holding(matching[0].policy.reference if matching else None, matching)
        policy = self.get(recorded)
        if policy is None:
            return Holding(recorded, matching, recorded, f"{recorded} holds it, and is not among the input")
        kept = next((each for each in matching if each.policy.reference == recorded), None)
        if kept is None:
            gone = policy.metadata.deletion_timestamp is not None
            note = f"{recorded} held it, and {'is being deleted' if gone else 'no longer selects it'}"
            return Holding(matching[0].policy.reference if matching else None, matching, recorded, note)
        eligible = (each for each in matching if is_new(each.policy))
        taken = _taker(template, kept.policy, eligible) if self._preempts else None
        first = taken or kept
        note = f"{first.policy} takes it from {recorded} by preemption" if taken is not None else ""
        ordered = (first, *(each for each in matching if each is not first))
        return Holding(first.policy.reference, ordered, recorded, note)


def selecting_nothing(policies: Iterable[Policy], templates: Iterable[Template]) -> list[Policy]:
    """Return the policies that match none of some resources."""
    catalog = PolicyCatalog(policies)
    matched = {claim.policy.reference for each in templates for claim in catalog.matching(each)}
    return [each for each in catalog.policies if each.reference not in matched]


def _keys_for(policy: Policy) -> list[_SelectorKey]:
    scope = "" if policy.cluster_scoped else policy.metadata.namespace
    return [_key_of(each, scope) for each in policy.spec.resource_selectors]


def _key_of(selector: ResourceSelector, scope: str) -> _SelectorKey:
    """Return the key of a selector: the policies under other keys than those of a resource do not match it."""
    required = ("", "")
    labels = selector.label_selector
    if selector.name:
        required = ("", selector.name)
    elif labels is not None and labels.match_labels:
        required = min(labels.match_labels.items())
    return (selector.api_version, selector.kind, scope, *required)


def _keys_of(template: Template, scope: str) -> Iterator[_SelectorKey]:
    kind = template.api_version, template.kind, scope
    yield (*kind, "", "")
    yield (*kind, "", template.name)
    for label, value in template.labels.items():
        yield (*kind, label, value)


def is_new(policy: Policy) -> bool:
    """Return whether a policy comes from a file, and no control plane has stored it yet."""
    return not policy.metadata.uid and not permanent_id(policy)


def takes(preemptor: Policy, held_by: Policy, template: Template) -> bool:
    return may_preempt(preemptor, held_by) and names(preemptor, template)


def names(preemptor: Policy, template: Template) -> bool:
    resource = Resource(template.api_version, template.kind, template.namespace, template.name)
    return resource in named_resources(preemptor)


def why_not(other: Claim, holding: Holding, template: Template) -> str:
    claim = holding.claim
    if claim is None:
        return f"{holding.reference} holds the resource" if holding.reference is not None else "nothing holds it"
    if other.policy.reference == holding.recorded:
        return f"{claim.policy} takes it by preemption"
    if (holding.recorded is not None and holding.recorded == holding.reference) or other.rank() < claim.rank():
        return why_not_taken(other.policy, claim.policy, template)
    return _why_not_first(other, claim)


def why_not_taken(other: Policy, held_by: Policy, template: Template) -> str:
    """Return why a policy does not take a resource over from the policy that holds it."""
    if other.spec.preemption != "Always":
        return "it does not preempt, and a claim lasts (spec.preemption is Never)"
    if not any(each.name == template.name for each in named_resources(other)):
        return "it preempts only resources that its selectors name"
    if other.cluster_scoped and not held_by.cluster_scoped:
        return "a ClusterPropagationPolicy never preempts a PropagationPolicy"
    if rank(other) <= rank(held_by):
        mine, theirs = other.explicit_priority, held_by.explicit_priority
        return f"its priority {mine} is not above the holder's {theirs}, and only a higher priority preempts"
    return (
        "it may preempt and has not: preemption is off (gate PropagationPolicyPreemption), or the holder claimed the "
        "resource later"
    )


def _why_not_first(other: Claim, first: Claim) -> str:
    if other.policy.cluster_scoped and not first.policy.cluster_scoped:
        return "a PropagationPolicy comes before every ClusterPropagationPolicy"
    mine, theirs = other.policy.explicit_priority, first.policy.explicit_priority
    if mine != theirs:
        return f"its priority {mine} is below {theirs}"
    if other.level != first.level:
        return f"it selects by {other.level.name.lower()}, which is less close than by {first.level.name.lower()}"
    return "its name follows the holder's in alphabetical order"


def _taker(template: Template, held_by: Policy, matching: Iterable[Claim]) -> Claim | None:
    by_policy = {each.policy.reference: each for each in matching if takes(each.policy, held_by, template)}
    strongest = strongest_first(each.policy for each in by_policy.values())
    return by_policy[strongest[0].reference] if strongest else None


OVERRIDES: Final = {"PropagationPolicy": "OverridePolicy", "ClusterPropagationPolicy": "ClusterOverridePolicy"}
"""The kind of the ``dependentOverrides`` of each kind of policy."""
PRIORITY_CLASS: Final = "PriorityClass"
KUBE_PRIORITY_CLASS: Final = "KubePriorityClass"
"""The only source of a priority that Karmada supports."""
_POLICY_API: Final = "policy.karmada.io/v1alpha1"
_API_VERSIONS: Final = {**dict.fromkeys(OVERRIDES.values(), _POLICY_API), PRIORITY_CLASS: "scheduling.k8s.io/v1"}
WAITED_FOR: Final = frozenset(_API_VERSIONS)
_OF_EVERY_SERVER: Final = frozenset({"PriorityClass system-cluster-critical", "PriorityClass system-node-critical"})


class WaitedFor(NamedTuple):
    """An object that policies wait for."""

    api_version: str
    kind: str
    key: Key

    @classmethod
    def of(cls, name: str) -> "WaitedFor":
        kind, _, path = name.partition(" ")
        namespace, _, own = path.rpartition("/")
        return cls(_API_VERSIONS[kind], kind, (namespace, own))


class Existing:
    """What is known about the existence of objects. Immutable.

    Args:
        known: whether an object exists, by its kind, a space, and ``NAMESPACE/NAME`` or ``NAME``.
        complete: whether others do not exist: the files are all that there is.
    """

    __slots__ = ("_complete", "_known")

    def __init__(self, known: Mapping[str, bool] | None = None, *, complete: bool = False) -> None:
        self._known = dict(known or {})
        self._complete = complete

    def has(self, name: str) -> bool | None:
        if name in _OF_EVERY_SERVER:
            return True
        return self._known.get(name, False if self._complete else None)

    def changed(self, known: Mapping[str, bool]) -> "Existing":
        return Existing({**self._known, **known}, complete=self._complete) if known else self

    def missing(self, names: Iterable[str]) -> list[str]:
        return [each for each in names if self.has(each) is False]

    def unknown(self, names: Iterable[str]) -> list[str]:
        return [each for each in names if self.has(each) is None]


UNKNOWN: Final = Existing()


def overrides_of(policy: Policy) -> list[str]:
    """Return the names of the overrides without which a policy claims nothing (``IsDependentOverridesPresent``)."""
    kind, namespace = OVERRIDES[policy.kind], policy.metadata.namespace
    return [
        f"{kind} {'/'.join(filter(None, (namespace, each)))}" for each in dict.fromkeys(policy.spec.dependent_overrides)
    ]


def waited_for(policies: Iterable[Policy]) -> Iterator[str]:
    for policy in policies:
        yield from overrides_of(policy)
        priority = policy.spec.schedule_priority
        if priority is not None and priority.priority_class_source == KUBE_PRIORITY_CLASS:
            yield f"{PRIORITY_CLASS} {priority.priority_class_name}"
