"""Karmada's Cluster (``cluster.karmada.io/v1alpha1``)."""

from collections.abc import Iterator

from berthmaster.model.base import Int64, Value
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Taint


class ResourceModelRange(Value, frozen=True):
    """The amounts of one resource that put a node into a grade: at least ``min``, below ``max``."""

    name: str
    min: Quantity
    max: Quantity


class ResourceModel(Value, frozen=True):
    """A grade of nodes."""

    grade: int
    ranges: tuple[ResourceModelRange, ...] = ()


class ClusterSpec(Value, frozen=True):
    """Where a cluster is and what keeps workloads off it."""

    sync_mode: str = ""
    provider: str = ""
    region: str = ""
    zone: str = ""
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    resource_models: tuple[ResourceModel, ...] = ()


class Condition(Value, frozen=True):
    """A condition (``meta/v1``); ``status`` is True, False or Unknown, the time of its last change text as written."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: Int64 = 0


class APIResource(Value, frozen=True):
    """A kind that an API group version serves."""

    name: str
    kind: str


class APIEnablement(Value, frozen=True):
    """An API group version that a cluster serves."""

    group_version: str
    resources: tuple[APIResource, ...] = ()


class AllocatableModeling(Value, frozen=True):
    """How many nodes of a grade a cluster has free."""

    grade: int
    count: Int64


class ResourceSummary(Value, frozen=True):
    """What a cluster has, has given away, and is about to give away."""

    allocatable: dict[str, Quantity] = {}
    allocating: dict[str, Quantity] = {}
    allocated: dict[str, Quantity] = {}
    allocatable_modelings: tuple[AllocatableModeling, ...] = ()


class ClusterStatus(Value, frozen=True):
    """What a cluster reports of itself."""

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
        """The cluster's name, unique in its fleet."""
        return self.metadata.name

    @property
    def deleting(self) -> bool:
        """Whether its deletion has started."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Whether its condition Ready is True."""
        return self.has_condition("Ready")

    def has_condition(self, condition_type: str) -> bool:
        """Whether one of its conditions of a type is True."""
        return any(each.type == condition_type and each.status == "True" for each in self.status.conditions)

    def fields(self) -> dict[str, str]:
        """What a field selector sees as labels: provider and region, present only when not empty."""
        fields = {"provider": self.spec.provider, "region": self.spec.region}
        return {key: value for key, value in fields.items() if value}

    def enabled_kinds(self) -> Iterator[tuple[str, str]]:
        """Every (groupVersion, kind) it serves."""
        for enablement in self.status.api_enablements:
            for resource in enablement.resources:
                yield enablement.group_version, resource.kind
