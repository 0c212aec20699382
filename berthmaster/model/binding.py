"""Karmada's ResourceBinding and ClusterResourceBinding (``work.karmada.io/v1alpha2``), and how policies create them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from berthmaster.model.cluster import Condition, condition_of
from berthmaster.model.failover_behavior import (
    FORMER_PURGE_MODES,
    GRACEFULLY,
    ApplicationFailoverBehavior,
    FailoverBehavior,
)
from berthmaster.model.meta import Count, Int32, Int64, ObjectMeta, Timestamp, Value, is_valid_name, timestamp_text
from berthmaster.model.placement import Placement, WorkloadAffinity, WorkloadAffinityTerm
from berthmaster.model.policy import Policy, PolicyReference, PropagationSpec, Suspension
from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster.model.replicas import ReplicaRequirements, Replicas, Template, template_of

APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
"""The annotation with the placement of the last successful scheduling."""
HOLDER_NAMESPACE: Final = "propagationpolicy.karmada.io/namespace"
HOLDER_NAME: Final = "propagationpolicy.karmada.io/name"
CLUSTER_HOLDER_NAME: Final = "clusterpropagationpolicy.karmada.io/name"
"""The annotations of a resource, and of its binding, that name the policy which claims the resource."""
SCHEDULED: Final = "Scheduled"
"""The type of the condition that the scheduler writes."""
NO_CLUSTER_FIT: Final = "NoClusterFit"
"""The reason of the condition if no cluster passes the filters."""
READY: Final = "readyReplicas"
_AVAILABLE: Final = "availableReplicas"
DIRECTLY: Final = "Directly"
"""The purge mode of an eviction task whose copy is deleted at once."""
REBALANCE: Final = "policy.berthmaster.io/rebalance"
"""The annotation of a WorkloadRebalancer that asks for the fewest moves, and of the bindings that it marks."""
MINIMAL: Final = "minimal"
"""The value of ``REBALANCE`` on a WorkloadRebalancer. A binding has it with the time of the mark."""
CLUSTERS_SHOWN: Final = 8


def deletes_directly(purge_mode: str) -> bool:
    """Return whether a purge mode deletes the copy at once. Karmada named it Immediately before 1.15."""
    return FORMER_PURGE_MODES.get(purge_mode, purge_mode) == DIRECTLY


class ObjectReference(Value, frozen=True):
    """The workload that a binding places."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Component(Value, frozen=True):
    """One of several pod templates of a workload."""

    name: str
    replicas: Count
    replica_requirements: ReplicaRequirements | None = None


class TargetComponent(Value, frozen=True):
    """The number of replicas of a component on a cluster."""

    name: str
    replicas: Count


class TargetCluster(Value, frozen=True):
    """A cluster that a workload is assigned to, and the number of replicas there."""

    name: str
    replicas: Count = 0
    components: tuple[TargetComponent, ...] = ()


@lru_cache(maxsize=2**16)
def target_of(name: str, replicas: int) -> TargetCluster:
    """Return a cluster with replicas. Workloads with as many replicas there share it."""
    return TargetCluster(name, replicas)


class GracefulEvictionTask(Value, frozen=True):
    """A cluster from which a workload is being evicted."""

    from_cluster: str
    producer: str = ""
    reason: str = ""
    purge_mode: str = ""  # text: stored objects may hold values of earlier Karmada versions
    message: str = ""
    replicas: Int32 | None = None
    grace_period_seconds: Int32 | None = None
    suppress_deletion: bool | None = None
    preserved_label_state: dict[str, str] = {}
    clusters_before_failover: tuple[str, ...] = ()
    creation_timestamp: Timestamp | None = None

    @property
    def keeps_copy(self) -> bool:
        """Whether the copy on the cluster stays for now. Karmada deletes that of a task with Directly at once."""
        return not deletes_directly(self.purge_mode)


class BindingSnapshot(Value, frozen=True):
    """A binding that depends on this one, and its assignment."""

    name: str
    namespace: str = ""
    clusters: tuple[TargetCluster, ...] = ()


