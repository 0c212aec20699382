"""Karmada's ResourceBinding and ClusterResourceBinding (``work.karmada.io/v1alpha2``)."""

from typing import Any, Final, Literal

from berthmaster.model.base import Count, Int32, Int64, Timestamp, Value
from berthmaster.model.cluster import Condition
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.placement import Placement
from berthmaster.model.policy import FailoverBehavior, Suspension
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Toleration

APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
"""The annotation that holds the placement of the last successful scheduling."""


class ObjectReference(Value, frozen=True):
    """The workload that a binding places."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class NodeClaim(Value, frozen=True):
    """What a replica asks of its node; only estimators inside a member can answer it."""

    hard_node_affinity: dict[str, Any] | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class ReplicaRequirements(Value, frozen=True):
    """What one replica needs."""

    resource_request: dict[str, Quantity] = {}
    node_claim: NodeClaim | None = None
    namespace: str = ""
    priority_class_name: str = ""


class Component(Value, frozen=True):
    """One of several pod templates of a workload."""

    name: str
    replicas: Count
    replica_requirements: ReplicaRequirements | None = None


class TargetComponent(Value, frozen=True):
    """How many replicas of a component a cluster has."""

    name: str
    replicas: Count


class TargetCluster(Value, frozen=True):
    """A cluster that a workload is assigned to, with its replicas."""

    name: str
    replicas: Count = 0
    components: tuple[TargetComponent, ...] = ()


class GracefulEvictionTask(Value, frozen=True):
    """A cluster that a workload is being moved off."""

    from_cluster: str
    producer: str = ""
    reason: str = ""
    purge_mode: str = ""  # stored objects have words of earlier Karmadas, too
    message: str = ""
    replicas: Int32 | None = None
    grace_period_seconds: Int32 | None = None
    suppress_deletion: bool | None = None
    preserved_label_state: dict[str, str] = {}
    clusters_before_failover: tuple[str, ...] = ()
    creation_timestamp: Timestamp | None = None


class BindingSnapshot(Value, frozen=True):
    """A binding that depends on this one, and where it is."""

    name: str
    namespace: str = ""
    clusters: tuple[TargetCluster, ...] = ()


class BindingSchedulePriority(Value, frozen=True):
    """The priority that scheduling gives a binding among others that wait."""

    priority: Int32 = 0


class WorkloadAffinityGroups(Value, frozen=True):
    """The groups of a workload, each ``key=value``."""

    affinity_group: str = ""
    anti_affinity_group: str = ""


class BindingSpec(Value, frozen=True):
    """The workload, what its policy asks, and where it is assigned now."""

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
        """Whether it has replicas to place (``BindingSpec.IsWorkload``)."""
        return self.replicas > 0 or self.replica_requirements is not None or bool(self.components)


class AggregatedStatusItem(Value, frozen=True):
    """What one cluster reports of the workload."""

    cluster_name: str
    status: Any = None
    applied: bool = False
    applied_message: str = ""
    health: str = ""


class BindingStatus(Value, frozen=True):
    """What the scheduler and the members said last."""

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
    def reschedule_requested(self) -> bool:
        """Whether a rescheduling was triggered after the last successful scheduling."""
        triggered, last = self.spec.reschedule_triggered_at, self.status.last_scheduled_time
        return triggered is not None and last is not None and triggered > last


def binding_name(kind: str, name: str) -> str:
    """The name of the binding of a workload (``names.GenerateBindingName``)."""
    return f"{name.replace(':', '.')}-{kind}".lower()
