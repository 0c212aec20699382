"""Decide for a binding whose move is under way: the next step, another target, or the way back. Pure functions."""

from dataclasses import replace

import msgspec.structs

from berthmaster.controllers.binding_scheduler.decide import BindingDecision, lost_clusters, schedule, trigger_for
from berthmaster.controllers.binding_scheduler.failover import eviction_tasks, replacement
from berthmaster.controllers.binding_scheduler.move_decision import MoveDecider, abandoned, earliest, with_tasks
from berthmaster.controllers.binding_scheduler.wishes import is_better
from berthmaster.controllers.moves.break_first import tasks_after
from berthmaster.controllers.moves.copies import rollback_loses_replicas
from berthmaster.controllers.moves.failback import Target, earlier_target
from berthmaster.controllers.moves.lifecycle import (
    BRAKED_LOOK_S,
    MoveEvent,
    Step,
    advanced,
    released,
    retargeted,
    rolled_back,
)
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask
from berthmaster.model.move import (
    AFTER_FAILURE,
    MAX_MESSAGE,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    as_before,
    as_moved,
    without_move,
)
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed
from berthmaster.scheduling.request import Request


def continued(decider: MoveDecider, binding: Binding, move: MoveState) -> BindingDecision:
    """Decide the next step of a move under way."""
    moved = as_moved(binding)
    if why := _superseded(binding, moved, move):
        breaks = move.strategy is MoveStrategy.BREAK_BEFORE_MAKE
        prior = moved if breaks and move.phase is not MovePhase.ADMITTED else as_before(binding)
        if breaks:
            prior = with_tasks(prior, tasks_after(binding, move, decider.moves.producer))
        return abandoned(decider, binding, prior, MoveEvent("Normal", "MoveAbandoned", why), move)
    lost, loss_s = lost_clusters(decider.state, moved, decider.now_s)
    if decider.moves.braked:
        lost = frozenset()
    trigger = Trigger.FAILOVER if lost else trigger_for(decider.state, moved)
    found, tasks = _target_now(decider, moved, move, trigger, lost)
    if trigger is Trigger.NONE and _is_stalled(move):
        found = _back_to_its_group(decider, binding, move) or found
    if isinstance(found, str):
        step = _without_target(decider, binding, move, found)
    elif found.clusters != move.target:
        step = _retargeted(decider, binding, move, found)
    else:
        step = advanced(
            binding,
            move,
            decider.settings(binding),
            decider.now,
            decider.moves.producer,
            braked=decider.moves.braked,
            returnable=_can_return(decider, move),
            unready=decider.state.unready_since_s,
        )
    if tasks and step.tasks is None:
        step = replace(step, tasks=(*binding.spec.graceful_eviction_tasks, *tasks))
    requested = trigger is Trigger.RESCHEDULED and step.state is not None and step.state.phase not in AFTER_FAILURE
    decision = decider.stepped(binding, step, Trigger.RESCHEDULED if requested else Trigger.NONE)
    decision.refresh = requested
    decision.requeue_after_s = earliest(decision.requeue_after_s, loss_s)
    return decision


def _superseded(binding: Binding, moved: Binding, move: MoveState) -> str:
    """Return what ends a move under way: an edit of the placement.

    A failover is never ended: its target is decided again for the new placement, and all its copies stay until then.
    """
    placement, applied = binding.spec.placement, binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    if placement is None or not applied:
        return "the binding has no placement, or no record of the applied one"
    if move.reason is not MoveReason.FAILOVER and placement_changed(
        placement, applied, moved.status.scheduler_observing_affinity_name
    ):
        return "the placement was edited"
    return ""


def _target_now(
    decider: MoveDecider, moved: Binding, move: MoveState, trigger: Trigger, lost: frozenset[str]
) -> tuple[Target | str, tuple[GracefulEvictionTask, ...]]:
    """Return where the move should end, as decided now, and tasks for lost clusters; a text says why nowhere."""
    same = Target(move.target, move.target_group)
    if lost:
        found = replacement(decider.state.scheduler, Request.of(moved), lost)
        if isinstance(found, str):
            return found, ()
        return Target(found.clusters, found.group), eviction_tasks(moved, found, decider.moves.producer)
    if trigger is Trigger.NONE:
        return same, ()
    request = Request.of(moved)
    if decider.bounds is not None:
        request = replace(request, bounds=decider.bounds)
    decision = schedule(decider.state, moved, request, trigger)
    if not decision.result.ok:
        return decision.result.message, ()
    if decision.clusters is None:
        return same, ()
    return Target(dict(decision.clusters), decision.result.group), ()


def _is_stalled(move: MoveState) -> bool:
    return move.reason is MoveReason.FAILOVER and move.phase is MovePhase.SURGING and move.until is None


def _back_to_its_group(decider: MoveDecider, binding: Binding, move: MoveState) -> Target | None:
    """Return an earlier group that can hold a stalled failover; None without one. All its copies count as there."""
    running = without_move(binding, binding.assignment, move.target_group)
    avoided = frozenset(decider.state.unready_since_s) | frozenset(decider.state.draining)
    found = earlier_target(decider.state.scheduler, running, avoided, 0)
    return found if isinstance(found, Target) else None


def _without_target(decider: MoveDecider, binding: Binding, move: MoveState, why: str) -> Step:
    """Roll back a move whose target does not exist any more; keep both if there is nothing to return to."""
    if decider.moves.braked or not _can_return(decider, move) or rollback_loses_replicas(binding, move):
        return Step(msgspec.structs.replace(move, message=why[:MAX_MESSAGE]), wait_s=BRAKED_LOOK_S)
    gone = f"the target is gone: {why}"[:MAX_MESSAGE]
    return rolled_back(binding, move, decider.settings(binding), decider.now, gone, decider.moves.producer)


def _retargeted(decider: MoveDecider, binding: Binding, move: MoveState, found: Target) -> Step:
    """Change the target of a move; roll back if the new one does not serve its reason, and no healthy copy is lost."""
    settings, producer = decider.settings(binding), decider.moves.producer
    source = Target(move.source, move.source_group)
    changed = msgspec.structs.replace(move, target=found.clusters, target_group=found.group)
    if not binding.spec.replicas and any(move.source.values()):
        return released(binding, changed, settings, decider.now, producer)
    if _can_return(decider, move) and not rollback_loses_replicas(binding, move):
        if not is_better(decider.state, binding, move.reason, found, source):
            return rolled_back(binding, move, settings, decider.now, "no target is better than the source", producer)
        waiting = decider.moves.admit(binding, changed)
        if waiting is not None:
            return rolled_back(binding, move, settings, decider.now, waiting.reason, producer)
    return retargeted(move, found.clusters, found.group, binding.spec.replicas, settings, decider.now)


def _can_return(decider: MoveDecider, move: MoveState) -> bool:
    if move.reason is MoveReason.FAILOVER or not move.source or move.returning:
        return False
    return not _source_is_lost(decider, move)


def _source_is_lost(decider: MoveDecider, move: MoveState) -> bool:
    return any(name in decider.state.unready_since_s for name in move.source)
