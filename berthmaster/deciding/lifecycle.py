"""The life of a move: from the state of a binding's move to the next state. Pure functions.

docs/moves.md describes the phases and the rules. Each function returns a ``Step``: what one write changes. The caller
writes state, clusters and tasks together.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Final, Literal, assert_never

import msgspec.structs

from berthmaster.deciding.copies import (
    STATUS_LAG_S,
    CopiesNotReadError,
    lag_left_s,
    reported_copies,
    required_clusters,
    rollback_loses_replicas,
    seconds_since,
    unhealthy_by_report,
    unhealthy_by_works,
)
from berthmaster.deciding.copy_checks import (
    UNREAD,
    blocked_removal,
    blocked_start,
    finished_copies,
    growing,
    held_by_purge,
    is_preserved,
    suspended_clusters,
    unseen_copy,
)
from berthmaster.deciding.eviction_tasks import own_tasks, tasks_after, tasks_before
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.model.binding import Binding, GracefulEvictionTask, short_assignment
from berthmaster.model.errors import name_list
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import (
    MAX_MESSAGE,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    move_of,
    without_clusters,
    without_evictions,
    written_clusters,
    written_group,
)
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.work import DEFAULT_GRACE_S, MAX_GRACE_S, Copies

SOON_LOOK_S: Final = 10.0
"""How often a move looks whether the storm brake has ended, or whether old copies are gone."""
REBALANCE_HOLD_DOWNS: Final = 3
"""For how many hold-downs a workload rests after a rebalance. With the default of ten minutes, at most two begin in an
hour, whatever the capacities do."""
_LOOK_S: Final = 30.0
_LEAST_WAIT_S: Final = 1.0
_REFUSED_S: Final = 60.0
"""How long a member may refuse a new copy. The namespace, or the kind, may arrive there some seconds later."""
_FUTURE_S: Final = 60.0
_NONE_WANTED: Final = "no replicas are wanted any more"
"""What an event says of a workload that was scaled to zero, in place of its clusters."""


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
        deleting: the clusters that are being deleted. Nothing keeps a copy there.
        returnable: whether the source is whole, so that a failed move can be rolled back.
        copies: the copies by their Works; None if they were not read.
        given_up: the clusters whose copies count as lost, although they cannot be asked.
        ready_since: since when the clusters that a move leaves are ready, by name.
    """

    settings: MoveSettings
    now: Timestamp
    producer: str = "berthmaster"
    unready: Container[str] = field(default_factory=frozenset)
    clusters: Container[str] | None = None
    braked: str = ""
    returnable: bool = True
    copies: Copies | None = None
    given_up: frozenset[str] = frozenset()
    ready_since: Mapping[str, Timestamp] = field(default_factory=dict)
    deleting: Container[str] = frozenset()

    def works(self) -> Copies:
        """Return the copies by their Works. Raises ``CopiesNotReadError`` if the Works were not read."""
        if self.copies is None:
            raise CopiesNotReadError
        return self.copies


