"""Schedule the workloads of a world, and compare the results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec.structs

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, TargetCluster
from berthmaster.model.decode import encode_json
from berthmaster.scheduling.context import Peers
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.diagnosis import Diagnosis, explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, trigger_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.world import SimulatedWorkload, World


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """The result for a workload.

    Attributes:
        workload: the workload with its binding after the run.
        trigger: why the workload was scheduled; NONE if it was not.
        decision: the decision; None if the workload was not scheduled.
        diagnosis: the explanation of the decision, if it was requested or the decision failed.
    """

    workload: SimulatedWorkload
    trigger: Trigger
    decision: Decision | None = None
    diagnosis: Diagnosis | None = None

    @property
    def assignment(self) -> dict[str, int]:
        binding = self.workload.binding
        return {target.name: target.replicas for target in binding.spec.clusters} if binding is not None else {}

    @property
    def group(self) -> str:
        """The affinity group of the assignment; empty without one."""
        binding = self.workload.binding
        return binding.status.scheduler_observing_affinity_name if binding is not None and self.assignment else ""


def run(
    world: World, profile: Profile, now: datetime, *, diagnose: bool = False, check: Callable[[], None] = lambda: None
) -> tuple[World, list[WorkloadResult]]:
    """Schedule every workload that needs it.

    Args:
        world: the world; the bindings of its workloads hold the current assignments.
        profile: the plugins that decide.
        now: the time that is recorded as the time of scheduling.
        diagnose: whether to explain every decision, not only those that failed.
        check: called before each decision; an exception that it raises ends the run.

    Returns:
        The world after the run, and a result for each workload in order.
    """
    peers = Peers()
    for workload in world.workloads:
        if workload.binding is not None:
            peers.place(Request.of(workload.binding), [target.name for target in workload.binding.spec.clusters])
    scheduler = Scheduler(Fleet(world.clusters.values()), profile, peers)
    results = []
    for workload in world.workloads:
        check()
        result = _schedule(scheduler, workload, now, diagnose=diagnose)
        results.append(result)
        if result.workload.binding is not None:
            scheduler.peers.place(Request.of(result.workload.binding), result.assignment)
    return replace(world, workloads=[result.workload for result in results]), results


def moves(before: WorkloadResult, after: WorkloadResult) -> dict[str, tuple[int | None, int | None]]:
    """Return the replicas before and after for each cluster that changes; None for a cluster without the workload."""
    then, now = before.assignment, after.assignment
    return {
        cluster: (then.get(cluster), now.get(cluster))
        for cluster in sorted(then.keys() | now.keys())
        if then.get(cluster) != now.get(cluster)
    }


def examine(scheduler: Scheduler, workload: SimulatedWorkload, now: datetime) -> WorkloadResult:
    """Return the result for one workload with an explanation, even if nothing triggers scheduling. Changes nothing."""
    result = _schedule(scheduler, workload, now, diagnose=True)
    if result.decision is not None or workload.binding is None or workload.binding.spec.placement is None:
        return result
    request = Request.of(workload.binding)
    decision = scheduler.schedule(request)
    return replace(result, diagnosis=explain(scheduler, request, decision))


def _schedule(scheduler: Scheduler, workload: SimulatedWorkload, now: datetime, *, diagnose: bool) -> WorkloadResult:
    """Schedule one workload if it needs it."""
    binding = workload.binding
    if binding is None:
        return WorkloadResult(workload, Trigger.NONE)
    trigger = trigger_of(binding, scheduler.fleet)
    if trigger is Trigger.NONE:
        return WorkloadResult(workload, trigger)
    request = Request.of(binding)
    decision = scheduler.schedule(request)
    diagnosis = explain(scheduler, request, decision) if diagnose or decision.failure is not None else None
    recorded = _recorded(binding, decision, now)
    return WorkloadResult(replace(workload, binding=recorded), trigger, decision, diagnosis)


def _recorded(binding: Binding, decision: Decision, now: datetime) -> Binding:
    """Return the binding as Karmada's scheduler writes it after a decision."""
    if decision.failure is not None and not decision.clears_assignment:
        return binding
    placement = encode_json(binding.spec.placement).decode()
    metadata = msgspec.structs.replace(
        binding.metadata, annotations={**binding.metadata.annotations, APPLIED_PLACEMENT: placement}
    )
    clusters = tuple(TargetCluster(name, replicas) for name, replicas in sorted(decision.assignment.items()))
    spec = msgspec.structs.replace(binding.spec, clusters=clusters)
    status = binding.status
    if decision.failure is None:
        group = decision.group or ""
        status = msgspec.structs.replace(status, scheduler_observing_affinity_name=group, last_scheduled_time=now)
    return msgspec.structs.replace(binding, metadata=metadata, spec=spec, status=status)


def unplaced(results: Sequence[WorkloadResult]) -> list[WorkloadResult]:
    """Return the results whose decision failed."""
    return [result for result in results if result.decision is not None and result.decision.failure is not None]
