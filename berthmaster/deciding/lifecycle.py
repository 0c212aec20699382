"""The life of a move: from the state of a binding's move to the next state. Pure functions.

docs/moves.md describes the phases and the rules. Each function returns a ``Step``: what one write changes. The caller
writes state, clusters and tasks together.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Final, Literal, assert_never

import msgspec.structs

from berthmaster.deciding.config import MoveSettings
from berthmaster.deciding.copies import (
    CopiesNotReadError,
    lag_left_s,
    reported_copies,
    returning_tasks,
    rollback_loses_replicas,
    seconds_since,
    tasks_after,
    tasks_before,
    unhealthy_by_report,
    unhealthy_by_works,
)
from berthmaster.deciding.copy_checks import UNREAD, blocked_removal, blocked_start, is_preserved, suspended_clusters
from berthmaster.model.binding import Binding, GracefulEvictionTask, short_assignment
from berthmaster.model.errors import name_list
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import (
    MAX_MESSAGE,
    MovePhase,
    MoveReason,
    MoveRefusal,
    MoveState,
    MoveStrategy,
    move_of,
    written_clusters,
)
from berthmaster.model.work import DEFAULT_GRACE_S, MAX_GRACE_S, Copies

SOON_LOOK_S: Final = 10.0
"""How often a move looks whether the storm brake has ended, or whether old copies are gone."""
REBALANCE_HOLD_DOWNS: Final = 3
"""For how many hold-downs a workload rests after a rebalance. With the default of ten minutes, at most two begin in an
hour, whatever the capacities do."""
_LOOK_S: Final = 30.0
_FUTURE_S: Final = 60.0


class CopiesChange(Enum):
    """What a step of a move does to the copies of a workload, with the reason and the urgency of the step's event."""

    NONE = "", "Normal"
    """Nothing. Only the record changes, or nothing at all."""
    BEGUN = "MoveStarted", "Normal"
    """The move begins: new copies start, or with BreakBeforeMake the old ones go."""
    NEW_STARTED = "MoveOldCopiesGone", "Normal"
    """Only BreakBeforeMake: the old copies are gone, and the new ones start."""
    HEALTHY = "MoveHealthy", "Normal"
    """Nothing yet. The new copies are healthy, and soak from now on."""
    RELEASED = "MoveReleased", "Normal"
    """The old copies go. The move has ended well."""
    RETARGETED = "MoveRetargeted", "Normal"
    """Copies of another target start, and those of the former target go."""
    ROLLED_BACK = "MoveRolledBack", "Warning"
    """The new copies go, and the old assignment is restored."""
    RETURNING = "MoveReturning", "Warning"
    """Only BreakBeforeMake: the new copies go. The old ones start again when the new ones are gone."""
    STALLED = "MoveStalled", "Warning"
    """Nothing. The move has failed, has nothing better to return to, and keeps all copies."""
    HELD = "MoveWaiting", "Normal"
    """Nothing. The copies of the move must not change now. It waits, whatever its deadline says."""
    SUPERSEDED = "MoveAbandoned", "Normal"
    """The placement was edited. The move ends without a result, and what another decision assigns counts."""
    ABANDONED = "MoveAbandoned", "Warning"
    """The move cannot continue, and ends without a result. What another decision assigns counts."""
    VANISHED = "MoveCopiesVanished", "Warning"
    """The copies of a released move are gone. The workload is decided again without their clusters."""

    def __init__(self, reason: str, urgency: Literal["Normal", "Warning"]) -> None:
        self.reason = reason
        self.urgency = urgency


