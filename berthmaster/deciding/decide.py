"""Decide what the scheduler does for one binding: pure functions of the clusters' state, the binding and the time."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from berthmaster.deciding import writes
from berthmaster.deciding.decision_recorder import DecisionInputs, DecisionOutcome
from berthmaster.deciding.failover import FailoverOptions, Replacement, eviction_tasks, replacement
from berthmaster.deciding.lifecycle import CopiesChange
from berthmaster.deciding.rules import BERTHMASTER, SchedulerRules, misses_cluster, trigger_by
from berthmaster.deciding.writes import AssignmentWrite, SchedulingResult
from berthmaster.model.binding import CLUSTERS_SHOWN, Binding, TargetComponent, short_assignment
from berthmaster.model.move import evicted_by_others
from berthmaster.model.move_refusal import MoveRefusal
from berthmaster.model.unsupported_placement import unsupported_message, unsupported_parts
from berthmaster.scheduling.decision import Attempt, Decision
from berthmaster.scheduling.diagnosis import largest_first
from berthmaster.scheduling.karmada.minimal import rescheduled
from berthmaster.scheduling.karmada.selection import places_whole_sets
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.pending_replicas import PendingReplicas
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

_MAX_GROUPS_SHOWN: Final = 32
_FINAL: Final = frozenset({writes.TOO_LARGE, writes.UNSUPPORTED_PLACEMENT})
"""The reasons that a change of the clusters does not remove."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a decision reads about clusters. The caller must not change it during a decision.

    Attributes:
        scheduler: schedules over the fleet, in which assumed replicas are deducted.
        unready_since_s: the monotonic time since which a cluster is not ready, by name.
    """

    scheduler: Scheduler
    unready_since_s: Mapping[str, float]
    failover: FailoverOptions
    draining: AbstractSet[str] = frozenset()
    rules: SchedulerRules = BERTHMASTER

    @property
    def unusable(self) -> frozenset[str]:
        """The clusters that a planned move must not use: not ready, or drained."""
        return frozenset((*self.unready_since_s, *self.draining))


class BindingDecision(msgspec.Struct, frozen=True):
    """What the scheduler does for a binding. It never changes; ``msgspec.structs.replace`` makes another one.

    Attributes:
        binding: the binding, with the effective group of its assignment.
        clusters: the decided replicas by cluster; None if the assignment stays.
        assumed_before: what was assumed for the binding before this decision; None if that did not change. The
            cache sets it.
        attempts: the steps of the decision, one entry per group; empty unless they were asked for.
        inputs: what it read, for a ledger; None without a ledger, or if the decision is not recorded. The cache sets
            it.
        move_note: the note of the event of its step; empty for no event.
        plain: the decision of ``decide`` that a move carries out in steps; None if this is one.
    """

    trigger: Trigger
    binding: Binding
    request: Request
    result: SchedulingResult
    write: AssignmentWrite | None = None
    refresh: bool = False
    warning: str = ""
    requeue_after_s: float | None = None
    clusters: Mapping[str, int] | None = None
    assumed_before: Mapping[str, PendingReplicas] | None = None
    attempts: tuple[Mapping[str, Any], ...] = ()
    inputs: DecisionInputs | None = None
    replaced: Replacement | None = None
    change: CopiesChange = CopiesChange.NONE
    move_note: str = ""
    waits_for_place: bool = False
    plain: "BindingDecision | None" = None

    @property
    def attempted(self) -> bool:
        """Whether this counts as a scheduling attempt. A periodic check that changes nothing does not count."""
        return self.trigger is not Trigger.NONE and (self.refresh or self.write is not None or not self.result.ok)

    @property
    def has_same_result(self) -> bool:
        """Whether the binding was scheduled, and stays as it is."""
        return self.trigger is not Trigger.NONE and self.result.ok and self.write is None

    @property
    def is_news(self) -> bool:
        """Whether a ledger records this: it changes something, fails for another reason, or ends a failure."""
        known = self.binding.scheduled
        if self.write is not None:
            return True
        if self.result.ok:
            return self.attempted or (known is not None and known.status == "False")
        return self.attempted and (known is None or known.message != self.result.message)

    @property
    def waits_for_capacity(self) -> bool:
        """Whether the binding must be tried again when a cluster has more capacity. Some failures stay the same."""
        return (not self.result.ok and self.result.reason not in _FINAL) or bool(self.warning)


class Verdict(msgspec.Struct, frozen=True):
    """What a scheduler does with a binding now. Controllers write it, and simulations apply it.

    Attributes:
        binding: the binding, with the effective group of its assignment.
        decision: where it goes; None if nothing triggers its scheduling, or if lost clusters are replaced.
        replaced: the assignment without lost clusters; None if none is replaced.
        stays: why it stays on lost clusters; empty if no cluster is lost, or if they are replaced.
        unsupported: the parts of its placement that this version does not know. The binding is held.
    """

    trigger: Trigger
    binding: Binding
    request: Request
    decision: Decision | None = None
    replaced: Replacement | None = None
    stays: str = ""
    unsupported: tuple[str, ...] = ()


def judge(
    scheduler: Scheduler,
    binding: Binding,
    rules: SchedulerRules,
    *,
    lost: frozenset[str] = frozenset(),
    bounds: Mapping[str, int] | None = None,
    may_fail_over: Callable[[Replacement], str] = lambda _: "",
    avoided: frozenset[str] = frozenset(),
) -> Verdict:
    """Return what a scheduler does with a binding with a placement: the one answer to this question.

    Args:
        scheduler: filters, scores, selects and divides over a fleet.
        rules: those of the scheduler that the binding names.
        lost: its clusters that are not ready for too long, which failover replaces.
        bounds: more replicas that clusters can take, as their estimators report; None if none was asked.
        may_fail_over: returns why a failover must wait; empty if it may happen.
        avoided: clusters that a failover must not use.
    """
    binding = writes.effective(binding)
    request = Request.of(binding)
    if unsupported := unsupported_parts(binding.spec.placement):
        return Verdict(trigger_by(rules, binding, scheduler.fleet), binding, request, unsupported=tuple(unsupported))
    if bounds is not None:
        request = replace(request, bounds=bounds)
    stays = ""
    if lost:
        found = fail_over(scheduler, request, lost, may_fail_over, avoided)
        if isinstance(found, Replacement):
            return Verdict(Trigger.FAILOVER, binding, request, replaced=found)
        stays = found
    trigger = trigger_by(rules, binding, scheduler.fleet)
    decision = None if trigger is Trigger.NONE else rescheduled(scheduler, request)
    return Verdict(trigger, binding, request, decision, stays=stays)


def fail_over(
    scheduler: Scheduler,
    request: Request,
    lost: frozenset[str],
    may_fail_over: Callable[[Replacement], str] = lambda _: "",
    avoided: frozenset[str] = frozenset(),
) -> Replacement | str:
    """Return the assignment without lost clusters, or why the workload stays on them. The arguments are ``judge``'s."""
    within = replace(request, evicted_from=request.evicted_from | avoided) if avoided else request
    found = replacement(scheduler, within, lost)
    blocked = found.message if isinstance(found, MoveRefusal) else may_fail_over(found)
    if isinstance(found, Replacement) and not blocked:
        return found
    return f"stays on {', '.join(sorted(lost))}, which is not ready: {blocked}"


