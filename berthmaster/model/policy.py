"""Karmada's PropagationPolicy and ClusterPropagationPolicy (``policy.karmada.io/v1alpha1``), and their defaults."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, get_args

import msgspec
import msgspec.structs

from berthmaster.model.cluster import Cluster, Condition, Taint
from berthmaster.model.meta import Int32, ObjectMeta, Value
from berthmaster.model.placement import (
    AffinityTerm,
    ClusterAffinity,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
)
from berthmaster.model.selector import LabelSelector

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_SCHEDULER: Final = "default-scheduler"
PolicyKind = Literal["PropagationPolicy", "ClusterPropagationPolicy"]
POLICY_KINDS: Final[tuple[PolicyKind, ...]] = get_args(PolicyKind)
_GRACEFULLY: Final = "Gracefully"
_TOLERATION_S: Final = 300
_GRACE_S: Final = 600
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")


class ResourceSelector(Value, frozen=True):
    """The resources that a policy selects. If ``name`` is set, ``label_selector`` is ignored."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None


class DecisionConditions(Value, frozen=True):
    """The time a workload may be unhealthy before it fails over."""

    toleration_seconds: Int32 | None = None


class StatePreservationRule(Value, frozen=True):
    """A part of a workload's state that a failover preserves."""

    alias_label_name: str
    json_path: str


class StatePreservation(Value, frozen=True):
    """The state of a workload that a failover preserves."""

    rules: tuple[StatePreservationRule, ...] = ()


class ApplicationFailoverBehavior(Value, frozen=True):
    """The failover of an unhealthy workload."""

    decision_conditions: DecisionConditions = DecisionConditions()
    purge_mode: str = ""  # text: stored objects may hold values of earlier Karmada versions
    grace_period_seconds: Int32 | None = None
    state_preservation: StatePreservation | None = None


class ClusterFailoverBehavior(Value, frozen=True):
    """The failover from a failed cluster."""

    purge_mode: str = ""
    state_preservation: StatePreservation | None = None


class FailoverBehavior(Value, frozen=True):
    """The failover of a workload."""

    application: ApplicationFailoverBehavior | None = None
    cluster: ClusterFailoverBehavior | None = None


class SuspendClusters(Value, frozen=True):
    """The clusters to which Karmada dispatches nothing."""

    cluster_names: tuple[str, ...] = ()


class Suspension(Value, frozen=True):
    """The suspended operations. Only bindings have ``scheduling``."""

    dispatching: bool | None = None
    dispatching_on_clusters: SuspendClusters | None = None
    scheduling: bool | None = None


class SchedulePriority(Value, frozen=True):
    """The priority class of the bindings of a policy."""

    priority_class_source: str
    priority_class_name: str


class PropagationSpec(Value, frozen=True):
    """The spec of both policy kinds."""

    resource_selectors: tuple[ResourceSelector, ...]
    association: bool = False
    propagate_deps: bool = False
    placement: Placement = Placement()
    priority: Int32 | None = None
    preemption: Literal["Always", "Never", ""] = ""
    dependent_overrides: tuple[str, ...] = ()
    scheduler_name: str = ""
    failover: FailoverBehavior | None = None
    conflict_resolution: Literal["Abort", "Overwrite", ""] = ""
    activation_preference: Literal["Lazy", ""] = ""
    suspension: Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: SchedulePriority | None = None


class PolicyReference(NamedTuple):
    """The identity of a policy. ``namespace`` is empty for a ClusterPropagationPolicy."""

    kind: PolicyKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, self[1:]))}"


class Policy(Value, frozen=True):
    """A PropagationPolicy, for resources of its namespace, or a ClusterPropagationPolicy, for all resources."""

    kind: PolicyKind
    metadata: ObjectMeta
    spec: PropagationSpec
    api_version: str = "policy.karmada.io/v1alpha1"

    @property
    def cluster_scoped(self) -> bool:
        return self.kind == "ClusterPropagationPolicy"

    @property
    def lazy(self) -> bool:
        """Whether a change of it reaches a binding only when the template changes."""
        return self.spec.activation_preference == "Lazy"

    @property
    def explicit_priority(self) -> int:
        """``spec.priority``, or 0 if it is absent."""
        return self.spec.priority or 0

    @property
    def reference(self) -> PolicyReference:
        namespace = "" if self.cluster_scoped else self.metadata.namespace
        return PolicyReference(self.kind, namespace, self.metadata.name)

    def __str__(self) -> str:
        return str(self.reference)


def defaulted(policy: Policy) -> Policy:
    """Return a policy with the defaults of its CRD and of Karmada's mutating webhook.

    Manifests lack these defaults, and some change decisions: a ``replicaScheduling`` without a type is Divided.
    Fields that only the API server can set (UID, labels, finalizers) do not affect decisions and stay unset.
    """
    metadata, spec = policy.metadata, policy.spec
    selectors = spec.resource_selectors
    if not policy.cluster_scoped:
        metadata = msgspec.structs.replace(metadata, namespace=metadata.namespace or DEFAULT_NAMESPACE)
        selectors = tuple(
            msgspec.structs.replace(each, namespace=each.namespace or metadata.namespace) for each in selectors
        )
    spec = msgspec.structs.replace(
        spec,
        resource_selectors=selectors,
        placement=defaulted_placement(spec.placement),
        priority=spec.priority or 0,
        preemption=spec.preemption or "Never",
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        conflict_resolution=spec.conflict_resolution or "Abort",
        failover=_defaulted_failover(spec.failover),
        propagate_deps=spec.propagate_deps or any((s.api_version, s.kind) == _SERVICE_IMPORT for s in selectors),
    )
    return msgspec.structs.replace(policy, metadata=metadata, spec=spec)


