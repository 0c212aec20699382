"""Decide with moves: begin them, continue them, and end them. Pure functions of clusters, binding and time.

``decide`` knows nothing about moves. This module calls it for the binding as if its move had ended, or had not begun,
and turns the answer into a step of the move. docs/moves.md has the rules.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec.structs

from berthmaster.controllers.binding_scheduler.decide import (
    BindingDecision,
    ClusterState,
    components_of,
    decide,
    lost_clusters,
    schedule,
    scheduled_message,
    trigger_for,
    unchanged,
)
from berthmaster.controllers.binding_scheduler.failover import Replacement, eviction_tasks, replacement
from berthmaster.controllers.binding_scheduler.records import ended_record, waiting_record
from berthmaster.controllers.binding_scheduler.wishes import Wish, is_better, wish_of
from berthmaster.controllers.binding_scheduler.writes import (
    SUCCESS,
    AssignmentWrite,
    SchedulingResult,
    effective,
    move_write,
)
from berthmaster.controllers.moves.break_first import leftover_tasks, tasks_after, why_not_broken
from berthmaster.controllers.moves.config import MoveSettings
from berthmaster.controllers.moves.context import MoveContext
from berthmaster.controllers.moves.failback import Target, earlier_target, rank
from berthmaster.controllers.moves.lifecycle import (
    BRAKED_LOOK_S,
    MoveEvent,
    Step,
    advanced,
    begun,
    flapped,
    reduced,
    released,
    retargeted,
    rolled_back,
)
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask
from berthmaster.model.move import (
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    as_before,
    as_moved,
    is_intact,
    left_by,
    move_of,
    move_problem,
    without_move,
)
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed
from berthmaster.scheduling.request import Request

_SOON_S: Final = 1.0


def decide_with_moves(
    state: ClusterState,
    binding: Binding,
    now_s: float,
    bounds: Mapping[str, int] | None = None,
    moves: MoveContext | None = None,
    *,
    explain: bool = False,
) -> BindingDecision:
    """Decide for a binding with a placement, and for its move.

    Args:
        state: the clusters.
        binding: the latest binding.
        now_s: monotonic time.
        bounds: see ``decide``.
        moves: the configuration of moves; None decides without moves.
        explain: see ``decide``.
    """
    if moves is None or unsupported_parts(binding.spec.placement):  # a held workload does not move
        return decide(state, binding, now_s, bounds, explain=explain)
    return _Decider(state, now_s, bounds, moves, explain).decided(binding)


class _Decider:
    """One decision. Its methods share the arguments of ``decide_with_moves``."""

    def __init__(
        self,
        state: ClusterState,
        now_s: float,
        bounds: Mapping[str, int] | None,
        moves: MoveContext,
        explain: bool,  # noqa: FBT001 - private
    ) -> None:
        self._state = state
        self._now_s = now_s
        self._bounds = bounds
        self._moves = moves
        self._now = moves.now
        self._explain = explain

    def decided(self, binding: Binding) -> BindingDecision:
        binding = effective(binding)
        move = move_of(binding)
        under_way = move is not None and move.under_way
        if move is not None and under_way and is_intact(binding, move):
            return self._continued(binding, left_by(binding, move))
        if problem := move_problem(binding):
            return self._abandoned(binding, binding, MoveEvent("Warning", "InvalidMove", problem))
        # No move is under way, so nothing would ever remove its tasks.
        leftover = leftover_tasks(binding, self._moves.producer)
        if under_way or leftover is not None:
            prior = binding if leftover is None else _with_tasks(binding, leftover)
            event = MoveEvent("Warning", "MoveAbandoned", "another client has changed the assignment")
            return self._abandoned(binding, prior, event)
        return self._at_rest(binding, move)

    # No move is under way.

    def _at_rest(self, binding: Binding, record: MoveState | None) -> BindingDecision:
        decision = self._decide(binding)
        if decision.replaced is not None:
            return self._failed_over(binding, decision, decision.replaced, record)
        if decision.trigger is Trigger.RESCHEDULED and self._is_movable(binding, decision):
            return self._rescheduled(binding, decision, record)
        if decision.write is not None:
            return self._plainly_changed(decision, record)
        if not decision.result.ok:
            return decision
        wish = wish_of(self._state, binding, self._moves, self._bounds)
        if wish is None:
            return self._recorded(binding, decision, ended_record(record, self._now))
        return self._wished(binding, decision, wish, record)

    def _decide(self, binding: Binding) -> BindingDecision:
        def may_fail_over(found: Replacement) -> str:
            if self._moves.braked:
                return f"storm brake: {self._moves.braked}"
            source = {name: replicas for name, replicas in binding.assignment.items() if name in found.left}
            move = MoveState(MoveReason.FAILOVER, MovePhase.SURGING, source=source, target=found.clusters)
            waiting = self._moves.admit(binding, move)
            return waiting.reason if waiting is not None else ""

        decision = decide(
            self._state, binding, self._now_s, self._bounds, explain=self._explain, may_fail_over=may_fail_over
        )
        if decision.warning and self._moves.braked:
            decision.requeue_after_s = _earliest(decision.requeue_after_s, BRAKED_LOOK_S)
        return decision

    def _plainly_changed(self, decision: BindingDecision, record: MoveState | None) -> BindingDecision:
        """Write a decision that is no move. An edit of the placement forgets failures."""
        away = self._may_be_away(decision)
        if record is None and not away:
            return decision
        decision = replace(decision, plain=decision)
        decision.requeue_after_s = _earliest(decision.requeue_after_s, _SOON_S)
        if decision.write is not None and APPLIED_PLACEMENT in decision.write.annotations:
            self._also(decision, move_write(decision.binding, None))
        return decision

    @staticmethod
    def _also(decision: BindingDecision, record: AssignmentWrite | None) -> None:
        """Add the write of a record to the write of a decision."""
        if decision.write is not None and record is not None:
            annotations = {**decision.write.annotations, **record.annotations}
            decision.write = replace(decision.write, annotations=annotations)

    def _may_be_away(self, decision: BindingDecision) -> bool:
        """Whether a new assignment may not be what its policy prefers, and should return. No event reports that."""
        placement = decision.binding.spec.placement
        if placement is None or not placement.cluster_affinities or not decision.clusters:
            return False
        if rank(self._state.scheduler, placement, decision.result.group, decision.clusters) == (0, False):
            return False
        return self._moves.policy(decision.binding).settings.failback.mode != "Off"

    def _failed_over(
        self, binding: Binding, decision: BindingDecision, found: Replacement, record: MoveState | None
    ) -> BindingDecision:
        """Fail over. It is a move if healthy copies must stay until the new ones are healthy."""
        divided = sum(found.clusters.values()) == binding.spec.replicas
        kept = reduced(found.kept, binding.spec.replicas, divided=divided)
        if record is not None and record.phase is MovePhase.RELEASED:
            why = f"left {', '.join(found.left)} again after a {record.reason.value}"
            record = flapped(record, self._moves.policy(binding).settings, self._now, why)
        if all(name in found.clusters and replicas <= found.clusters[name] for name, replicas in kept.items()):
            decision = replace(decision, plain=decision)
            self._also(decision, move_write(binding, record))
            if self._may_be_away(decision):
                decision.requeue_after_s = _earliest(decision.requeue_after_s, _SOON_S)
            return decision
        state = self._state_of(binding, MoveReason.FAILOVER, Target(found.clusters, found.group), record)
        state = msgspec.structs.replace(state, source=kept)
        if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and why_not_broken(
            binding, [name for name in kept if name not in found.clusters]
        ):
            state = msgspec.structs.replace(state, strategy=MoveStrategy.MAKE_BEFORE_BREAK)
        lost = (*binding.spec.graceful_eviction_tasks, *eviction_tasks(binding, found, self._moves.producer))
        step = begun(_with_tasks(binding, lost), state, self._settings(binding), self._now, self._moves.producer)
        step = replace(step, tasks=step.tasks if step.tasks is not None else lost)
        started = self._stepped(binding, step, Trigger.FAILOVER)
        started.refresh, started.plain = decision.refresh, decision
        return started

    def _is_movable(self, binding: Binding, decision: BindingDecision) -> bool:
        """Whether the requested rescheduling of a binding is a move."""
        if decision.clusters is None or decision.clusters == binding.assignment or not binding.spec.clusters:
            return False
        return decision.result.ok and self._moves.policy(binding).reschedules

    def _rescheduled(self, binding: Binding, decision: BindingDecision, record: MoveState | None) -> BindingDecision:
        """Reschedule by a move. The request stays until the move is admitted."""
        target = Target(dict(decision.clusters or {}), decision.result.group)
        wish = Wish(MoveReason.RESCHEDULED, self._moves.policy(binding), target)
        rest = BindingDecision(Trigger.NONE, binding, decision.request, unchanged(binding))
        started = self._wished(binding, rest, wish, record)
        if started.clusters is not None:
            started.trigger, started.refresh, started.plain = Trigger.RESCHEDULED, True, decision
        return started

    def _wished(
        self, binding: Binding, decision: BindingDecision, wish: Wish, record: MoveState | None
    ) -> BindingDecision:
        """Begin a move if everything allows it; otherwise record what it waits for."""
        found = waiting_record(binding, wish, record, self._now, self._moves.braked)
        if found.ready and isinstance(wish.target, Target):
            state = self._state_of(binding, wish.reason, wish.target, found.state)
            waiting = self._moves.admit(binding, state)
            if waiting is None:
                step = begun(binding, state, wish.policy.settings, self._now, self._moves.producer)
                return self._stepped(binding, step, Trigger.NONE)
            found = found.waiting_for(waiting.reason, waiting.retry_after_s)
        decision = self._recorded(binding, decision, found.state)
        decision.requeue_after_s = _earliest(decision.requeue_after_s, found.wait_s)
        decision.waits_for_place = isinstance(wish.target, str)
        return decision

    def _state_of(self, binding: Binding, reason: MoveReason, target: Target, record: MoveState | None) -> MoveState:
        settings = self._settings(binding)
        return MoveState(
            reason,
            MovePhase.ADMITTED,
            strategy=settings.strategy,
            source=binding.assignment,
            target=dict(target.clusters),
            source_group=binding.status.scheduler_observing_affinity_name,
            target_group=target.group,
            started_at=record.started_at if record is not None and record.reason is reason else self._now,
            failures=record.failures if record is not None else 0,
            held_down_until=record.held_down_until if record is not None else None,
        )

    def _recorded(self, binding: Binding, decision: BindingDecision, record: MoveState | None) -> BindingDecision:
        """Add the write of a record to a decision that changes nothing else."""
        decision.write = move_write(binding, record)
        if record is not None and record.until is not None:
            left_s = max(_SOON_S, (record.until - self._now).total_seconds())
            decision.requeue_after_s = _earliest(decision.requeue_after_s, left_s)
        return decision

    # A move is under way.

    def _continued(self, binding: Binding, move: MoveState) -> BindingDecision:
        moved = as_moved(binding)
        if why := self._superseded(binding, moved):
            breaks = move.strategy is MoveStrategy.BREAK_BEFORE_MAKE
            prior = moved if breaks and move.phase is not MovePhase.ADMITTED else as_before(binding)
            if breaks:
                prior = _with_tasks(prior, tasks_after(binding, move, self._moves.producer))
            return self._abandoned(binding, prior, MoveEvent("Normal", "MoveAbandoned", why))
        lost, loss_s = lost_clusters(self._state, moved, self._now_s)
        if self._moves.braked:
            lost = frozenset()
        trigger = Trigger.FAILOVER if lost else trigger_for(self._state, moved)
        found, tasks = self._target_now(moved, move, trigger, lost)
        if trigger is Trigger.NONE and self._is_stalled(move):
            found = self._back_to_its_group(binding, move) or found
        if isinstance(found, str):
            step = self._without_target(binding, move, found)
        elif found.clusters != move.target:
            step = self._retargeted(binding, move, found)
        else:
            step = advanced(
                binding,
                move,
                self._settings(binding),
                self._now,
                self._moves.producer,
                braked=self._moves.braked,
                returnable=self._can_return(move),
                unready=self._state.unready_since_s,
            )
        if tasks and step.tasks is None:
            step = replace(step, tasks=(*binding.spec.graceful_eviction_tasks, *tasks))
        decision = self._stepped(binding, step, trigger if trigger is Trigger.RESCHEDULED else Trigger.NONE)
        decision.refresh = trigger is Trigger.RESCHEDULED
        decision.requeue_after_s = _earliest(decision.requeue_after_s, loss_s)
        return decision

    def _superseded(self, binding: Binding, moved: Binding) -> str:
        """Return what ends a move under way: the placement was edited, or a plain rescheduling is requested."""
        placement, applied = binding.spec.placement, binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
        if placement is None or not applied:
            return "the binding is to be scheduled anew"
        if placement_changed(placement, applied, moved.status.scheduler_observing_affinity_name):
            return "the placement was edited"
        if binding.reschedule_requested and not self._moves.policy(binding).reschedules:
            return "a rescheduling was requested"
        return ""

    def _target_now(
        self, moved: Binding, move: MoveState, trigger: Trigger, lost: frozenset[str]
    ) -> tuple[Target | str, tuple[GracefulEvictionTask, ...]]:
        """Return where the move should end, as decided now, and tasks for lost clusters; a text says why nowhere."""
        same = Target(move.target, move.target_group)
        if lost:
            found = replacement(self._state.scheduler, Request.of(moved), lost)
            if isinstance(found, str):
                return found, ()
            return Target(found.clusters, found.group), eviction_tasks(moved, found, self._moves.producer)
        if trigger is Trigger.NONE:
            return same, ()
        request = Request.of(moved)
        if self._bounds is not None:
            request = replace(request, bounds=self._bounds)
        decision = schedule(self._state, moved, request, trigger)
        if not decision.result.ok:
            return decision.result.message, ()
        if decision.clusters is None:
            return same, ()
        return Target(dict(decision.clusters), decision.result.group), ()

    def _is_stalled(self, move: MoveState) -> bool:
        return move.reason is MoveReason.FAILOVER and move.phase is MovePhase.SURGING and move.until is None

    def _back_to_its_group(self, binding: Binding, move: MoveState) -> Target | None:
        """Return an earlier group that can hold a stalled failover; None without one. All its copies count as there."""
        running = without_move(binding, binding.assignment, move.target_group)
        avoided = frozenset(self._state.unready_since_s) | frozenset(self._state.draining)
        found = earlier_target(self._state.scheduler, running, avoided, 0)
        return found if isinstance(found, Target) else None

    def _without_target(self, binding: Binding, move: MoveState, why: str) -> Step:
        """Roll back a move whose target does not exist any more; keep both if there is nothing to return to."""
        if self._moves.braked or not self._can_return(move):
            return Step(msgspec.structs.replace(move, message=why[:256]), wait_s=BRAKED_LOOK_S)
        return rolled_back(
            binding, move, self._settings(binding), self._now, f"the target is gone: {why}"[:256], self._moves.producer
        )

    def _retargeted(self, binding: Binding, move: MoveState, found: Target) -> Step:
        """Change the target of a move; roll back if the new target does not serve its reason."""
        settings, producer = self._settings(binding), self._moves.producer
        source = Target(move.source, move.source_group)
        changed = msgspec.structs.replace(move, target=found.clusters, target_group=found.group)
        if not binding.spec.replicas and any(move.source.values()):
            return released(binding, changed, settings, self._now, producer)
        if self._can_return(move):
            if not is_better(self._state, binding, move.reason, found, source):
                return rolled_back(binding, move, settings, self._now, "no target is better than the source", producer)
            waiting = self._moves.admit(binding, changed)
            if waiting is not None:
                return rolled_back(binding, move, settings, self._now, waiting.reason, producer)
        return retargeted(move, found.clusters, found.group, binding.spec.replicas, settings, self._now)

    def _can_return(self, move: MoveState) -> bool:
        if move.reason is MoveReason.FAILOVER or not move.source or move.returning:
            return False
        return not self._source_is_lost(move)

    def _source_is_lost(self, move: MoveState) -> bool:
        return any(name in self._state.unready_since_s for name in move.source)

    # Both.

    def _abandoned(self, binding: Binding, prior: Binding, event: MoveEvent) -> BindingDecision:
        """End a move without a result. The binding is decided as if it were ``prior``, without a record."""
        group = prior.status.scheduler_observing_affinity_name
        plain = without_move(prior, prior.assignment, group)
        decision = self._decide(plain)
        clusters = decision.clusters if decision.clusters is not None else plain.assignment
        write = decision.write
        known = (write.annotations if write is not None else {}).get(APPLIED_PLACEMENT)
        tasks = write.evictions if write is not None and write.evictions is not None else None
        decision.write = move_write(
            binding,
            None,
            clusters,
            decision.result.group if decision.result.ok else group,
            tasks if tasks is not None else plain.spec.graceful_eviction_tasks,
            {APPLIED_PLACEMENT: known} if known is not None else None,
            components_of(self._state, binding, decision.request),
        )
        decision.clusters = clusters
        decision.binding = binding
        decision.move_event = event
        decision.requeue_after_s = _earliest(decision.requeue_after_s, _SOON_S)
        return decision

    def _stepped(self, binding: Binding, step: Step, trigger: Trigger) -> BindingDecision:
        """Return the decision that performs a step of a move."""
        move = step.state
        group = step.group if step.clusters is not None else binding.status.scheduler_observing_affinity_name
        logical = move.target if move is not None and move.phase is not MovePhase.ROLLED_BACK else step.clusters
        name = move.target_group if move is not None and move.phase is not MovePhase.ROLLED_BACK else group
        message = scheduled_message(name, logical if logical is not None else binding.assignment)
        request = Request.of(binding)
        components = components_of(self._state, binding, request) if step.clusters is not None else ()
        return BindingDecision(
            trigger,
            binding,
            request,
            SchedulingResult(SUCCESS, message, group),
            move_write(binding, move, step.clusters, step.group, step.tasks, components=components),
            requeue_after_s=step.wait_s,
            clusters=step.clusters,
            move_event=step.event,
        )

    def _settings(self, binding: Binding) -> MoveSettings:
        return self._moves.policy(binding).settings


def _with_tasks(binding: Binding, tasks: tuple[GracefulEvictionTask, ...]) -> Binding:
    return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, graceful_eviction_tasks=tasks))


def _earliest(one_s: float | None, other_s: float | None) -> float | None:
    return min((each for each in (one_s, other_s) if each is not None), default=None)
