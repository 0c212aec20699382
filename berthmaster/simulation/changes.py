"""What-if changes to a world. Each change has the effect that it has in a Karmada control plane.

A change is one type: the extender's API has its JSON, tagged by ``type``, and the simulation applies it.
``change_texts.py`` reads it as people write it.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from berthmaster.model.binding import Binding, binding_name
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, InputError, name_list, shown
from berthmaster.model.hints import closest
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.interpretation import has_replica_count
from berthmaster.model.meta import Count, with_metadata, with_spec
from berthmaster.model.policy import Policy
from berthmaster.model.rebalancer import FAILED, SUCCESSFUL, RebalancedWorkload, WorkloadRebalancer
from berthmaster.model.selector import is_label_key, is_label_value
from berthmaster.model.taint import EFFECTS, NO_EXECUTE, NO_SCHEDULE, Taint
from berthmaster.model.taint_policy import oldest_first
from berthmaster.model.validation import cluster_errors
from berthmaster.simulation.detector import PolicyEdit
from berthmaster.simulation.plan_answer import not_ready, with_readiness
from berthmaster.simulation.retries import woken
from berthmaster.simulation.workload import NotScheduled, ResourceName, SimulatedWorkload, Unscheduled
from berthmaster.simulation.world import Change, World

NOT_READY: Final = "cluster.karmada.io/not-ready"
UNREACHABLE: Final = "cluster.karmada.io/unreachable"
_QUALIFY: Final = "name it as NAMESPACE/KIND/NAME"


class WireChange(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, tag_field="type"):
    """A change that the extender's API accepts. ``WhatIf`` lists all of them."""

    @abstractmethod
    def applied(self, world: World, now: datetime) -> World:
        """Return the world after the change, as ``world.Change``."""

    def problems(self) -> Iterable[FieldError]:
        """Return the fields with a value that Kubernetes does not accept, and what is accepted."""
        return ()


class ClusterEdit(WireChange, frozen=True):
    """A change of one cluster."""

    cluster: str

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        return with_cluster(world, self.cluster, self.changed)

    @abstractmethod
    def changed(self, cluster: Cluster) -> Cluster:
        """Return the cluster after the change."""


class Down(ClusterEdit, frozen=True, tag="down"):
    """A cluster fails: it becomes NotReady and is tainted with NoSchedule. ClusterTaintPolicies add their taints.

    What moves then depends on ``failover``. If it says that a lost cluster gets a NoExecute taint, it gets one.
    """

    def applied(self, world: World, now: datetime) -> World:
        lost = super().applied(world, now)
        pulls = lost.clusters[self.cluster].spec.sync_mode == "Pull"
        key, other = (UNREACHABLE, NOT_READY) if pulls else (NOT_READY, UNREACHABLE)
        # Karmada removes the taint of the other condition when it adds one.
        lost = with_cluster(lost, self.cluster, lambda cluster: _without_taint(cluster, other, NO_SCHEDULE))
        effects = (NO_SCHEDULE, NO_EXECUTE) if world.assumptions.taints_lost else (NO_SCHEDULE,)
        for effect in effects:
            lost = AddTaint(self.cluster, Taint(key, effect)).applied(lost, now)
        for policy in oldest_first(world.taint_policies):
            lost = with_cluster(lost, self.cluster, policy.tainted)
        gone = world.lost | {self.cluster}
        ready = sum(each.ready for each in lost.clusters.values())
        return replace(lost, lost=gone, assumptions=world.assumptions.after_loss(len(gone), ready))

    def changed(self, cluster: Cluster) -> Cluster:
        """Return the cluster that is not ready, before any taint."""
        return not_ready(cluster)


class AddTaint(ClusterEdit, frozen=True, tag="taint"):
    """A cluster gets a taint. Whether NoExecute evicts workloads depends on ``failover``."""

    taint: Taint

    def problems(self) -> Iterator[FieldError]:
        if self.taint.effect not in EFFECTS:
            yield _refused("taint.effect", self.taint.effect, ", ".join(EFFECTS))
        if not is_label_key(self.taint.key):
            yield _refused("taint.key", self.taint.key, "a label key")
        if not is_label_value(self.taint.value):
            yield _refused("taint.value", self.taint.value, "a label value")

    def changed(self, cluster: Cluster) -> Cluster:
        others = _without_taint(cluster, self.taint.key, self.taint.effect).spec.taints
        return with_spec(cluster, taints=(*others, self.taint))


