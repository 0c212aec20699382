"""What-if: a policy is new or says something else, and workloads change hands as Karmada's detector would have it.

A policy keeps what it has as long as it matches. What it lets go, and what nobody had, goes to the first of the others.
A policy with ``preemption: Always`` takes from weaker ones what it names (gate ``PropagationPolicyPreemption`` on;
``berthmaster.model.preemption`` says who is weaker).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from berthmaster.model.application import binding_of
from berthmaster.model.binding import Binding
from berthmaster.model.claim import Claim, Template, claims
from berthmaster.model.policy import Policy
from berthmaster.model.preemption import Resource, may_preempt, named_resources
from berthmaster.model.template import Replicas, template_of
from berthmaster.simulation.world import Workload, World


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """A policy is created, or replaces the one of its kind, namespace and name.

    Attributes:
        policy: with its defaults (``berthmaster.model.defaults``).
        check: called before each workload is looked at; what it raises ends the change.
    """

    policy: Policy
    check: Callable[[], None] = lambda: None

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - a policy takes effect at once
        """The world in which it is in force and every workload has the binding that comes of it."""
        others = [each for each in world.policies if each.reference != self.policy.reference]
        policies = (*others, self.policy)
        workloads = [self._reclaimed(each, policies, world) for each in world.workloads]
        return replace(world, policies=policies, workloads=workloads)

    def _reclaimed(self, workload: Workload, policies: Sequence[Policy], world: World) -> Workload:
        self.check()
        template = _template(workload)
        matching = claims(template, policies)
        holder = self._holder(workload, template, matching)
        if holder is None:
            # Nobody's: a binding that has lost its policy stays as it is, as Karmada leaves it.
            return replace(workload, claims=())
        ordered = (holder, *(each for each in matching if each is not holder))
        if workload.claim is not None and holder.policy is workload.claim.policy:
            return replace(workload, claims=ordered)
        binding = binding_of(
            _raw(workload),
            holder.policy,
            _replicas(workload),
            current=workload.binding,
            workload_affinity=world.workload_affinity,
        )
        return replace(workload, claims=ordered, binding=binding)

    def _holder(self, workload: Workload, template: Template, matching: Sequence[Claim]) -> Claim | None:
        """Whose it is afterwards."""
        if not matching or (workload.claim is None and workload.binding is not None):
            return None
        before = workload.claim.policy.reference if workload.claim is not None else None
        kept = next((each for each in matching if each.policy.reference == before), None)
        if kept is None:
            return matching[0]
        mine = next((each for each in matching if each.policy is self.policy), None)
        return mine if mine is not None and _takes(self.policy, kept.policy, template) else kept


def _takes(challenger: Policy, holder: Policy, template: Template) -> bool:
    resource = Resource(template.api_version, template.kind, template.namespace, template.name)
    return may_preempt(challenger, holder) and resource in named_resources(challenger)


def _template(workload: Workload) -> Template:
    if workload.template is not None:
        return template_of(workload.template)
    resource = workload.resource
    return Template(resource.api_version, resource.kind, resource.name, resource.namespace)


def _raw(workload: Workload) -> dict[str, object]:
    if workload.template is not None:
        return dict(workload.template)
    resource = workload.resource
    metadata = {"name": resource.name, "namespace": resource.namespace, "uid": resource.uid}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _replicas(workload: Workload) -> Replicas:
    """The binding's number, which may have been scaled since, before the template's."""
    binding: Binding | None = workload.binding
    if binding is None:
        return workload.replicas
    return Replicas(binding.spec.replicas, binding.spec.replica_requirements)
