"""Which copies of a workload exist, and which of them run: the one answer to these questions. Pure functions.

A copy exists where its binding is assigned, and where an eviction task keeps it. It does not run on a cluster that is
lost, not ready or being deleted. Karmada applies nothing while the dispatching of a workload to a cluster is suspended:
copies that exist there stay as they are, and no replicas are added or removed.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.cluster import Cluster, condition_of

FULLY_APPLIED: Final = "FullyApplied"
"""The condition of a binding whose copies all clusters have applied."""
COUNTED: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""The kinds that always have replicas. Their status leaves out a number of replicas only if it is 0."""


_NONE_SET: Final[Mapping[str, int]] = MappingProxyType({})


class Hosts(NamedTuple):
    """What clusters do with copies.

    Attributes:
        lost, removed: the clusters whose copies stop: those that fail, and those that are deleted.
        ready: the clusters that run copies, unless they are among the first two.
        ready_before: the clusters that ran copies before the changes.
        unreachable, unreachable_before: the clusters that are not ready, and not being deleted. No copy is deleted
            there.
    """

    lost: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()
    ready_before: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()
    unreachable_before: frozenset[str] = frozenset()

    @property
    def stopping(self) -> frozenset[str]:
        return self.lost | self.removed if self.removed else self.lost

    def stops(self, cluster: str) -> bool:
        return cluster in self.lost or cluster in self.removed

    def runs(self, cluster: str) -> bool:
        return cluster in self.ready and not self.stops(cluster)

    def deletes(self, cluster: str) -> bool:
        """Return whether Karmada can delete a copy there now. One without a Cluster has no copy that it knows."""
        return cluster not in self.unreachable and cluster not in self.lost

    @property
    def before(self) -> "Hosts":
        """The same before the changes."""
        ready, unreachable = self.ready_before, self.unreachable_before
        return Hosts(ready=ready, ready_before=ready, unreachable=unreachable, unreachable_before=unreachable)


class NotRunning(Enum):
    """Why replicas of an assignment do not run on a cluster."""

    LOST = "Lost"
    DELETED = "Deleted"
    """The cluster is being deleted: Karmada deletes the copies on it first."""
    NOT_READY = "NotReady"
    SUSPENDED = "Suspended"
    """Karmada dispatches nothing of the workload to the cluster."""
    PURGE = "Purge"
    """Karmada writes no copy before one with the purge mode Directly is deleted, and its cluster is out of reach."""


def hosts_of(
    clusters: Mapping[str, Cluster],
    lost: frozenset[str] = frozenset(),
    removed: frozenset[str] = frozenset(),
    before: Mapping[str, Cluster] | None = None,
) -> Hosts:
    """Return what clusters do with copies. ``before``: the clusters before the changes; None if nothing changes.

    A cluster without conditions has not reported yet: it counts as ready.
    """
    ready, unreachable = _ready(clusters), _unreachable(clusters)
    if before is None or before == clusters:
        return Hosts(lost, removed, ready, ready, unreachable, unreachable)
    return Hosts(lost, removed, ready, _ready(before), unreachable, _unreachable(before))


def _ready(clusters: Mapping[str, Cluster]) -> frozenset[str]:
    return frozenset(
        each.name for each in clusters.values() if (each.ready or not each.status.conditions) and not each.deleting
    )


def _unreachable(clusters: Mapping[str, Cluster]) -> frozenset[str]:
    return frozenset(
        each.name for each in clusters.values() if not each.ready and each.status.conditions and not each.deleting
    )


def existing(
    binding: Binding | None, assignment: Mapping[str, int], overridden: Mapping[str, int] = _NONE_SET
) -> dict[str, int]:
    """Return the replicas by cluster of the copies that exist, also those that wait for the end of an eviction task.

    A workload without replicas has 0 on each of its clusters. One with replicas exists where it has at least one.

    ``overridden``: the replicas that overrides set, by cluster.
    """
    if binding is None:
        return {}
    found = dict(assignment)
    for task in binding.spec.graceful_eviction_tasks:
        if task.keeps_copy:
            found.setdefault(task.from_cluster, task.replicas or 0)
    found = with_overrides(binding, found, overridden)
    if binding.spec.suspension is not None and _is_reported(binding):
        found = _dispatched(binding, found)
    return with_replicas(binding, found)


def _is_reported(binding: Binding) -> bool:
    """Return whether it is known what members have of a workload, which may be nothing."""
    applied = condition_of(binding.status.conditions, FULLY_APPLIED)
    return bool(binding.status.aggregated_status) or (applied is not None and applied.status == "False")


def _dispatched(binding: Binding, found: Mapping[str, int]) -> dict[str, int]:
    """Return the copies that exist although dispatching is suspended: those of which a cluster has a report.

    The assignment may be newer than the suspension. Without any report it is all that is known.
    """
    reports = binding.reports
    held = {}
    for name, count in found.items():
        if binding.dispatches_to(name):
            held[name] = count
        elif (report := reports.get(name)) is not None and report.runs:
            held[name] = reported_replicas(binding, report, count)
    return held


