"""Decide for a binding without a move under way: begin a move, or say what it waits for. Pure functions."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec.structs

from berthmaster.controllers.binding_scheduler.decide import BindingDecision, unchanged
from berthmaster.controllers.binding_scheduler.failover import Replacement, eviction_tasks
from berthmaster.controllers.binding_scheduler.move_decision import SOON_S, MoveDecider, earliest, with_tasks
from berthmaster.controllers.binding_scheduler.records import ended_record, waiting_record
from berthmaster.controllers.binding_scheduler.wishes import Wish, wish_of
from berthmaster.controllers.binding_scheduler.writes import AssignmentWrite, move_write
from berthmaster.controllers.moves.break_first import why_not_broken
from berthmaster.controllers.moves.failback import Target, rank
from berthmaster.controllers.moves.lifecycle import Step, begun, flapped, reduced
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.move import MovePhase, MoveReason, MoveState, MoveStrategy
from berthmaster.scheduling.karmada.trigger import Trigger


def at_rest(decider: MoveDecider, binding: Binding, record: MoveState | None) -> BindingDecision:
    """Decide for a binding without a move under way.

    Args:
        decider: what the decision depends on besides the binding.
        binding: the binding.
        record: its last move, or the one that waits; None without one.
    """
    decision = decider.decide(binding)
    if decision.replaced is not None:
        return _failed_over(decider, binding, decision, decision.replaced, record)
    if decision.trigger is Trigger.RESCHEDULED and _is_movable(decider, binding, decision):
        return _rescheduled(decider, binding, decision, record)
    if decision.write is not None:
        return _plainly_changed(decider, decision, record)
    if not decision.result.ok:
        return decision
    wish = wish_of(decider.state, binding, decider.moves, decider.bounds)
    if wish is None:
        return _recorded(decider, binding, decision, ended_record(record, decider.now))
    return _wished(decider, binding, decision, wish, record)


def _plainly_changed(decider: MoveDecider, decision: BindingDecision, record: MoveState | None) -> BindingDecision:
    """Write a decision that is no move. An edit of the placement forgets failures."""
    away = _may_be_away(decider, decision)
    if record is None and not away:
        return decision
    decision = replace(decision, plain=decision)
    decision.requeue_after_s = earliest(decision.requeue_after_s, SOON_S)
    if decision.write is not None and APPLIED_PLACEMENT in decision.write.annotations:
        _also(decision, move_write(decision.binding, None))
    return decision


def _also(decision: BindingDecision, record: AssignmentWrite | None) -> None:
    """Add the write of a record to the write of a decision."""
    if decision.write is not None and record is not None:
        annotations = {**decision.write.annotations, **record.annotations}
        decision.write = replace(decision.write, annotations=annotations)


def _may_be_away(decider: MoveDecider, decision: BindingDecision) -> bool:
    """Whether a new assignment may not be what its policy prefers, and should return. No event reports that."""
    placement = decision.binding.spec.placement
    if placement is None or not placement.cluster_affinities or not decision.clusters:
        return False
    if rank(decider.state.scheduler, placement, decision.result.group, decision.clusters) == (0, False):
        return False
    return decider.moves.policy(decision.binding).settings.failback.mode != "Off"


def _failed_over(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, found: Replacement, record: MoveState | None
) -> BindingDecision:
    """Fail over. It is a move if healthy copies must stay until the new ones are healthy."""
    divided = sum(found.clusters.values()) == binding.spec.replicas
    kept = reduced(found.kept, binding.spec.replicas, divided=divided)
    if record is not None and record.phase is MovePhase.RELEASED:
        why = f"left {', '.join(found.left)} again after a {record.reason.value}"
        record = flapped(record, decider.settings(binding), decider.now, why)
    if all(name in found.clusters and replicas <= found.clusters[name] for name, replicas in kept.items()):
        decision = replace(decision, plain=decision)
        _also(decision, move_write(binding, record))
        if _may_be_away(decider, decision):
            decision.requeue_after_s = earliest(decision.requeue_after_s, SOON_S)
        return decision
    started = decider.stepped(binding, _failover_step(decider, binding, found, kept, record), Trigger.FAILOVER)
    started.refresh, started.plain = decision.refresh, decision
    return started


def _failover_step(
    decider: MoveDecider, binding: Binding, found: Replacement, kept: Mapping[str, int], record: MoveState | None
) -> Step:
    """Return the first step of a failover whose healthy copies (``kept``) stay until the new ones are healthy."""
    state = _state_of(decider, binding, MoveReason.FAILOVER, Target(found.clusters, found.group), record)
    state = msgspec.structs.replace(state, source=kept)
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and why_not_broken(
        binding, [name for name in kept if name not in found.clusters]
    ):
        state = msgspec.structs.replace(state, strategy=MoveStrategy.MAKE_BEFORE_BREAK)
    lost = (*binding.spec.graceful_eviction_tasks, *eviction_tasks(binding, found, decider.moves.producer))
    step = begun(with_tasks(binding, lost), state, decider.settings(binding), decider.now, decider.moves.producer)
    return replace(step, tasks=step.tasks if step.tasks is not None else lost)


def _is_movable(decider: MoveDecider, binding: Binding, decision: BindingDecision) -> bool:
    """Whether the requested rescheduling of a binding is a move."""
    if decision.clusters is None or decision.clusters == binding.assignment or not binding.spec.clusters:
        return False
    return decision.result.ok and decider.moves.policy(binding).reschedules


def _rescheduled(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, record: MoveState | None
) -> BindingDecision:
    """Reschedule by a move. The request stays until the move is admitted."""
    target = Target(dict(decision.clusters or {}), decision.result.group)
    wish = Wish(MoveReason.RESCHEDULED, decider.moves.policy(binding), target)
    rest = BindingDecision(Trigger.NONE, binding, decision.request, unchanged(binding))
    started = _wished(decider, binding, rest, wish, record)
    if started.clusters is not None:
        started.trigger, started.refresh, started.plain = Trigger.RESCHEDULED, True, decision
    return started


def _wished(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, wish: Wish, record: MoveState | None
) -> BindingDecision:
    """Begin a move if everything allows it; otherwise record what it waits for."""
    found = waiting_record(binding, wish, record, decider.now, decider.moves.braked)
    if found.ready and isinstance(wish.target, Target):
        state = _state_of(decider, binding, wish.reason, wish.target, found.state)
        waiting = decider.moves.admit(binding, state)
        if waiting is None:
            step = begun(binding, state, wish.policy.settings, decider.now, decider.moves.producer)
            return decider.stepped(binding, step, Trigger.NONE)
        found = found.waiting_for(waiting.reason, waiting.retry_after_s)
    decision = _recorded(decider, binding, decision, found.state)
    decision.requeue_after_s = earliest(decision.requeue_after_s, found.wait_s)
    decision.waits_for_place = isinstance(wish.target, str)
    return decision


def _state_of(
    decider: MoveDecider, binding: Binding, reason: MoveReason, target: Target, record: MoveState | None
) -> MoveState:
    settings = decider.settings(binding)
    return MoveState(
        reason,
        MovePhase.ADMITTED,
        strategy=settings.strategy,
        source=binding.assignment,
        target=dict(target.clusters),
        source_group=binding.status.scheduler_observing_affinity_name,
        target_group=target.group,
        started_at=record.started_at if record is not None and record.reason is reason else decider.now,
        failures=record.failures if record is not None else 0,
        held_down_until=record.held_down_until if record is not None else None,
    )


def _recorded(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, record: MoveState | None
) -> BindingDecision:
    """Add the write of a record to a decision that changes nothing else."""
    decision.write = move_write(binding, record)
    if record is not None and record.until is not None:
        left_s = max(SOON_S, (record.until - decider.now).total_seconds())
        decision.requeue_after_s = earliest(decision.requeue_after_s, left_s)
    return decision