def _defaulted_failover(failover: FailoverBehavior | None) -> FailoverBehavior | None:
    if failover is None:
        return None
    application, cluster = failover.application, failover.cluster
    if application is not None:
        mode, conditions = application.purge_mode or _GRACEFULLY, application.decision_conditions
        seconds, grace_s = conditions.toleration_seconds, application.grace_period_seconds
        application = msgspec.structs.replace(
            application,
            decision_conditions=DecisionConditions(_TOLERATION_S if seconds is None else seconds),
            purge_mode=mode,
            grace_period_seconds=_GRACE_S if grace_s is None and mode == _GRACEFULLY else grace_s,
        )
    if cluster is not None:
        cluster = msgspec.structs.replace(cluster, purge_mode=cluster.purge_mode or _GRACEFULLY)
    return FailoverBehavior(application, cluster)


def defaulted_placement(placement: Placement) -> Placement:
    """Return a placement with its defaults. ``maxGroups`` has none."""
    strategy = placement.replica_scheduling
    return msgspec.structs.replace(
        placement,
        spread_constraints=tuple(map(_defaulted_constraint, placement.spread_constraints)),
        replica_scheduling=_defaulted_strategy(strategy) if strategy is not None else None,
    )


def _defaulted_constraint(constraint: SpreadConstraint) -> SpreadConstraint:
    named = constraint.spread_by_field or constraint.spread_by_label
    return msgspec.structs.replace(
        constraint,
        spread_by_field=constraint.spread_by_field if named else "cluster",
        min_groups=constraint.min_groups or 1,
    )


def _defaulted_strategy(strategy: ReplicaSchedulingStrategy) -> ReplicaSchedulingStrategy:
    kind = strategy.replica_scheduling_type or "Divided"
    preference = strategy.replica_division_preference or ("Weighted" if kind == "Divided" else "")
    return msgspec.structs.replace(strategy, replica_scheduling_type=kind, replica_division_preference=preference)


TAINT_POLICY_API: Final = "policy.karmada.io/v1alpha1"
TAINT_POLICY: Final = "ClusterTaintPolicy"


class MatchCondition(Value, frozen=True):
    """A requirement on the status of a condition. A cluster without the condition does not meet it."""

    condition_type: str = ""
    operator: str = ""
    status_values: tuple[str, ...] = ()

    def meets(self, conditions: Iterable[Condition]) -> bool:
        found = [each.status in self.status_values for each in conditions if each.type == self.condition_type]
        match self.operator:
            case "In":
                return any(found)
            case "NotIn":
                return bool(found) and not found[-1]
            case _:
                return False


class TaintPolicySpec(Value, frozen=True):
    """The clusters, the conditions, and the taints. Conditions are a conjunction; none mean "never"."""

    target_clusters: ClusterAffinity | None = None
    add_on_conditions: tuple[MatchCondition, ...] = ()
    remove_on_conditions: tuple[MatchCondition, ...] = ()
    taints: tuple[Taint, ...] = ()


class ClusterTaintPolicy(Value, frozen=True):
    """A policy that adds taints to clusters, and removes them again."""

    spec: TaintPolicySpec = TaintPolicySpec()
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = TAINT_POLICY_API
    kind: str = TAINT_POLICY

    def tainted(self, cluster: Cluster) -> Cluster:
        """Return a cluster with the taints that its conditions bring (``clustertaintpolicy_controller.go``)."""
        spec, taints, conditions = self.spec, cluster.spec.taints, cluster.status.conditions
        if spec.target_clusters is not None and not AffinityTerm(spec.target_clusters).matches(cluster):
            return cluster
        if _all_met(spec.add_on_conditions, conditions):
            known = {(each.key, each.effect) for each in taints}
            taints = (*taints, *(each for each in spec.taints if (each.key, each.effect) not in known))
        if _all_met(spec.remove_on_conditions, conditions):
            removed = {(each.key, each.effect) for each in spec.taints}
            taints = tuple(each for each in taints if (each.key, each.effect) not in removed)
        return msgspec.structs.replace(cluster, spec=msgspec.structs.replace(cluster.spec, taints=taints))


def in_order(policies: Iterable[ClusterTaintPolicy]) -> tuple[ClusterTaintPolicy, ...]:
    """Return policies in the order in which Karmada applies them: the oldest first."""

    def created_s(policy: ClusterTaintPolicy) -> float:
        created = policy.metadata.creation_timestamp
        return created.timestamp() if created is not None else float("inf")

    return tuple(sorted(policies, key=created_s))


def _all_met(wanted: Sequence[MatchCondition], conditions: Sequence[Condition]) -> bool:
    return bool(wanted) and all(each.meets(conditions) for each in wanted)