def reported_replicas(binding: Binding, report: AggregatedStatusItem, asked: int) -> int:
    """Return the replicas of a copy as its member reports them; those that are asked for if it does not count any."""
    if binding.spec.resource.kind not in COUNTED or not isinstance(report.status, Mapping):
        return asked
    return max(report.number("replicas"), report.ready_replicas)


def running(
    binding: Binding | None,
    assignment: Mapping[str, int],
    hosts: Hosts,
    exist: Mapping[str, int],
    due: Mapping[str, int] | None = None,
    works: Collection[str] = (),
) -> dict[str, int]:
    """Return the replicas by cluster that run once an assignment is in effect.

    Args:
        binding: the binding that has the assignment.
        exist: the copies that exist before (``existing``). Only these run while dispatching is suspended.
        due: the copies that exist once what is due has happened; None for ``exist``. Only these run while a purge
            waits.
        works: the clusters that have a Work, also one that was never applied.
    """
    if binding is None:
        return {}
    then = exist if due is None else due
    found, held = {}, _waits_for_purge(binding, assignment, hosts, {*exist, *then, *works})
    for name, count in assignment.items():
        match why_not_running(binding, name, hosts, held=held):
            case None:
                found[name] = count
            case NotRunning.SUSPENDED if name in exist:
                found[name] = exist[name]
            case NotRunning.PURGE if name in then:
                found[name] = then[name]
            case _:
                pass
    return with_replicas(binding, found)


def arriving_in_vain(
    binding: Binding | None,
    assignment: Mapping[str, int],
    hosts: Hosts,
    exist: Mapping[str, int],
    due: Mapping[str, int] | None = None,
    works: Collection[str] = (),
) -> dict[str, NotRunning]:
    """Return the clusters that get replicas of an assignment which do not run there, and why not: as ``running``."""
    if binding is None:
        return {}
    then = exist if due is None else due
    found, held = {}, _waits_for_purge(binding, assignment, hosts, {*exist, *then, *works})
    for name, count in with_replicas(binding, dict(assignment)).items():
        known = then if held else exist
        arrives = name not in known or count > known[name]
        if arrives and (why := why_not_running(binding, name, hosts, held=held)) is not None:
            found[name] = why
    return found


def awaited_deletions(binding: Binding) -> list[str]:
    """Return the clusters whose copy Karmada deletes before it writes any new one of the workload.

    They are evicted with the purge mode Directly, and have a copy as far as is known.
    """
    purged = binding.purged_from - binding.assignment.keys()
    return sorted(purged & binding.reports.keys() if _is_reported(binding) else purged)


def _waits_for_purge(binding: Binding, assignment: Mapping[str, int], hosts: Hosts, exist: Collection[str]) -> bool:
    """Return whether Karmada writes no copy of a binding, because one that must be deleted first cannot be.

    That is a copy of a task with the purge mode Directly (karmada ``checkDirectPurgeOrphanWorks``).

    ``exist``: the clusters that have a copy. So have those that report one.
    """
    hanging = [each for each in binding.purged_from - assignment.keys() if not hosts.deletes(each)]
    if not hanging:
        return False
    return not {*exist, *binding.reports}.isdisjoint(hanging)


def why_not_running(binding: Binding, cluster: str, hosts: Hosts, *, held: bool) -> NotRunning | None:
    """Return why replicas that a binding adds to a cluster do not run there; None if they do.

    ``held``: whether Karmada writes no copy of the binding for now.
    """
    if cluster in hosts.lost:
        return NotRunning.LOST
    if cluster in hosts.removed:
        return NotRunning.DELETED
    if cluster not in hosts.ready:
        return NotRunning.NOT_READY
    if binding.spec.suspension is not None and not binding.dispatches_to(cluster):
        return NotRunning.SUSPENDED
    return NotRunning.PURGE if held else None


def with_overrides(binding: Binding, found: Mapping[str, int], overridden: Mapping[str, int]) -> dict[str, int]:
    """Return an assignment with the replicas that overrides set. They change copies that there are, and make none."""
    if not overridden or not binding.spec.is_workload or binding.spec.components:
        return dict(found)
    return {name: overridden.get(name, count) if count else count for name, count in found.items()}


def replicas_asked(binding: Binding, assignment: Mapping[str, int], overridden: Mapping[str, int]) -> int:
    """Return the replicas that a divided workload asks for, as overrides change them where it is assigned."""
    changed = with_overrides(binding, assignment, overridden)
    return binding.spec.replicas - sum(assignment.values()) + sum(changed.values())


def with_replicas(binding: Binding, found: dict[str, int]) -> dict[str, int]:
    """Return the clusters of an assignment that get a copy: a workload with replicas needs at least one there."""
    if not binding.spec.is_workload or binding.spec.components:
        return found
    return {name: count for name, count in found.items() if count}


def wants_copies(binding: Binding) -> bool:
    """Return whether copies of a workload should run. One that is scaled to 0 wants none, so that it lacks nothing."""
    spec = binding.spec
    if spec.replicas or spec.components:
        return True
    return not spec.is_workload and spec.resource.kind not in COUNTED
