"""Schedule the workloads of a world: what happens to each, in the order of time.

A move under way goes on as the controllers continue it (``deciding/move_course.py``). Karmada's taint manager,
Berthmaster's failover and the deletion of a cluster take workloads off a cluster, under the assumptions of the world.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import starmap
from typing import Final, Literal

from msgspec.structs import replace

from berthmaster.deciding.decide import Verdict, in_any_group, judge
from berthmaster.deciding.decision_recorder import PolicyMoves
from berthmaster.deciding.failover import Replacement
from berthmaster.deciding.move_course import (
    NOTICED_S,
    Surmise,
    course_of,
    decider_at,
    ended,
    is_moving,
    only_asked,
    written,
)
from berthmaster.deciding.move_selector import subject_of
from berthmaster.deciding.moves import was_emptied
from berthmaster.deciding.policy_moves import policy_moves
from berthmaster.deciding.rules import SchedulerRules, misses_cluster, needs_any_group
from berthmaster.deciding.writes import effective
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, target_of
from berthmaster.model.move import as_moved, move_of
from berthmaster.model.template_facts import TemplateFacts, facts_of
from berthmaster.scheduling.decision import Decision, FailureKind
from berthmaster.scheduling.diagnosis import explain, failures_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import recovered
from berthmaster.simulation.evictions import evicted
from berthmaster.simulation.not_scheduled import why_not_scheduled
from berthmaster.simulation.results import WorkloadResult
from berthmaster.simulation.retries import misses_deletion, not_retried, stalls
from berthmaster.simulation.shared_capacity import SharedCapacity
from berthmaster.simulation.workload import (
    NotScheduled,
    SimulatedWorkload,
    Unscheduled,
    companions,
    follow,
)
from berthmaster.simulation.world import World, peers_of

Diagnosed = Literal["all", "failures", "none"]
"""What is explained: all decisions and why groups failed, only why groups failed, or nothing."""
_DEFAULTS: Final = World({}, ())
_MOVE_STANDS: Final = frozenset({NotScheduled.SUSPENDED, NotScheduled.OTHER_SCHEDULER})
"""Why no scheduler continues the move of a workload: its copies stay as they are."""
_NO_BINDING: Final = Unscheduled(NotScheduled.UNCLAIMED, "it has no binding yet")


def run(
    world: World,
    profile: Profile,
    now: datetime,
    *,
    diagnose: Diagnosed = "failures",
    shared_capacity: bool = False,
    scheduler: Scheduler | None = None,
    keeps_rows: bool = False,
    check: Callable[[], None] = lambda: None,
) -> tuple[World, list[WorkloadResult]]:
    """Schedule every workload that needs it.

    Args:
        shared_capacity: whether a decision sees the replicas that the decisions before it add.
        scheduler: a scheduler of the clusters of the world (``scheduler_of``); None for a new one.
        keeps_rows: whether the decisions keep the rows of the clusters that fit.
        check: called before each workload; an exception that it raises ends the run.

    Returns:
        The world after the run, as changes find it, and a result for each workload in order. With shared capacity, its
        clusters have the added replicas deducted.
    """
    scheduler = scheduler or scheduler_of(world, profile)
    shared = SharedCapacity(scheduler.fleet, everywhere=True) if shared_capacity else None

    def one(workload: SimulatedWorkload) -> WorkloadResult:
        check()
        return schedule_one(scheduler, workload, now, world, diagnose=diagnose, shared=shared, keeps_rows=keeps_rows)

    results = followed(list(map(one, world.workloads)), world.schedulers)
    clusters = {**world.clusters, **shared.clusters()} if shared is not None else world.clusters
    return replace(world, clusters=clusters, workloads=[result.started for result in results]), results


def scheduler_of(world: World, profile: Profile) -> Scheduler:
    """Return a scheduler for the clusters of a world, which knows where the workloads of affinity groups are."""
    return Scheduler(Fleet(world.clusters.values()), profile, peers_of(world))


def present(world: World) -> list[WorkloadResult]:
    """Return where workloads are now: what their bindings say, without a decision."""
    return with_companions([present_result(workload, world.schedulers) for workload in world.workloads])


def present_result(workload: SimulatedWorkload, schedulers: Collection[str]) -> WorkloadResult:
    """Return where one workload is now, without a decision. The companions are not known."""
    if workload.present:
        unscheduled = why_not_scheduled(workload, schedulers)
        return WorkloadResult(workload, Trigger.NONE, unscheduled=unscheduled, as_is=True)
    unbound = replace(workload, binding=None, unscheduled=workload.unscheduled or _NO_BINDING)
    return WorkloadResult(unbound, Trigger.NONE, unscheduled=unbound.unscheduled)


def examine(
    scheduler: Scheduler,
    workload: SimulatedWorkload,
    now: datetime,
    world: World = _DEFAULTS,
    *,
    most: int | None = None,
) -> WorkloadResult:
    """Return the result for one workload with an explanation, even if nothing triggers scheduling. Changes nothing."""
    result = schedule_one(scheduler, workload, now, world, diagnose="all", most=most)
    binding = result.workload.binding
    if result.decision is not None or binding is None or binding.spec.placement is None:
        return result
    request = Request.of(ended(scheduler, binding, now, world.assumptions.scheduler))
    decision = scheduler.schedule(request)
    return replace(result, diagnosis=explain(scheduler, request, decision, most))


def schedule_one(
    scheduler: Scheduler,
    workload: SimulatedWorkload,
    now: datetime,
    world: World = _DEFAULTS,
    *,
    diagnose: Diagnosed = "failures",
    shared: SharedCapacity | None = None,
    most: int | None = None,
    keeps_rows: bool = False,
) -> WorkloadResult:
    """Schedule one workload if it needs it, and record in the scheduler's peers where it is.

    Karmada's taint manager takes it off clusters before that, and Berthmaster's failover after that.

    Args:
        shared: deducts the replicas that decisions add, as each scheduler does; None to deduct nothing.
        most: the most clusters of each stage of an explained group; None for all.
        keeps_rows: whether the decision keeps the rows of the clusters that fit.
    """
    unscheduled = why_not_scheduled(workload, world.schedulers)
    workload = evicted(workload, scheduler.fleet, world.assumptions, now, is_scheduled=unscheduled is None)
    binding = workload.binding
    if binding is None or unscheduled is not None:
        stands = unscheduled is not None and unscheduled.reason in _MOVE_STANDS
        return WorkloadResult(workload, Trigger.NONE, unscheduled=unscheduled, as_is=stands)
    rules = world.rules_of(binding)
    seen = shared if shared is not None and shared.counts_for(rules) else None
    cycle = _Cycle(scheduler, now, world, rules, diagnose, seen, most, keeps_rows=keeps_rows)
    if is_moving(binding, world.assumptions.scheduler) or cycle.begins_move(workload, binding):
        return cycle.moved(workload, binding)
    return cycle.failed_over(cycle.triggered(workload, binding))


@dataclass(frozen=True, slots=True)
class _Cycle:
    """What happens to one workload, in the order of time: its move or its triggers, and then failover."""

    scheduler: Scheduler
    now: datetime
    world: World
    rules: SchedulerRules
    diagnose: Diagnosed
    shared: SharedCapacity | None
    most: int | None
    keeps_rows: bool

    def triggered(self, workload: SimulatedWorkload, binding: Binding) -> WorkloadResult:
        """Return the result of what is due now.

        Args:
            binding: the binding of the workload.
        """
        scheduler, rules = self.scheduler, self.rules
        verdict = judge(scheduler, binding, rules)
        decision, trigger = verdict.decision, verdict.trigger
        if trigger is Trigger.FAILOVER and not rules.notices_deletions:
            decision = None if misses_deletion(binding, scheduler.fleet) else decision
        if decision is None:
            return WorkloadResult(workload, Trigger.NONE)
        if rules.asks_every_group:
            decision = self.in_any_group(workload, verdict, decision)
        if not rules.retries and decision.failure is None and decision.assignment and stalls(workload):
            return WorkloadResult(workload, Trigger.NONE, unscheduled=not_retried(decision.assignment))
        recorded = _recorded(scheduler, verdict.binding, decision, self.now)
        self._take(recorded, verdict.request)
        return self._result(replace(workload, binding=recorded), verdict, decision)

    def begins_move(self, workload: SimulatedWorkload, binding: Binding) -> bool:
        """Return whether what is due for a workload is a move, which some copies do not allow.

        That is a requested rescheduling, or the next copies of a workload that must not run twice.
        """
        own = binding.scheduler == self.world.assumptions.scheduler
        if not own or (binding.spec.clusters and not binding.reschedule_requested):
            return False
        policy = self._surmise(workload).policy
        if binding.reschedule_requested and policy.reschedules:
            return True
        return was_emptied(binding, policy.settings)

    def moved(self, workload: SimulatedWorkload, binding: Binding) -> WorkloadResult:
        """Return the result once the move of a workload has ended, or stays as it is.

        A change finds the move as its first step leaves it, which takes no time: it may end otherwise. A move that ends
        as this step records stays on record.
        """
        started, now = self._unnoticed(workload, binding)
        course = course_of(self.scheduler, started, now, self._surmise(workload))
        stays = course.ends_as_begun or (course.ends_as_recorded and not course.stands)
        after, last = course.begun if stays else course.binding, course.last
        self._take(as_moved(after), Request.of(effective(binding)))
        notes = (*workload.notes, *((last.warning,) if last.warning else ()))
        workload = replace(workload, binding=after, notes=notes)
        verdict = None if last.result.ok else judge(self.scheduler, after, self.rules)
        result = WorkloadResult(workload, course.trigger)
        if verdict is not None and verdict.decision is not None:
            result = self._result(workload, verdict, verdict.decision)
        return replace(result, as_is=course.stands, begun=course.begun, works=course.copies.replicas)

    def _unnoticed(self, workload: SimulatedWorkload, binding: Binding) -> tuple[Binding, datetime]:
        """Return a binding whose move goes on until the loss of clusters is noticed, and when it is.

        A move with BreakBeforeMake may start copies on a lost cluster, and then waits for it. One that soaks may
        release its old copies.
        """
        move, fleet = move_of(binding), self.scheduler.fleet
        lost = {name: found for name in self.world.lost if (found := fleet.get(name)) is not None}
        if not lost or move is None or not move.under_way:
            return binding, self.now
        try:
            for each in lost.values():
                fleet.apply(recovered(each))
            unnoticed = self._surmise(workload, silent=frozenset(lost))
            after = course_of(self.scheduler, binding, self.now, unnoticed, NOTICED_S).reported
        finally:
            for each in lost.values():
                fleet.apply(each)
        return after, self.now + timedelta(seconds=NOTICED_S)

    def _result(self, workload: SimulatedWorkload, verdict: Verdict, decision: Decision) -> WorkloadResult:
        """Return the result of a decision with its explanation."""
        scheduler, request = self.scheduler, verdict.request
        diagnosis = explain(scheduler, request, decision, self.most) if self.diagnose == "all" else None
        asks_why = decision.failure is not None and self.diagnose != "none"
        failures = failures_of(scheduler, request, decision) if asks_why else ()
        # The results of all workloads are kept, and each one can have all clusters.
        decision.release(keeps_rows=self.keeps_rows)
        return WorkloadResult(workload, verdict.trigger, decision, diagnosis, failures)

    def _surmise(self, workload: SimulatedWorkload, silent: frozenset[str] = frozenset()) -> Surmise:
        """Return what is assumed while time passes: failover as configured, and no move that time alone begins."""
        assumed, binding, claim = self.world.assumptions, workload.binding, workload.claim
        annotations = claim.policy.metadata.annotations if claim is not None else {}
        policy = PolicyMoves()
        if binding is not None:
            policy = policy_moves(self.world.moves.settings_for(subject_of(binding)), annotations, binding)
        replaces = binding is not None and assumed.replaces == binding.scheduler
        return Surmise(
            assumed.replaced_after_s if replaces else None,
            self.rules,
            only_asked(policy),
            facts=facts_of(workload.template) if workload.template is not None else TemplateFacts(),
            producer=assumed.scheduler,
            silent=silent,
            overridden=workload.overridden,
        )

    def in_any_group(self, workload: SimulatedWorkload, verdict: Verdict, failed: Decision) -> Decision:
        """Return where a workload goes that no group can hold from its own one on: to an earlier one, if that can."""
        base, failure = verdict.binding, failed.failure
        if failure is None or failure.kind is FailureKind.TOO_LARGE:
            return failed
        if not needs_any_group(base, loses_all=failed.clears_assignment):
            return failed
        decider = decider_at(self.scheduler, base, self.now, 0, self._surmise(workload))
        found = in_any_group(self.scheduler, verdict.request, decider.state.unusable)
        if found.failure is not None:
            return failed
        placed = Replacement(found.assignment, "", ())
        waits = base.spec.clusters and decider.why_no_failover(base, placed)
        return failed if waits else found

    def failed_over(self, result: WorkloadResult) -> WorkloadResult:
        """Return the result once Berthmaster's failover has replaced lost clusters, or a note that says why not."""
        binding, assumed = result.workload.binding, self.world.assumptions
        if binding is None or result.unscheduled is not None or assumed.replaces != binding.scheduler:
            return result
        base = effective(binding)
        if not has_unready(base, self.scheduler.fleet):
            return result
        surmise = self._surmise(result.workload)
        found = decider_at(self.scheduler, base, self.now, assumed.replaced_after_s, surmise).decide(base)
        if found.replaced is None:
            notes = (*result.workload.notes, found.warning)
            return replace(result, workload=replace(result.workload, notes=notes)) if found.warning else result
        after = written(base, found, self.now)
        workload = replace(result.workload, binding=after)
        if after.reschedule_requested or misses_cluster(after, self.scheduler.fleet):
            return self.triggered(workload, after)
        self._take(after, found.request)
        return WorkloadResult(workload, Trigger.FAILOVER)

    def _take(self, recorded: Binding, request: Request) -> None:
        """Record where a workload is after a decision: in the scheduler's peers, and in the shared capacity."""
        assignment = recorded.assignment
        self.scheduler.peers.place(request, assignment)
        if self.shared is not None:
            self.shared.take(request, assignment)


