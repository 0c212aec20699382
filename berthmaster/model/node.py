"""A node that stands for a cluster, as Liqo, Admiralty and virtual-kubelet make them (``core/v1`` Node).

Everything that decides about a cluster has its counterpart on a node: labels, taints, the condition Ready, the
deletion, what it can hold. Provider, region and zone stand in well-known fields and labels.
"""

from typing import Final

import msgspec

from berthmaster.model.base import Timestamp, Value
from berthmaster.model.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    ResourceSummary,
)
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import NO_SCHEDULE, Taint

REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint of a cordoned node. The control plane adds it a moment after ``spec.unschedulable`` was set."""

_SCHEME_END: Final = "://"
_PODS: Final = (APIEnablement("v1", (APIResource(name="pods", kind="Pod"),)),)


class NodeMeta(Value, frozen=True):
    """The part of a node's metadata that decides."""

    name: str
    labels: dict[str, str] = {}
    deletion_timestamp: Timestamp | None = None


class NodeSpec(Value, frozen=True):
    """Where a node is and what keeps pods off it."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeStatus(Value, frozen=True):
    """What a node reports of itself."""

    allocatable: dict[str, Quantity] | None = None
    conditions: tuple[Condition, ...] = ()


class NodeIdentity(Value, frozen=True):
    """A node without what it reports: enough for every filter, and much less to decode."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()


class Node(NodeIdentity, frozen=True):
    """A node."""

    status: NodeStatus = NodeStatus()


def cluster_of_node(node: NodeIdentity) -> Cluster:
    """The cluster that a node stands for.

    It serves pods and nothing else. What its pods have taken already a node does not say: its resource summary has
    what is allocatable, and nothing as allocated. As in Kubernetes, a node that is not ready is kept free by its
    taints and not by its condition.
    """
    meta, spec = node.metadata, node.spec
    labels = meta.labels
    zone = labels.get(ZONE_LABEL, "")
    return Cluster(
        metadata=ObjectMeta(name=meta.name, labels=labels, deletion_timestamp=meta.deletion_timestamp),
        spec=ClusterSpec(
            provider=_provider(spec.provider_id),
            region=labels.get(REGION_LABEL, ""),
            zone=zone,
            zones=(zone,) if zone else (),
            taints=_taints(spec),
        ),
        status=_status(node.status) if isinstance(node, Node) else _UNREPORTED,
    )


_UNREPORTED: Final = ClusterStatus(api_enablements=_PODS)


def _status(status: NodeStatus) -> ClusterStatus:
    summary = None if status.allocatable is None else ResourceSummary(allocatable=status.allocatable)
    return ClusterStatus(api_enablements=_PODS, conditions=status.conditions, resource_summary=summary)


def _taints(spec: NodeSpec) -> tuple[Taint, ...]:
    """Its taints; a cordoned node has that of cordoned nodes at once."""
    if spec.unschedulable and UNSCHEDULABLE not in spec.taints:
        return (*spec.taints, UNSCHEDULABLE)
    return spec.taints


def _provider(provider_id: str) -> str:
    """The scheme of a provider's id: ``aws`` of ``aws:///us-east-1a/i-0abc``."""
    scheme, separator, _ = provider_id.partition(_SCHEME_END)
    return scheme if separator else ""
