"""Which policy holds a resource, and why another one that matches does not.

The record of a claim names the holder. Without a record, or if the record is no longer in effect, the first policy by
rank holds the resource. A policy that the control plane does not have yet may take it over.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berthmaster.model.binding import holder
from berthmaster.model.claims import CLAIMED_BY, PERMANENT_ID, Claim, claimed_externally, claims, permanent_id
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.policy_preemption import may_take_over, named_resources, rank, strongest_first
from berthmaster.model.replicas import Template, template_of, type_of
from berthmaster.model.skipped_resources import reason_not_propagated

_EXTERNAL: Final = f"the label {CLAIMED_BY} excludes it from policies"
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
        """All policies, in the order in which they were added."""
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
        """Return the policies that match a resource, by rank."""
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
        preemptor = _preemptor(template, kept.policy, eligible) if self._preempts else None
        first = preemptor or kept
        note = f"{first.policy} takes it from {recorded} by preemption" if preemptor is not None else ""
        ordered = (first, *(each for each in matching if each is not first))
        return Holding(first.policy.reference, ordered, recorded, note)


def may_be_held(raw: Mapping[str, Any], matching: Callable[[Template], Collection[Claim]]) -> bool:
    """Return whether a policy matches a resource, or its labels record a claim. An invalid resource counts, too."""
    metadata = raw["metadata"]
    if reason_not_propagated(*type_of(raw), str(metadata.get("namespace") or "")) is not None:
        return False
    labels = metadata.get("labels")
    if isinstance(labels, Mapping) and any(map(labels.get, PERMANENT_ID.values())):
        return True
    try:
        return bool(matching(template_of(raw)))
    except FieldError:
        return True


def selecting_nothing(policies: Iterable[Policy], templates: Iterable[Template]) -> list[Policy]:
    """Return the policies that match none of some resources."""
    catalog = PolicyCatalog(policies)
    matched = {claim.policy.reference for each in templates for claim in catalog.matching(each)}
    return [each for each in catalog.policies if each.reference not in matched]


def _keys_for(policy: Policy) -> list[_SelectorKey]:
    scope = policy.reference.namespace
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


def why_not(other: Claim, holding: Holding, template: Template) -> str:
    """Return why a policy that matches a resource does not hold it."""
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


def _preemptor(template: Template, held_by: Policy, matching: Iterable[Claim]) -> Claim | None:
    by_policy = {each.policy.reference: each for each in matching if may_take_over(each.policy, held_by, template)}
    strongest = strongest_first(each.policy for each in by_policy.values())
    return by_policy[strongest[0].reference] if strongest else None
