"""Scheduling all workloads of a world, and what that changes."""

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
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Profile, Scheduler
from berthmaster.scheduling.trigger import Trigger, trigger_of
from berthmaster.simulation.world import SimulatedWorkload, World


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """What became of a workload.

    Attributes:
        workload: with its binding as it is afterwards.
        trigger: why it was scheduled; NONE if it was not.
        decision: None if it was not scheduled.
        diagnosis: the decision explained, where that was asked for or nothing was decided.
    """

    workload: SimulatedWorkload
    trigger: Trigger
    decision: Decision | None = None
    diagnosis: Diagnosis | None = None

    @property
    def assignment(self) -> dict[str, int]:
        """Replicas by cluster, as they are afterwards."""
        binding = self.workload.binding
        return {target.name: target.replicas for target in binding.spec.clusters} if binding is not None else {}

    @property
    def group(self) -> str:
        """The group that the assignment came from; empty for none."""
        binding = self.workload.binding
        return binding.status.scheduler_observing_affinity_name if binding is not None and self.assignment else ""


def run(
    world: World, profile: Profile, now: datetime, *, diagnose: bool = False, check: Callable[[], None] = lambda: None
) -> tuple[World, list[WorkloadResult]]:
    """Schedule every workload that needs it.

    Args:
        world: its workloads' bindings say where they are now.
        profile: how to decide.
        now: recorded as the time of scheduling.
        diagnose: explain every decision, not only those that failed.
        check: called before each decision; what it raises ends the run.

    Returns:
        The world afterwards, and an outcome for each workload in its order.
    """
    peers = Peers()
    for workload in world.workloads:
        if workload.binding is not None:
            peers.place(Request.of(workload.binding), [target.name for target in workload.binding.spec.clusters])
    scheduler = Scheduler(Fleet(world.clusters.values()), profile, peers)
    outcomes = []
    for workload in world.workloads:
        check()
        outcome = _settle(scheduler, workload, now, diagnose=diagnose)
        outcomes.append(outcome)
        if outcome.workload.binding is not None:
            scheduler.peers.place(Request.of(outcome.workload.binding), outcome.assignment)
    return replace(world, workloads=[outcome.workload for outcome in outcomes]), outcomes


def moves(before: WorkloadResult, after: WorkloadResult) -> dict[str, tuple[int | None, int | None]]:
    """The replicas before and after of each cluster where they differ; None where it did not have the workload."""
    then, now = before.assignment, after.assignment
    return {
        cluster: (then.get(cluster), now.get(cluster))
        for cluster in sorted(then.keys() | now.keys())
        if then.get(cluster) != now.get(cluster)
    }


def examine(scheduler: Scheduler, workload: SimulatedWorkload, now: datetime) -> WorkloadResult:
    """What would become of one workload now, explained even where nothing triggers a scheduling. Changes nothing."""
    outcome = _settle(scheduler, workload, now, diagnose=True)
    if outcome.decision is not None or workload.binding is None or workload.binding.spec.placement is None:
        return outcome
    request = Request.of(workload.binding)
    decision = scheduler.schedule(request)
    return replace(outcome, diagnosis=explain(scheduler, request, decision))


def _settle(scheduler: Scheduler, workload: SimulatedWorkload, now: datetime, *, diagnose: bool) -> WorkloadResult:
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
    settled = _recorded(binding, decision, now)
    return WorkloadResult(replace(workload, binding=settled), trigger, decision, diagnosis)


def _recorded(binding: Binding, decision: Decision, now: datetime) -> Binding:
    """The binding with what Karmada's scheduler writes after a decision."""
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


def unplaced(outcomes: Sequence[WorkloadResult]) -> list[WorkloadResult]:
    """The claimed workloads that nothing was decided for."""
    return [outcome for outcome in outcomes if outcome.decision is not None and outcome.decision.failure is not None]
