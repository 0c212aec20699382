"""Which policy holds a resource now, which others want it, and why they do not get it.

A claim lasts: the labels and annotations of a resource, and of its binding, name the policy that holds it, and the
detector keeps to them (karmada ``Reconcile`` in ``pkg/detector/detector.go``). Only a resource that no policy holds
goes to the first policy by rank. A stronger policy takes over a held resource only by preemption.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berthmaster.model.claims import (
    Claim,
    Resource,
    claimed_externally,
    claims,
    holder,
    may_preempt,
    named_resources,
    permanent_id,
    rank,
    strongest_first,
)
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.replicas import Template

_EXTERNAL: Final = "the label resourcetemplate.karmada.io/claimed-by excludes it from policies"


_SelectorKey = tuple[str, str, str, str, str]
"""API version, kind and scope of a selector, and what it requires: a name, or a label and its value."""


class Holding(NamedTuple):
    """The policy that holds a resource, and the policies that match it.

    Attributes:
        reference: the policy that holds the resource; None if none does.
        claims: the policies that match. The holder is the first one, if it is known; the others are sorted by rank.
        recorded: the policy that labels and annotations name; None without a record.
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
        """Index the policies. ``preempts`` says whether policies take resources over from weaker ones."""
        self._preempts = preempts
        self.policies: Sequence[Policy] = tuple(policies)
        self._by_reference: Mapping[PolicyReference, Policy] = {each.reference: each for each in self.policies}
        self._candidates: dict[_SelectorKey, dict[PolicyReference, Policy]] = {}
        for policy in self.policies:
            scope = "" if policy.cluster_scoped else policy.metadata.namespace
            for selector in policy.spec.resource_selectors:
                self._candidates.setdefault(_key_of(selector, scope), {})[policy.reference] = policy

    def get(self, reference: PolicyReference) -> Policy | None:
        return self._by_reference.get(reference)

    def matching(self, template: Template) -> tuple[Claim, ...]:
        """Return the policies that match a resource, sorted by rank (``claims.claims``)."""
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
            template: the resource.
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
    """Yield the keys of all selectors that may match a resource."""
    kind = template.api_version, template.kind, scope
    yield (*kind, "", "")
    yield (*kind, "", template.name)
    for label, value in template.labels.items():
        yield (*kind, label, value)


def is_new(policy: Policy) -> bool:
    """Return whether a policy comes from a file, and no control plane has stored it yet."""
    return not policy.metadata.uid and not permanent_id(policy)


def takes(preemptor: Policy, held_by: Policy, template: Template) -> bool:
    """Return whether a policy may take over a resource from another policy."""
    return may_preempt(preemptor, held_by) and names(preemptor, template)


def names(preemptor: Policy, template: Template) -> bool:
    """Return whether a policy preempts and names a resource."""
    resource = Resource(template.api_version, template.kind, template.namespace, template.name)
    return resource in named_resources(preemptor)


def why_not(other: Claim, holding: Holding, template: Template) -> str:
    """Return why a policy that matches a resource does not hold it."""
    claim = holding.claim
    if claim is None:
        return f"{holding.reference} holds the resource" if holding.reference is not None else "nothing holds it"
    if other.policy.reference == holding.recorded:
        return f"{claim.policy} takes it by preemption"
    if holding.recorded is not None and holding.recorded == holding.reference:
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
    """Return the claim of the strongest of these policies that takes a resource over; None without one."""
    by_policy = {each.policy.reference: each for each in matching if takes(each.policy, held_by, template)}
    strongest = strongest_first(each.policy for each in by_policy.values())
    return by_policy[strongest[0].reference] if strongest else None
