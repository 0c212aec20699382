"""The dependencies that follow workloads which changes concern."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from berthmaster.model.meta import with_spec
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.change_set import PlanIndex, WorkloadKey, is_companion, key_of
from berthmaster.simulation.plan_decider import DueWorkloads, PlanDecider, absent
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.scheduling_cycle import present_result
from berthmaster.simulation.workload import SimulatedWorkload, companions, follow


def _has_companions(index: PlanIndex, decided: Mapping[WorkloadKey, PlannedWorkload]) -> bool:
    """Return whether one of the workloads leads dependencies or follows others, before or after the change."""
    after = (each.after.workload for each in decided.values() if not each.is_deleted)
    workloads = chain(map(index.get, decided), after)
    return any(each is not None and is_companion(each) for each in workloads)


def with_followers(
    index: PlanIndex, due: DueWorkloads, decider: PlanDecider, concerned: dict[WorkloadKey, PlannedWorkload]
) -> tuple[list[PlannedWorkload], list[PlannedWorkload]]:
    """Return the concerned workloads as dependencies follow them, and the dependencies that only follow."""
    if not _has_companions(index, concerned):
        return list(concerned.values()), []
    known = {key_of(each.resource): each for each in _unclaimed_dependencies(index, concerned.values())}
    known.update((key_of(each.resource), _without_change(each, due)) for each in index.world.workloads)
    before = _followed(known)
    after = _followed(_workloads_after(known, concerned))
    names = companions(list(after.values()))
    result, followers = dict(concerned), []
    for position, (key, workload) in enumerate(after.items()):
        known_before = before.get(key)
        if known_before is not None and _required_by(known_before) == _required_by(workload):
            continue
        if known_before is None and not _required_by(workload):
            continue
        decided = _decided_follower(decider, workload, concerned.get(key))
        decided = replace(decided, companions=names.get(position, decided.companions))
        settled = _settled(key, known_before, due)
        if key in concerned:
            result[key] = replace(concerned[key], after=decided, settled=settled)
        else:
            stored = index.get(key)
            present = present_result(stored, index.world.schedulers) if stored is not None else absent(workload)
            followers.append(PlannedWorkload(present, decided, settled, is_new=known_before is None))
    return list(result.values()), followers


def _without_change(workload: SimulatedWorkload, due: DueWorkloads) -> SimulatedWorkload:
    """Return a workload once what is due has happened. That matters to leaders and dependencies only."""
    return (due.workload(key_of(workload.resource)) if is_companion(workload) else None) or workload


def _settled(key: WorkloadKey, workload: SimulatedWorkload | None, due: DueWorkloads) -> WorkloadResult | None:
    """Return the result for a dependency without the change, once it follows its leaders; None if it is new."""
    if workload is None:
        return None
    found = due.result(key)
    return replace(found, workload=workload) if found is not None else WorkloadResult(workload, Trigger.NONE)


def _decided_follower(
    decider: PlanDecider, workload: SimulatedWorkload, concerned: PlannedWorkload | None
) -> WorkloadResult:
    """Return the result for a dependency. One with a placement is scheduled, unless that just happened."""
    if concerned is not None and not concerned.is_deleted and concerned.has_event:
        return replace(concerned.after, workload=workload)
    if workload.binding is not None and workload.binding.spec.placement is not None:
        return decider.decided(workload)
    return WorkloadResult(workload, Trigger.NONE)


def _unclaimed_dependencies(index: PlanIndex, concerned: Iterable[PlannedWorkload]) -> Iterator[SimulatedWorkload]:
    """Yield the dependencies of the concerned workloads that the world may leave out."""
    for planned in concerned:
        workload = planned.after.workload
        if not planned.is_deleted and workload.binding is not None and workload.binding.spec.propagate_deps:
            for dependency in workload.dependencies or ():
                yield from index.world.unclaimed(dependency)


def _workloads_after(
    known: Mapping[WorkloadKey, SimulatedWorkload], concerned: dict[WorkloadKey, PlannedWorkload]
) -> dict[WorkloadKey, SimulatedWorkload]:
    found, gone = dict(known), set()
    for key, planned in concerned.items():
        if not planned.is_deleted:
            found[key] = planned.after.workload
        elif (binding := found.pop(key).binding) is not None:
            gone.add(binding.metadata.key)
    return {key: _without_leaders(each, gone) for key, each in found.items()} if gone else found


def _without_leaders(workload: SimulatedWorkload, gone: set[tuple[str, str]]) -> SimulatedWorkload:
    """Return a dependency that does not follow the workloads that are deleted, by namespace and name of a binding."""
    binding = workload.binding
    if binding is None or not binding.spec.required_by:
        return workload
    kept = tuple(each for each in binding.spec.required_by if (each.namespace, each.name) not in gone)
    return replace(workload, binding=with_spec(binding, required_by=kept))


def _followed(workloads: dict[WorkloadKey, SimulatedWorkload]) -> dict[WorkloadKey, SimulatedWorkload]:
    return dict(zip(workloads, follow(list(workloads.values())), strict=True))


def _required_by(workload: SimulatedWorkload) -> object:
    return workload.binding.spec.required_by if workload.binding is not None else ()