def decide(
    state: ClusterState,
    binding: Binding,
    now_s: float,
    bounds: Mapping[str, int] | None = None,
    *,
    explain: bool = False,
    may_fail_over: Callable[[Replacement], str] = lambda _: "",
    avoided: frozenset[str] = frozenset(),
) -> BindingDecision:
    """Decide what to write for a binding with a placement. ``moves.decide_with_moves`` adds moves.

    Args:
        bounds, may_fail_over, avoided: see ``judge``.
        explain: whether the result carries the steps of the decision. They cost extra time.
    """
    lost, requeue_after_s = lost_clusters(state, binding, now_s)
    verdict = judge(
        state.scheduler, binding, state.rules,
        lost=lost, bounds=bounds, may_fail_over=may_fail_over, avoided=avoided,
    )  # fmt: skip
    binding, request, trigger = verdict.binding, verdict.request, verdict.trigger
    if verdict.unsupported:
        held = SchedulingResult(writes.UNSUPPORTED_PLACEMENT, unsupported_message(verdict.unsupported))
        return BindingDecision(trigger, binding, request, held)
    if verdict.replaced is not None:
        return _fail_over(state, binding, request, verdict.replaced, now_s)
    if verdict.decision is None:
        return BindingDecision(
            trigger, binding, request, unchanged(binding), warning=verdict.stays, requeue_after_s=requeue_after_s
        )
    decision = _scheduled(state, verdict, verdict.decision, explain=explain)
    if decision.result.ok and decision.write is not None and decision.clusters is not None:
        requeue_after_s = _next_loss_s(state, decision.clusters, binding, now_s)
    if verdict.stays or requeue_after_s is not None:
        decision = replace(decision, warning=verdict.stays, requeue_after_s=requeue_after_s)
    return decision


