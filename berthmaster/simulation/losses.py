"""What stops running when clusters are lost or deleted, whatever moves afterwards.

A lost cluster stops all copies on it. A deletion of a cluster deletes its Works first (karmada ``removeCluster``), so
that its copies are gone before any new one runs; members keep the copies of a workload that preserves its resources.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from berthmaster.deciding.running import (
    Hosts,
    NotRunning,
    arriving_in_vain,
    existing,
    replicas_asked,
    running,
    wants_copies,
    with_overrides,
    with_replicas,
)
from berthmaster.model.binding import Binding
from berthmaster.model.move import as_moved
from berthmaster.simulation.plan_answer import Loss
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.workload import NotScheduled


def copies(result: WorkloadResult) -> dict[str, int]:
    """Return the replicas by cluster of the copies that exist by a result."""
    return existing(result.workload.binding, result.assignment, result.workload.overridden)


def wanted(result: WorkloadResult) -> dict[str, int]:
    """Return the replicas by cluster that members should run by a result: the assignment, as overrides change it."""
    binding = result.workload.binding
    return {} if binding is None else with_overrides(binding, result.assignment, result.workload.overridden)


def overridden_copies(result: WorkloadResult) -> dict[str, int]:
    """Return the replicas by cluster that a member runs because of overrides, where Karmada assigns others."""
    assigned = result.assignment
    return {name: count for name, count in sorted(wanted(result).items()) if count != assigned[name]}


def overridden_changes(planned: PlannedWorkload) -> dict[str, tuple[int, int]]:
    """Return the replicas before and after by cluster that a change of overrides changes where a workload stays."""
    if planned.before.workload.overridden == planned.after.workload.overridden:
        return {}
    then, now = copies(planned.before), copies(planned.after)
    pairs = {name: (then.get(name, 0), now.get(name, 0)) for name in sorted(planned.after.assignment)}
    return {name: pair for name, pair in pairs.items() if name in planned.before.assignment and pair[0] != pair[1]}


def stopping(planned: PlannedWorkload, hosts: Hosts) -> dict[str, int]:
    """Return the replicas of a workload that stop, by cluster."""
    binding = planned.before.workload.binding
    where = hosts.lost if preserves(binding) else hosts.stopping
    if binding is None or (where.isdisjoint(planned.before.assignment) and not binding.spec.graceful_eviction_tasks):
        return {}
    return {name: count for name, count in copies(planned.before).items() if name in where}


def has_no_other_copy(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether no copy of a workload is left on a cluster that is ready."""
    return not any(map(hosts.runs, copies(planned.before)))


def running_after(planned: PlannedWorkload, hosts: Hosts) -> dict[str, int]:
    """Return the replicas by cluster that run after the changes."""
    after = planned.after
    exist, works = copies(planned.before), _works(planned)
    return running(after.workload.binding, wanted(after), hosts, exist, _due(planned), works)


def _works(planned: PlannedWorkload) -> Collection[str]:
    """Return the clusters that have a Work, also one that was never applied because dispatching is suspended."""
    return (planned.settled or planned.before).at_once.assignment


def _due(planned: PlannedWorkload) -> dict[str, int] | None:
    """Return the copies that exist while nothing is added: once what is due now has happened; None if nothing is.

    A move may add copies until a purge waits.
    """
    if planned.after.works is not None:
        return dict(planned.after.works)
    return copies(planned.settled.at_once) if planned.settled is not None else None


def not_running(planned: PlannedWorkload, hosts: Hosts) -> dict[str, NotRunning]:
    """Return the clusters that get replicas which do not run there, and why not."""
    if planned.is_deleted:
        return {}
    after = planned.after
    exist, works = copies(planned.before), _works(planned)
    return arriving_in_vain(after.workload.binding, wanted(after), hosts, exist, _due(planned), works)