class AddLabel(ClusterEdit, frozen=True, tag="label"):
    """A cluster gets a label."""

    key: str
    value: str

    def problems(self) -> Iterator[FieldError]:
        if not is_label_key(self.key):
            yield _refused("key", self.key, "a label key")
        if not is_label_value(self.value):
            yield _refused("value", self.value, "a label value")

    def changed(self, cluster: Cluster) -> Cluster:
        return with_metadata(cluster, labels={**cluster.metadata.labels, self.key: self.value})


class WorkloadEdit(WireChange, frozen=True):
    """A change of the template of one workload.

    Attributes:
        verb: what the change does, for messages.
    """

    verb: ClassVar[str]
    resource: ResourceName

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        chosen = self.chosen(world)
        return world.with_workload(chosen, self.edited(chosen, world.policies))

    def chosen(self, world: World) -> SimulatedWorkload:
        """Return the workload of the name."""
        found = world.find(self.resource)
        if not found:
            close = closest(str(self.resource), map(str, world.workloads))
            hint = f"; did you mean {close}?" if close else ""
            raise self._error(f"there is no such resource{hint}")
        if len(found) > 1:
            raise self._error(f"{len(found)} resources have this name; {_QUALIFY}")
        return found[0]

    def edited(self, workload: SimulatedWorkload, policies: Iterable[Policy]) -> SimulatedWorkload:
        """Return the workload after the change, as far as the change reaches its binding."""
        try:
            return with_changed_template(workload, policies, self.changed)
        except UnclaimedError as error:
            raise self._error(str(error)) from None

    @abstractmethod
    def changed(self, binding: Binding) -> Binding:
        """Return the binding that the changed template brings."""

    def _error(self, why: str) -> InputError:
        return InputError(f"cannot {self.verb} {self.resource}: {why}")


class Scale(WorkloadEdit, frozen=True, tag="scale"):
    """A workload is scaled. Its name is ``KIND/NAME`` or ``NAMESPACE/KIND/NAME``."""

    verb: ClassVar = "scale"
    replicas: Count

    def changed(self, binding: Binding) -> Binding:
        # A Deployment with 0 replicas that requests nothing is no workload, and becomes one by a scale.
        resource = binding.spec.resource
        if not (binding.spec.is_workload or has_replica_count(resource.api_version, resource.kind)):
            raise self._error(f"a {resource.kind} has no replicas")
        return with_spec(binding, replicas=self.replicas)


class UnclaimedError(InputError):
    """A resource has no binding that a change of its template could reach."""


def with_changed_template(
    workload: SimulatedWorkload, policies: Iterable[Policy], change: Callable[[Binding], Binding]
) -> SimulatedWorkload:
    """Return a workload after a change of its template, as far as the change reaches its binding.

    ``change``: returns the binding that the changed template brings.

    Raises:
        UnclaimedError: the workload has no binding.
    """
    if workload.waits is not None:
        return workload  # the template changes, and its policy waits
    # The detector applies a policy only to templates that it selects (karmada getAndApplyPolicy).
    if _is_detached(workload, policies):
        message = f"{workload.held_by} holds it and no longer selects it, so that its binding keeps its replicas"
        return replace(workload, waits=Unscheduled(NotScheduled.UNCLAIMED, message))
    # A change of the template makes a Lazy policy count.
    binding = workload.deferred or workload.binding
    if binding is None:
        raise UnclaimedError(workload.unscheduled.message if workload.unscheduled else "no policy claims it")
    return replace(workload, binding=change(binding), deferred=None, unscheduled=None)