class BindingSchedulePriority(Value, frozen=True):
    """The priority of a binding in the scheduling queue."""

    priority: Int32 = 0


class WorkloadAffinityGroups(Value, frozen=True):
    """The affinity groups of a workload, each ``key=value``."""

    affinity_group: str = ""
    anti_affinity_group: str = ""


class BindingSpec(Value, frozen=True):
    """The workload, what its policy asks for, and the current assignment."""

    resource: ObjectReference
    replicas: Count = 0
    replica_requirements: ReplicaRequirements | None = None
    components: tuple[Component, ...] = ()
    clusters: tuple[TargetCluster, ...] = ()
    placement: Placement | None = None
    graceful_eviction_tasks: tuple[GracefulEvictionTask, ...] = ()
    required_by: tuple[BindingSnapshot, ...] = ()
    scheduler_name: str = ""
    propagate_deps: bool = False
    failover: FailoverBehavior | None = None
    conflict_resolution: Literal["Abort", "Overwrite", ""] = ""
    reschedule_triggered_at: Timestamp | None = None
    suspension: Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: BindingSchedulePriority | None = None
    workload_affinity_groups: WorkloadAffinityGroups | None = None

    @property
    def is_workload(self) -> bool:
        """Whether the resource has replicas to place (``BindingSpec.IsWorkload``)."""
        return self.replicas > 0 or self.replica_requirements is not None or bool(self.components)


