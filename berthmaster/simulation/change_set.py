"""The objects that would be applied and deleted together: the input of a plan."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec
import msgspec.structs

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.simulation.changes import AddCluster, RemoveCluster, Scale
from berthmaster.simulation.stalling import woken
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import Change, World


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changed objects. They take effect in this order: workloads, scales, policies, deletions, clusters, other edits.

    Each policy takes effect on its own, in order, as if the detector finished with one before the next is applied.

    Attributes:
        policies: the policies that are created or replaced, with their defaults (``policy.defaulted``).
        clusters: the clusters that join or are replaced. An empty status keeps the reported one.
        deleted_clusters: the names of the clusters that leave.
        workloads: the workloads that are new or whose template changes, built with the policies that are stored now.
        deleted_workloads: the workloads whose template is deleted.
        scales: workloads that get another number of replicas.
        edits: further changes, in order, such as ``changes.Down``.
        existence: the objects that policies can wait for, and whether they exist after the changes.
        overrides: the OverridePolicies and ClusterOverridePolicies. They change what clusters run, and never where.
    """

    policies: tuple[Policy, ...] = ()
    deleted_policies: tuple[PolicyReference, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    deleted_clusters: tuple[str, ...] = ()
    workloads: tuple[SimulatedWorkload, ...] = ()
    deleted_workloads: tuple[ResourceName, ...] = ()
    overrides: tuple[str, ...] = ()
    existence: Mapping[str, bool] = field(default_factory=dict)
    scales: tuple[Scale, ...] = ()
    edits: tuple[Change, ...] = ()

    @property
    def changes_clusters(self) -> bool:
        """Whether clusters may change, so that a scheduler looks at all workloads."""
        return bool(self.clusters or self.deleted_clusters or self.edits)

    def digest_input(self) -> list[Any]:
        """Return the objects as far as they affect decisions, in an order that does not depend on the files.

        Metadata that no decision reads does not enter: annotations, resource versions, managed fields, status.
        """
        return sorted(self._parts(), key=lambda part: msgspec.json.encode(part, order="sorted"))

    def _parts(self) -> Iterator[Any]:
        for policy in self.policies:
            yield ["set", *policy.reference, builtins(policy.spec)]
        for reference in self.deleted_policies:
            yield ["delete", *reference]
        for cluster in self.clusters:
            yield ["set", "Cluster", cluster.name, cluster.metadata.labels, builtins(cluster.spec)]
        for name in self.deleted_clusters:
            yield ["delete", "Cluster", name]
        for workload in self.workloads:
            yield ["set", str(workload), *_of_template(workload.manifest)]
        for resource in self.deleted_workloads:
            yield ["delete", str(resource)]
        for scale in self.scales:
            yield ["scale", str(scale.resource), scale.replicas]
        for edit in self.edits:
            if isinstance(edit, AddCluster):
                yield ["set", "Cluster", edit.cluster.name, edit.cluster.metadata.labels, builtins(edit.cluster.spec)]
            else:
                yield ["edit", type(edit).__name__, builtins(edit)]


@dataclass(frozen=True, slots=True)
class SetCluster:
    """A cluster joins, or its labels and its spec are replaced."""

    cluster: Cluster

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        before = world.clusters.get(self.cluster.name)
        status = self.cluster.status
        if before is not None and not status.conditions and status.resource_summary is None:
            status = before.status
        cluster = msgspec.structs.replace(self.cluster, status=status)
        workloads = woken(world.workloads, before, cluster)
        return replace(world, clusters={**world.clusters, cluster.name: cluster}, workloads=workloads)


def with_clusters(world: World, changes: ChangeSet, now: datetime, check: Callable[[], None]) -> World:
    """Return the world after the changes of clusters, and after the other edits. Calls ``check`` before each edit.

    Raises:
        InputError: a deleted or edited cluster does not exist.
    """
    for cluster in changes.clusters:
        world = SetCluster(cluster).applied(world, now)
    for name in changes.deleted_clusters:
        world = RemoveCluster(name).applied(world, now)
    for edit in changes.edits:
        check()
        world = edit.applied(world, now)
    return world


def _of_template(raw: Mapping[str, Any]) -> tuple[Any, Any]:
    metadata = raw.get("metadata") or {}
    content = {key: value for key, value in raw.items() if key not in {"metadata", "status"}}
    return metadata.get("labels") or {}, content