@dataclass(frozen=True, slots=True)
class Step:
    """What one write of a move changes.

    Attributes:
        state: the state after it; None removes the record.
        clusters: the assignment after it: replicas by cluster; None if it stays.
        tasks: all eviction tasks after it; None if they stay.
        wait_s: when to look again; None if only a change of the binding matters.
        note: the note of its event; empty for no event.
    """

    state: MoveState | None
    change: CopiesChange = CopiesChange.NONE
    clusters: Mapping[str, int] | None = None
    group: str = ""
    tasks: tuple[GracefulEvictionTask, ...] | None = None
    wait_s: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a step of a move depends on besides its binding and its state.

    Attributes:
        clusters: the clusters that exist; None if that does not matter.
        returnable: whether the source is whole, so that a failed move can be rolled back.
        copies: the copies by their Works; None if they were not read.
    """

    settings: MoveSettings
    now: Timestamp
    producer: str = "berthmaster"
    unready: Container[str] = field(default_factory=frozenset)
    clusters: Container[str] | None = None
    braked: str = ""
    returnable: bool = True
    copies: Copies | None = None

    def works(self) -> Copies:
        """Return the copies by their Works. Raises ``CopiesNotReadError`` if the Works were not read."""
        if self.copies is None:
            raise CopiesNotReadError
        return self.copies


def begun(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """Start an admitted move. ``binding`` is the binding, with the assignment ``state.source``."""
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    if breaks:
        state = _admitted(state, around)
    else:
        state = _entered(state, MovePhase.SURGING, around.now, around.settings.deadline_s)
    state = msgspec.structs.replace(state, template=_template(binding), message="")
    note = f"{state.reason.value}: {short_assignment(state.source)} -> {short_assignment(state.target)}"
    return Step(
        state,
        CopiesChange.BEGUN,
        written_clusters(state),
        state.source_group,
        tasks_before(binding, state, around.producer) if breaks else None,
        _wait(state, around.now),
        note,
    )


def advanced(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """Return the next step of a move under way; its state is the given one if nothing changes.

    The storm brake stops what removes copies. It never stops what restores a workload without copies.

    Args:
        state: the state of its move; clusters that were evicted are left out.

    Raises:
        CopiesNotReadError: the step depends on the Works of the binding, and they were not read.
    """
    settings, now = around.settings, around.now
    if state.cause:  # what it waited for may have ended
        state = msgspec.structs.replace(state, message="", cause="", about=())
    if state.since is None or (state.since - now).total_seconds() > _FUTURE_S:
        return Step(_entered(state, state.phase, now, _length_s(state, settings)), wait_s=0.0)
    if state.phase is MovePhase.ADMITTED:
        return _breaking(binding, state, around)
    if around.braked:
        return _braked(state, settings, now, around.braked)
    step = _surging(binding, state, around) if state.phase is MovePhase.SURGING else _soaking(binding, state, around)
    if isinstance(step, Step):
        return step
    if not around.returnable:
        return _stalled(state, now, step)
    if rollback_loses_replicas(binding, state):
        return _stalled(state, now, step, settings.deadline_s)
    return rolled_back(binding, state, around, step)


def retargeted(binding: Binding, state: MoveState, target: Mapping[str, int], group: str, around: Surroundings) -> Step:
    """Give a move under way another target. The old copies stay; after a scale down they are reduced.

    With BreakBeforeMake the copies of the former target go before those of other clusters start.
    """
    now, replicas = around.now, binding.spec.replicas
    removed = written_clusters(state).keys() - target.keys() - state.source.keys()
    if (held := _held_copies(binding, state, removed, around)) is not None:
        return held
    note = f"{state.reason.value}: the target is {short_assignment(target)} instead of {short_assignment(state.target)}"
    divided = sum(target.values()) == replicas
    tasks = None
    started = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and state.phase is not MovePhase.ADMITTED
    if started and target.keys() - state.target.keys():
        before = state
        state = msgspec.structs.replace(
            state, source=state.target, source_group=state.target_group, target=dict(target), target_group=group
        )
        state = _admitted(state, around)
        tasks = returning_tasks(binding, before, state, around.producer)
    else:
        source = reduced(state.source, replicas, divided=divided)
        leaving = state.source.keys() - state.target.keys()
        state = msgspec.structs.replace(state, source=source, target=dict(target), target_group=group)
        if state.phase is MovePhase.ADMITTED and state.source.keys() - target.keys() <= leaving:
            # The copies that go are the same, so the time since they are gone counts.
            state = _entered(state, state.phase, now, around.settings.deadline_s + state.termination_s)
        elif state.phase is MovePhase.ADMITTED:
            state = _admitted(state, around)
        else:
            state = _entered(state, MovePhase.SURGING, now, around.settings.deadline_s)
    return Step(
        state,
        CopiesChange.RETARGETED,
        written_clusters(state),
        state.source_group,
        tasks,
        _wait(state, now),
        note,
    )


def rolled_back(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step:
    """Restore the old assignment, and hold the binding down."""
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    if state.phase is not MovePhase.ADMITTED:
        if (held := _held_copies(binding, state, state.target.keys() - state.source.keys(), around)) is not None:
            return held
        if breaks and (blocked := blocked_start(binding, state.source, around.works())) is not None:
            return held_step(binding, state, around, blocked)
    if breaks and state.phase is not MovePhase.ADMITTED:
        return _returned(binding, state, around, why)
    until = later(around.now, hold_down_s(state.failures + 1, around.settings))
    state = _failed(state, MovePhase.ROLLED_BACK, around.now, until, why)
    note = f"{state.reason.value}: {why}; {short_assignment(state.source)} is restored until {until:%Y-%m-%d %H:%M:%S}Z"
    return Step(
        state,
        CopiesChange.ROLLED_BACK,
        state.source,
        state.source_group,
        tasks_after(binding, state, around.producer) if breaks else None,
        (until - around.now).total_seconds(),
        note,
    )


def new_copies_started(state: MoveState, around: Surroundings) -> Step:
    """Start the new copies of a move with BreakBeforeMake whose old copies are gone."""
    state = _entered(state, MovePhase.SURGING, around.now, around.settings.deadline_s)
    state = msgspec.structs.replace(state, gone_since=None, message="")
    note = f"{state.reason.value}: the old copies are gone, {short_assignment(state.target)} starts"
    return Step(
        state, CopiesChange.NEW_STARTED, dict(state.target), state.source_group, None, _wait(state, around.now), note
    )


def released(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """End a move well: only the target stays."""
    hold_s = hold_down_s(max(1, state.failures), around.settings)
    rest_s = REBALANCE_HOLD_DOWNS * around.settings.hold_down_s if state.reason is MoveReason.REBALANCE else 0
    until = later(around.now, max(hold_s, rest_s))
    after = msgspec.structs.replace(
        state, phase=MovePhase.RELEASED, since=_whole(around.now), until=until, template="", message=""
    )
    source, target = short_assignment(state.source), short_assignment(state.target)
    note = f"{state.reason.value}: {target} is healthy, {source} is released"
    if left := _left_behind(binding, state, around):
        after = msgspec.structs.replace(after, message=left[:MAX_MESSAGE])
        note = f"{note}; {left}"
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    return Step(
        after,
        CopiesChange.RELEASED,
        state.target,
        state.target_group,
        tasks_after(binding, state, around.producer) if breaks else None,
        (until - around.now).total_seconds(),
        note,
    )


def refused(
    binding: Binding, change: CopiesChange, after: MoveState | None, around: Surroundings, why: str
) -> Step | None:
    """Return the step to take instead of one that the API server has refused; None if there is none.

    A workload that runs somewhere stays there. A workload without copies starts where the API server lets it.
    """
    before = move_of(binding)
    match change:
        case CopiesChange.BEGUN:
            if after is None or after.reason is MoveReason.FAILOVER:
                return None
            held_s = hold_down_s(after.failures + 1, around.settings)
            return Step(
                flapped(after, around.settings, around.now, why), CopiesChange.ABANDONED, wait_s=held_s, note=why
            )
        case CopiesChange.NEW_STARTED:
            return None if before is None else rolled_back(binding, before, around, why)
        case CopiesChange.ROLLED_BACK:
            return None if before is None or before.gone_since is None else new_copies_started(before, around)
        case CopiesChange.RETARGETED:
            if before is None or not around.returnable or rollback_loses_replicas(binding, before):
                return None
            return rolled_back(binding, before, around, why)
        case (
            CopiesChange.NONE
            | CopiesChange.HEALTHY
            | CopiesChange.RELEASED
            | CopiesChange.RETURNING
            | CopiesChange.STALLED
            | CopiesChange.HELD
            | CopiesChange.SUPERSEDED
            | CopiesChange.ABANDONED
            | CopiesChange.VANISHED
        ):
            return None  # these steps start no copies, and are tried again
        case _:
            assert_never(change)


def flapped(state: MoveState, settings: MoveSettings, now: Timestamp, why: str) -> MoveState:
    """Return the record of a binding whose released move did not last: one more failure, and a hold-down."""
    return _failed(state, MovePhase.HELD_DOWN, now, later(now, hold_down_s(state.failures + 1, settings)), why)


def is_over(state: MoveState, now: Timestamp) -> bool:
    """Whether the record of an ended move has no further meaning: it lasted, or nothing holds the binding down."""
    if state.phase is not MovePhase.RELEASED:
        return False
    return (state.until is None or state.until <= now) and not state.held_down(now)


def plausible(state: MoveState, settings: MoveSettings, now: Timestamp) -> MoveState:
    """Return a state whose times are possible: a wrong clock or a forged record cannot hold a binding for long.

    No time lies in the future beyond what the settings allow for its wait, counted from the start of the phase.
    """
    since = now if state.since is None else min(state.since, now)
    longest_s = max(
        settings.deadline_s + state.termination_s,
        settings.soak_s,
        settings.failback.after_s,
        settings.drain.after_s,
        settings.rebalance.after_s,
        0 if state.under_way else max(settings.max_hold_down_s, REBALANCE_HOLD_DOWNS * settings.hold_down_s),
    )
    until, held = state.until, state.held_down_until
    return msgspec.structs.replace(
        state,
        since=state.since if state.since is None or state.under_way else since,
        started_at=None if state.started_at is None else min(state.started_at, now),
        until=None if until is None else min(until, later(since, longest_s)),
        held_down_until=None if held is None else min(held, later(since, settings.max_hold_down_s)),
        gone_since=None if state.gone_since is None else min(state.gone_since, now),
        termination_s=min(state.termination_s, MAX_GRACE_S),
    )


def hold_down_s(failures: int, settings: MoveSettings) -> float:
    """Return how long a binding is held down after its n-th failure: twice as long each time, up to a limit."""
    doublings = min(max(0, failures - 1), 32)
    return float(min(settings.hold_down_s * 2**doublings, settings.max_hold_down_s))


def reduced(assignment: Mapping[str, int], replicas: int, *, divided: bool) -> dict[str, int]:
    """Return an assignment with at most the wanted replicas: in all if divided, else on each cluster.

    Of a divided workload the largest cluster is reduced first, and of equal ones the last by name.
    """
    if not divided:
        return {name: min(count, replicas) for name, count in assignment.items()}
    if sum(assignment.values()) <= replicas:
        return dict(assignment)
    low, high = 0, max(assignment.values())
    while low < high:  # the highest level at which what is below it is not too much
        level = (low + high + 1) // 2
        if sum(min(count, level) for count in assignment.values()) <= replicas:
            low = level
        else:
            high = level - 1
    left = {name: min(count, low) for name, count in assignment.items()}
    above = sorted(name for name, count in assignment.items() if count > low)
    return left | dict.fromkeys(above[: replicas - sum(left.values())], low + 1)


def later(now: Timestamp, seconds: float) -> Timestamp:
    """Return the time some seconds after another, in whole seconds."""
    return _whole(now + timedelta(seconds=seconds))


def _whole(moment: Timestamp) -> Timestamp:
    return moment.replace(microsecond=0)


def _braked(state: MoveState, settings: MoveSettings, now: Timestamp, braked: str) -> Step:
    """Wait for the end of the storm brake. A deadline or a soak that would end meanwhile begins again."""
    if state.until is None or state.until > later(now, 3 * SOON_LOOK_S):
        return Step(state, wait_s=SOON_LOOK_S)
    state = _entered(state, state.phase, now, _length_s(state, settings))
    return Step(msgspec.structs.replace(state, message=f"storm brake: {braked}"[:MAX_MESSAGE]), wait_s=SOON_LOOK_S)


def _breaking(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """Wait until the old copies are gone and their pods have ended; then start the new ones.

    An old copy is gone if it has no Work, in a cluster that can be asked. Karmada removes the Work when the member has
    accepted the deletion; pods may run for their grace period after that.
    """
    now = around.now
    if (blocked := blocked_start(binding, state.target, around.copies or UNREAD)) is not None:
        return _unstartable(binding, state, around, blocked)
    lost = sorted(name for name in state.target if name in around.unready)
    if lost and around.returnable:
        return rolled_back(binding, state, around, f"the target {name_list(lost)} is not ready")
    if state.until is not None and now >= state.until:
        return _overdue(binding, state, around)
    leaving = [name for name in state.source if name not in state.target and _exists(name, around)]
    if state.gone_since is None:
        if reported_copies(binding, leaving) and seconds_since(state.since, now) < _LOOK_S:
            return Step(state, wait_s=_wait(state, now))
        if waits := _not_gone(state, leaving, around):
            return Step(msgspec.structs.replace(state, message=waits[:MAX_MESSAGE]), wait_s=SOON_LOOK_S)
        state = msgspec.structs.replace(state, gone_since=_whole(now), message="")
        return Step(state, wait_s=float(state.termination_s))
    left_s = state.termination_s - seconds_since(state.gone_since, now)
    if left_s > 0:
        return Step(state, wait_s=left_s)
    if waits := _not_gone(state, leaving, around):
        return Step(msgspec.structs.replace(state, gone_since=None, message=waits[:MAX_MESSAGE]), wait_s=_LOOK_S)
    return new_copies_started(state, around)


def _unstartable(binding: Binding, state: MoveState, around: Surroundings, why: MoveRefusal) -> Step:
    """Restore the old copies of a move with BreakBeforeMake whose new ones cannot start; wait if that is impossible."""
    lost = any(name in around.unready for name in state.source)
    can_return = bool(state.source) and (around.returnable or (state.returning and not lost))
    if can_return and blocked_start(binding, state.source, around.copies or UNREAD) is None:
        return rolled_back(binding, state, around, why.message)
    return held_step(binding, state, around, why)


def _not_gone(state: MoveState, leaving: list[str], around: Surroundings) -> str:
    """Return which copies a move with BreakBeforeMake waits for; empty if all are gone."""
    copies = around.works()
    if copies.problem:
        return copies.problem
    silent = sorted(name for name in leaving if name in around.unready)
    if silent:
        return f"{name_list(silent)} cannot be asked whether the old copy is gone"
    there = sorted({*copies.by_cluster} & {*leaving} | copies.deleting & state.target.keys())
    return f"the old copy on {name_list(there)} is still being removed" if there else ""


def _overdue(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """End the wait for old copies at the deadline: return to them, or report a move that cannot return."""
    why = "; ".join(filter(None, ("the old copies are not gone in time", state.message)))
    if around.returnable:
        return rolled_back(binding, state, around, why)
    note = f"{state.reason.value}: {why}; the move waits for them"
    state = msgspec.structs.replace(state, until=None)
    return Step(state, CopiesChange.STALLED, wait_s=_LOOK_S, note=note)


def _surging(binding: Binding, state: MoveState, around: Surroundings) -> Step | str:
    """Wait until the new copies are healthy. A text says why the move has failed."""
    settings, now = around.settings, around.now
    if why := _undispatched(binding, state, around):
        return why
    problems = unhealthy_by_report(binding, state, now, around.unready)
    if not problems:
        if unread := around.works().problem:
            return _unread(state, unread)
        problems = unhealthy_by_works(binding, state, around.works(), around.unready)
    if not problems:
        state = _entered(state, MovePhase.SOAKING, now, settings.soak_s)
        state = msgspec.structs.replace(state, template=_template(binding), message="")
        note = f"{state.reason.value}: {short_assignment(state.target)} is healthy"
        return Step(state, CopiesChange.HEALTHY, wait_s=_wait(state, now), note=note)
    if state.until is None or now < state.until:
        wait_s = _wait(state, now)
        return Step(state, wait_s=lag_left_s(state, now) or wait_s)
    return f"not healthy in time: {_problems(problems)}"


def _soaking(binding: Binding, state: MoveState, around: Surroundings) -> Step | str:
    """Release the old copies when the new ones stayed healthy. A text says why the move has failed."""
    settings, now = around.settings, around.now
    if state.template != _template(binding):
        state = _entered(state, MovePhase.SURGING, now, settings.deadline_s)
        return Step(msgspec.structs.replace(state, template=_template(binding)), wait_s=_wait(state, now))
    problems = unhealthy_by_report(binding, state, now, around.unready)
    if problems:
        return f"unhealthy while soaking: {_problems(problems)}"
    if state.until is not None and now < state.until:
        return Step(state, wait_s=_wait(state, now))
    if unread := around.works().problem:
        return _unread(state, unread)
    problems = unhealthy_by_works(binding, state, around.works(), around.unready)
    if problems:  # the reports are older than the Works
        state = _entered(state, MovePhase.SURGING, now, settings.deadline_s)
        return Step(msgspec.structs.replace(state, message=_problems(problems)[:MAX_MESSAGE]), wait_s=_wait(state, now))
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE  # then nothing goes now
    going = [] if breaks else [name for name in state.leaving if _exists(name, around)]
    return _held_copies(binding, state, going, around) or released(binding, state, around)


def _undispatched(binding: Binding, state: MoveState, around: Surroundings) -> str:
    """Return why new copies will not start: Karmada does not send them to their cluster; empty if they may."""
    suspended = suspended_clusters(binding, state.arriving)
    if not suspended or lag_left_s(state, around.now) > 0 or around.works().problem:
        return ""
    found = around.works().by_cluster
    names = sorted(name for name in suspended if name not in found or not found[name].item.applied)
    return f"dispatching to {name_list(names)} is suspended" if names else ""


def _held_copies(binding: Binding, state: MoveState, going: Iterable[str], around: Surroundings) -> Step | None:
    """Return the step of a move that would remove copies in some clusters, and must not; None if it may."""
    names = list(going)
    if not names:
        return None
    if unread := around.works().problem:
        return _unread(state, unread)
    blocked = blocked_removal(binding, state, names, around.works(), around.settings)
    return None if blocked is None else held_step(binding, state, around, blocked)


def held_step(binding: Binding, state: MoveState, around: Surroundings, why: MoveRefusal) -> Step:
    """Wait for what only others can change. All copies stay, and the deadline begins again."""
    known = move_of(binding)
    same = known is not None and (known.cause, known.about, known.phase) == (why.cause.value, why.about, state.phase)
    if known is not None and same and known.until is not None and known.until > around.now:
        return Step(known, wait_s=_LOOK_S)
    state = msgspec.structs.replace(
        state,
        until=later(around.now, around.settings.deadline_s),
        message=why.message[:MAX_MESSAGE],
        cause=why.cause.value,
        about=why.about,
    )
    if same:
        return Step(state, wait_s=_LOOK_S)
    return Step(state, CopiesChange.HELD, wait_s=_LOOK_S, note=f"{state.reason.value}: it waits: {why.message}")


def _left_behind(binding: Binding, state: MoveState, around: Surroundings) -> str:
    """Return which old copies of a released move run on without Karmada; empty if none does."""
    copies = around.copies or UNREAD
    names = sorted(name for name in state.source if name not in state.target and is_preserved(binding, name, copies))
    if not names:
        return ""
    return f"preserveResourcesOnDeletion leaves the copy on {name_list(names)} there, and Karmada no longer manages it"


def _unread(state: MoveState, problem: str) -> Step:
    """Wait while the Works cannot be read. All copies stay, whatever the deadline says."""
    return Step(msgspec.structs.replace(state, message=problem[:MAX_MESSAGE]), wait_s=_LOOK_S)


def _exists(cluster: str, around: Surroundings) -> bool:
    return around.clusters is None or cluster in around.clusters


def _admitted(state: MoveState, around: Surroundings) -> MoveState:
    """Return the state of a move whose old copies go now, with the time that their pods may take to end."""
    leaving = [name for name in state.source if name not in state.target]
    found = around.works().by_cluster
    grace_s = max((found[name].grace_s for name in leaving if name in found), default=DEFAULT_GRACE_S)
    termination_s = max(DEFAULT_GRACE_S, grace_s)
    state = msgspec.structs.replace(state, termination_s=termination_s, gone_since=None)
    return _entered(state, MovePhase.ADMITTED, around.now, around.settings.deadline_s + termination_s)


def _stalled(state: MoveState, now: Timestamp, why: str, deadline_s: float | None = None) -> Step:
    """Report a failed move that has nothing better to return to. All copies stay; it is judged again at a deadline."""
    until = None if deadline_s is None else later(now, deadline_s)
    message = why[:MAX_MESSAGE]
    state = msgspec.structs.replace(state, phase=MovePhase.SURGING, since=_whole(now), until=until, message=message)
    note = f"{state.reason.value}: {why}; old and new copies stay"
    return Step(state, CopiesChange.STALLED, wait_s=_LOOK_S, note=note)


def _returned(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step:
    """Turn a move with BreakBeforeMake around: the new copies go, and then the old ones start again."""
    failures = state.failures + 1
    back = msgspec.structs.replace(
        state,
        source=state.target,
        target=state.source,
        source_group=state.target_group,
        target_group=state.source_group,
        failures=failures,
        held_down_until=later(around.now, hold_down_s(failures, around.settings)),
        returning=True,
        message=why[:MAX_MESSAGE],
    )
    back = _admitted(back, around)
    note = f"{state.reason.value}: {why}; it returns to {short_assignment(state.source)}"
    return Step(
        back,
        CopiesChange.RETURNING,
        written_clusters(back),
        back.source_group,
        returning_tasks(binding, state, back, around.producer),
        _wait(back, around.now),
        note,
    )


def _failed(state: MoveState, phase: MovePhase, now: Timestamp, until: Timestamp, why: str) -> MoveState:
    return msgspec.structs.replace(
        state,
        phase=phase,
        since=_whole(now),
        until=until,
        failures=state.failures + 1,
        held_down_until=until,
        message=why,
        cause="",
        about=(),
    )


def _entered(state: MoveState, phase: MovePhase, now: Timestamp, length_s: float) -> MoveState:
    return msgspec.structs.replace(
        state, phase=phase, since=_whole(now), until=later(now, length_s), cause="", about=()
    )


def _length_s(state: MoveState, settings: MoveSettings) -> float:
    return settings.soak_s if state.phase is MovePhase.SOAKING else settings.deadline_s


def _wait(state: MoveState, now: Timestamp) -> float | None:
    """Return when to look again: at the end of the phase, and now and then before."""
    if state.until is None:
        return _LOOK_S
    return min(max(0.0, (state.until - now).total_seconds()), _LOOK_S)


def _template(binding: Binding) -> str:
    return binding.spec.resource.resource_version


def _problems(problems: Mapping[str, str]) -> str:
    return name_list([f"{name}: {why}" for name, why in sorted(problems.items())])
