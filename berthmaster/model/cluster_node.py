"""Nodes that represent clusters (``core/v1`` Node), as those of Liqo, Admiralty and virtual-kubelet do.

A node has everything that scheduling reads from a cluster: labels, taints, the condition Ready, the deletion and the
allocatable amounts. Well-known fields and labels hold provider, region and zone.
"""

from typing import Final

import msgspec

from berthmaster.model.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    ResourceSummary,
)
from berthmaster.model.meta import ObjectMeta, Timestamp, Value
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import NO_SCHEDULE, Taint

REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint of a cordoned node. The control plane adds it shortly after ``spec.unschedulable`` is set."""

_PODS: Final = (APIEnablement("v1", (APIResource(name="pods", kind="Pod"),)),)
_UNREPORTED: Final = ClusterStatus(api_enablements=_PODS)


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