def has_unready(binding: Binding, fleet: Fleet) -> bool:
    """Return whether a cluster of a binding is not ready."""
    named = (fleet.get(each.name) for each in binding.spec.clusters)
    return any(each is not None and not each.ready for each in named)


def _recorded(scheduler: Scheduler, binding: Binding, decision: Decision, now: datetime) -> Binding:
    """Return the binding as Karmada's scheduler writes it after a decision."""
    if binding.spec.placement is None or (decision.failure is not None and not decision.clears_assignment):
        return binding
    placement = scheduler.compile(binding.spec.placement).text
    metadata = replace(binding.metadata, annotations={**binding.metadata.annotations, APPLIED_PLACEMENT: placement})
    clusters = tuple(starmap(target_of, sorted(decision.assignment.items())))
    spec = replace(binding.spec, clusters=clusters)
    status = binding.status
    if decision.failure is None:
        # A placement without groups leaves the name of the last group (``patchBindingStatusWithAffinityName``).
        group = decision.group or status.scheduler_observing_affinity_name
        status = replace(status, scheduler_observing_affinity_name=group, last_scheduled_time=now)
    return replace(binding, metadata=metadata, spec=spec, status=status)


def followed(results: Sequence[WorkloadResult], schedulers: Collection[str]) -> list[WorkloadResult]:
    """Return the results after the dependencies followed their workloads."""
    workloads = [result.workload for result in results]
    following = follow(workloads)
    if following is workloads:
        return list(results)
    updated = [
        result
        if workload is result.workload
        else replace(result, workload=workload, unscheduled=why_not_scheduled(workload, schedulers))
        for result, workload in zip(results, following, strict=True)
    ]
    return with_companions(updated)


def with_companions(results: list[WorkloadResult]) -> list[WorkloadResult]:
    """Return the results with the workloads that each follows, and those that follow it."""
    for position, found in companions([result.workload for result in results]).items():
        results[position] = replace(results[position], companions=found)
    return results
