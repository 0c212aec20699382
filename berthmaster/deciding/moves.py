"""Decide with moves: begin them, say what they wait for, and continue them. Pure functions of clusters and binding.

``decide`` knows nothing about moves. This module calls it for the binding as if its move had ended, or had not begun,
and turns the answer into a step of the move. docs/moves.md has the rules.

A record is written only if it changes in a way that matters: another phase, cause, cluster or time. Numbers of the
fleet in a message do not matter. They change all the time, and each write costs the API server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec.structs

from berthmaster.deciding.break_first import leftover_tasks, why_not_broken
from berthmaster.deciding.context import MoveContext
from berthmaster.deciding.copies import reported_copies
from berthmaster.deciding.decide import BindingDecision, ClusterState, decide, unchanged
from berthmaster.deciding.failover import Replacement, eviction_tasks, replacement
from berthmaster.deciding.lifecycle import (
    SOON_LOOK_S,
    CopiesChange,
    MoveEvent,
    Step,
    begun,
    flapped,
    is_over,
    later,
    plausible,
    reduced,
    refused,
)
from berthmaster.deciding.move_progress import SOON_S, MoveDecider, abandoned, continued, sooner, with_tasks
from berthmaster.deciding.move_targets import MoveRequest, Target, move_request, rank
from berthmaster.deciding.refusal import Cause, MoveRefusal
from berthmaster.deciding.writes import AssignmentWrite, effective, move_write
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.errors import name_list
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import (
    MAX_MESSAGE,
    WAITING,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    is_intact,
    left_by,
    move_of,
    move_problem,
)
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import Request

LOOK_S: Final = 30.0
"""How often a binding that waits for the end of its stabilisation looks whether its target still exists."""
_RELOOK_S: Final = 300.0


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
        moves: the configuration of moves; None decides without moves.

    Raises:
        CopiesNotReadError: the decision depends on the Works of the binding, and ``moves`` does not have them.
    """
    if moves is None or unsupported_parts(binding.spec.placement):  # a held workload does not move
        return decide(state, binding, now_s, bounds, explain=explain)
    return _decided(MoveDecider(state, now_s, bounds, moves, explain), effective(binding))


def decide_refused(
    state: ClusterState, decision: BindingDecision, now_s: float, moves: MoveContext, why: str
) -> BindingDecision | None:
    """Decide what to write instead of a step of a move that the API server has refused; None for no other step."""
    if decision.change is CopiesChange.NONE or decision.write is None:
        return None
    binding = decision.binding
    decider = MoveDecider(state, now_s, None, moves)
    after = move_of(decision.write.annotated(binding))
    before = move_of(binding)
    message = f"the API server refused the move: {why}"[:MAX_MESSAGE]
    step = refused(binding, decision.change, after, decider.around(binding, before), message)
    if step is None:
        return None
    event = step.event or MoveEvent("Warning", CopiesChange.ABANDONED, message)
    return decider.stepped(binding, replace(step, event=event), Trigger.NONE)


def _decided(decider: MoveDecider, binding: Binding) -> BindingDecision:
    stored = move_of(binding)
    move = None if stored is None else plausible(stored, decider.settings(binding), decider.now)
    under_way = move is not None and move.under_way
    if move is not None and under_way and is_intact(binding, move):
        return continued(decider, binding, left_by(binding, move))
    if problem := move_problem(binding):
        return abandoned(decider, binding, binding, MoveEvent("Warning", CopiesChange.ABANDONED, problem))
    # No move is under way, so nothing would ever remove its tasks.
    leftover = leftover_tasks(binding, decider.moves.producer)
    if under_way or leftover is not None:
        prior = binding if leftover is None else with_tasks(binding, leftover)
        event = MoveEvent("Warning", CopiesChange.ABANDONED, "another client has changed the assignment")
        return abandoned(decider, binding, prior, event, move if under_way else None)
    if move is not None and not any(binding.metadata.labels.get(label) for label in MANAGED_BY):
        rest = BindingDecision(Trigger.NONE, binding, Request.of(binding), unchanged(binding))
        return msgspec.structs.replace(
            rest, write=move_write(binding, None)
        )  # its policy is gone, so it is not scheduled any more
    return _at_rest(decider, binding, move)


