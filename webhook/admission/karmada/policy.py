"""Karmada's policies as a webhook must read them: with the tolerance of Go's decoder.

``berthmaster.model.policy`` is what decisions are made on and holds every enumeration; here they are text, and what the
schema requires is optional. The API server has applied the schema already, and a schema newer than this code may know
more values: a review must not refuse an object for a field that karmada-webhook would accept.
"""

from typing import Any

from berthmaster.model.decode import convert
from berthmaster.model.meta import Int32, Int64, Value


class Requirement(Value, frozen=True):
    """An expression of a selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Labels(Value, frozen=True):
    """A label selector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class Fields(Value, frozen=True):
    """A selector over provider, region and zone."""

    match_expressions: tuple[Requirement, ...] = ()


class Affinity(Value, frozen=True):
    """Which clusters are meant."""

    label_selector: Labels | None = None
    field_selector: Fields | None = None
    cluster_names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it says nothing at all, and so means every cluster."""
        return (
            self.label_selector is None and self.field_selector is None and not self.cluster_names and not self.exclude
        )

    @property
    def named(self) -> frozenset[str] | None:
        """The clusters that it can mean, by name; None if it does not name them."""
        return frozenset(self.cluster_names) - frozenset(self.exclude) if self.cluster_names else None


class NamedAffinity(Affinity, frozen=True, kw_only=True):
    """An affinity with a name."""

    affinity_name: str = ""


class Group(NamedAffinity, frozen=True, kw_only=True):
    """A term of ``clusterAffinities``."""

    overflow_affinities: tuple[NamedAffinity, ...] | None = None


class Toleration(Value, frozen=True):
    """A toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class Spread(Value, frozen=True):
    """A spread constraint."""

    spread_by_field: str = ""
    spread_by_label: str = ""
    max_groups: Int64 = 0
    min_groups: Int64 = 0


class StaticWeight(Value, frozen=True):
    """A static weight."""

    target_cluster: Affinity = Affinity()
    weight: Int64 = 0


class Weights(Value, frozen=True):
    """Where weights come from."""

    static_weight_list: tuple[StaticWeight, ...] = ()
    dynamic_weight: str = ""


class Division(Value, frozen=True):
    """How replicas are divided."""

    replica_scheduling_type: str = ""
    replica_division_preference: str = ""
    weight_preference: Weights | None = None

    @property
    def divided(self) -> bool:
        """Whether replicas are divided at all."""
        return self.replica_scheduling_type == "Divided"

    @property
    def by_static_weight(self) -> bool:
        """Whether the scheduler takes it for a division by static weights, in which it ignores spread constraints."""
        weights = self.weight_preference
        weighted = self.divided and self.replica_division_preference == "Weighted"
        return weighted and (weights is None or (bool(weights.static_weight_list) and not weights.dynamic_weight))

    @property
    def allows_overflow(self) -> bool:
        """Whether overflow affinities make sense: replicas go where there is room."""
        if not self.divided:
            return False
        if self.replica_division_preference == "Aggregated":
            return True
        weights = self.weight_preference
        return self.replica_division_preference == "Weighted" and weights is not None and bool(weights.dynamic_weight)


class WorkloadTerm(Value, frozen=True):
    """A label that groups workloads."""

    group_by_label_key: str = ""


class WorkloadAffinity(Value, frozen=True):
    """Which workloads go together."""

    affinity: WorkloadTerm | None = None
    anti_affinity: WorkloadTerm | None = None


class Placement(Value, frozen=True):
    """What is asked. An absent ``cluster_affinities`` and an empty one differ."""

    cluster_affinity: Affinity | None = None
    cluster_affinities: tuple[Group, ...] | None = None
    cluster_tolerations: tuple[Toleration, ...] = ()
    spread_constraints: tuple[Spread, ...] = ()
    replica_scheduling: Division | None = None
    workload_affinity: WorkloadAffinity | None = None


class Selector(Value, frozen=True):
    """Which resources a policy is for."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    label_selector: Labels | None = None


class PreservationRule(Value, frozen=True):
    """A part of a state to keep."""

    alias_label_name: str = ""
    json_path: str = ""


class Preservation(Value, frozen=True):
    """What of a state to keep."""

    rules: tuple[PreservationRule, ...] = ()


class Conditions(Value, frozen=True):
    """When a workload fails over; None is what the CRD makes 300 of."""

    toleration_seconds: Int32 | None = None


class ApplicationFailover(Value, frozen=True):
    """What happens when a workload is unhealthy."""

    decision_conditions: Conditions = Conditions()
    purge_mode: str = ""
    grace_period_seconds: Int32 | None = None
    state_preservation: Preservation | None = None


class ClusterFailover(Value, frozen=True):
    """What happens when a cluster fails."""

    purge_mode: str = ""
    state_preservation: Preservation | None = None


class Failover(Value, frozen=True):
    """What happens on failures."""

    application: ApplicationFailover | None = None
    cluster: ClusterFailover | None = None


class SuspendedClusters(Value, frozen=True):
    """Where nothing is dispatched to."""

    cluster_names: tuple[str, ...] = ()


class Suspension(Value, frozen=True):
    """What is suspended."""

    dispatching: bool | None = None
    dispatching_on_clusters: SuspendedClusters | None = None


class Spec(Value, frozen=True):
    """The spec of both policy kinds."""

    resource_selectors: tuple[Selector, ...] = ()
    propagate_deps: bool = False
    placement: Placement = Placement()
    priority: Int32 | None = None
    preemption: str = ""
    scheduler_name: str = ""
    failover: Failover | None = None
    activation_preference: str = ""
    suspension: Suspension | None = None


class Metadata(Value, frozen=True):
    """What admission reads of the metadata."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class Policy(Value, frozen=True):
    """A PropagationPolicy or a ClusterPropagationPolicy."""

    kind: str = ""
    metadata: Metadata = Metadata()
    spec: Spec = Spec()

    @property
    def cluster_scoped(self) -> bool:
        """Whether it is a ClusterPropagationPolicy."""
        return self.kind == "ClusterPropagationPolicy"

    @property
    def priority(self) -> int:
        """``spec.priority``, 0 when absent."""
        return self.spec.priority or 0


def read(raw: dict[str, Any]) -> Policy:
    """Read a policy.

    Raises:
        FieldError: a value does not have its type.
    """
    return convert(Policy, raw)
