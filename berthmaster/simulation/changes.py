"""What-if changes to a world. Each change has the effect that it has in a Karmada control plane."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Final, Protocol

import msgspec.structs

from berthmaster.model.binding import Binding, GracefulEvictionTask, binding_of
from berthmaster.model.claims import Claim, Resource, claims, may_preempt, named_resources
from berthmaster.model.cluster import NO_EXECUTE, NO_SCHEDULE, Cluster, Condition, Taint, Toleration
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.policy import Policy
from berthmaster.model.replicas import Replicas, Template, template_of
from berthmaster.simulation.world import ResourceName, SimulatedWorkload, World

NOT_READY: Final = "cluster.karmada.io/not-ready"
_PRODUCER: Final = "TaintManager"
_QUALIFY: Final = "name it as NAMESPACE/KIND/NAME"


class Change(Protocol):
    """A change to a world."""

    def applied(self, world: World, now: datetime) -> World:
        """Return the world after the change.

        Args:
            world: the world before the change.
            now: the time of the change; it is later than every scheduling in the world.

        Raises:
            InputError: the change names a cluster or resource that does not exist.
        """


@dataclass(frozen=True, slots=True)
class Down:
    """A cluster fails: it is not ready and tainted, and every workload that does not tolerate the taints is evicted.

    Only a toleration without ``toleration_seconds`` counts.
    """

    cluster: str

    def applied(self, world: World, now: datetime) -> World:
        lost = self.not_ready(world)
        taints = (Taint(NOT_READY, NO_SCHEDULE), Taint(NOT_READY, NO_EXECUTE))
        for taint in taints:
            lost = AddTaint(self.cluster, taint).applied(lost, now)
        return lost

    def not_ready(self, world: World) -> World:
        """Return the world in which the cluster is not ready, before any taint or eviction."""
        return with_cluster(world, self.cluster, _not_ready)


@dataclass(frozen=True, slots=True)
class AddTaint:
    """A cluster gets a taint. NoExecute evicts workloads that do not tolerate it without a time limit."""

    cluster: str
    taint: Taint

    def applied(self, world: World, now: datetime) -> World:
        tainted = with_cluster(world, self.cluster, self._tainted)
        if self.taint.effect != NO_EXECUTE:
            return tainted
        return _with_bindings(tainted, lambda binding: self._evicted(binding, now))

    def _tainted(self, cluster: Cluster) -> Cluster:
        others = (
            each for each in cluster.spec.taints if (each.key, each.effect) != (self.taint.key, self.taint.effect)
        )
        spec = msgspec.structs.replace(cluster.spec, taints=(*others, self.taint))
        return msgspec.structs.replace(cluster, spec=spec)

    def _evicted(self, binding: Binding, now: datetime) -> Binding:
        """Evict as Karmada's failover does: remove the assignment, and exclude the cluster by an eviction task."""
        spec = binding.spec
        here = next((target for target in spec.clusters if target.name == self.cluster), None)
        tolerations = spec.placement.cluster_tolerations if spec.placement is not None else ()
        if here is None or _tolerated_without_limit(self.taint, tolerations):
            return binding
        task = GracefulEvictionTask(
            from_cluster=self.cluster,
            producer=_PRODUCER,
            reason="TaintUntolerated",
            replicas=here.replicas or None,
            creation_timestamp=now,
        )
        spec = msgspec.structs.replace(
            spec,
            clusters=tuple(target for target in spec.clusters if target is not here),
            graceful_eviction_tasks=(*spec.graceful_eviction_tasks, task),
        )
        return msgspec.structs.replace(binding, spec=spec)


@dataclass(frozen=True, slots=True)
class AddLabel:
    """A cluster gets a label."""

    cluster: str
    key: str
    value: str

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        return with_cluster(world, self.cluster, self._labelled)

    def _labelled(self, cluster: Cluster) -> Cluster:
        labels = {**cluster.metadata.labels, self.key: self.value}
        return msgspec.structs.replace(cluster, metadata=msgspec.structs.replace(cluster.metadata, labels=labels))


@dataclass(frozen=True, slots=True)
class Scale:
    """A workload is scaled."""

    resource: ResourceName
    replicas: int

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        found = world.find(self.resource)
        if not found:
            raise InputError(f"cannot scale {self.resource}: {_no_such_resource(world, self.resource)}")
        if len(found) > 1:
            raise InputError(f"cannot scale {self.resource}: {len(found)} resources have this name; {_QUALIFY}")
        return replace(world, workloads=[self._scaled(each) if each is found[0] else each for each in world.workloads])

    def _scaled(self, workload: SimulatedWorkload) -> SimulatedWorkload:
        binding = workload.binding
        if binding is None:
            raise InputError(f"cannot scale {self.resource}: no policy claims it")
        if not binding.spec.is_workload:
            raise InputError(f"cannot scale {self.resource}: a {workload.resource.kind} has no replicas")
        spec = msgspec.structs.replace(binding.spec, replicas=self.replicas)
        return replace(workload, binding=msgspec.structs.replace(binding, spec=spec))