class Rebalance(msgspec.Struct, frozen=True):
    """A WorkloadRebalancer reschedules the workloads that it names, and no others (karmada ``workloadrebalancer``).

    Workloads that it has finished stay as they are. A workload without a binding fails in Karmada, too:
    ``without_binding`` names them.
    """

    rebalancer: WorkloadRebalancer

    def applied(self, world: World, now: datetime) -> World:
        marked = {_binding_key(each) for each in self.open_workloads()}
        since = self.rebalancer.metadata.creation_timestamp or now

        def change(binding: Binding) -> Binding:
            mark = binding.spec.reschedule_triggered_at
            if binding.metadata.key not in marked or (mark is not None and mark >= since):
                return binding
            return with_spec(binding, reschedule_triggered_at=since)

        return _with_bindings(world, change)

    def without_binding(self, world: World) -> list[RebalancedWorkload]:
        """Return the workloads that it names and that have no binding."""
        known = {each.binding.metadata.key for each in world.workloads if each.binding is not None}
        return [each for each in self.open_workloads() if _binding_key(each) not in known]

    def open_workloads(self) -> list[RebalancedWorkload]:
        """Return the workloads that are not finished, without duplicates."""
        finished = {
            each.workload for each in self.rebalancer.status.observed_workloads if each.result in {SUCCESSFUL, FAILED}
        }
        return [each for each in dict.fromkeys(self.rebalancer.spec.workloads) if each not in finished]


class Reschedule(WireChange, frozen=True, tag="reschedule"):
    """Every workload is scheduled from scratch, as by a WorkloadRebalancer that lists all of them."""

    def applied(self, world: World, now: datetime) -> World:
        return _with_bindings(world, lambda binding: _rescheduled(binding, now))


def apply(changes: Iterable[Change], world: World, now: datetime) -> World:
    """Return the world after all changes, applied in order."""
    for change in changes:
        world = change.applied(world, now)
    return world


def _rescheduled(binding: Binding, now: datetime) -> Binding:
    last = binding.status.last_scheduled_time
    after = now if last is None or last < now else last + timedelta(seconds=1)
    return with_spec(binding, reschedule_triggered_at=after)


def _binding_key(workload: RebalancedWorkload) -> tuple[str, str]:
    return workload.namespace, binding_name(workload.kind, workload.name)


def _without_taint(cluster: Cluster, key: str, effect: str) -> Cluster:
    kept = tuple(each for each in cluster.spec.taints if (each.key, each.effect) != (key, effect))
    return with_spec(cluster, taints=kept)


def with_cluster(world: World, name: str, change: Callable[[Cluster], Cluster]) -> World:
    """Return the world with one cluster changed."""
    cluster = world.clusters.get(name)
    if cluster is None:
        close = closest(name, world.clusters)
        known = f"did you mean {close}?" if close else f"known are {name_list(sorted(world.clusters)) or 'none'}"
        raise InputError(f"there is no cluster {name!r}; {known}")
    return changed_cluster(world, change(cluster))


def changed_cluster(world: World, cluster: Cluster) -> World:
    """Return the world after a cluster joined or was replaced."""
    workloads = woken(world.workloads, world.clusters.get(cluster.name), cluster)
    return replace(world, clusters={**world.clusters, cluster.name: cluster}, workloads=workloads)


def _with_bindings(world: World, change: Callable[[Binding], Binding]) -> World:
    def changed(workload: SimulatedWorkload) -> SimulatedWorkload:
        binding = workload.binding
        if binding is None or (after := change(binding)) is binding:
            return workload  # most of them: a copy of each would take longer than the rest of the change
        return replace(workload, binding=after)

    return replace(world, workloads=[changed(each) for each in world.workloads])


class RemoveTaint(ClusterEdit, frozen=True, tag="untaint"):
    """A cluster loses its taints with a key, or only the one with the effect. Evicted workloads do not return.

    As in Karmada, eviction tasks stay, and a divided workload is scheduled again only for another reason.
    """

    key: str
    effect: str = ""

    def changed(self, cluster: Cluster) -> Cluster:
        taints = cluster.spec.taints
        kept = tuple(each for each in taints if each.key != self.key or self.effect not in {"", each.effect})
        if len(kept) == len(taints):
            wanted = f"{self.key}:{self.effect}" if self.effect else self.key
            known = name_list([str(each) for each in taints]) or "none"
            raise InputError(f"the cluster {self.cluster} has no taint {wanted}; its taints are {known}")
        return with_spec(cluster, taints=kept)