def begun(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """Start an admitted move. ``binding`` is the binding, with the assignment ``state.source``."""
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    if breaks:
        state = _timed(_admitted(state, around))
    else:
        state = _timed(_entered(state, MovePhase.SURGING, around.now, around.settings.deadline_s))
    state = msgspec.structs.replace(state, template=_template(binding), message="")
    note = f"{state.reason.value}: {short_assignment(state.source)} -> {short_assignment(state.target)}"
    return Step(
        state,
        CopiesChange.BEGUN,
        written_clusters(state),
        written_group(state),
        _tasks_before(binding, state, around) if breaks else None,
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
    if state.returning:
        return _return_ended(binding, state, around, f"{_failure(state)}; there, too, it is {step}"[:MAX_MESSAGE])
    if rollback_loses_replicas(binding, state, around.unready):
        return _stalled(state, now, step)
    return rolled_back(binding, state, around, step) if around.returnable else _stalled(state, now, step)


def retargeted(
    binding: Binding,
    state: MoveState,
    target: Mapping[str, int],
    group: str,
    around: Surroundings,
    returns: str = "",
) -> Step:
    """Give a move under way another target. The old copies stay; after a scale down they are reduced.

    With BreakBeforeMake the copies of the former target go before those of other clusters start. The deadline is that
    of the first target. A move that is overdue has another one, because nothing else can end it.

    Args:
        returns: why the move has failed, if the new target is a part of where it came from; else empty.
    """
    now, replicas = around.now, binding.spec.replicas
    removed = written_clusters(state).keys() - target.keys() - state.source.keys()
    if (held := _held_copies(binding, state, removed, around, around.given_up)) is not None:
        return held
    former = f"instead of {short_assignment(state.target)}" if state.target else "now"
    wanted = f"the target is {short_assignment(target)} {former}" if target else _NONE_WANTED
    note = f"{state.reason.value}: {wanted}"
    if returns:
        failures = state.failures if state.returning else state.failures + 1
        state = msgspec.structs.replace(state, returning=True, failures=failures, message=returns[:MAX_MESSAGE])
        note = f"{state.reason.value}: {returns}; it returns to {short_assignment(target)}"
    tasks = _without_tasks(binding, target, around)
    started = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and state.phase is not MovePhase.ADMITTED
    known = move_of(binding)
    before = known if known is not None and known.under_way else state  # with the clusters that others evict
    leaves = any(name not in target or target[name] < count for name, count in before.target.items())
    grows = any(count > before.target.get(name, -1) for name, count in target.items())
    if started and leaves and grows:
        state = msgspec.structs.replace(
            state,
            origin=state.first,
            origin_group=state.first_group,
            source=before.target,
            source_group=state.target_group,
            target=dict(target),
            target_group=group,
        )
        state = _within_deadline(_admitted(state, around), now)
        tasks = _tasks_before(binding, state, around)
    else:
        source = reduced(state.source, replicas, divided=binding.is_divided)
        leaving = before.source.keys() - before.target.keys()
        state = msgspec.structs.replace(state, source=source, target=dict(target), target_group=group)
        if state.phase is MovePhase.ADMITTED and before.source.keys() - target.keys() <= leaving:
            # The copies that go are the same, so the time since they are gone counts.
            state = msgspec.structs.replace(state, since=_whole(now))
        elif state.phase is MovePhase.ADMITTED:
            state = _within_deadline(_admitted(state, around), now)
        else:
            state = _surging_again(state, around)
        if state.phase is MovePhase.ADMITTED:  # Karmada keeps a copy that another controller evicts until others run
            tasks = _tasks_before(binding, state, around)
    return Step(
        state,
        CopiesChange.RETURNING if returns else CopiesChange.RETARGETED,
        written_clusters(state),
        written_group(state),
        tasks,
        _wait(state, now),
        note,
    )


def _without_tasks(
    binding: Binding, clusters: Container[str], around: Surroundings
) -> tuple[GracefulEvictionTask, ...] | None:
    """Return all tasks without those of the move for some clusters; None if there are none."""
    own = own_tasks(binding, around.producer)
    going = [task for task in own if task.from_cluster in clusters]
    return tuple(task for task in binding.spec.graceful_eviction_tasks if task not in going) if going else None


def left_deleted(state: MoveState, deleted: Collection[str], around: Surroundings) -> Step:
    """Leave clusters of an assignment that are being deleted. A move does not return to them.

    With BreakBeforeMake, if these are all of its clusters, the next copies wait for the pods there to end. No task is
    needed: Karmada has deleted the Works.
    """
    now = around.now
    left = without_clusters(state, deleted)
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and not written_clusters(left):
        first, group = state.first, state.first_group
        going, of = written_clusters(state), written_group(state)
        left = msgspec.structs.replace(left, source=going, source_group=of, origin=first, origin_group=group)
        left = _within_deadline(_admitted(left, around), now)
    names = name_list(sorted(deleted))
    note = f"{state.reason.value}: the copies on {names} are given up: Karmada deletes them with the cluster"
    return Step(
        left, CopiesChange.RETARGETED, written_clusters(left), written_group(left), None, _wait(left, now), note
    )


def rolled_back(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step:
    """Restore the old assignment, and hold the binding down."""
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    if state.phase is not MovePhase.ADMITTED:
        given_up = around.given_up if breaks else frozenset()  # with MakeBeforeBreak the old copies serve
        removed = state.target.keys() - state.home.keys()
        if (held := _held_copies(binding, state, removed, around, given_up)) is not None:
            return held
        if breaks and (blocked := blocked_start(binding, growing(binding, state.home), around.works())) is not None:
            return held_step(binding, state, around, blocked)
    if breaks and (state.phase is not MovePhase.ADMITTED or state.origin or _is_going(state.home, around)):
        return _returned(binding, state, around, why)
    until = later(around.now, hold_down_s(state.failures + 1, around.settings))
    restored, group = state.home, state.home_group
    state = _failed(state, MovePhase.ROLLED_BACK, around.now, until, why)
    return Step(
        state,
        CopiesChange.ROLLED_BACK,
        restored,
        group,
        tuple(task for task in tasks_after(binding, around.producer) if task.from_cluster not in restored),
        (until - around.now).total_seconds(),
        _restored_note(state, restored, why, until),
    )


def _is_going(home: Mapping[str, int], around: Surroundings) -> bool:
    """Whether Karmada is already deleting a copy that is to be restored. It finishes that, whatever is assigned."""
    return bool(around.works().deleting & home.keys())


def _restored_note(state: MoveState, restored: Mapping[str, int], why: str, until: Timestamp) -> str:
    return f"{state.reason.value}: {why}; {short_assignment(restored)} is restored until {until:%Y-%m-%d %H:%M:%S}Z"


def _return_ended(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step:
    """End a move with BreakBeforeMake that has returned to where it came from, and is held down from now on.

    Its copies stay even if they are not healthy either. After the hold-down the next move is tried.
    """
    until = later(around.now, hold_down_s(state.failures, around.settings))
    note = _restored_note(state, state.target, why, until)
    state = _failed(state, MovePhase.ROLLED_BACK, around.now, until, why, state.failures)
    return Step(
        state,
        CopiesChange.ROLLED_BACK,
        state.target,
        state.target_group,
        tasks_after(binding, around.producer),
        (until - around.now).total_seconds(),
        note,
    )


def new_copies_started(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """Start the new copies of a move with BreakBeforeMake whose old copies are gone.

    Karmada writes no new copy while a task of the move names a cluster that still has a Work. One that is given up
    loses its task.
    """
    entered = _entered(state, MovePhase.SURGING, around.now, around.settings.deadline_s)
    # A target that replaced another one keeps the deadline of the first.
    state = _within_deadline(entered, around.now) if state.origin else _timed(entered)
    state = msgspec.structs.replace(state, gone_since=None, message=_kept_message(state))
    starts = f", {short_assignment(state.target)} starts" if state.target else ""
    left = sorted(around.given_up & around.works().by_cluster.keys() - state.target.keys())
    gone = f"the copies on {name_list(left)} are given up" if left else "the old copies are gone"
    note = f"{state.reason.value}: {gone}{starts}"
    return Step(
        state,
        CopiesChange.NEW_STARTED,
        written_clusters(state),
        written_group(state),
        _without_tasks(binding, around.given_up, around),
        _wait(state, around.now),
        note,
    )


def _tasks_before(binding: Binding, state: MoveState, around: Surroundings) -> tuple[GracefulEvictionTask, ...]:
    return tasks_before(binding, state, around.producer, around.unready, around.given_up)


def released(binding: Binding, state: MoveState, around: Surroundings) -> Step:
    """End a move well: only the target stays. Old copies that must not go keep it from ending."""
    if state.returning:
        return _return_ended(binding, state, around, _failure(state))
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE  # then no copy goes now
    going = [] if breaks else [name for name in state.leaving if _exists(name, around)]
    if (held := _held_copies(binding, state, going, around)) is not None:
        return held
    hold_s = hold_down_s(max(1, state.failures), around.settings)
    rest_s = REBALANCE_HOLD_DOWNS * around.settings.hold_down_s if state.reason is MoveReason.REBALANCE else 0
    until = later(around.now, max(hold_s, rest_s))
    after = msgspec.structs.replace(
        _without_way(state), phase=MovePhase.RELEASED, since=_whole(around.now), until=until, template="", message=""
    )
    going_away = f", {short_assignment(state.source)} is released" if state.source else ""
    note = f"{state.reason.value}: {_arrived(state)}{going_away}"
    if rest_s:
        after = msgspec.structs.replace(after, rebalance_after=until)
    if left := _left_behind(binding, state, around):
        after = msgspec.structs.replace(after, message=left[:MAX_MESSAGE])
        note = f"{note}; {left}"
    return Step(
        after,
        CopiesChange.RELEASED,
        state.target,
        state.target_group,
        tasks_after(binding, around.producer) if breaks else None,
        (until - around.now).total_seconds(),
        note,
    )


def refused(
    binding: Binding, change: CopiesChange, after: MoveState | None, around: Surroundings, why: str
) -> Step | None:
    """Return the step to take instead of one that the API server has refused; None if there is none.

    A workload that runs somewhere stays there. A workload without copies starts where the API server lets it.
    """
    stored = move_of(binding)
    before = None if stored is None else without_evictions(binding, stored)
    match change:
        case CopiesChange.BEGUN:
            if after is None or after.reason is MoveReason.FAILOVER:
                return None
            held_s = hold_down_s(after.failures + 1, around.settings)
            return Step(
                flapped(after, around.settings, around.now, why), CopiesChange.ABANDONED, wait_s=held_s, note=why
            )
        case CopiesChange.NEW_STARTED:
            if before is None or not before.home:
                return None
            return _refused_start(binding, before, around, why)
        case CopiesChange.ROLLED_BACK:
            if before is not None and _have_ended(binding, before, around):
                return new_copies_started(binding, before, around)
            return _kept_refused(binding, before, around, why)
        case CopiesChange.RELEASED | CopiesChange.RETURNING:
            return _kept_refused(binding, before, around, why)
        case CopiesChange.RETARGETED if before != stored:  # without what is evicted, its target is no target
            return _kept_refused(binding, stored, around, why)
        case CopiesChange.RETARGETED:
            return None if before is None else _continued_without(binding, before, around, why)
        case (
            CopiesChange.NONE
            | CopiesChange.HEALTHY
            | CopiesChange.STALLED
            | CopiesChange.HELD
            | CopiesChange.SUPERSEDED
            | CopiesChange.ABANDONED
            | CopiesChange.VANISHED
        ):
            return None  # these steps start no copies, and are tried again
        case _:
            assert_never(change)


def _refused_start(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step | None:
    """Return to the first source of a move, or to where the workload was last; wait while a cluster of both is lost."""
    last = msgspec.structs.replace(state, origin={}, origin_group="")
    for each in (state, last):
        if each.home and not any(name in around.unready for name in each.home):
            return rolled_back(binding, each, around, why)
    return _kept_refused(binding, state, around, why)


def _kept_refused(binding: Binding, before: MoveState | None, around: Surroundings, why: str) -> Step | None:
    """Wait with all copies while the API server refuses that any of them goes. The step is tried again."""
    if before is None or not before.under_way:
        return None
    return held_step(binding, before, around, MoveRefusal(Cause.REFUSED, why))


def _continued_without(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step:
    """Continue a move whose other target is refused, for example because a quota has no room for another scale."""
    step = advanced(binding, state, around)
    if step.change is not CopiesChange.NONE or step.state is None:
        return step
    return replace(step, state=msgspec.structs.replace(step.state, message=why))


def flapped(state: MoveState, settings: MoveSettings, now: Timestamp, why: str) -> MoveState:
    """Return the record of a binding whose released move did not last: one more failure, and a hold-down."""
    return _failed(state, MovePhase.HELD_DOWN, now, later(now, hold_down_s(state.failures + 1, settings)), why)


def _without_way(state: MoveState) -> MoveState:
    """Return the state of a move that has ended, without what only a move under way needs."""
    return msgspec.structs.replace(state, origin={}, origin_group="", deadline_at=None, overdue=False, returning=False)


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
        settings.deadline_s + max(state.termination_s, DEFAULT_GRACE_S),  # the grace period may have been longer
        settings.soak_s,
        settings.longest_after_s,
        0 if state.under_way else max(settings.max_hold_down_s, REBALANCE_HOLD_DOWNS * settings.hold_down_s),
    )
    until, held, rest = state.until, state.held_down_until, state.rebalance_after
    return msgspec.structs.replace(
        state,
        since=state.since if state.since is None or state.under_way else since,
        started_at=None if state.started_at is None else min(state.started_at, now),
        until=None if until is None else min(until, later(since, longest_s)),
        held_down_until=None if held is None else min(held, later(since, settings.max_hold_down_s)),
        rebalance_after=None if rest is None else min(rest, later(now, max(longest_s, settings.max_hold_down_s))),
        deadline_at=None if state.deadline_at is None else min(state.deadline_at, later(now, longest_s)),
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
    lost = sorted(name for name in state.target if name in around.unready)
    if lost and around.returnable:
        return rolled_back(binding, state, around, f"the target {name_list(lost)} is not ready")
    leaving = _leaving(state, around)
    if state.gone_since is None:
        if reported_copies(binding, leaving) and seconds_since(state.since, now) < _LOOK_S:
            return Step(state, wait_s=_wait(state, now))
    elif (left_s := state.termination_s - seconds_since(state.gone_since, now)) > 0:
        return Step(state, wait_s=left_s)
    if waits := _not_gone(binding, state, leaving, around):
        return _waiting_for_old_copies(binding, state, around, waits)
    if state.gone_since is None:
        # In whole seconds, and never too early: pods may use all of their grace period.
        whole = _whole(now + timedelta(microseconds=999_999))
        state = msgspec.structs.replace(state, gone_since=whole, message=_kept_message(state))
        return Step(state, wait_s=float(state.termination_s))
    if state.origin and around.returnable and _is_late(state, now):
        return rolled_back(binding, state, around, "the deadline has passed")
    return new_copies_started(binding, state, around)


def _leaving(state: MoveState, around: Surroundings) -> list[str]:
    """Return the clusters whose old copies a move with BreakBeforeMake waits for."""
    left = (name for name in state.source if name not in state.target and name not in around.given_up)
    return [name for name in left if _exists(name, around)]


def _have_ended(binding: Binding, state: MoveState, around: Surroundings) -> bool:
    """Whether the old copies of a move with BreakBeforeMake, and their pods, are gone, so that new ones may start."""
    if state.gone_since is None or seconds_since(state.gone_since, around.now) < state.termination_s:
        return False
    return not _not_gone(binding, state, _leaving(state, around), around)


def _not_gone(binding: Binding, state: MoveState, leaving: list[str], around: Surroundings) -> str:
    """Return which copies a move with BreakBeforeMake waits for; empty if all are gone.

    It waits for each copy outside of its target, wherever that came from, but not for copies that are given up. A
    failover does not wait for the copies on clusters that are lost.
    """
    copies = around.works()
    if copies.problem:
        return copies.problem
    silent = sorted(name for name in leaving if name in around.unready)
    if silent:
        return f"{name_list(silent)} cannot be asked whether the old copy is gone"
    others = {*copies.by_cluster} - state.target.keys() - required_clusters(binding) - around.given_up
    if state.reason is MoveReason.FAILOVER:
        others = {name for name in others if name not in around.unready or name in state.source}
    if there := sorted(others | copies.deleting & state.target.keys()):
        return f"the old copy on {name_list(there)} is still being removed"
    back = _back_meanwhile(state, around)
    return f"{name_list(back)} is ready again, and pods there may still end" if back else ""


def _back_meanwhile(state: MoveState, around: Surroundings) -> list[str]:
    """Return the clusters that a move leaves and that became ready after it had given up their copies, or just before.

    Karmada removes these copies then. Their pods have not used their grace period yet.
    """
    if state.gone_since is None:
        return []
    from_s = state.gone_since - timedelta(seconds=STATUS_LAG_S)
    return sorted(name for name, since in around.ready_since.items() if since >= from_s and name not in state.target)


def _waiting_for_old_copies(binding: Binding, state: MoveState, around: Surroundings, waits: str) -> Step:
    """Wait for old copies until the deadline. Then return to them, or report a move that cannot return."""
    late = _is_late(state, around.now)
    message = state.message if state.returning and not late else waits[:MAX_MESSAGE]
    state = msgspec.structs.replace(state, gone_since=None, message=message)
    if not late:
        return Step(state, wait_s=SOON_LOOK_S)
    why = f"the old copies are not gone in time; {waits}"
    if around.returnable:
        return rolled_back(binding, state, around, why)
    if state.overdue:
        return Step(state, wait_s=_LOOK_S)
    note = f"{state.reason.value}: {why}; the move waits for them"
    return Step(_overdue(state, around.now), CopiesChange.STALLED, wait_s=_LOOK_S, note=note)


def without_target(state: MoveState, now: Timestamp, why: str) -> Step:
    """Wait while a move has no target, and nothing better to return to."""
    state = msgspec.structs.replace(state, message=why[:MAX_MESSAGE])
    return Step(_overdue(state, now) if _is_late(state, now) else state, wait_s=SOON_LOOK_S)


def _kept_message(state: MoveState) -> str:
    """Return the message of a move that waits for nothing special. A move that returns says why until its end."""
    return state.message if state.returning else ""


def _failure(state: MoveState) -> str:
    return state.message or "the move failed"


def _is_late(state: MoveState, now: Timestamp) -> bool:
    """Whether the deadline of the phase has passed. The record of a stalled move of earlier checkouts has none."""
    return state.until is None or now >= state.until


def _overdue(state: MoveState, now: Timestamp) -> MoveState:
    """Return the state of a move whose deadline has passed, and that can only wait. It gives its budget back."""
    return msgspec.structs.replace(state, overdue=True, until=state.until or _whole(now))


def _surging(binding: Binding, state: MoveState, around: Surroundings) -> Step | str:
    """Wait until the new copies are healthy. A text says why the move has failed."""
    settings, now = around.settings, around.now
    if why := _undispatched(binding, state, around) or _finished(binding, state):
        return why
    problems = unhealthy_by_report(binding, state, now, around.unready)
    if not problems:
        if unread := around.works().problem:
            return _unread(state, unread)
        problems = unhealthy_by_works(binding, state, around.works(), around.unready)
    if not problems:
        state = _entered(state, MovePhase.SOAKING, now, settings.soak_s)
        state = msgspec.structs.replace(state, template=_template(binding), message=_kept_message(state))
        note = f"{state.reason.value}: {_arrived(state)}"
        return Step(state, CopiesChange.HEALTHY, wait_s=_wait(state, now), note=note)
    if not _is_late(state, now) and not _was_refused(binding):
        if refusing := _refusing(binding, state, around):
            return f"{refusing}, and nothing runs"
        return _still_held(binding, state, around) or Step(state, wait_s=_wait(state, now))
    purged = [name for name in held_by_purge(binding, around.works()) if name in around.unready]
    if purged:
        return f"not healthy in time: Karmada first deletes the copy on {name_list(purged)}, which does not answer"
    return f"not healthy in time: {_problems(problems)}"


def _was_refused(binding: Binding) -> bool:
    """Whether the API server has refused the end of a move. Only another try shows that it does not any more."""
    known = move_of(binding)
    return known is not None and known.cause == Cause.REFUSED.value


def _still_held(binding: Binding, state: MoveState, around: Surroundings) -> Step | None:
    """Return the step that keeps the record of a move that has failed, and that the same cause keeps from returning."""
    known = move_of(binding)
    if known is None or not known.cause or known.phase is not state.phase:
        return None
    going = state.target.keys() - state.home.keys()
    blocked = _blocked(binding, state, going, around)
    same = blocked is not None and (blocked.cause.value, blocked.about) == (known.cause, known.about)
    return Step(known, wait_s=_LOOK_S) if same else None


def _refusing(binding: Binding, state: MoveState, around: Surroundings) -> str:
    """Return which members refuse the new copies of a move with BreakBeforeMake that runs nowhere; empty for others.

    No copy can become healthy then, so the rest of the deadline would be time without copies.
    """
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and not state.returning
    if not breaks or seconds_since(state.since, around.now) < _REFUSED_S:
        return ""
    if any(each.applied for each in binding.status.aggregated_status) or around.works().problem:
        return ""
    found = around.works().by_cluster
    refused = {name: found[name].item.applied_message for name in state.target if name in found}
    if len(refused) < len(state.target) or not all(refused.values()):
        return ""
    return f"the members refuse the new copies: {_problems(refused)}"


def _soaking(binding: Binding, state: MoveState, around: Surroundings) -> Step | str:
    """Release the old copies when the new ones stayed healthy. A text says why the move has failed."""
    now = around.now
    if why := _finished(binding, state):
        return why
    if state.template != _template(binding):
        state = _surging_again(state, around)
        return Step(msgspec.structs.replace(state, template=_template(binding)), wait_s=_wait(state, now))
    problems = unhealthy_by_report(binding, state, now, around.unready)
    if problems and (unread := around.works().problem):
        return _unread(state, unread)
    if problems and state.strategy is MoveStrategy.BREAK_BEFORE_MAKE:
        # A return would take healthy copies down, and a pod may be away for a moment only.
        return _surging_step(state, around, problems)
    if problems:
        return f"unhealthy while soaking: {_problems(problems)}"
    known = move_of(binding)
    if known is not None and known.cause and state.since is not None:  # it has waited for something else
        state = msgspec.structs.replace(state, until=later(state.since, around.settings.soak_s))
    if state.until is not None and now < state.until:
        return Step(state, wait_s=_wait(state, now))
    if unread := around.works().problem:
        return _unread(state, unread)
    problems = unhealthy_by_works(binding, state, around.works(), around.unready)
    if problems:  # the reports are older than the Works
        return _surging_step(state, around, problems)
    return released(binding, state, around)


def _undispatched(binding: Binding, state: MoveState, around: Surroundings) -> str:
    """Return why new copies will not start: Karmada does not send them to their cluster; empty if they may."""
    suspended = suspended_clusters(binding, state.arriving)
    if not suspended or lag_left_s(state, around.now) > 0 or around.works().problem:
        return ""
    found = around.works().by_cluster
    names = sorted(name for name in suspended if name not in found or not found[name].item.applied)
    return f"dispatching to {name_list(names)} is suspended" if names else ""


def _finished(binding: Binding, state: MoveState) -> str:
    """Return that a Job has finished before its new copies replaced it, so that they must go; empty if it has not."""
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE or state.reason is MoveReason.FAILOVER:
        return ""
    names = finished_copies(binding, state.leaving)
    return f"the Job has finished on {name_list(names)}" if names else ""


def _held_copies(
    binding: Binding,
    state: MoveState,
    going: Iterable[str],
    around: Surroundings,
    given_up: frozenset[str] = frozenset(),
) -> Step | None:
    """Return the step of a move that would remove copies in some clusters, and must not; None if it may.

    Args:
        given_up: the clusters whose copies count as lost, so that they must not hold up others.
    """
    names = list(going)
    if not names:
        return None
    if unread := around.works().problem:
        return _unread(state, unread)
    blocked = _blocked(binding, state, names, around, given_up)
    return None if blocked is None else held_step(binding, state, around, blocked)


def _blocked(
    binding: Binding,
    state: MoveState,
    going: Iterable[str],
    around: Surroundings,
    given_up: frozenset[str] = frozenset(),
) -> MoveRefusal | None:
    """Return why the copies in some clusters must not go now; None if they may."""
    copies = around.works()
    names = [each for each in going if _exists(each, around) and each not in around.deleting]
    found = blocked_removal(binding, state, names, copies, around.settings, given_up)
    return found or unseen_copy(names, copies, around.unready)


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


def _arrived(state: MoveState) -> str:
    """Say that the new copies of a move are healthy. A workload that was scaled to zero has none."""
    return f"{short_assignment(state.target)} is healthy" if state.target else _NONE_WANTED


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


def _surging_step(state: MoveState, around: Surroundings, problems: Mapping[str, str]) -> Step:
    """Wait again until the new copies of a move that soaks are healthy."""
    state = _surging_again(state, around)
    message = _problems(problems)[:MAX_MESSAGE]
    return Step(msgspec.structs.replace(state, message=message), wait_s=_wait(state, around.now))


def _surging_again(state: MoveState, around: Surroundings) -> MoveState:
    """Return the state of a move that waits for other new copies. The first deadline holds.

    A move that soaks has reached it. It gets one deadline more in all, so that changes without end do not keep it.
    """
    now, settings = around.now, around.settings
    if state.phase is MovePhase.SURGING:
        if state.overdue:
            return _timed(_entered(state, MovePhase.SURGING, now, settings.deadline_s))
        return msgspec.structs.replace(state, since=_whole(now))
    again = _entered(state, MovePhase.SURGING, now, settings.deadline_s)
    if state.deadline_at is None or again.until is None:
        return again
    last = later(state.deadline_at, settings.soak_s + settings.deadline_s)
    return msgspec.structs.replace(again, until=min(again.until, last))


def _timed(state: MoveState) -> MoveState:
    """Return the state of a move whose deadline begins now."""
    return msgspec.structs.replace(state, deadline_at=state.until)


def _within_deadline(state: MoveState, now: Timestamp) -> MoveState:
    """Return the state of a move that keeps its first deadline in a new phase, unless it is overdue."""
    if state.overdue or state.deadline_at is None:
        return _timed(state)
    return msgspec.structs.replace(state, until=max(state.deadline_at, _whole(now)))


def _exists(cluster: str, around: Surroundings) -> bool:
    return around.clusters is None or cluster in around.clusters


def _admitted(state: MoveState, around: Surroundings) -> MoveState:
    """Return the state of a move whose old copies go now, with the time that their pods may take to end."""
    found = around.works().by_cluster
    grace_s = max((copy.grace_s for name, copy in found.items() if name not in state.target), default=DEFAULT_GRACE_S)
    # The Work of a new copy that went with its cluster no longer says it. The old copies had the same grace period.
    termination_s = max(DEFAULT_GRACE_S, grace_s, state.termination_s)
    state = msgspec.structs.replace(state, termination_s=termination_s, gone_since=None)
    return _entered(state, MovePhase.ADMITTED, around.now, around.settings.deadline_s + termination_s)


def _stalled(state: MoveState, now: Timestamp, why: str) -> Step:
    """Report a failed move that has nothing better to return to now. All copies stay; each look judges it again."""
    if state.phase is MovePhase.SOAKING:
        state = _entered(state, MovePhase.SURGING, now, 0)
    known = state.overdue
    state = msgspec.structs.replace(_overdue(state, now), message=why[:MAX_MESSAGE])
    if known:
        return Step(state, wait_s=_LOOK_S)
    stays = "the new copies stay" if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE else "old and new copies stay"
    return Step(state, CopiesChange.STALLED, wait_s=_LOOK_S, note=f"{state.reason.value}: {why}; {stays}")


def _returned(binding: Binding, state: MoveState, around: Surroundings, why: str) -> Step:
    """Turn a move with BreakBeforeMake around: the new copies go, and then the old ones start again.

    The hold-down begins when they run.
    """
    waits = state.phase is MovePhase.ADMITTED
    # The copies of a target that failed before leave. A part of the workload that is still assigned stays.
    leaving = state.source if state.origin else {}
    back = msgspec.structs.replace(
        state,
        source={**leaving, **written_clusters(state)} if waits else state.target,
        target=state.first,
        source_group=state.source_group if waits else state.target_group,
        target_group=state.first_group,
        origin={},
        origin_group="",
        failures=state.failures + 1,
        returning=True,
        message=why[:MAX_MESSAGE],
    )
    elsewhere = _started_elsewhere(binding, back, around)  # else pods end where they start again, in one cluster
    back = _admitted(back if elsewhere else msgspec.structs.replace(back, termination_s=0), around)
    if back.deadline_at is not None and back.until is not None:  # it was for the grace period of other pods
        back = msgspec.structs.replace(back, deadline_at=min(back.deadline_at, back.until))
    if not elsewhere:
        back = msgspec.structs.replace(back, termination_s=0)
    note = f"{state.reason.value}: {why}; it returns to {short_assignment(back.target)}"
    return Step(
        back,
        CopiesChange.RETURNING,
        written_clusters(back),
        written_group(back),
        _tasks_before(binding, back, around),
        _wait(back, around.now),
        note,
    )


def _started_elsewhere(binding: Binding, back: MoveState, around: Surroundings) -> bool:
    """Whether a move that turns around has started copies in other clusters, also if another controller evicts them.

    The Work of an evicted copy can be gone, and its pods still run. Then only the record tells.
    """
    known = move_of(binding)
    started = known.target.keys() if known is not None and known.phase is not MovePhase.ADMITTED else set()
    there = {*around.works().by_cluster} - required_clusters(binding)
    return bool((started | there | back.source.keys()) - back.target.keys())


def _failed(
    state: MoveState, phase: MovePhase, now: Timestamp, until: Timestamp, why: str, failures: int | None = None
) -> MoveState:
    """Return the state after a failure. It is one more, unless ``failures`` says how many there are."""
    return msgspec.structs.replace(
        _without_way(state),
        phase=phase,
        since=_whole(now),
        until=until,
        failures=state.failures + 1 if failures is None else failures,
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
    """Return when to look again: at the end of the phase, and now and then before.

    It is never now. A phase whose end has passed may still wait for something else. New copies count as soon as their
    status cannot be older than they are: nothing says so if it does not change.
    """
    wait_s = lag_left_s(state, now) or _LOOK_S
    if state.until is None:
        return wait_s
    return min(max(_LEAST_WAIT_S, (state.until - now).total_seconds()), wait_s)


def _template(binding: Binding) -> str:
    return binding.spec.resource.resource_version


def _problems(problems: Mapping[str, str]) -> str:
    return name_list([f"{name}: {why}" for name, why in sorted(problems.items())])
