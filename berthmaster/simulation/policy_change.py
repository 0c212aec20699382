"""A what-if change of a policy: which workloads it claims, keeps and loses, and what their bindings become."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from berthmaster.model.binding import binding_of
from berthmaster.model.claims import claimed_externally
from berthmaster.model.decode import convert
from berthmaster.model.holding import Holding, PolicyCatalog, takes, why_not
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy
from berthmaster.model.replicas import Replicas, Template, template_of
from berthmaster.simulation.eligibility import LOST, UNCLAIMED
from berthmaster.simulation.present import LAZY, dependencies_for
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload
from berthmaster.simulation.world import World


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """A policy is created, or it replaces the policy of its kind, namespace and name.

    Workloads change policies as Karmada's detector decides. A policy keeps the workloads that it still matches. The
    first of the other matching policies claims a workload that loses its policy or has none. A policy with
    ``preemption: Always`` takes the workloads that it names from weaker policies, as with the gate
    ``PropagationPolicyPreemption`` (see ``berthmaster.model.claims``). Under a Lazy policy bindings stay as they are.

    Attributes:
        policy: the policy with its defaults (``policy.defaulted``).
        check: called before each workload; an exception that it raises ends the change.
    """

    policy: Policy
    check: Callable[[], None] = lambda: None

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        others = [each for each in world.policies if each.reference != self.policy.reference]
        catalog = PolicyCatalog((*others, self.policy))
        workloads = [self._reclaimed(each, catalog, world) for each in world.workloads]
        return replace(world, policies=catalog.policies, workloads=workloads)

    def _reclaimed(self, workload: SimulatedWorkload, catalog: PolicyCatalog, world: World) -> SimulatedWorkload:
        self.check()
        template = template_of(workload.manifest)
        holding = self._holding(workload, template, catalog)
        reasons = tuple("" if each is holding.claim else why_not(each, holding, template) for each in holding.claims)
        known = replace(workload, claims=holding.claims, held_by=holding.reference, why_not=reasons)
        claim = holding.claim
        if claim is None:
            # As in Karmada, a binding that lost its policy stays unchanged, and no scheduler looks at it.
            lost = workload.held_by is not None and holding.reference is None
            return replace(known, unscheduled=LOST if workload.binding is not None else UNCLAIMED) if lost else known
        if workload.claim is not None and claim.policy is workload.claim.policy:
            return known
        if workload.unscheduled is not None and workload.unscheduled.reason is NotScheduled.UNKNOWN_REPLICAS:
            return known
        binding = binding_of(
            workload.manifest,
            claim.policy,
            _replicas(workload),
            current=workload.binding,
            workload_affinity=world.workload_affinity,
        )
        if claim.policy.spec.activation_preference == LAZY and workload.binding is not None:
            return replace(known, deferred=binding)
        followers = dependencies_for(binding, workload.template)
        return replace(known, binding=binding, deferred=None, unscheduled=None, dependencies=followers)

    def _holding(self, workload: SimulatedWorkload, template: Template, catalog: PolicyCatalog) -> Holding:
        """Return which policy holds the workload after the change."""
        if claimed_externally(convert(ObjectMeta, workload.manifest.get("metadata") or {})):
            return Holding(None)
        matching, before = catalog.matching(template), workload.held_by
        kept = next((each for each in matching if each.policy.reference == before), None)
        if before is not None and kept is None and catalog.get(before) is None:
            return Holding(before, matching, before)  # the holder is not known, and neither is its rank
        if kept is None:
            if not matching or (before is None and workload.binding is not None and workload.template is None):
                return Holding(None, (), before)
            return Holding(matching[0].policy.reference, matching, before)
        mine = next((each for each in matching if each.policy is self.policy), None)
        first = mine if mine is not None and takes(self.policy, kept.policy, template) else kept
        ordered = (first, *(each for each in matching if each is not first))
        return Holding(first.policy.reference, ordered, before)


def _replicas(workload: SimulatedWorkload) -> Replicas:
    """Return the replicas of the binding, which may have been scaled, or else those of the template."""
    binding = workload.binding
    if binding is None:
        return workload.replicas
    return Replicas(binding.spec.replicas, binding.spec.replica_requirements)
