"""What Karmada's detector does with workloads after one policy was created, replaced or deleted.

The rules (karmada ``pkg/detector``):

- A policy finds its workloads by the labels of their bindings. It keeps those that it still selects, and its new
  content reaches their bindings.
- A workload that its policy no longer selects, or whose policy is deleted, loses its claim. The first of the other
  matching policies claims it at once, even a Lazy one. Without such a policy its binding stays unchanged.
- A policy claims the matching workloads that no policy holds. It takes held workloads only by preemption.
- A policy whose priority drops makes other policies preempt: those that ranked below or equal, and rank above now.
- The content of a Lazy policy reaches a binding when the template changes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from berthmaster.model.binding import Binding, binding_of
from berthmaster.model.claims import (
    Claim,
    Holding,
    MatchLevel,
    PolicyCatalog,
    PriorityDrop,
    Resource,
    claimed_externally,
    match_level,
    named_resources,
    names,
    newly_eligible,
    permanent_id,
    takes,
    why_not_taken,
)
from berthmaster.model.existing import UNKNOWN, Existing
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.replicas import Replicas, Template, template_of
from berthmaster.simulation.eligibility import LOST, UNCLAIMED, waits
from berthmaster.simulation.present import (
    bound_by,
    deferred_by,
    dependencies_for,
    metadata_of,
    reasons,
    recorded,
    recorded_by_binding,
    with_record,
    without_bound,
    without_record,
)
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class PolicyEdit:
    """One policy before and after a change, with its defaults (``policy.defaulted``).

    Attributes:
        before: the stored policy; None if it is created.
        after: the policy as it would be stored; None if it is deleted.
    """

    before: Policy | None
    after: Policy | None

    @property
    def reference(self) -> PolicyReference:
        """The identity of the policy. Raises ``ValueError`` if there is neither a policy before nor after."""
        policy = self.after or self.before
        if policy is None:
            raise ValueError("an edit has a policy before or after it")
        return policy.reference

    @property
    def has_effect(self) -> bool:
        """Whether the spec changes. The detector ignores a change of metadata."""
        return self.before is None or self.after is None or self.before.spec != self.after.spec

    @property
    def claimant(self) -> dict[PolicyReference, Policy]:
        """The policy after the edit, which may claim workloads because of it."""
        return {self.after.reference: self.after} if self.has_effect and self.after is not None else {}

    def applied(self, policies: Iterable[Policy]) -> tuple[Policy, ...]:
        others = tuple(each for each in policies if each.reference != self.reference)
        return (*others, self.after) if self.after is not None else others


class Detector:
    """Applies one edit of a policy to workloads."""

    def __init__(
        self,
        edit: PolicyEdit,
        catalog: PolicyCatalog,
        *,
        workload_affinity: bool = False,
        existing: Existing = UNKNOWN,
        preempts: bool = False,
    ) -> None:
        self.preemptors = tuple(preemptors(edit, catalog)) if edit.has_effect and preempts else ()
        self._edit = edit
        self._catalog = catalog
        self._workload_affinity = workload_affinity
        self._existing = existing

    def named(self) -> Iterator[Resource]:
        """Yield the resources that the edit may take from the policies that hold them."""
        for policy in self.preemptors:
            yield from named_resources(policy)

    def detected(self, workload: SimulatedWorkload) -> SimulatedWorkload:
        """Return a workload after the edit: the same object if the edit does not concern it.

        A workload without a template has unknown labels. It keeps its policy unless the identity alone decides.
        """
        if not self._edit.has_effect:
            return workload
        if workload.template is not None and claimed_externally(metadata_of(workload)):
            return workload
        template = template_of(workload.manifest)
        after = self._edit.after
        if after is None:
            changed = self._deleted(workload, template)
        elif recorded_by_binding(workload, self._edit.reference, self._id()):
            changed = self._found_by_binding(workload, template, after)
        elif recorded(workload) is None and _level(after, workload, template):
            changed = self._reconciled(workload, template, lazily=after.lazy)
        else:
            changed = workload
        return self._preempted(changed, template)

    def retried(self, workload: SimulatedWorkload) -> SimulatedWorkload:
        """Return a workload whose policy waited, after what the policy waits for was created."""
        return self._reconciled(workload, template_of(workload.manifest), lazily=True)

    def blocked(self, workload: SimulatedWorkload) -> str:
        """Return why another policy keeps a workload that the edit makes the policy select; empty if that is not so."""
        policy, before, held_by = self._edit.after, self._edit.before, workload.held_by
        keeper = self._catalog.get(held_by) if held_by is not None else None
        if policy is None or keeper is None or keeper.reference == policy.reference:
            return ""
        template = template_of(workload.manifest)
        if not _level(policy, workload, template) or (before is not None and _level(before, workload, template)):
            return ""
        return f"{keeper} holds it: {why_not_taken(policy, keeper, template)}"

    def _id(self) -> str:
        policies = (self._edit.before, self._edit.after)
        return next((found for each in policies if each is not None and (found := permanent_id(each))), "")

    def _deleted(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        """Return a workload after the deletion of the policy: its template and its binding lose the claim.

        The detector looks for templates of the kinds and namespaces that the policy selected last.
        """
        if recorded(workload) != self._edit.reference or not _is_looked_for(self._edit.before, template):
            return workload
        return self._reconciled(without_record(workload, self._edit.reference, self._id() or None), template)

    def _found_by_binding(self, workload: SimulatedWorkload, template: Template, policy: Policy) -> SimulatedWorkload:
        """Return a workload whose binding records the policy. The template may record another one by now."""
        level = _level(policy, workload, template)
        if level is None:
            return workload
        if level:
            return self._reconciled(workload, template, lazily=policy.lazy)
        holds = recorded(workload)
        if holds is not None and holds.kind != self._edit.reference.kind:
            return without_bound(workload, self._edit.reference)
        return self._reconciled(without_record(workload, self._edit.reference), template)

    def _preempted(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        for policy in self.preemptors:
            if self._takes(policy, recorded(workload), template):
                workload = self._applied(workload, Claim(policy, MatchLevel.NAME), lazily=policy.lazy)
        return workload

    def _takes(self, policy: Policy, holds: PolicyReference | None, template: Template) -> bool:
        """Return whether a policy preempts the recorded one: a PropagationPolicy also a deleted cluster-wide one."""
        held_by = self._catalog.get(holds) if holds is not None else None
        if held_by is not None:
            return held_by is not policy and takes(policy, held_by, template)
        return holds is not None and holds.kind != policy.kind and not policy.cluster_scoped and names(policy, template)

    def _reconciled(
        self, workload: SimulatedWorkload, template: Template, *, lazily: bool = False
    ) -> SimulatedWorkload:
        """Return a workload after a reconcile of its template.

        Args:
            lazily: whether a Lazy policy waits: the reconcile follows from the event of one.
        """
        reference = recorded(workload)
        if reference is None:
            first = self._first(workload, template)
            return self._applied(workload, first, lazily=lazily) if first is not None else _unclaimed(workload)
        policy = self._catalog.get(reference)
        if policy is None:  # Karmada missed the template when the policy was deleted, and cleans it up now
            return self._reconciled(without_record(workload, reference), template)
        level = _level(policy, workload, template)
        if level is MatchLevel.NONE:
            return workload
        return self._applied(workload, Claim(policy, level or MatchLevel.LABELS), lazily=lazily)

    def _first(self, workload: SimulatedWorkload, template: Template) -> Claim | None:
        matching = self._catalog.matching(template)
        if workload.template is None:
            matching = tuple(each for each in matching if _level(each.policy, workload, template))
        return matching[0] if matching else None

    def _applied(self, workload: SimulatedWorkload, claim: Claim, *, lazily: bool) -> SimulatedWorkload:
        known = replace(with_record(workload, claim.policy), claims=(claim,), why_not=("",), waits=None)
        if workload.unscheduled is not None and workload.unscheduled.reason is NotScheduled.UNKNOWN_REPLICAS:
            return known
        if workload.uncounted is not None:
            return replace(known, unscheduled=workload.uncounted)
        desired = self._desired(workload, claim)
        waiting = waits(claim.policy, workload.resource.namespace, self._existing)
        if waiting is not None:
            return _waiting(workload, known, desired, waiting)
        if lazily and claim.policy.lazy:
            if workload.binding is not None:
                return replace(known, deferred=desired)
            return replace(known, unscheduled=deferred_by(claim.policy), deferred=desired)
        followers = dependencies_for(desired, workload.template)
        same = workload.binding is not None and workload.binding.spec == desired.spec
        stalled_at = known.stalled_at if same else None
        return replace(
            known, binding=desired, deferred=None, unscheduled=None, dependencies=followers, stalled_at=stalled_at
        )

    def _desired(self, workload: SimulatedWorkload, claim: Claim) -> Binding:
        current = workload.binding
        desired = binding_of(
            workload.manifest,
            claim.policy,
            _replicas(workload),
            current=current,
            workload_affinity=self._workload_affinity,
        )
        return bound_by(desired, claim.policy)


def _waiting(
    workload: SimulatedWorkload, claimed: SimulatedWorkload, desired: Binding, why: Unscheduled
) -> SimulatedWorkload:
    """Return a workload whose policy waits: without its overrides the policy does not even claim the workload."""
    unclaimed = why.reason is NotScheduled.MISSING_OVERRIDES and recorded(workload) is None
    base = replace(_unclaimed(workload), claims=claimed.claims, why_not=("",)) if unclaimed else claimed
    if workload.binding is None or not (workload.present or workload.binding.spec.clusters):
        base = replace(base, binding=None)
    return replace(
        base, waits=why, deferred=desired, unscheduled=why if unclaimed or base.binding is None else base.unscheduled
    )


def after_edits(
    workloads: Iterable[SimulatedWorkload],
    stored: Iterable[Policy],
    edits: Iterable[PolicyEdit],
    *,
    workload_affinity: bool = False,
    existing: Existing = UNKNOWN,
    preempts: bool = False,
) -> list[SimulatedWorkload]:
    """Return workloads after edits of policies, one after the other, with all policies that match them then."""
    before = list(workloads)
    policies, after = tuple(stored), before
    for edit in edits:
        policies = edit.applied(policies)
        detector = Detector(
            edit, PolicyCatalog(policies), workload_affinity=workload_affinity, existing=existing, preempts=preempts
        )
        after = [detector.detected(each) for each in after]
    catalog = PolicyCatalog(policies)
    return [_with_claims(then, now, catalog) for then, now in zip(before, after, strict=True)]


def _with_claims(before: SimulatedWorkload, after: SimulatedWorkload, catalog: PolicyCatalog) -> SimulatedWorkload:
    """Return a workload after edits with all policies that match it, and a note if it got another policy."""
    if after.template is None or claimed_externally(metadata_of(after)):
        return after
    template, now, then = template_of(after.template), after.held_by, before.held_by
    matching = catalog.matching(template)
    held = next((each for each in matching if each.policy.reference == now), None)
    claims = (held, *(each for each in matching if each is not held)) if held is not None else matching
    notes = after.notes
    if then is not None and now is not None and then != now:
        taken = any(each.policy.reference == then for each in matching)
        notes = (f"{now} takes it from {then} by preemption" if taken else f"{then} held it, and releases it", *notes)
    holding = Holding(now, claims, then)
    return replace(after, claims=claims, why_not=reasons(holding, template), notes=notes)


def labels_matter(edit: PolicyEdit, workload: SimulatedWorkload) -> bool:
    """Return whether the unknown labels of a workload without a template can change the effect of an edit."""
    if workload.template is not None or edit.after is None:
        return False
    selectors = edit.after.spec.resource_selectors
    if edit.before is not None and edit.before.spec.resource_selectors == selectors:
        return False
    return _level(edit.after, workload, template_of(workload.manifest)) is None


def preemptors(edit: PolicyEdit, catalog: PolicyCatalog) -> Iterator[Policy]:
    """Yield the policies that preempt because of an edit, if preemption is on, in the order in which they do."""
    before, after = edit.before, edit.after
    if after is None:
        return
    if after.spec.preemption == "Always" and after.metadata.deletion_timestamp is None:
        yield after
    if before is not None and after.explicit_priority < before.explicit_priority:
        drop = PriorityDrop(before.explicit_priority, after.explicit_priority)
        yield from newly_eligible(drop, after, catalog.policies)


def _level(policy: Policy, workload: SimulatedWorkload, template: Template) -> MatchLevel | None:
    """Return how closely a policy selects a workload; None if that depends on labels that are not known."""
    if policy.metadata.deletion_timestamp is not None:
        return MatchLevel.NONE
    if not policy.cluster_scoped and policy.metadata.namespace != template.namespace:
        return MatchLevel.NONE
    selectors = policy.spec.resource_selectors
    found = max((match_level(each, template) for each in selectors), default=MatchLevel.NONE)
    if workload.template is not None or found is MatchLevel.NAME:
        return found
    unknown = any(
        each.label_selector is not None
        and not each.name
        and (each.api_version, each.kind) == (template.api_version, template.kind)
        and each.namespace in {"", template.namespace}
        for each in selectors
    )
    return None if unknown else found


def _is_looked_for(policy: Policy | None, template: Template) -> bool:
    selectors = policy.spec.resource_selectors if policy is not None else ()
    return any(
        (each.api_version, each.kind) == (template.api_version, template.kind)
        and each.namespace in {"", template.namespace}
        for each in selectors
    )


def _unclaimed(workload: SimulatedWorkload) -> SimulatedWorkload:
    """Return a workload that no policy claims. A binding from before stays, and no scheduler looks at it."""
    binding = workload.binding
    has_binding = binding is not None and (workload.present or bool(binding.spec.clusters))
    return replace(
        workload,
        claims=(),
        held_by=None,
        why_not=(),
        binding=binding if has_binding else None,
        unscheduled=LOST if has_binding else UNCLAIMED,
        deferred=None,
    )


def _replicas(workload: SimulatedWorkload) -> Replicas:
    """Return the replicas of the binding, which may have been scaled.

    A binding does not follow the template unless it records the policy that holds the template.
    """
    binding, claim = workload.binding, workload.claim
    if binding is None:
        return workload.replicas
    follows = claim is not None and recorded_by_binding(workload, claim.policy.reference, permanent_id(claim.policy))
    if not follows and workload.template is not None:
        return workload.replicas
    return Replicas(binding.spec.replicas, binding.spec.replica_requirements)