class AggregatedStatusItem(Value, frozen=True):
    """The state of the workload that one cluster reports."""

    cluster_name: str
    status: Any = None
    applied: bool = False
    applied_message: str = ""
    health: str = ""

    @property
    def runs(self) -> bool:
        """Whether the cluster has the workload. A report exists as soon as Karmada has sent the workload there."""
        return self.applied or self.status is not None

    @property
    def healthy(self) -> bool:
        return self.health == "Healthy"

    @property
    def counts_ready(self) -> bool:
        """Whether the member reports a number of ready replicas. A member leaves out a zero."""
        return isinstance(self.status, Mapping) and (READY in self.status or _AVAILABLE in self.status)

    @property
    def ready_replicas(self) -> int:
        return max(self.number(READY), self.number(_AVAILABLE))

    def number(self, field: str) -> int:
        value = self.status.get(field) if isinstance(self.status, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else 0


class BindingStatus(Value, frozen=True):
    """The last report of the scheduler and of the members."""

    scheduler_observed_generation: Int64 = 0
    scheduler_observing_affinity_name: str = ""
    last_scheduled_time: Timestamp | None = None
    conditions: tuple[Condition, ...] = ()
    aggregated_status: tuple[AggregatedStatusItem, ...] = ()


class Binding(Value, frozen=True):
    """A ResourceBinding, or a ClusterResourceBinding for a workload without a namespace."""

    spec: BindingSpec
    metadata: ObjectMeta = ObjectMeta()
    status: BindingStatus = BindingStatus()
    api_version: str = "work.karmada.io/v1alpha2"
    kind: Literal["ResourceBinding", "ClusterResourceBinding"] = "ResourceBinding"

    @property
    def assignment(self) -> dict[str, int]:
        return {target.name: target.replicas for target in self.spec.clusters}

    @property
    def deployed(self) -> dict[str, int]:
        """The replicas by cluster, also where workloads are that need it (karmada ``mergeTargetClusters``).

        There it has the replicas of such a workload if it has replicas itself, and 0 otherwise.
        """
        found = self.assignment
        for snapshot in self.spec.required_by:
            for target in snapshot.clusters:
                found.setdefault(target.name, target.replicas if self.spec.is_workload else 0)
        return found

    @property
    def evicted_from(self) -> frozenset[str]:
        """The clusters of its eviction tasks."""
        return frozenset([task.from_cluster for task in self.spec.graceful_eviction_tasks])

    @property
    def purged_from(self) -> frozenset[str]:
        """The clusters of its eviction tasks from which Karmada deletes the copy at once."""
        return frozenset(task.from_cluster for task in self.spec.graceful_eviction_tasks if not task.keeps_copy)

    @property
    def reports(self) -> dict[str, AggregatedStatusItem]:
        """What each cluster reports of the workload, by cluster. One without a report is left out."""
        return {each.cluster_name: each for each in self.status.aggregated_status}

    @property
    def applied_placement(self) -> str:
        """The placement of the last scheduling (``encoded_placement``); empty before the first."""
        return self.metadata.annotations.get(APPLIED_PLACEMENT, "")

    @property
    def scheduler(self) -> str:
        return self.spec.scheduler_name or DEFAULT_SCHEDULER

    @property
    def suspended(self) -> bool:
        return self.spec.suspension is not None and bool(self.spec.suspension.scheduling)

    @property
    def is_divided(self) -> bool:
        """Whether the clusters of an assignment share the replicas. Otherwise each of them has all."""
        return self.spec.placement is not None and self.spec.placement.divides

    @property
    def application_failover(self) -> ApplicationFailoverBehavior:
        """The failover of the workload while it is not healthy; the defaults if its policy does not set it."""
        failover = self.spec.failover
        return (failover.application if failover is not None else None) or ApplicationFailoverBehavior()

    @property
    def cluster_purge_mode(self) -> str:
        """The purge mode of tasks that evict the workload from a failed cluster."""
        failover = self.spec.failover.cluster if self.spec.failover is not None else None
        return (failover.purge_mode if failover is not None else "") or GRACEFULLY

    def dispatches_to(self, cluster: str) -> bool:
        """Whether Karmada sends the workload to a cluster. It deletes the workload there even if it does not."""
        suspension = self.spec.suspension
        if suspension is None:
            return True
        named = suspension.dispatching_on_clusters
        return not suspension.dispatching and (named is None or cluster not in named.cluster_names)

    @property
    def scheduled(self) -> Condition | None:
        """What the scheduler says about its last decision: the condition ``SCHEDULED``; None before the first one."""
        return condition_of(self.status.conditions, SCHEDULED)

    @property
    def gave_up(self) -> bool:
        """Whether karmada-scheduler found no cluster that fits. It ignores this error, and does not try again."""
        if self.scheduler != DEFAULT_SCHEDULER or self.spec.clusters:
            return False
        known = self.scheduled
        return known is not None and (known.status, known.reason) == ("False", NO_CLUSTER_FIT)

    @property
    def reschedule_requested(self) -> bool:
        triggered, last = self.spec.reschedule_triggered_at, self.status.last_scheduled_time
        return triggered is not None and last is not None and triggered > last

    @property
    def keeps_replicas(self) -> bool:
        """Whether the last trigger of a rescheduling asks for the fewest moves. A later trigger may not."""
        triggered, text = self.spec.reschedule_triggered_at, self.metadata.annotations.get(REBALANCE)
        return triggered is not None and text is not None and text == minimal_mark(triggered)


def minimal_mark(at: Timestamp) -> str:
    """Return the value of ``REBALANCE`` on a binding that is marked at a time."""
    return f"{MINIMAL}@{timestamp_text(at)}"


def binding_name(kind: str, name: str) -> str:
    """Return the name of the binding of a workload (``names.GenerateBindingName``)."""
    return f"{name.replace(':', '.')}-{kind}".lower()


def binding_of(
    raw: Mapping[str, Any],
    policy: Policy,
    replicas: Replicas,
    *,
    current: Binding | None = None,
    workload_affinity: bool = False,
) -> Binding:
    """Return the binding of a resource under the policy that claims it (karmada ``detector`` ``ApplyPolicy``).

    Args:
        policy: the policy with its defaults (``policy.defaulted``).
        replicas: the replicas of the resource (``replicas.replicas_of``).
        current: the existing binding. The result keeps its assignment, its eviction tasks, the time of the last
            triggered rescheduling and its status, and also its components and priority, which policy and resource
            alone do not determine. Everything else that comes from the policy or the resource is replaced.
    """
    template = template_of(raw)
    namespaced = bool(template.namespace)
    resource = _reference(template, raw.get("metadata") or {}, current.spec.resource if current is not None else None)
    before = current.spec if current is not None else BindingSpec(resource)
    desired = policy.spec
    spec = msgspec.structs.replace(
        before,
        resource=resource,
        replicas=replicas.number,
        replica_requirements=replicas.requirements,
        placement=desired.placement,
        scheduler_name=desired.scheduler_name,
        # Karmada writes this field of a ClusterResourceBinding only once.
        propagate_deps=desired.propagate_deps if namespaced or current is None else before.propagate_deps,
        failover=desired.failover,
        conflict_resolution=desired.conflict_resolution,
        suspension=_suspension(desired.suspension, before.suspension),
        preserve_resources_on_deletion=desired.preserve_resources_on_deletion,
        schedule_priority=before.schedule_priority if namespaced and desired.schedule_priority is not None else None,
        workload_affinity_groups=_groups(desired, template) if namespaced and workload_affinity else None,
    )
    if current is not None:
        return msgspec.structs.replace(current, spec=spec)
    return Binding(
        kind="ResourceBinding" if namespaced else "ClusterResourceBinding",
        metadata=ObjectMeta(name=binding_name(template.kind, template.name), namespace=template.namespace),
        spec=spec,
    )


def _reference(template: Template, metadata: Mapping[str, Any], before: ObjectReference | None) -> ObjectReference:
    """Return the reference to a resource. A manifest without a UID is the same object as before."""
    return ObjectReference(
        api_version=template.api_version,
        kind=template.kind,
        name=template.name,
        namespace=template.namespace,
        uid=str(metadata.get("uid") or (before.uid if before is not None else "")),
        resource_version=str(
            metadata.get("resourceVersion") or (before.resource_version if before is not None else "")
        ),
    )


def _suspension(desired: Suspension | None, before: Suspension | None) -> Suspension | None:
    scheduling = before.scheduling if before is not None else None
    if desired is None:
        return Suspension(scheduling=scheduling) if scheduling is not None else None
    return msgspec.structs.replace(desired, scheduling=scheduling)


def _groups(spec: PropagationSpec, template: Template) -> WorkloadAffinityGroups | None:
    terms = spec.placement.workload_affinity or WorkloadAffinity()
    affinity, anti_affinity = _group(terms.affinity, template), _group(terms.anti_affinity, template)
    if not affinity and not anti_affinity:
        return None
    return WorkloadAffinityGroups(affinity_group=affinity, anti_affinity_group=anti_affinity)


def _group(term: WorkloadAffinityTerm | None, template: Template) -> str:
    key = term.group_by_label_key if term is not None else ""
    return f"{key}={template.labels[key]}" if key in template.labels else ""


def holder(resource: ObjectMeta) -> PolicyReference | None:
    """Return the policy that claims a resource according to the annotations of the resource or its binding, or None."""
    annotations = resource.annotations
    namespace, name = annotations.get(HOLDER_NAMESPACE, ""), annotations.get(HOLDER_NAME, "")
    if is_valid_name(namespace) and is_valid_name(name):
        return PolicyReference("PropagationPolicy", namespace, name)
    name = annotations.get(CLUSTER_HOLDER_NAME, "")
    return PolicyReference("ClusterPropagationPolicy", "", name) if is_valid_name(name) else None


def names_scheduler(binding: Binding, scheduler_name: str) -> bool:
    return binding.scheduler == scheduler_name and not binding.suspended


def short_assignment(clusters: Mapping[str, int], none: str = "no clusters") -> str:
    """Return replicas by cluster as text, such as ``member1:2, member2:1``; of many clusters only the first by name."""
    text = ", ".join(f"{name}:{count}" for name, count in sorted(clusters.items())[:CLUSTERS_SHOWN])
    more = len(clusters) - CLUSTERS_SHOWN
    return f"{text} and {more} more" if more > 0 else text or none
