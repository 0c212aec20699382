"""What-if changes that take something from a cluster, or add and remove clusters."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec.structs

from berthmaster.model.cluster import Cluster, Condition, Taint
from berthmaster.model.errors import InputError, name_list
from berthmaster.simulation.changes import NOT_READY, with_cluster
from berthmaster.simulation.world import World

UNREACHABLE: Final = "cluster.karmada.io/unreachable"


@dataclass(frozen=True, slots=True)
class RemoveTaint:
    """A cluster loses its taints with a key.

    As in Karmada, workloads do not return on their own: eviction tasks stay, and a divided workload is scheduled again
    only for another reason.

    Attributes:
        cluster: the name of the cluster.
        key: the key of the taints.
        effect: only the taint with this effect; empty for all effects.
    """

    cluster: str
    key: str
    effect: str = ""

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        return with_cluster(world, self.cluster, self._untainted)

    def _untainted(self, cluster: Cluster) -> Cluster:
        taints = cluster.spec.taints
        kept = tuple(each for each in taints if not self._removes(each))
        if len(kept) == len(taints):
            wanted = f"{self.key}:{self.effect}" if self.effect else self.key
            known = name_list([str(each) for each in taints]) or "none"
            raise InputError(f"the cluster {self.cluster} has no taint {wanted}; its taints are {known}")
        return msgspec.structs.replace(cluster, spec=msgspec.structs.replace(cluster.spec, taints=kept))

    def _removes(self, taint: Taint) -> bool:
        return taint.key == self.key and self.effect in {"", taint.effect}


@dataclass(frozen=True, slots=True)
class RemoveLabel:
    """A cluster loses a label."""

    cluster: str
    key: str

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        return with_cluster(world, self.cluster, self._unlabelled)

    def _unlabelled(self, cluster: Cluster) -> Cluster:
        labels = cluster.metadata.labels
        if self.key not in labels:
            known = name_list(sorted(labels)) or "none"
            raise InputError(f"the cluster {self.cluster} has no label {self.key}; its labels are {known}")
        kept = {key: value for key, value in labels.items() if key != self.key}
        return msgspec.structs.replace(cluster, metadata=msgspec.structs.replace(cluster.metadata, labels=kept))


@dataclass(frozen=True, slots=True)
class Up:
    """A cluster recovers: it is ready, and the taints of a failed cluster are gone.

    As in Karmada, workloads that were evicted from it do not return on their own.
    """

    cluster: str

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        return with_cluster(world, self.cluster, _recovered)


@dataclass(frozen=True, slots=True)
class AddCluster:
    """A cluster joins.

    As in Karmada, it gets workloads that are scheduled for another reason, and duplicated ones.
    """

    cluster: Cluster

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        if self.cluster.name in world.clusters:
            raise InputError(f"the cluster {self.cluster.name} exists; give the new cluster another name")
        return replace(world, clusters={**world.clusters, self.cluster.name: self.cluster})


@dataclass(frozen=True, slots=True)
class RemoveCluster:
    """A cluster leaves: it is being deleted, so that every workload on it is scheduled without it.

    Karmada keeps a cluster in this state until no binding names it. No toleration keeps a workload there.
    """

    cluster: str

    def applied(self, world: World, now: datetime) -> World:
        return with_cluster(world, self.cluster, lambda cluster: _deleting(cluster, now))


def _recovered(cluster: Cluster) -> Cluster:
    others = (each for each in cluster.status.conditions if each.type != "Ready")
    condition = Condition("Ready", "True", "ClusterReady", "brought up by the simulation")
    status = msgspec.structs.replace(cluster.status, conditions=(*others, condition))
    taints = tuple(each for each in cluster.spec.taints if each.key not in {NOT_READY, UNREACHABLE})
    return msgspec.structs.replace(cluster, status=status, spec=msgspec.structs.replace(cluster.spec, taints=taints))


def _deleting(cluster: Cluster, now: datetime) -> Cluster:
    return msgspec.structs.replace(cluster, metadata=msgspec.structs.replace(cluster.metadata, deletion_timestamp=now))
