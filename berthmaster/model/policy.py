"""Karmada's PropagationPolicy and ClusterPropagationPolicy (``policy.karmada.io/v1alpha1``), and their defaults."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, get_args

import msgspec
import msgspec.structs

from berthmaster.model.cluster import Cluster, Condition, Taint, Toleration
from berthmaster.model.meta import Int32, Int64, ObjectMeta, Value, with_spec
from berthmaster.model.selector import (
    NODE_OPERATORS,
    LabelSelector,
    Requirement,
    SelectorRequirement,
    parse_requirements,
)

ZONE = "zone"


class FieldSelector(Value, frozen=True):
    """Expressions over a cluster's provider, region and zone."""

    match_expressions: tuple[SelectorRequirement, ...] = ()


class ClusterAffinity(Value, frozen=True):
    """The clusters that a workload may run on. Every part that is set must hold."""

    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class NamedAffinity(ClusterAffinity, frozen=True, kw_only=True):
    """A named affinity: an entry of ``overflowAffinities``."""

    affinity_name: str


class ClusterAffinityTerm(NamedAffinity, frozen=True, kw_only=True):
    """A group of clusters. Groups are tried in order; ``overflow_affinities`` extend a full group, in order."""

    overflow_affinities: tuple[NamedAffinity, ...] | None = None


class StaticClusterWeight(Value, frozen=True):
    """The weight of the clusters that match."""

    target_cluster: ClusterAffinity
    weight: Int64


class ClusterPreferences(Value, frozen=True):
    """The source of the weights of weighted division."""

    static_weight_list: tuple[StaticClusterWeight, ...] = ()
    dynamic_weight: Literal["AvailableReplicas", ""] = ""


class ReplicaSchedulingStrategy(Value, frozen=True):
    """How replicas are distributed over the selected clusters."""

    replica_scheduling_type: Literal["Duplicated", "Divided", ""] = ""
    replica_division_preference: Literal["Aggregated", "Weighted", ""] = ""
    weight_preference: ClusterPreferences | None = None


class SpreadConstraint(Value, frozen=True):
    """The number of cluster groups that a workload spreads over. As in Karmada, an absent ``max_groups`` is 0."""

    spread_by_field: Literal["cluster", "region", "zone", "provider", ""] = ""
    spread_by_label: str = ""
    max_groups: Int64 = 0
    min_groups: Int64 = 0


class WorkloadAffinityTerm(Value, frozen=True):
    """The label whose value puts workloads into a group."""

    group_by_label_key: str


class WorkloadAffinity(Value, frozen=True):
    """Keep the workloads of a group on the same clusters, or on different ones."""

    affinity: WorkloadAffinityTerm | None = None
    anti_affinity: WorkloadAffinityTerm | None = None


