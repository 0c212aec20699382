"""KubeAdmiral's clusters, and how they become clusters of the model."""

from typing import Final

from berthmaster.model.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    ResourceSummary,
)
from berthmaster.model.meta import ObjectMeta, Value
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Taint

JOINED: Final = "Joined"
_ZERO: Final = Quantity(0, "0")


class FederatedClusterSpec(Value, frozen=True):
    taints: tuple[Taint, ...] = ()


class APIResourceType(Value, frozen=True):
    """A kind that a cluster serves. The core group is empty."""

    version: str
    kind: str
    group: str = ""
    plural_name: str = ""
    scope: str = ""


class FederatedClusterResources(Value, frozen=True):
    """The resources of the schedulable nodes of a cluster. ``available`` is not requested yet; it may be negative."""

    schedulable_nodes: int | None = None
    allocatable: dict[str, Quantity] = {}
    available: dict[str, Quantity] = {}


class FederatedClusterStatus(Value, frozen=True):
    conditions: tuple[Condition, ...] = ()
    resources: FederatedClusterResources = FederatedClusterResources()
    api_resource_types: tuple[APIResourceType, ...] = ()
    join_performed: bool = False


class FederatedCluster(Value, frozen=True):
    metadata: ObjectMeta
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "FederatedCluster"
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: FederatedClusterStatus = FederatedClusterStatus()


def as_cluster(federated: FederatedCluster) -> Cluster:
    status = federated.status
    return Cluster(
        metadata=federated.metadata,
        spec=ClusterSpec(taints=federated.spec.taints),
        status=ClusterStatus(
            api_enablements=tuple(
                APIEnablement(
                    f"{each.group}/{each.version}" if each.group else each.version,
                    (APIResource(each.plural_name, each.kind),),
                )
                for each in status.api_resource_types
            ),
            conditions=status.conditions,
            resource_summary=as_summary(status.resources),
        ),
    )


def as_summary(resources: FederatedClusterResources) -> ResourceSummary:
    """Convert resources to a summary: the allocated amount is the allocatable one minus the available one.

    As in KubeAdmiral, an allocatable resource without an available amount is used up. An available resource without
    an allocatable amount counts as 0 allocatable.
    """
    available = resources.available
    allocatable = {**dict.fromkeys(available, _ZERO), **resources.allocatable}
    return ResourceSummary(
        allocatable=allocatable,
        allocated={
            name: Quantity(amount.nanos - available.get(name, _ZERO).nanos, "") for name, amount in allocatable.items()
        },
    )