def _at_rest(decider: MoveDecider, binding: Binding, record: MoveState | None) -> BindingDecision:
    """Decide for a binding without a move under way."""
    if record is not None and (vanished := _vanished(decider, binding, record)):
        return _replaced(decider, binding, record, vanished)
    decision = decider.decide(binding)
    if decision.replaced is not None:
        return _failed_over(decider, binding, decision, decision.replaced, record)
    if decision.trigger is Trigger.RESCHEDULED and _is_movable(decider, binding, decision):
        return _rescheduled(decider, binding, decision, record)
    if decision.write is not None:
        return _plainly_changed(decider, decision, record)
    if not decision.result.ok:
        return decision
    request = move_request(decider.state, binding, decider.moves, decider.bounds, record)
    if request is None:
        return _recorded(decider, binding, decision, ended_record(record, decider.now))
    return _requested(decider, binding, decision, request, record)


def _vanished(decider: MoveDecider, binding: Binding, record: MoveState) -> frozenset[str]:
    """Return the ready clusters whose copies have disappeared since the move to them was released."""
    if record.phase is not MovePhase.RELEASED or is_over(record, decider.now) or decider.moves.braked:
        return frozenset()
    there = record.target.keys() & binding.assignment.keys() - decider.state.unready_since_s.keys()
    silent = there - {*reported_copies(binding, there)}
    if not silent or decider.copies().problem:
        return frozenset()
    return frozenset(name for name in silent if not decider.copies().alive(name))


def _replaced(decider: MoveDecider, binding: Binding, record: MoveState, vanished: frozenset[str]) -> BindingDecision:
    """Decide again for a workload whose new copies have disappeared after their move was released."""
    names = name_list(sorted(vanished))
    why = f"the copies on {names} are gone after the {record.reason.value} was released"
    failed = flapped(record, decider.settings(binding), decider.now, why[:MAX_MESSAGE])
    found = replacement(decider.state.scheduler, Request.of(binding), vanished)
    event = MoveEvent("Warning", CopiesChange.VANISHED, why)
    if isinstance(found, MoveRefusal):
        step = Step(failed, CopiesChange.VANISHED, wait_s=LOOK_S, event=event)
    else:
        step = Step(failed, CopiesChange.VANISHED, found.clusters, found.group, wait_s=LOOK_S, event=event)
    return decider.stepped(binding, step, Trigger.NONE)


def _plainly_changed(decider: MoveDecider, decision: BindingDecision, record: MoveState | None) -> BindingDecision:
    """Write a decision that is no move. An edit of the placement forgets failures."""
    if record is None and not _may_be_away(decider, decision):
        return decision
    changed = sooner(msgspec.structs.replace(decision, plain=decision), SOON_S)
    if decision.write is not None and APPLIED_PLACEMENT in decision.write.annotations:
        return _also(changed, move_write(decision.binding, None))
    return changed


def _also(decision: BindingDecision, record: AssignmentWrite | None) -> BindingDecision:
    if decision.write is None or record is None:
        return decision
    annotations = {**decision.write.annotations, **record.annotations}
    return msgspec.structs.replace(decision, write=replace(decision.write, annotations=annotations))


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
        plainly = _also(msgspec.structs.replace(decision, plain=decision), move_write(binding, record))
        return sooner(plainly, SOON_S) if _may_be_away(decider, plainly) else plainly
    step = _failover_step(decider, binding, found, kept, record)
    return msgspec.structs.replace(
        decider.stepped(binding, step, Trigger.FAILOVER), refresh=decision.refresh, plain=decision
    )


def _failover_step(
    decider: MoveDecider, binding: Binding, found: Replacement, kept: Mapping[str, int], record: MoveState | None
) -> Step:
    """Return the first step of a failover whose healthy copies (``kept``) stay until the new ones are healthy."""
    state = _state_of(decider, binding, MoveReason.FAILOVER, Target(found.clusters, found.group), record)
    state = msgspec.structs.replace(state, source=dict(kept))
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and why_not_broken(
        binding, [name for name in kept if name not in found.clusters]
    ):
        state = msgspec.structs.replace(state, strategy=MoveStrategy.MAKE_BEFORE_BREAK)
    lost = (*binding.spec.graceful_eviction_tasks, *eviction_tasks(binding, found, decider.moves.producer))
    step = begun(with_tasks(binding, lost), state, decider.around(binding))
    return replace(step, tasks=step.tasks if step.tasks is not None else lost)