def in_any_group(scheduler: Scheduler, request: Request, unusable: AbstractSet[str]) -> Decision:
    """Return where a workload goes if all groups are asked in order, with clusters to avoid if others can hold it."""
    request = replace(request, fresh=True, minimal=False)
    decision = scheduler.schedule(request)
    if decision.failure is None and unusable & decision.assignment.keys():
        decision = scheduler.schedule(replace(request, evicted_from=request.evicted_from | unusable))
    return decision


def schedule_in_any_group(
    state: ClusterState, binding: Binding, bounds: Mapping[str, int] | None, trigger: Trigger
) -> BindingDecision:
    """Schedule a binding in any group (``in_any_group``)."""
    request = replace(Request.of(binding), fresh=True, minimal=False, bounds=bounds)
    decision = in_any_group(state.scheduler, request, state.unusable)
    return _scheduled(state, Verdict(trigger, binding, request), decision, explain=False)


def _scheduled(state: ClusterState, verdict: Verdict, decision: Decision, *, explain: bool) -> BindingDecision:
    binding, request, trigger = verdict.binding, verdict.request, verdict.trigger
    attempts = _explained(state.scheduler, request, decision) if explain else ()
    if decision.failure is not None:
        result = SchedulingResult(writes.REASONS[decision.failure.kind], _failure(state.scheduler, request, decision))
        if not decision.clears_assignment:
            return BindingDecision(trigger, binding, request, result, attempts=attempts)
        write = writes.assignment_write(binding, request.placement, {}, "")
        return BindingDecision(trigger, binding, request, result, write, clusters={}, attempts=attempts)
    group = decision.group or ""
    components = components_of(state, binding, request)
    write = writes.assignment_write(binding, request.placement, decision.assignment, group, components=components)
    return BindingDecision(
        trigger,
        binding,
        request,
        SchedulingResult(writes.SUCCESS, scheduled_message(group, decision.assignment), group),
        write,
        refresh=write is not None or binding.reschedule_requested,
        clusters=decision.assignment,
        attempts=attempts,
    )


def outcome_of(decision: BindingDecision) -> DecisionOutcome:
    """Return what a decision says, for a ledger."""
    decision = decision.plain or decision
    result, write, clusters = decision.result, decision.write, decision.clusters
    return DecisionOutcome(
        decision.trigger.value,
        result.reason,
        result.message,
        result.group,
        decision.warning,
        None if clusters is None else dict(clusters),
        {} if write is None else dict(write.annotations),
        None if write is None else write.evictions,
        decision.refresh,
        decision.requeue_after_s,
        None if write is None else write.clusters,
        f"{decision.change.reason}: {decision.move_note}" if decision.move_note else "",
    )


def components_of(state: ClusterState, binding: Binding, request: Request) -> tuple[TargetComponent, ...]:
    """Return the pods of each template on a cluster (karmada ``buildTargetComponents``); empty for most workloads."""
    components = binding.spec.components
    if len(components) <= 1 or not places_whole_sets(request, state.scheduler.compile(request.placement)):
        return ()
    return tuple(TargetComponent(each.name, each.replicas) for each in components)


def needs_decision(state: ClusterState, binding: Binding, now_s: float) -> bool:
    """Whether ``decide`` would schedule the binding. ``binding`` must be ``effective``."""
    if unsupported_parts(binding.spec.placement):
        return False
    lost, _ = lost_clusters(state, binding, now_s)
    return bool(lost) or trigger_by(state.rules, binding, state.scheduler.fleet) is not Trigger.NONE


def lost_clusters(state: ClusterState, binding: Binding, now_s: float) -> tuple[frozenset[str], float | None]:
    """Return the assigned clusters that were not ready for too long, and the seconds until the next one is lost."""
    waits_s = _waits_s(state, (each.name for each in binding.spec.clusters), now_s)
    lost = frozenset(name for name, wait_s in waits_s.items() if wait_s <= 0)
    return lost, min((wait_s for wait_s in waits_s.values() if wait_s > 0), default=None)


def given_up(state: ClusterState, binding: Binding, now_s: float) -> frozenset[str]:
    """Return the clusters whose copies of a workload count as lost, although nobody can ask them.

    Failover leaves such a cluster, or another controller evicts it: a workload at rest would start elsewhere.
    """
    lost = {name for name, wait_s in _waits_s(state, state.unready_since_s, now_s).items() if wait_s <= 0}
    return frozenset(lost | evicted_by_others(binding) & state.unready_since_s.keys())


def _next_loss_s(state: ClusterState, clusters: Iterable[str], before: Binding, now_s: float) -> float | None:
    """Return the seconds until the first of a new assignment's clusters is lost; None if all are ready.

    A cluster that was assigned before and is lost already has no replacement: the binding waits for capacity instead.
    """
    lost, _ = lost_clusters(state, before, now_s)
    waits_s = _waits_s(state, (name for name in clusters if name not in lost), now_s)
    return max(0.0, min(waits_s.values())) if waits_s else None


