"""Decide for a binding whose move is under way: the next step, another target, or the way back. Pure functions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec.structs

from berthmaster.deciding.break_first import tasks_after
from berthmaster.deciding.config import MoveSettings
from berthmaster.deciding.context import MoveContext
from berthmaster.deciding.copies import CopiesNotReadError, rollback_loses_replicas
from berthmaster.deciding.decide import (
    BindingDecision,
    ClusterState,
    components_of,
    decide,
    lost_clusters,
    schedule,
    scheduled_message,
    trigger_for,
)
from berthmaster.deciding.failover import Replacement, eviction_tasks, replacement
from berthmaster.deciding.lifecycle import (
    SOON_LOOK_S,
    CopiesChange,
    MoveEvent,
    Step,
    Surroundings,
    advanced,
    flapped,
    released,
    retargeted,
    rolled_back,
)
from berthmaster.deciding.move_targets import Target, draining_clusters, earlier_target, is_better
from berthmaster.deciding.refusal import Cause, MoveRefusal
from berthmaster.deciding.writes import SUCCESS, SchedulingResult, applied_placement, move_write
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask
from berthmaster.model.meta import Timestamp
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
from berthmaster.model.work import Copies
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed
from berthmaster.scheduling.request import Request

SOON_S: Final = 1.0
"""How soon a binding is looked at again that may have another reason to move."""


@dataclass(frozen=True, slots=True)
class MoveDecider:
    """Decides with what a decision with moves depends on besides the binding."""

    state: ClusterState
    now_s: float
    bounds: Mapping[str, int] | None
    moves: MoveContext
    explain: bool = False

    @property
    def now(self) -> Timestamp:
        return self.moves.now

    def settings(self, binding: Binding) -> MoveSettings:
        return self.moves.policy(binding).settings

    def copies(self) -> Copies:
        """Return the copies of the binding by their Works."""
        if self.moves.copies is None:
            raise CopiesNotReadError
        return self.moves.copies

    def around(self, binding: Binding, move: MoveState | None = None) -> Surroundings:
        """Return what a step of a move depends on besides its binding and its state."""
        return Surroundings(
            self.settings(binding),
            self.now,
            self.moves.producer,
            self.state.unready_since_s,
            self.state.scheduler.fleet.row_of,
            self.moves.braked,
            move is not None and self.can_return(move),
            self.moves.copies,
        )

    def can_return(self, move: MoveState) -> bool:
        """Whether the source of a move is whole: the move can be rolled back to it."""
        if move.reason is MoveReason.FAILOVER or not move.source or move.returning:
            return False
        return not self.is_unready(move.source)

    def is_unready(self, clusters: Iterable[str]) -> bool:
        """Whether any of some clusters is not ready."""
        return any(name in self.state.unready_since_s for name in clusters)

    def decide(self, binding: Binding) -> BindingDecision:
        """Decide without moves. A failover waits for the storm brake and budgets, and for old copies of its target."""

        def may_fail_over(found: Replacement) -> str:
            if self.moves.braked:
                return f"storm brake: {self.moves.braked}"
            source = {name: replicas for name, replicas in binding.assignment.items() if name in found.left}
            move = MoveState(MoveReason.FAILOVER, MovePhase.SURGING, source=source, target=found.clusters)
            waiting = self.moves.admit(binding, move)
            if waiting is not None:
                return waiting.reason
            self.copies()  # the decision is taken again with the clusters to avoid
            return ""

        avoided = self.moves.copies.deleting if self.moves.copies is not None else frozenset()
        decision = decide(
            self.state,
            binding,
            self.now_s,
            self.bounds,
            explain=self.explain,
            may_fail_over=may_fail_over,
            avoided=avoided,
        )
        if decision.warning and (self.moves.braked or avoided):
            decision = sooner(decision, SOON_LOOK_S)
        return decision

    def stepped(self, binding: Binding, step: Step, trigger: Trigger) -> BindingDecision:
        move, placement = step.state, binding.spec.placement
        group = step.group if step.clusters is not None else binding.status.scheduler_observing_affinity_name
        if move is not None and (move.under_way or move.phase is MovePhase.RELEASED):
            message = scheduled_message(move.target_group, move.target)
        else:
            message = scheduled_message(group, step.clusters if step.clusters is not None else binding.assignment)
        request = Request.of(binding)
        components = components_of(self.state, binding, request) if step.clusters is not None else ()
        applied = None
        if step.clusters is not None and move is not None and move.under_way and placement is not None:
            # The target was decided for the present placement. With an older text the move would look superseded.
            applied = {APPLIED_PLACEMENT: applied_placement(placement)}
        return BindingDecision(
            trigger,
            binding,
            request,
            SchedulingResult(SUCCESS, message, group),
            move_write(binding, move, step.clusters, step.group, step.tasks, applied, components=components),
            requeue_after_s=step.wait_s,
            clusters=step.clusters,
            change=step.change,
            move_event=step.event,
        )


def continued(decider: MoveDecider, binding: Binding, move: MoveState) -> BindingDecision:
    """Decide the next step of a move under way."""
    moved = as_moved(binding)
    if why := _superseded(binding, moved, move):
        breaks = move.strategy is MoveStrategy.BREAK_BEFORE_MAKE
        prior = moved if breaks and move.phase is not MovePhase.ADMITTED else as_before(binding)
        if breaks:
            prior = with_tasks(prior, tasks_after(binding, move, decider.moves.producer))
        return abandoned(decider, binding, prior, MoveEvent("Normal", CopiesChange.ABANDONED, why), move)
    lost, loss_s = lost_clusters(decider.state, moved, decider.now_s)
    if decider.moves.braked:
        lost = frozenset()
    trigger = Trigger.FAILOVER if lost else trigger_for(decider.state, moved)
    found, tasks = _target_now(decider, moved, move, trigger, lost)
    if trigger is Trigger.NONE and _is_stalled(move):
        found = _back_to_its_group(decider, binding, move) or found
    if isinstance(found, MoveRefusal):
        step = _without_target(decider, binding, move, found)
    elif found.clusters != move.target:
        step = _retargeted(decider, binding, move, found)
    else:
        step = advanced(binding, move, decider.around(binding, move))
    if tasks and step.tasks is None:
        step = replace(step, tasks=(*binding.spec.graceful_eviction_tasks, *tasks))
    requested = trigger is Trigger.RESCHEDULED and step.state is not None and step.state.phase not in AFTER_FAILURE
    decision = decider.stepped(binding, step, Trigger.RESCHEDULED if requested else Trigger.NONE)
    return sooner(msgspec.structs.replace(decision, refresh=requested), loss_s)


def abandoned(
    decider: MoveDecider, binding: Binding, prior: Binding, event: MoveEvent, move: MoveState | None = None
) -> BindingDecision:
    """End a move without a result. The binding is decided as if it were ``prior``, without a move.

    A move that ends without a result is a failure: the binding is held down, so that the same move cannot start and
    end in a loop.
    """
    record = None if move is None else flapped(move, decider.settings(binding), decider.now, event.note)
    group = prior.status.scheduler_observing_affinity_name
    plain = without_move(prior, prior.assignment, group)
    decision = decider.decide(plain)
    clusters = decision.clusters if decision.clusters is not None else plain.assignment
    write, placement = decision.write, binding.spec.placement
    applied = applied_placement(placement) if decision.result.ok and placement is not None else None
    tasks = write.evictions if write is not None and write.evictions is not None else None
    write = move_write(
        binding,
        record,
        clusters,
        decision.result.group if decision.result.ok else group,
        tasks if tasks is not None else plain.spec.graceful_eviction_tasks,
        {APPLIED_PLACEMENT: applied} if applied is not None else None,
        components_of(decider.state, binding, decision.request),
    )
    decision = msgspec.structs.replace(
        decision, write=write, clusters=clusters, binding=binding, change=CopiesChange.ABANDONED, move_event=event
    )
    return sooner(decision, SOON_S)


def with_tasks(binding: Binding, tasks: tuple[GracefulEvictionTask, ...]) -> Binding:
    """Return a binding with other eviction tasks."""
    return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, graceful_eviction_tasks=tasks))


def sooner(decision: BindingDecision, after_s: float | None) -> BindingDecision:
    """Return a decision whose binding is reconciled again after some seconds at the latest; None changes nothing."""
    if after_s is None or (decision.requeue_after_s is not None and decision.requeue_after_s <= after_s):
        return decision
    return msgspec.structs.replace(decision, requeue_after_s=after_s)


def _superseded(binding: Binding, moved: Binding, move: MoveState) -> str:
    """Return what ends a move under way: an edit of the placement.

    A failover is never ended: its target is decided again for the new placement, and all its copies stay until then.
    """
    placement, applied = binding.spec.placement, binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    if placement is None or not applied:
        return "the binding has no placement, or no record of the applied one"
    if move.reason is not MoveReason.FAILOVER and placement_changed(
        placement, applied, moved.status.scheduler_observing_affinity_name, in_order=False
    ):
        return "the placement was edited"
    return ""


def _target_now(
    decider: MoveDecider, moved: Binding, move: MoveState, trigger: Trigger, lost: frozenset[str]
) -> tuple[Target | MoveRefusal, tuple[GracefulEvictionTask, ...]]:
    """Return where the move should end, as decided now, or why nowhere, and tasks for lost clusters."""
    same = Target(move.target, move.target_group)
    state = decider.state
    draining = draining_clusters(state, moved) - move.source.keys()
    # A move that returns goes to where it came from, drained or not. Healthy new copies of an unhealthy source stay.
    if decider.moves.braked or move.returning or rollback_loses_replicas(moved, move):
        draining = frozenset()
    if lost or draining:
        found = replacement(state.scheduler, Request.of(moved), lost | draining, leaves=bool(draining))
        if isinstance(found, MoveRefusal):
            return found if lost else same, ()
        left = replace(found, left=tuple(name for name in found.left if name in lost))
        return Target(dict(found.clusters), found.group), eviction_tasks(moved, left, decider.moves.producer)
    if trigger is Trigger.NONE:
        return same, ()
    request = Request.of(moved)
    if decider.bounds is not None:
        request = replace(request, bounds=decider.bounds)
    decision = schedule(state, moved, request, trigger)
    if not decision.result.ok:
        return MoveRefusal(Cause.NO_PLACE, decision.result.message, (decision.result.reason,)), ()
    if decision.clusters is None:
        return same, ()
    return Target(dict(decision.clusters), decision.result.group), ()


def _is_stalled(move: MoveState) -> bool:
    return move.reason is MoveReason.FAILOVER and move.phase is MovePhase.SURGING and move.until is None


def _back_to_its_group(decider: MoveDecider, binding: Binding, move: MoveState) -> Target | None:
    """Return an earlier group that can hold a stalled failover; None without one. All its copies count as present."""
    running = without_move(binding, binding.assignment, move.target_group)
    avoided = frozenset(decider.state.unready_since_s) | frozenset(decider.state.draining)
    found = earlier_target(decider.state.scheduler, running, avoided, 0)
    return found if isinstance(found, Target) else None


def _without_target(decider: MoveDecider, binding: Binding, move: MoveState, found: MoveRefusal) -> Step:
    """Roll back a move whose target does not exist any more; keep both if there is nothing to return to."""
    # With BreakBeforeMake a rollback of this phase only restores: the brake does not stop it.
    braked = decider.moves.braked and move.phase is not MovePhase.ADMITTED
    # A move that returns has no copies in this phase. If where it returns to is lost, it starts where it was.
    restored = move.returning and move.phase is MovePhase.ADMITTED and not decider.is_unready(move.source)
    if braked or not (restored or decider.can_return(move)) or rollback_loses_replicas(binding, move):
        return Step(msgspec.structs.replace(move, message=found.message[:MAX_MESSAGE]), wait_s=SOON_LOOK_S)
    gone = f"the target is gone: {found.message}"[:MAX_MESSAGE]
    return rolled_back(binding, move, decider.around(binding, move), gone)


def _retargeted(decider: MoveDecider, binding: Binding, move: MoveState, found: Target) -> Step:
    """Change the target of a move; roll back if the new one does not serve its reason, and no healthy copy is lost."""
    around = decider.around(binding, move)
    source = Target(move.source, move.source_group)
    changed = msgspec.structs.replace(move, target=found.clusters, target_group=found.group)
    if not binding.spec.replicas and any(move.source.values()):
        return released(binding, changed, around)
    if decider.can_return(move) and not rollback_loses_replicas(binding, move):
        if not is_better(decider.state, binding, move.reason, found, source):
            return rolled_back(binding, move, around, "no target is better than the source")
        waiting = decider.moves.admit(binding, changed)
        if waiting is not None:
            return rolled_back(binding, move, around, waiting.reason)
    return retargeted(binding, move, found.clusters, found.group, around)