def _is_movable(decider: MoveDecider, binding: Binding, decision: BindingDecision) -> bool:
    if decision.clusters is None or decision.clusters == binding.assignment or not binding.spec.clusters:
        return False
    return decision.result.ok and decider.moves.policy(binding).reschedules


def _rescheduled(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, record: MoveState | None
) -> BindingDecision:
    """Reschedule by a move. The request stays until the move is admitted."""
    target = Target(dict(decision.clusters or {}), decision.result.group)
    request = MoveRequest(MoveReason.RESCHEDULED, decider.moves.policy(binding), target)
    rest = BindingDecision(Trigger.NONE, binding, decision.request, unchanged(binding))
    started = _requested(decider, binding, rest, request, record)
    if started.clusters is None:
        return started
    return msgspec.structs.replace(started, trigger=Trigger.RESCHEDULED, refresh=True, plain=decision)


def _requested(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, request: MoveRequest, record: MoveState | None
) -> BindingDecision:
    """Begin a move if everything allows it; otherwise record what it waits for."""
    found = waiting_record(binding, request, record, decider.now, decider.moves.braked)
    if found.ready and isinstance(request.target, Target):
        state = _state_of(decider, binding, request.reason, request.target, found.state)
        waiting = decider.moves.admit(binding, state)
        if waiting is not None:
            found = found.waiting_for(
                MoveRefusal(Cause(waiting.cause), waiting.reason, waiting.about), waiting.retry_after_s
            )
        elif (old := _old_copies(decider, binding, request.target)) is not None:
            found = found.waiting_for(old, LOOK_S)
        else:
            return decider.stepped(binding, begun(binding, state, decider.around(binding)), Trigger.NONE)
    kept = found.state
    if isinstance(request.target, MoveRefusal) and record is not None and ended_record(record, decider.now) is not None:
        kept = record  # how the last move ended says more than why the next one cannot begin
    # All bindings are looked at for drift in turn, so that many which wait cost no more.
    wait_s = None if request.reason is MoveReason.REBALANCE else found.wait_s
    decision = sooner(_recorded(decider, binding, decision, kept), wait_s)
    return msgspec.structs.replace(decision, waits_for_place=isinstance(request.target, MoveRefusal))


def _old_copies(decider: MoveDecider, binding: Binding, target: Target) -> MoveRefusal | None:
    """Return which old copies on clusters of a target are still being removed; None if there are none.

    Karmada finishes the deletion of such a copy later, and would delete what a move has put there.
    """
    copies = decider.copies()
    if copies.problem:
        return MoveRefusal(Cause.WORKS_UNREAD, copies.problem, (copies.problem,))
    wanted = {each.name for snapshot in binding.spec.required_by for each in snapshot.clusters}
    wanted |= binding.assignment.keys()
    there = {name for name in copies.by_cluster if name not in wanted} | copies.deleting
    names = sorted(there & target.clusters.keys())
    if not names:
        return None
    return MoveRefusal(Cause.OLD_COPY, f"the old copy on {name_list(names)} is still being removed", tuple(names))


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
    """Return a decision that changes nothing else with the write of a record."""
    decision = msgspec.structs.replace(decision, write=move_write(binding, record))
    if record is None or record.until is None:
        return decision
    return sooner(decision, max(SOON_S, (record.until - decider.now).total_seconds()))


# The record of a binding that waits for a move, or has ended one.


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """What a binding waits for. ``ready`` says whether only budgets and old copies decide now."""

    state: MoveState
    ready: bool
    wait_s: float
    known: MoveState | None = None

    def waiting_for(self, refusal: MoveRefusal, retry_after_s: float) -> "WaitingRecord":
        """Return the record of a move that may not begin yet."""
        state = _with_refusal(msgspec.structs.replace(self.state, until=None), refusal)
        return replace(self, state=_kept(state, self.known), ready=False, wait_s=max(1.0, retry_after_s))


