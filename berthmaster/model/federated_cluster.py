"""KubeAdmiral's FederatedCluster (``core.kubeadmiral.io/v1alpha1``), and the Cluster it is to the scheduling core."""

from typing import Final

from berthmaster.model.base import Value
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
from berthmaster.model.taint import Taint

JOINED: Final = "Joined"
_NOTHING: Final = Quantity(0, "0")


class FederatedClusterSpec(Value, frozen=True):
    """What keeps workloads off a cluster; how it is reached plays no part."""

    taints: tuple[Taint, ...] = ()


class APIResourceType(Value, frozen=True):
    """A kind that a cluster serves; the core group is empty."""

    version: str
    kind: str
    group: str = ""
    plural_name: str = ""
    scope: str = ""


class Resources(Value, frozen=True):
    """What a cluster's schedulable nodes have, and what of it is not requested, which may be negative."""

    schedulable_nodes: int | None = None
    allocatable: dict[str, Quantity] = {}
    available: dict[str, Quantity] = {}


class FederatedClusterStatus(Value, frozen=True):
    """What a cluster reports of itself."""

    conditions: tuple[Condition, ...] = ()
    resources: Resources = Resources()
    api_resource_types: tuple[APIResourceType, ...] = ()
    join_performed: bool = False


class FederatedCluster(Value, frozen=True):
    """A member cluster."""

    metadata: ObjectMeta
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "FederatedCluster"
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: FederatedClusterStatus = FederatedClusterStatus()


def as_cluster(federated: FederatedCluster) -> Cluster:
    """The same cluster in the core's terms."""
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


def as_summary(resources: Resources) -> ResourceSummary:
    """The same amounts in the core's terms: used is what is allocatable less what is available.

    A resource that is not among the available ones counts as used up, as it does in KubeAdmiral; of one that is not
    allocatable there is nothing.
    """
    available = resources.available
    allocatable = {**dict.fromkeys(available, _NOTHING), **resources.allocatable}
    return ResourceSummary(
        allocatable=allocatable,
        allocated={
            name: Quantity(amount.nanos - available.get(name, _NOTHING).nanos, "")
            for name, amount in allocatable.items()
        },
    )
