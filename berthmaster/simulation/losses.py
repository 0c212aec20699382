"""What stops running when clusters are lost or deleted, whatever moves afterwards.

A lost cluster stops all copies on it. A deletion of a cluster deletes its Works first (karmada ``removeCluster``), so
that its copies are gone before any new one runs; members keep the copies of a workload that preserves its resources.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from berthmaster.model.binding import DIRECTLY, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.simulation.plan_answer import Loss
from berthmaster.simulation.run import PlannedWorkload, WorkloadResult
from berthmaster.simulation.workload import NotScheduled


class Gone(NamedTuple):
    """The clusters whose copies stop."""

    lost: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()

    @property
    def clusters(self) -> frozenset[str]:
        return self.lost | self.removed if self.removed else self.lost

    def stops(self, cluster: str) -> bool:
        return cluster in self.lost or cluster in self.removed

    def runs(self, cluster: str) -> bool:
        return cluster in self.ready and not self.stops(cluster)


def gone_of(clusters: Mapping[str, Cluster], lost: frozenset[str], removed: frozenset[str]) -> Gone:
    """Return the clusters whose copies stop. A cluster without conditions has not reported yet: it counts as ready."""
    ready = frozenset(each.name for each in clusters.values() if each.ready or not each.status.conditions)
    return Gone(lost, removed, ready)


def copies(result: WorkloadResult) -> dict[str, int]:
    """Return the replicas by cluster that run, also those that wait for the end of an eviction task.

    A workload without replicas has 0 on each of its clusters. A workload with replicas runs where it has at least one.
    """
    binding = result.workload.binding
    if binding is None:
        return {}
    found = dict(result.assignment)
    for task in binding.spec.graceful_eviction_tasks:
        if task.purge_mode != DIRECTLY:
            found.setdefault(task.from_cluster, task.replicas or 0)
    return _running(binding, found)


def _running(binding: Binding | None, found: dict[str, int]) -> dict[str, int]:
    if binding is None or not binding.spec.is_workload or binding.spec.components:
        return found
    return {name: count for name, count in found.items() if count}


def stopping(planned: PlannedWorkload, gone: Gone) -> dict[str, int]:
    """Return the replicas of a workload that stop, by cluster."""
    binding = planned.before.workload.binding
    where = gone.lost if preserves(binding) else gone.clusters
    if binding is None or (where.isdisjoint(planned.before.assignment) and not binding.spec.graceful_eviction_tasks):
        return {}
    return {name: count for name, count in copies(planned.before).items() if name in where}


def has_no_other_copy(planned: PlannedWorkload, gone: Gone) -> bool:
    """Return whether no copy of a workload is left on a cluster that is ready."""
    return not any(map(gone.runs, copies(planned.before)))


def is_left(planned: PlannedWorkload, gone: Gone) -> bool:
    """Return whether the changes leave a workload nowhere or with too few replicas.

    The one rule of ``simulate --check=new`` and ``resilience --check``: it cannot be scheduled, and could be without
    the changes; or copies of it stop, and nothing takes their place. Where another scheduler places its workloads is
    not known, so that they do not count.
    """
    return planned.fails_by_change or _stays_stopped(planned, gone)


def runs_nowhere(planned: PlannedWorkload, gone: Gone) -> bool:
    """Return whether a workload that the changes leave (``is_left``) runs on no cluster."""
    if planned.after.failure is not None and not planned.after.assignment:
        return True
    return _stays_stopped(planned, gone) and not _running_after(planned, gone)


def _stays_stopped(planned: PlannedWorkload, gone: Gone) -> bool:
    """Return whether copies of a workload stop, and nothing takes their place.

    A duplicated workload has all replicas on each cluster: one copy is enough.
    """
    if planned.is_deleted or _is_foreign(planned) or not stopping(planned, gone):
        return False
    running = _running_after(planned, gone)
    binding = planned.after.workload.binding
    if not running or binding is None or planned.after.failure is not None:
        return True
    scheduling = binding.spec.placement.replica_scheduling if binding.spec.placement is not None else None
    if scheduling is None or scheduling.replica_scheduling_type != "Divided":
        return False
    assigned = planned.before.assignment.items()
    before = sum(count for name, count in assigned if name in gone.ready or gone.stops(name))
    return sum(running.values()) < min(before, binding.spec.replicas)


def _running_after(planned: PlannedWorkload, gone: Gone) -> dict[str, int]:
    found = {name: count for name, count in planned.after.assignment.items() if gone.runs(name)}
    return _running(planned.after.workload.binding, found)


def is_hit(planned: PlannedWorkload, gone: Gone) -> bool:
    """Return whether ``loss_of`` counts or names a workload: clusters that are gone run it now, or are assigned."""
    binding = planned.after.workload.binding
    assigned = [each.name for each in binding.spec.clusters] if binding is not None else []
    return any(map(gone.stops, (*copies(planned.before), *assigned)))


def loss_of(planned: Sequence[PlannedWorkload], gone: Gone) -> Loss:
    """Return what stops running, and what nothing starts again."""
    hit = [(each, found) for each in planned if (found := stopping(each, gone))]
    return Loss(
        lost=sorted(gone.lost),
        removed=sorted(gone.removed),
        workloads=len(hit),
        replicas=sum(sum(found.values()) for _, found in hit),
        only_copy=_names(each for each, _ in hit if has_no_other_copy(each, gone)),
        left=_names(each for each, _ in hit if is_left(each, gone)),
        not_simulated=_names(each for each, _ in hit if _is_foreign(each)),
        preserved=_names(
            each
            for each in (planned if gone.removed else ())
            if gone.removed & copies(each.before).keys() and preserves(each.before.workload.binding)
        ),
        hanging=_hanging(planned, gone.removed),
    )


def _hanging(planned: Sequence[PlannedWorkload], removed: frozenset[str]) -> dict[str, list[str]]:
    """Return the workloads whose bindings still name a deleted cluster. A dependency that follows names none."""
    found: dict[str, list[str]] = {}
    for each in planned if removed else ():
        binding = each.after.workload.binding
        if binding is None or each.is_deleted or each.before.workload.binding is None:
            continue
        for target in binding.spec.clusters:
            if target.name in removed:
                found.setdefault(target.name, []).append(each.resource)
    return {name: found[name] for name in sorted(found)}


def _names(planned: Iterable[PlannedWorkload]) -> list[str]:
    return [each.resource for each in planned]


def _is_foreign(planned: PlannedWorkload) -> bool:
    unscheduled = planned.after.unscheduled
    return unscheduled is not None and unscheduled.reason is NotScheduled.OTHER_SCHEDULER


def preserves(binding: Binding | None) -> bool:
    """Return whether members keep the resource when its copy is deleted, as the copies say now."""
    return binding is not None and bool(binding.spec.preserve_resources_on_deletion)
