"""What-if: a policy is new or says something else, and workloads change hands as Karmada's detector would have it.

A policy keeps what it has as long as it matches. What it lets go, and what nobody had, goes to the first of the others.
A policy with ``preemption: Always`` takes from weaker ones what it names (``pkg/detector/preemption.go``, gate
``PropagationPolicyPreemption`` on): PropagationPolicies of lower priority and any ClusterPropagationPolicy; a
ClusterPropagationPolicy takes from others of its kind with lower priority only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from extender.simulation.world import Workload, World
from fleet.model.application import binding_of
from fleet.model.binding import Binding
from fleet.model.claim import Claim, MatchLevel, Template, claims
from fleet.model.policy import Policy
from fleet.model.template import Replicas, template_of


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """A policy is created, or replaces the one of its kind, namespace and name.

    Attributes:
        policy: with its defaults (``fleet.model.defaults``).
    """

    policy: Policy

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - a policy takes effect at once
        """The world in which it is in force and every workload has the binding that comes of it."""
        others = [each for each in world.policies if _identity(each) != _identity(self.policy)]
        policies = (*others, self.policy)
        workloads = [self._reclaimed(each, policies, world) for each in world.workloads]
        return replace(world, policies=policies, workloads=workloads)

    def _reclaimed(self, workload: Workload, policies: Sequence[Policy], world: World) -> Workload:
        matching = claims(_template(workload), policies)
        holder = self._holder(workload, matching)
        if holder is None:
            # Nobody's: a binding that has lost its policy stays as it is, as Karmada leaves it.
            return replace(workload, claims=())
        ordered = (holder, *(each for each in matching if each is not holder))
        if holder.policy is not self.policy:
            return replace(workload, claims=ordered)
        binding = binding_of(
            _raw(workload),
            self.policy,
            _replicas(workload),
            current=workload.binding,
            workload_affinity=world.workload_affinity,
        )
        return replace(workload, claims=ordered, binding=binding)

    def _holder(self, workload: Workload, matching: Sequence[Claim]) -> Claim | None:
        """Whose it is afterwards."""
        if not matching or (workload.claim is None and workload.binding is not None):
            return None
        before = _identity(workload.claim.policy) if workload.claim is not None else None
        kept = next((each for each in matching if _identity(each.policy) == before), None)
        if kept is None:
            return matching[0]
        mine = next((each for each in matching if each.policy is self.policy), None)
        return mine if mine is not None and mine is not kept and _preempts(mine, kept.policy) else kept


def _preempts(challenger: Claim, holder: Policy) -> bool:
    policy = challenger.policy
    if policy.spec.preemption != "Always" or challenger.level is not MatchLevel.NAME:
        return False
    if policy.cluster_scoped != holder.cluster_scoped:
        return holder.cluster_scoped
    return policy.explicit_priority > holder.explicit_priority


def _identity(policy: Policy) -> tuple[str, str, str]:
    namespace = "" if policy.cluster_scoped else policy.metadata.namespace
    return policy.kind, namespace, policy.metadata.name


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
