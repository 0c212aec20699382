"""Karmada's PropagationPolicy and ClusterPropagationPolicy (``policy.karmada.io/v1alpha1``)."""

from typing import Final, Literal, NamedTuple, get_args

from berthmaster.model.failover_behavior import FailoverBehavior
from berthmaster.model.meta import Int32, ObjectMeta, Value, object_name
from berthmaster.model.placement import Placement
from berthmaster.model.selector import LabelSelector

PolicyKind = Literal["PropagationPolicy", "ClusterPropagationPolicy"]
POLICY_KINDS: Final[tuple[PolicyKind, ...]] = get_args(PolicyKind)


class ResourceSelector(Value, frozen=True):
    """The resources that a policy selects. If ``name`` is set, ``label_selector`` is ignored."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None


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
        return f"{self.kind} {object_name(*self[1:])}"


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
