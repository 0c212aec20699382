"""What Karmada's detector does with workloads after one policy was created, replaced or deleted.

The rules (karmada ``pkg/detector``):

- A policy keeps the workloads that it still selects, and its new content reaches their bindings.
- A workload that its policy no longer selects, or whose policy is deleted, loses its claim. The first of the other
  matching policies claims it at once, even a Lazy one. Without such a policy its binding stays unchanged.
- A policy claims the matching workloads that no policy holds. It takes held workloads only by preemption.
- A policy whose priority drops makes other policies preempt: those that ranked below or equal, and rank above now.
- The content of a Lazy policy reaches a binding when the template changes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from berthmaster.model.binding import Binding, binding_of
from berthmaster.model.claims import (
    Claim,
    MatchLevel,
    PriorityDrop,
    Resource,
    claimed_externally,
    match_level,
    named_resources,
    newly_eligible,
)
from berthmaster.model.decode import convert
from berthmaster.model.holding import PolicyCatalog, takes, why_not_taken
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.replicas import Replicas, Template, template_of
from berthmaster.simulation.eligibility import LOST, UNCLAIMED
from berthmaster.simulation.present import LAZY, dependencies_for
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled


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
        """The identity of the policy.

        Raises:
            ValueError: there is neither a policy before nor after.
        """
        policy = self.after or self.before
        if policy is None:
            raise ValueError("an edit has a policy before or after it")
        return policy.reference

    @property
    def has_effect(self) -> bool:
        """Whether the spec changes. The detector ignores a change of metadata."""
        return self.before is None or self.after is None or self.before.spec != self.after.spec

    def applied(self, policies: Iterable[Policy]) -> tuple[Policy, ...]:
        """Return all policies after the edit."""
        others = tuple(each for each in policies if each.reference != self.reference)
        return (*others, self.after) if self.after is not None else others


class Detector:
    """Applies one edit of a policy to workloads.

    Args:
        edit: the edit.
        catalog: all policies after the edit.
        workload_affinity: whether Karmada's gate ``WorkloadAffinity`` is on.

    Attributes:
        preemptors: the policies that preempt because of the edit, in the order in which they do.
    """

    def __init__(self, edit: PolicyEdit, catalog: PolicyCatalog, *, workload_affinity: bool = False) -> None:
        self.preemptors = tuple(_preemptors(edit, catalog)) if edit.has_effect else ()
        self._edit = edit
        self._catalog = catalog
        self._workload_affinity = workload_affinity

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
        if workload.template is not None and claimed_externally(_metadata(workload)):
            return workload
        template = template_of(workload.manifest)
        if workload.held_by == self._edit.reference:
            workload = self._of_holder(workload, template)
        elif workload.held_by is None:
            workload = self._of_unclaimed(workload, template)
        return self._preempted(workload, template)

    def blocked(self, workload: SimulatedWorkload) -> str:
        """Return why another policy keeps a workload that the edit makes the policy select; empty if that is not so.

        Args:
            workload: the workload after the edit.
        """
        policy, before, held_by = self._edit.after, self._edit.before, workload.held_by
        holder = self._catalog.get(held_by) if held_by is not None else None
        if policy is None or holder is None or holder.reference == policy.reference:
            return ""
        template = template_of(workload.manifest)
        if not _level(policy, workload, template) or (before is not None and _level(before, workload, template)):
            return ""
        return f"{holder} holds it: {why_not_taken(policy, holder, template)}"

    def _of_holder(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        """Return a workload that the edited policy holds, before preemption."""
        policy = self._edit.after
        if policy is None:
            return self._stripped(workload, template)
        if workload.unscheduled is not None and workload.unscheduled.reason is NotScheduled.DEFERRED:
            return workload  # the detector finds the workloads of a policy by their bindings
        level = _level(policy, workload, template)
        if level is None:
            return workload
        if not level:
            return self._stripped(workload, template)
        return self._applied(workload, Claim(policy, level))

    def _of_unclaimed(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        policy = self._edit.after
        if policy is None or not _level(policy, workload, template):
            return workload
        first = self._first(workload, template)
        return self._applied(workload, first) if first is not None else workload

    def _preempted(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        for policy in self.preemptors:
            held_by = self._catalog.get(workload.held_by) if workload.held_by is not None else None
            if held_by is not None and held_by is not policy and takes(policy, held_by, template):
                workload = self._applied(workload, Claim(policy, MatchLevel.NAME))
        return workload

    def _stripped(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        """Return a workload whose claim is removed. The next policy claims it for a change of the template."""
        first = self._first(workload, template)
        if first is not None:
            return self._applied(workload, first, lazily=False)
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

    def _first(self, workload: SimulatedWorkload, template: Template) -> Claim | None:
        matching = self._catalog.matching(template)
        if workload.template is None:
            matching = tuple(each for each in matching if _level(each.policy, workload, template))
        return matching[0] if matching else None

    def _applied(self, workload: SimulatedWorkload, claim: Claim, *, lazily: bool = True) -> SimulatedWorkload:
        """Return a workload that a policy claims.

        Args:
            workload: the workload.
            claim: the claim.
            lazily: whether the claim follows from an event of a policy, so that a Lazy policy waits.
        """
        known = replace(workload, claims=(claim,), held_by=claim.policy.reference, why_not=("",))
        if workload.unscheduled is not None and workload.unscheduled.reason is NotScheduled.UNKNOWN_REPLICAS:
            return known
        desired = self._desired(workload, claim)
        if lazily and claim.policy.spec.activation_preference == LAZY:
            if workload.binding is not None:
                return replace(known, deferred=desired)
            waits = f"{claim.policy} is Lazy: it places the resource when its template changes"
            return replace(known, unscheduled=Unscheduled(NotScheduled.DEFERRED, waits), deferred=desired)
        followers = dependencies_for(desired, workload.template)
        return replace(known, binding=desired, deferred=None, unscheduled=None, dependencies=followers)

    def _desired(self, workload: SimulatedWorkload, claim: Claim) -> Binding:
        return binding_of(
            workload.manifest,
            claim.policy,
            _replicas(workload),
            current=workload.binding,
            workload_affinity=self._workload_affinity,
        )


def labels_matter(edit: PolicyEdit, workload: SimulatedWorkload) -> bool:
    """Return whether the unknown labels of a workload without a template can change the effect of an edit."""
    if workload.template is not None or edit.after is None:
        return False
    selectors = edit.after.spec.resource_selectors
    if edit.before is not None and edit.before.spec.resource_selectors == selectors:
        return False
    return _level(edit.after, workload, template_of(workload.manifest)) is None


def _preemptors(edit: PolicyEdit, catalog: PolicyCatalog) -> Iterator[Policy]:
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


def _metadata(workload: SimulatedWorkload) -> ObjectMeta:
    return convert(ObjectMeta, workload.manifest.get("metadata") or {})


def _replicas(workload: SimulatedWorkload) -> Replicas:
    """Return the replicas of the binding, which may have been scaled, or else those of the template."""
    binding = workload.binding
    if binding is None:
        return workload.replicas
    return Replicas(binding.spec.replicas, binding.spec.replica_requirements)