def is_left(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether the changes leave a workload nowhere or with too few replicas.

    The one rule of each check and limit: it cannot be scheduled, and could be without the changes; or fewer of its
    replicas run than without the changes, and fewer than it should have. Where another scheduler places its workloads
    is not known, so that they do not count.
    """
    return planned.fails_by_change or _is_short(planned, hosts)


def runs_nowhere(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether a workload that has no place, or that the changes leave (``is_left``), runs on no cluster."""
    if planned.after.has_no_place:
        return not planned.after.assignment or (_wants_copies(planned) and not running_after(planned, hosts))
    return _is_short(planned, hosts) and not running_after(planned, hosts)


def runs_no_copy(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether a workload that wants copies runs none after the changes, for whatever reason."""
    if runs_nowhere(planned, hosts):
        return True
    return _wants_copies(planned) and not running_after(planned, hosts)


def _wants_copies(planned: PlannedWorkload) -> bool:
    """Return whether a workload should run. A dependency that follows nothing should not."""
    binding = planned.after.workload.binding
    return binding is None or (binding.spec.placement is not None and wants_copies(binding))


def has_too_few(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether a workload runs with too few replicas, or cannot be scheduled and keeps what it has."""
    binding = planned.after.workload.binding
    if binding is None or runs_no_copy(planned, hosts):
        return False
    if is_left(planned, hosts) or planned.after.has_no_place:
        return True
    return _lacks_replicas(planned, running_after(planned, hosts))


def _lacks_replicas(planned: PlannedWorkload, found: Mapping[str, int]) -> bool:
    """Return whether a divided workload runs fewer replicas than it should."""
    binding = planned.after.workload.binding
    return binding is not None and binding.is_divided and sum(found.values()) < _asked(binding, planned.after)


def _asked(binding: Binding, result: WorkloadResult) -> int:
    return replicas_asked(binding, result.assignment, result.workload.overridden)


def keeps_all(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether a workload that cannot be scheduled keeps all replicas that it wants where they run."""
    binding = planned.after.workload.binding
    if planned.after.failure is None or binding is None or planned.moves or stopping(planned, hosts):
        return False
    found = running_after(planned, hosts)
    return bool(found) and not _lacks_replicas(planned, found)


def _is_short(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether fewer replicas of a workload run than without the changes, and fewer than it should have.

    A duplicated workload has all replicas on each cluster: one copy is enough.
    """
    if planned.is_deleted or _is_foreign(planned):
        return False
    after, binding = running_after(planned, hosts), planned.after.workload.binding
    stops = stopping(planned, hosts)
    same = planned.before.workload.overridden == planned.after.workload.overridden
    if same and not (stops or planned.moves or planned.caused):
        return False  # most workloads
    if binding is not None and not wants_copies(binding):
        return False
    reference = planned.settled or planned.before
    exist = copies(planned.before)
    before = running(reference.workload.binding, wanted(reference), hosts.before, exist, reference.works)
    if planned.settled is not None and not before:
        return False  # it would not run without the changes either
    if stops and planned.after.failure is not None:
        return True
    if binding is None:
        return bool(stops)
    if not after:  # without an assignment nothing needs it any more, or its failure says why
        # A move that stands can have removed the old copies before it assigns new ones.
        assigned = planned.after.assignment or as_moved(binding).assignment if before else wanted(planned.after)
        return bool(stops) or bool(with_replicas(binding, assigned))
    if not binding.is_divided:
        return False
    arrives = bool(not_running(planned, hosts)) and not planned.is_due
    asked = _asked(binding, planned.after) if arrives else min(sum(before.values()), binding.spec.replicas)
    return sum(after.values()) < asked


def is_hit(planned: PlannedWorkload, hosts: Hosts) -> bool:
    """Return whether ``loss_of`` counts or names a workload: clusters that are gone run it now, or are assigned."""
    binding = planned.after.workload.binding
    assigned = [each.name for each in binding.spec.clusters] if binding is not None else []
    return any(map(hosts.stops, (*copies(planned.before), *assigned)))


def loss_of(planned: Sequence[PlannedWorkload], hosts: Hosts) -> Loss:
    """Return what stops running, and what nothing starts again.

    What has no replicas, such as a ConfigMap, is no workload that stops. It counts if nothing starts it again.
    """
    hit = [(each, found) for each in planned if (found := stopping(each, hosts))]
    stopped = [
        each for each, _ in hit if each.before.workload.binding and each.before.workload.binding.spec.is_workload
    ]
    return Loss(
        lost=sorted(hosts.lost),
        removed=sorted(hosts.removed),
        workloads=len(stopped),
        replicas=sum(sum(found.values()) for _, found in hit),
        only_copy=_names(each for each in stopped if has_no_other_copy(each, hosts)),
        left=_names(each for each, _ in hit if is_left(each, hosts)),
        not_simulated=_names(each for each, _ in hit if _is_foreign(each)),
        preserved=_names(
            each
            for each in (planned if hosts.removed else ())
            if hosts.removed & copies(each.before).keys() and preserves(each.before.workload.binding)
        ),
        hanging=_hanging(planned, hosts.removed),
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