class Placement(Value, frozen=True):
    """What a policy asks for. As in Karmada, an absent ``cluster_affinities`` differs from an empty one."""

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: tuple[ClusterAffinityTerm, ...] | None = None
    cluster_tolerations: tuple[Toleration, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    replica_scheduling: ReplicaSchedulingStrategy | None = None
    workload_affinity: WorkloadAffinity | None = None

    @property
    def divides(self) -> bool:
        """Whether clusters share the replicas of a workload. Otherwise each has all of them."""
        scheduling = self.replica_scheduling
        return scheduling is not None and scheduling.replica_scheduling_type == "Divided"


class AffinityTerm:
    """A compiled affinity (karmada ``util.ClusterMatches``).

    Attributes:
        names: the clusters that it names; empty means any.
        fields: requirements on provider and region, evaluated like labels.
        zones: requirements on zones, evaluated on the whole list.
    """

    __slots__ = ("_texts", "excluded", "fields", "invalid", "labels", "names", "zones")

    def __init__(self, affinity: ClusterAffinity) -> None:
        labels: Sequence[Requirement] | None = ()
        if affinity.label_selector is not None:
            labels = affinity.label_selector.requirements()
        expressions = affinity.field_selector.match_expressions if affinity.field_selector is not None else ()
        fields = parse_requirements((each for each in expressions if each.key != ZONE), NODE_OPERATORS)
        # The rules for label values do not apply to zones.
        zones = [
            Requirement(each.key, each.operator, frozenset(each.values)) for each in expressions if each.key == ZONE
        ]
        self.names = frozenset(affinity.cluster_names)
        self.excluded = frozenset(affinity.exclude)
        self.invalid = labels is None or fields is None
        self.labels = tuple(labels or ())
        self.fields = tuple(fields or ())
        self.zones = tuple(zones)
        self._texts: dict[int, str] = {}

    def matches(self, cluster: Cluster) -> bool:
        return self.mismatch(cluster) is None

    def mismatch(self, cluster: Cluster) -> str | None:
        """Describe the first part of the affinity that a cluster does not satisfy; None if the cluster matches."""
        if cluster.name in self.excluded:
            return "is excluded by name"
        if self.invalid:
            return "the affinity has an invalid selector, which matches no cluster"
        for requirement in self.labels:
            if not requirement.matches(cluster.metadata.labels):
                actual = _actual(requirement.key, cluster.metadata.labels)
                return f"label {self._text(requirement)} does not match ({actual})"
        for requirement in self.zones:
            if not zones_match(requirement, cluster.spec.zones):
                zones = ", ".join(cluster.spec.zones) or "not set"
                return f"field {self._text(requirement)} does not match (zones are {zones})"
        fields = cluster.fields() if self.fields else {}
        for requirement in self.fields:
            if not requirement.matches(fields):
                return f"field {self._text(requirement)} does not match ({_actual(requirement.key, fields)})"
        return None if not self.names or cluster.name in self.names else "is not among the named clusters"

    def _text(self, requirement: Requirement) -> str:
        """Return the text of a requirement of this term. It is made once: the values are many, and so are clusters."""
        text = self._texts.get(id(requirement))
        if text is None:
            text = self._texts[id(requirement)] = str(requirement)
        return text


def zones_match(requirement: Requirement, zones: Sequence[str]) -> bool:
    """Return whether the zones of a cluster satisfy an expression (karmada ``matchZones``)."""
    match requirement.operator:
        case "In":
            return any(zone in requirement.values for zone in zones)
        case "NotIn":
            return not any(zone in requirement.values for zone in zones)
        case "Exists":
            return bool(zones)
        case "DoesNotExist":
            return not zones
        case _:
            return False


def _actual(key: str, labels: dict[str, str]) -> str:
    return f"it is {labels[key]!r}" if key in labels else "it is not set"


DEFAULT_NAMESPACE: Final = "default"
DEFAULT_SCHEDULER: Final = "default-scheduler"
PolicyKind = Literal["PropagationPolicy", "ClusterPropagationPolicy"]
POLICY_KINDS: Final[tuple[PolicyKind, ...]] = get_args(PolicyKind)
_GRACEFULLY: Final = "Gracefully"
FORMER_PURGE_MODES: Final = {"Immediately": "Directly", "Graciously": "Gracefully"}
"""The names of purge modes before Karmada 1.15, and those of today. Karmada accepts both from 1.15 to 1.18."""
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

    @property
    def is_graceful(self) -> bool:
        """Whether the old copy stays until the new one is healthy, for a grace period at most."""
        return FORMER_PURGE_MODES.get(self.purge_mode, self.purge_mode) == _GRACEFULLY


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
        conditions = application.decision_conditions
        application = msgspec.structs.replace(application, purge_mode=application.purge_mode or _GRACEFULLY)
        seconds, grace_s = conditions.toleration_seconds, application.grace_period_seconds
        application = msgspec.structs.replace(
            application,
            decision_conditions=DecisionConditions(_TOLERATION_S if seconds is None else seconds),
            grace_period_seconds=_GRACE_S if grace_s is None and application.is_graceful else grace_s,
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
        return with_spec(cluster, taints=taints)


def in_order(policies: Iterable[ClusterTaintPolicy]) -> tuple[ClusterTaintPolicy, ...]:
    """Return policies in the order in which Karmada applies them: the oldest first."""

    def created_s(policy: ClusterTaintPolicy) -> float:
        created = policy.metadata.creation_timestamp
        return created.timestamp() if created is not None else float("inf")

    return tuple(sorted(policies, key=created_s))


def _all_met(wanted: Sequence[MatchCondition], conditions: Sequence[Condition]) -> bool:
    return bool(wanted) and all(each.meets(conditions) for each in wanted)
