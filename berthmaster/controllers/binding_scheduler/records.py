"""The record of a binding that waits for a move, or has ended one. Pure functions.

A record is written only if it changes in a way that matters. Numbers in a message do not: the fleet changes all the
time, and each write costs the API server.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

import msgspec.structs

from berthmaster.controllers.binding_scheduler.wishes import Wish
from berthmaster.controllers.moves.failback import Target
from berthmaster.controllers.moves.lifecycle import BRAKED_LOOK_S, is_over, later
from berthmaster.model.binding import Binding
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MAX_MESSAGE, WAITING, MovePhase, MoveState

LOOK_S: Final = 30.0
"""How often a binding that waits for the end of its stabilisation looks whether its target still exists."""
_RELOOK_S: Final = 300.0
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """What a binding waits for.

    Attributes:
        state: the record.
        ready: whether only budgets decide now.
        wait_s: when to look again.
        known: the record before.
    """

    state: MoveState
    ready: bool
    wait_s: float
    known: MoveState | None = None

    def waiting_for(self, reason: str, retry_after_s: float) -> "WaitingRecord":
        """Return the record of a move that its budgets do not admit yet."""
        state = msgspec.structs.replace(self.state, until=None, message=reason[:MAX_MESSAGE])
        return replace(self, state=_kept(state, self.known), ready=False, wait_s=max(1.0, retry_after_s))


def waiting_record(
    binding: Binding, wish: Wish, record: MoveState | None, now: Timestamp, braked: str
) -> WaitingRecord:
    """Return the record of a binding that should move.

    Args:
        binding: the effective binding.
        wish: why it should move, and where to.
        record: its present record; None without one.
        now: the time of day.
        braked: why the storm brake stops moves; empty if it does not.
    """
    if record is not None and record.held_down(now) and record.held_down_until is not None:
        return WaitingRecord(record, ready=False, wait_s=(record.held_down_until - now).total_seconds())
    state = _begun(binding, wish, record, now)
    if wish.policy.problem:
        return _waits(state, record, MovePhase.ELIGIBLE, wish.policy.problem, _RELOOK_S)
    if isinstance(wish.target, str):
        return _waits(state, record, MovePhase.ELIGIBLE, f"no place: {wish.target}", _RELOOK_S)
    if wish.dry_run:
        return _waits(state, record, MovePhase.ELIGIBLE, "DryRun: it would move, and stays", _RELOOK_S)
    state = _stabilising(state, wish, record, now)
    stable_at = later(state.since or now, wish.after_s)
    if now < stable_at:
        state = msgspec.structs.replace(state, until=stable_at)
        return WaitingRecord(_kept(state, record), ready=False, wait_s=min(LOOK_S, (stable_at - now).total_seconds()))
    if braked:
        state = msgspec.structs.replace(state, until=None, message=f"storm brake: {braked}"[:MAX_MESSAGE])
        return WaitingRecord(_kept(state, record), ready=False, wait_s=BRAKED_LOOK_S)
    return WaitingRecord(state, ready=True, wait_s=LOOK_S, known=record)


def ended_record(record: MoveState | None, now: Timestamp) -> MoveState | None:
    """Return the record of a binding that has no reason to move: None once it has no further meaning."""
    if record is None or record.phase in WAITING or is_over(record, now):
        return None
    if record.phase is not MovePhase.RELEASED and not record.held_down(now):
        return None
    return record


def _begun(binding: Binding, wish: Wish, record: MoveState | None, now: Timestamp) -> MoveState:
    target = wish.target if isinstance(wish.target, Target) else Target({}, "")
    same = record is not None and record.reason is wish.reason
    whole = now.replace(microsecond=0)
    waits = record is not None and record.phase in WAITING
    return MoveState(
        wish.reason,
        MovePhase.ELIGIBLE,
        strategy=wish.policy.settings.strategy,
        source=binding.assignment,
        target=target.clusters,
        source_group=binding.status.scheduler_observing_affinity_name,
        target_group=target.group,
        started_at=record.started_at if record is not None and same and waits else whole,
        since=whole,
        failures=record.failures if record is not None else 0,
        held_down_until=record.held_down_until if record is not None else None,
    )


def _waits(state: MoveState, record: MoveState | None, phase: MovePhase, message: str, wait_s: float) -> WaitingRecord:
    if record is not None and record.phase is phase and record.reason is state.reason:
        state = msgspec.structs.replace(state, since=record.since)
    state = msgspec.structs.replace(state, phase=phase, message=message[:MAX_MESSAGE])
    return WaitingRecord(_kept(state, record), ready=False, wait_s=wait_s)


def _stabilising(state: MoveState, wish: Wish, record: MoveState | None, now: Timestamp) -> MoveState:
    """Return the state with the time since which its target has existed without a break."""
    since = state.since
    if record is not None and record.phase is MovePhase.STABILISING and record.reason is wish.reason:
        since = record.since
        broken = wish.stable_since
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
    return msgspec.structs.replace(state, target={}, message=_NUMBER.sub("#", state.message))