class RemoveLabel(ClusterEdit, frozen=True, tag="unlabel"):
    """A cluster loses a label."""

    key: str

    def changed(self, cluster: Cluster) -> Cluster:
        labels = cluster.metadata.labels
        if self.key not in labels:
            known = name_list(sorted(labels)) or "none"
            raise InputError(f"the cluster {self.cluster} has no label {self.key}; its labels are {known}")
        kept = {key: value for key, value in labels.items() if key != self.key}
        return with_metadata(cluster, labels=kept)


class Up(ClusterEdit, frozen=True, tag="up"):
    """A cluster recovers: it is ready, and the taints of a failed cluster are gone.

    As in Karmada, workloads that were evicted from it do not return on their own.
    """

    def applied(self, world: World, now: datetime) -> World:
        return replace(super().applied(world, now), lost=world.lost - {self.cluster})

    def changed(self, cluster: Cluster) -> Cluster:
        return recovered(cluster)


class AddCluster(WireChange, frozen=True, tag="addCluster"):
    """A cluster joins.

    As in Karmada, it gets workloads that are scheduled for another reason, and duplicated ones.
    """

    cluster: Cluster

    def problems(self) -> Iterator[FieldError]:
        if not self.cluster.name:
            yield _refused("cluster.metadata.name", self.cluster.name, "a name")
        for error in cluster_errors(self.cluster):
            yield error.below("cluster")

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        if self.cluster.name in world.clusters:
            raise InputError(f"the cluster {self.cluster.name} exists; give the new cluster another name")
        return changed_cluster(world, self.cluster)


class RemoveCluster(WireChange, frozen=True, tag="removeCluster"):
    """A cluster is being deleted. Its copies go first; workloads whose affinity matches it are scheduled again.

    The cluster stays in deletion until no binding names it. No toleration keeps a workload there.
    """

    cluster: str

    def applied(self, world: World, now: datetime) -> World:
        left = with_cluster(world, self.cluster, lambda cluster: with_metadata(cluster, deletion_timestamp=now))
        return replace(left, removed=world.removed | {self.cluster})


def recovered(cluster: Cluster) -> Cluster:
    ready = with_readiness(cluster, "True", "ClusterReady", "brought up by the simulation")
    taints = tuple(each for each in cluster.spec.taints if each.key not in {NOT_READY, UNREACHABLE})
    return with_spec(ready, taints=taints)


class SetPolicy(msgspec.Struct, frozen=True):
    """A policy is created, or it replaces the policy of its kind, namespace and name.

    Workloads change policies as Karmada's detector decides. A policy keeps the workloads that it still matches. The
    first of the other matching policies claims a workload that loses its policy or has none. A policy with
    ``preemption: Always`` takes the workloads that it names from weaker policies, if the world assumes preemption (see
    ``berthmaster.model.claims``). Under a Lazy policy bindings stay as they are.
    """

    policy: Policy

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        before = next((each for each in world.policies if each.reference == self.policy.reference), None)
        edit = PolicyEdit(before, self.policy)
        policies = edit.applied(world.policies)
        workloads = list(map(world.detector(edit, PolicyCatalog(policies)).detected, world.workloads))
        return replace(world, policies=policies, workloads=workloads)


ClusterChange = Down | Up | AddTaint | RemoveTaint | AddLabel | RemoveLabel | RemoveCluster
"""Every change of one cluster of the fleet."""
WorkloadChange = Scale
"""Every change of one workload."""
WhatIf = ClusterChange | AddCluster | WorkloadChange | Reschedule
"""Every change that the extender's API accepts."""


def _refused(path: str, value: str, accepted: str) -> FieldError:
    return FieldError(path, f"{shown(value)} is not accepted; accepted is {accepted}")


def _is_detached(workload: SimulatedWorkload, policies: Iterable[Policy]) -> bool:
    """Return whether the policy that holds a workload exists, and does not select it any more."""
    if workload.template is None or any(each.policy.reference == workload.held_by for each in workload.claims):
        return False
    return any(each.reference == workload.held_by for each in policies)
