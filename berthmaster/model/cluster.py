"""Member clusters: Karmada's Cluster (``cluster.karmada.io/v1alpha1``)."""

from collections.abc import Iterable

from berthmaster.model.meta import Int64, ObjectMeta, Timestamp, Value, moment_of
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Taint


class ResourceModelRange(Value, frozen=True):
    """The amounts of one resource that place a node in a grade: at least ``min``, below ``max``."""

    name: str
    min: Quantity
    max: Quantity


class ResourceModel(Value, frozen=True):
    """A grade of nodes."""

    grade: int
    ranges: tuple[ResourceModelRange, ...] = ()


class ClusterSpec(Value, frozen=True):
    """The location of a cluster, its taints, and its grades of nodes."""

    sync_mode: str = ""
    provider: str = ""
    region: str = ""
    zone: str = ""
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    resource_models: tuple[ResourceModel, ...] = ()


class Condition(Value, frozen=True):
    """A condition (``meta/v1``). ``status`` is True, False or Unknown; the transition time is text as written."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: Int64 = 0


def condition_of(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of a type; None without one."""
    return next((each for each in conditions if each.type == kind), None)


class APIResource(Value, frozen=True):
    """A kind that an API group version serves."""

    name: str
    kind: str


class APIEnablement(Value, frozen=True):
    """An API group version that a cluster serves."""

    group_version: str
    resources: tuple[APIResource, ...] = ()


class AllocatableModeling(Value, frozen=True):
    """The number of nodes whose free resources are of a grade."""

    grade: int
    count: Int64


class ResourceSummary(Value, frozen=True):
    """The resources of a cluster: allocatable, allocated to pods, and requested by pods that are not scheduled yet."""

    allocatable: dict[str, Quantity] = {}
    allocating: dict[str, Quantity] = {}
    allocated: dict[str, Quantity] = {}
    allocatable_modelings: tuple[AllocatableModeling, ...] = ()


class ClusterStatus(Value, frozen=True):
    """The state that a cluster reports."""

    kubernetes_version: str = ""
    api_enablements: tuple[APIEnablement, ...] = ()
    conditions: tuple[Condition, ...] = ()
    resource_summary: ResourceSummary | None = None


class Cluster(Value, frozen=True):
    """A member cluster."""

    metadata: ObjectMeta
    api_version: str = "cluster.karmada.io/v1alpha1"
    kind: str = "Cluster"
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        return self.has_condition("Ready")

    @property
    def readiness(self) -> Condition | None:
        """The condition ``Ready``; None if the cluster does not report it."""
        return condition_of(self.status.conditions, "Ready")

    @property
    def ready_transition(self) -> Timestamp | None:
        """When the cluster became ready or not ready, by its condition; None if that is not known."""
        found = self.readiness
        return None if found is None else moment_of(found.last_transition_time)

    def has_condition(self, condition_type: str) -> bool:
        return any(each.type == condition_type and each.status == "True" for each in self.status.conditions)

    def fields(self) -> dict[str, str]:
        fields = {"provider": self.spec.provider, "region": self.spec.region}
        return {name: value for name, value in fields.items() if value}

    def enabled_kinds(self) -> list[tuple[str, str]]:
        return [
            (each.group_version, resource.kind) for each in self.status.api_enablements for resource in each.resources
        ]