@dataclass(frozen=True, slots=True)
class Reschedule:
    """All workloads are rescheduled, as by a WorkloadRebalancer that names all of them."""

    def applied(self, world: World, now: datetime) -> World:
        return _with_bindings(world, lambda binding: _rescheduled(binding, now))


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """A policy is created, or it replaces the policy of its kind, namespace and name.

    Workloads change policies as Karmada's detector decides. A policy keeps the workloads that it still matches. The
    first of the other matching policies claims a workload that loses its policy or has none. A policy with
    ``preemption: Always`` takes the workloads that it names from weaker policies, as with the gate
    ``PropagationPolicyPreemption`` (see ``berthmaster.model.claims``).

    Attributes:
        policy: the policy with its defaults (``policy.defaulted``).
        check: called before each workload; an exception that it raises ends the change.
    """

    policy: Policy
    check: Callable[[], None] = lambda: None

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        others = [each for each in world.policies if each.reference != self.policy.reference]
        policies = (*others, self.policy)
        workloads = [self._reclaimed(each, policies, world) for each in world.workloads]
        return replace(world, policies=policies, workloads=workloads)

    def _reclaimed(self, workload: SimulatedWorkload, policies: Sequence[Policy], world: World) -> SimulatedWorkload:
        self.check()
        template = template_of(workload.manifest)
        matching = claims(template, policies)
        holder = self._holder(workload, template, matching)
        if holder is None:
            # No policy claims it. As in Karmada, a binding that lost its policy stays unchanged.
            return replace(workload, claims=())
        ordered = (holder, *(each for each in matching if each is not holder))
        if workload.claim is not None and holder.policy is workload.claim.policy:
            return replace(workload, claims=ordered)
        binding = binding_of(
            workload.manifest,
            holder.policy,
            _replicas(workload),
            current=workload.binding,
            workload_affinity=world.workload_affinity,
        )
        return replace(workload, claims=ordered, binding=binding)

    def _holder(self, workload: SimulatedWorkload, template: Template, matching: Sequence[Claim]) -> Claim | None:
        """Return the claim of the policy that claims the workload after the change."""
        if not matching or (workload.claim is None and workload.binding is not None):
            return None
        before = workload.claim.policy.reference if workload.claim is not None else None
        kept = next((each for each in matching if each.policy.reference == before), None)
        if kept is None:
            return matching[0]
        mine = next((each for each in matching if each.policy is self.policy), None)
        return mine if mine is not None and _takes(self.policy, kept.policy, template) else kept


def apply(changes: Iterable[Change], world: World, now: datetime) -> World:
    """Return the world after all changes, applied in order."""
    for change in changes:
        world = change.applied(world, now)
    return world


def _rescheduled(binding: Binding, now: datetime) -> Binding:
    last = binding.status.last_scheduled_time
    after = now if last is None or last < now else last + timedelta(seconds=1)
    return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, reschedule_triggered_at=after))


def _not_ready(cluster: Cluster) -> Cluster:
    others = (each for each in cluster.status.conditions if each.type != "Ready")
    condition = Condition("Ready", "False", "ClusterNotReachable", "taken down by the simulation")
    status = msgspec.structs.replace(cluster.status, conditions=(*others, condition))
    return msgspec.structs.replace(cluster, status=status)


def _tolerated_without_limit(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(each.toleration_seconds is None and each.tolerates(taint) for each in tolerations)


def with_cluster(world: World, name: str, change: Callable[[Cluster], Cluster]) -> World:
    """Return the world with one cluster changed.

    Raises:
        InputError: there is no such cluster.
    """
    cluster = world.clusters.get(name)
    if cluster is None:
        close = get_close_matches(name, world.clusters, n=1)
        known = f"did you mean {close[0]}?" if close else f"known are {name_list(sorted(world.clusters)) or 'none'}"
        raise InputError(f"there is no cluster {name!r}; {known}")
    return replace(world, clusters={**world.clusters, name: change(cluster)})


def _with_bindings(world: World, change: Callable[[Binding], Binding]) -> World:
    workloads = [
        workload if workload.binding is None else replace(workload, binding=change(workload.binding))
        for workload in world.workloads
    ]
    return replace(world, workloads=workloads)


def _no_such_resource(world: World, name: ResourceName) -> str:
    known = [str(workload) for workload in world.workloads]
    close = get_close_matches(str(name), known, n=1)
    return f"there is no such resource; did you mean {close[0]}?" if close else "there is no such resource"


def _takes(preemptor: Policy, holder: Policy, template: Template) -> bool:
    resource = Resource(template.api_version, template.kind, template.namespace, template.name)
    return may_preempt(preemptor, holder) and resource in named_resources(preemptor)


def _replicas(workload: SimulatedWorkload) -> Replicas:
    """Return the replicas of the binding, which may have been scaled, or else those of the template."""
    binding = workload.binding
    if binding is None:
        return workload.replicas
    return Replicas(binding.spec.replicas, binding.spec.replica_requirements)