def _waits_s(state: ClusterState, clusters: Iterable[str], now_s: float) -> dict[str, float]:
    """Return the seconds until each cluster that is not ready counts as lost; at most 0 if it does already."""
    after_s, since_s = state.failover.after_s, state.unready_since_s
    if after_s is None or not since_s:
        return {}
    return {name: since_s[name] + after_s - now_s for name in clusters if name in since_s}


def _fail_over(
    state: ClusterState, binding: Binding, request: Request, found: Replacement, now_s: float
) -> BindingDecision:
    """Decide to leave lost clusters, of which healthy replicas stay. What else is due follows at once."""
    tasks = eviction_tasks(binding, found, state.failover.producer)
    message = f"{scheduled_message(found.group, found.clusters)}, in place of {', '.join(found.left)}, not ready"
    requested = binding.reschedule_requested
    missing = state.rules.leaves_missing_clusters and misses_cluster(binding, state.scheduler.fleet)
    return BindingDecision(
        Trigger.FAILOVER,
        binding,
        request,
        SchedulingResult(writes.SUCCESS, message, found.group),
        writes.assignment_write(
            binding, request.placement, found.clusters, found.group, tasks, components_of(state, binding, request)
        ),
        refresh=not requested,
        requeue_after_s=0.0 if requested or missing else _next_loss_s(state, found.clusters, binding, now_s),
        clusters=found.clusters,
        replaced=found,
    )


def unchanged(binding: Binding) -> SchedulingResult:
    """Return the result for a binding whose assignment stays: Scheduled=True even if its status is stale."""
    group, known = binding.status.scheduler_observing_affinity_name, binding.scheduled
    if known is not None and binding.gave_up:  # karmada-scheduler does not try it again
        return SchedulingResult(known.reason, known.message)
    is_current = binding.status.scheduler_observed_generation == binding.metadata.generation
    if known is not None and is_current and known.status == "True":
        return SchedulingResult(writes.SUCCESS, known.message, group)
    return SchedulingResult(writes.SUCCESS, scheduled_message(group, binding.assignment), group)


def scheduled_message(group: str, replicas: Mapping[str, int]) -> str:
    """Return the message of the condition of a scheduled binding. It begins as karmada-scheduler's."""
    where = f"Group {group}: " if group else "Result: "
    return f"{writes.SUCCESS_MESSAGE} {where}{short_assignment(replicas)}"


def _failure(scheduler: Scheduler, request: Request, decision: Decision) -> str:
    """Return why a workload fits no cluster: for each group, how many clusters each filter rejected.

    It begins as karmada-scheduler's error, which is that of the first group (``scheduler.go``).
    """
    messages: list[str] = []
    for each in decision.attempts[:_MAX_GROUPS_SHOWN]:
        message, group = _attempt_message(scheduler, request, each), each.group.name
        if group and messages:
            message = f"group {group}: {message}"
        elif group:
            message = f"{message.removesuffix('.')}, in group {group}"
        messages.append(message)
    if (more := len(decision.attempts) - len(messages)) > 0:
        messages.append(f"and {more} more groups")
    return "; ".join(messages) or (decision.failure.message if decision.failure is not None else "")


def _attempt_message(scheduler: Scheduler, request: Request, attempt: Attempt) -> str:
    if attempt.failure is None:
        return "fits"
    if len(attempt.rows):
        return ": ".join(filter(None, (attempt.failure.upstream, attempt.failure.message)))
    total = len(scheduler.fleet)
    counts = scheduler.rejected_by_all(request, attempt)
    phrases = {each.name: each.phrase_of(request.placement) for each in scheduler.filters}
    reasons = [f"{count} {phrases[plugin]} ({plugin})" for plugin, count in largest_first(counts)]
    if (others := total - sum(counts.values())) > 0:
        reasons.append(f"{others} are being deleted")
    return f"0/{total} clusters are available: {', '.join(reasons) or 'no cluster exists'}."


def _explained(scheduler: Scheduler, request: Request, decision: Decision) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            "group": attempt.group.name or "",
            "clusters": len(scheduler.fleet),
            "rejected": dict(scheduler.rejected(request, attempt)),
            "fit": len(attempt.rows),
            "selected": None if attempt.selected is None else attempt.selected.names()[:CLUSTERS_SHOWN],
            "assigned": None if attempt.assignment is None else short_assignment(attempt.assignment),
            "failure": None if attempt.failure is None else attempt.failure.message,
        }
        for attempt in decision.attempts
    )