def waiting_record(
    binding: Binding, request: MoveRequest, record: MoveState | None, now: Timestamp, braked: str
) -> WaitingRecord:
    """Return the record of a binding that should move."""
    if record is not None and record.held_down(now) and record.held_down_until is not None:
        return WaitingRecord(record, ready=False, wait_s=(record.held_down_until - now).total_seconds())
    state = _waiting_state(binding, request, record, now)
    if isinstance(request.target, MoveRefusal):
        refusal = request.target
        if refusal.cause is not Cause.INVALID_POLICY:
            refusal = refusal._replace(message=f"no place: {refusal.message}")
        return _eligible(state, record, refusal)
    if request.dry_run:
        names = tuple(sorted(request.target.clusters))
        return _eligible(state, record, MoveRefusal(Cause.DRY_RUN, "DryRun: it would move, and stays", names))
    state = _stabilising(state, request, record, now)
    stable_at = later(state.since or now, request.after_s)
    if now < stable_at:
        state = msgspec.structs.replace(state, until=stable_at)
        return WaitingRecord(_kept(state, record), ready=False, wait_s=min(LOOK_S, (stable_at - now).total_seconds()))
    if braked:
        state = _with_refusal(state, MoveRefusal(Cause.BRAKE, f"storm brake: {braked}"))
        return WaitingRecord(_kept(state, record), ready=False, wait_s=SOON_LOOK_S)
    return WaitingRecord(state, ready=True, wait_s=LOOK_S, known=record)


def ended_record(record: MoveState | None, now: Timestamp) -> MoveState | None:
    """Return the record of a binding that has no reason to move: None once it has no further meaning."""
    if record is None or record.phase in WAITING or is_over(record, now):
        return None
    if record.phase is not MovePhase.RELEASED and not record.held_down(now):
        return None
    return record


def _waiting_state(binding: Binding, request: MoveRequest, record: MoveState | None, now: Timestamp) -> MoveState:
    target = request.target if isinstance(request.target, Target) else Target({}, "")
    same = record is not None and record.reason is request.reason
    whole = now.replace(microsecond=0)
    waits = record is not None and record.phase in WAITING
    return MoveState(
        request.reason,
        MovePhase.ELIGIBLE,
        strategy=request.policy.settings.strategy,
        source=binding.assignment,
        target=target.clusters,
        source_group=binding.status.scheduler_observing_affinity_name,
        target_group=target.group,
        started_at=record.started_at if record is not None and same and waits else whole,
        since=whole,
        failures=record.failures if record is not None else 0,
        held_down_until=record.held_down_until if record is not None else None,
    )


def _eligible(state: MoveState, record: MoveState | None, refusal: MoveRefusal) -> WaitingRecord:
    if record is not None and record.phase is MovePhase.ELIGIBLE and record.reason is state.reason:
        state = msgspec.structs.replace(state, since=record.since)
    return WaitingRecord(_kept(_with_refusal(state, refusal), record), ready=False, wait_s=_RELOOK_S)


def _with_refusal(state: MoveState, refusal: MoveRefusal) -> MoveState:
    message, about = refusal.message[:MAX_MESSAGE], refusal.about
    return msgspec.structs.replace(state, message=message, cause=refusal.cause.value, about=about)


def _stabilising(state: MoveState, request: MoveRequest, record: MoveState | None, now: Timestamp) -> MoveState:
    """Return the state with the time since which its target has existed without a break."""
    since = state.since
    if record is not None and record.phase is MovePhase.STABILISING and record.reason is request.reason:
        since = record.since
        broken = request.stable_since
        if since is not None and broken is not None and broken > since:
            since = min(broken, now).replace(microsecond=0)
    if since is None or since > now:
        since = now.replace(microsecond=0)
    return msgspec.structs.replace(state, phase=MovePhase.STABILISING, since=since)


def _kept(state: MoveState, record: MoveState | None) -> MoveState:
    """Return the present record if the new one says the same."""
    return record if record is not None and _meaning(state) == _meaning(record) else state


def _meaning(state: MoveState) -> MoveState:
    """Return a state without what changes with every number of the fleet."""
    return msgspec.structs.replace(state, target=dict.fromkeys(state.target, 0), message="")
