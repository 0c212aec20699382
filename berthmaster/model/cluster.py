"""Member clusters: Karmada's Cluster (``cluster.karmada.io/v1alpha1``), its taints, and nodes that represent clusters.

Liqo, Admiralty and virtual-kubelet represent a cluster by a node (``core/v1`` Node). A node has everything
that scheduling reads from a cluster: labels, taints, the condition Ready, the deletion and the allocatable amounts.
Well-known fields and labels hold provider, region and zone.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from berthmaster.model.meta import Int64, ObjectMeta, Timestamp, Value
from berthmaster.model.quantity import Quantity

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
REPELLING_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that keep new workloads off a cluster."""
REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


class Taint(Value, frozen=True):
    """A taint: it keeps workloads that do not tolerate it off a cluster."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Value, frozen=True):
    """A toleration: it allows a workload on a tainted cluster. Empty ``effect`` and ``key`` are wildcards."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint is tolerated, without ``toleration_seconds``. An unknown operator tolerates none."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", "Equal"}:
            return self.value == taint.value
        return self.operator == "Exists"


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def repelling_taints(
    taints: Iterable[Taint], tolerations: tuple[Toleration, ...], effects: frozenset[str] = REPELLING_EFFECTS
) -> list[Taint]:
    return [taint for taint in taints if taint.effect in effects and not tolerated(taint, tolerations)]


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

    def has_condition(self, condition_type: str) -> bool:
        return any(each.type == condition_type and each.status == "True" for each in self.status.conditions)

    def fields(self) -> dict[str, str]:
        fields = {"provider": self.spec.provider, "region": self.spec.region}
        return {name: value for name, value in fields.items() if value}

    def enabled_kinds(self) -> list[tuple[str, str]]:
        return [
            (each.group_version, resource.kind) for each in self.status.api_enablements for resource in each.resources
        ]


UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint of a cordoned node. The control plane adds it shortly after ``spec.unschedulable`` is set."""

_PODS: Final = (APIEnablement("v1", (APIResource(name="pods", kind="Pod"),)),)


class NodeMeta(Value, frozen=True):
    name: str
    labels: dict[str, str] = {}
    deletion_timestamp: Timestamp | None = None


class NodeSpec(Value, frozen=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeStatus(Value, frozen=True):
    allocatable: dict[str, Quantity] | None = None
    conditions: tuple[Condition, ...] = ()


class NodeIdentity(Value, frozen=True):
    """A node without its status: enough for every filter, and much cheaper to decode."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()


class Node(NodeIdentity, frozen=True):
    status: NodeStatus = NodeStatus()


def cluster_of_node(node: NodeIdentity) -> Cluster:
    """Return the cluster that a node represents.

    The cluster serves pods only. A node does not report what its pods use, so the resource summary holds the
    allocatable amounts and nothing as allocated. As in Kubernetes, taints keep pods off a node that is not ready;
    its condition does not.
    """
    meta, spec = node.metadata, node.spec
    labels, taints = meta.labels, spec.taints
    zone = labels.get(ZONE_LABEL, "")
    scheme, separator, _ = spec.provider_id.partition("://")  # ``aws`` of ``aws:///us-east-1a/i-0abc``
    if spec.unschedulable and UNSCHEDULABLE not in taints:
        taints = (*taints, UNSCHEDULABLE)
    status = _UNREPORTED
    if isinstance(node, Node):
        allocatable = node.status.allocatable
        summary = None if allocatable is None else ResourceSummary(allocatable=allocatable)
        status = ClusterStatus(api_enablements=_PODS, conditions=node.status.conditions, resource_summary=summary)
    return Cluster(
        metadata=ObjectMeta(name=meta.name, labels=labels, deletion_timestamp=meta.deletion_timestamp),
        spec=ClusterSpec(
            provider=scheme if separator else "",
            region=labels.get(REGION_LABEL, ""),
            zone=zone,
            zones=(zone,) if zone else (),
            taints=taints,
        ),
        status=status,
    )


_UNREPORTED: Final = ClusterStatus(api_enablements=_PODS)
