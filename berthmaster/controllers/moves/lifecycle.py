"""The life of a move: from the state of a binding's move to the next state. Pure functions.

docs/moves.md describes the phases and the rules. Each function returns a ``Step``: what one write changes. The caller
writes state, clusters and tasks together.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

import msgspec.structs

from berthmaster.controllers.moves.break_first import returning_tasks, tasks_after, tasks_before
from berthmaster.controllers.moves.config import MoveSettings
from berthmaster.controllers.moves.copies import (
    TERMINATION_S,
    present_copies,
    rollback_loses_replicas,
    seconds_since,
    unhealthy_copies,
)
from berthmaster.model.assignment_text import short_assignment
from berthmaster.model.binding import Binding, GracefulEvictionTask
from berthmaster.model.errors import name_list
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MAX_MESSAGE, MovePhase, MoveState, MoveStrategy, written_clusters

BRAKED_LOOK_S: Final = 10.0
"""How often a move looks whether the storm brake has ended."""
_LOOK_S: Final = 30.0
_FUTURE_S: Final = 60.0

Urgency = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class MoveEvent:
    """An event of a move.

    Attributes:
        urgency: the type of the event.
        reason: its reason, such as ``MoveStarted``.
        note: its message.
    """

    urgency: Urgency
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Step:
    """What one write of a move changes.

    Attributes:
        state: the state after it; None removes the record.
        clusters: the assignment after it: replicas by cluster; None if it stays.
        group: the group of that assignment.
        tasks: all eviction tasks after it; None if they stay.
        wait_s: when to look again; None if only a change of the binding matters.
        event: the event; None for none.
    """

    state: MoveState | None
    clusters: Mapping[str, int] | None = None
    group: str = ""
    tasks: tuple[GracefulEvictionTask, ...] | None = None
    wait_s: float | None = None
    event: MoveEvent | None = None


def begun(binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, producer: str) -> Step:
    """Start an admitted move.

    Args:
        binding: the binding, with the assignment ``state.source``.
        state: the source, the target and the reason.
        settings: how the binding moves.
        now: the time of day.
        producer: the ``producer`` of eviction tasks.
    """
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    state = _entered(state, MovePhase.ADMITTED if breaks else MovePhase.SURGING, now, settings.deadline_s)
    state = msgspec.structs.replace(state, template=_template(binding), message="")
    note = f"{state.reason.value}: {short_assignment(state.source)} -> {short_assignment(state.target)}"
    return Step(
        state,
        written_clusters(state),
        state.source_group,
        tasks_before(binding, state, producer) if breaks else None,
        _wait(state, now),
        MoveEvent("Normal", "MoveStarted", note),
    )


def advanced(
    binding: Binding,
    state: MoveState,
    settings: MoveSettings,
    now: Timestamp,
    producer: str,
    *,
    braked: str = "",
    returnable: bool = True,
    unready: Container[str] = (),
) -> Step:
    """Return the next step of a move under way; its state is the given one if nothing changes.

    Args:
        binding: the binding, with what its members report.
        state: the state of its move; clusters that were evicted are left out.
        settings: how the binding moves.
        now: the time of day.
        producer: the ``producer`` of eviction tasks.
        braked: why the storm brake stops moves; empty if it does not.
        returnable: whether the source is whole, so that a failed move can be rolled back.
        unready: the clusters that are not ready.
    """
    if braked:
        return _braked(state, settings, now, braked)
    if state.since is None or (state.since - now).total_seconds() > _FUTURE_S:
        return Step(_entered(state, state.phase, now, _length_s(state, settings)), wait_s=0.0)
    match state.phase:
        case MovePhase.ADMITTED:
            return _breaking(binding, state, settings, now, producer)
        case MovePhase.SURGING:
            step = _surging(binding, state, settings, now, unready)
        case _:
            step = _soaking(binding, state, settings, now, producer, unready)
    if isinstance(step, Step):
        return step
    if not returnable:
        return _stalled(state, now, step)
    if rollback_loses_replicas(binding, state):
        return _stalled(state, now, step, settings.deadline_s)
    return rolled_back(binding, state, settings, now, step, producer)


def retargeted(
    state: MoveState, target: Mapping[str, int], group: str, replicas: int, settings: MoveSettings, now: Timestamp
) -> Step:
    """Give a move under way another target. The old copies stay; after a scale down they are reduced.

    Args:
        state: the state of the move.
        target: the new target; it differs from the old one.
        group: the group of the new target.
        replicas: the wanted replicas, in all for a divided workload.
        settings: how the binding moves.
        now: the time of day.
    """
    phase = MovePhase.ADMITTED if state.phase is MovePhase.ADMITTED else MovePhase.SURGING
    note = f"{state.reason.value}: the target is {short_assignment(target)} instead of {short_assignment(state.target)}"
    divided = sum(target.values()) == replicas
    source = reduced(state.source, replicas, divided=divided)
    state = msgspec.structs.replace(state, source=source, target=dict(target), target_group=group)
    state = _entered(state, phase, now, settings.deadline_s)
    return Step(
        state,
        written_clusters(state),
        state.source_group,
        wait_s=_wait(state, now),
        event=MoveEvent("Normal", "MoveRetargeted", note),
    )


def rolled_back(
    binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, why: str, producer: str
) -> Step:
    """Restore the old assignment, and hold the binding down."""
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and state.phase is not MovePhase.ADMITTED:
        return _returned(binding, state, settings, now, why, producer)
    until = later(now, hold_down_s(state.failures + 1, settings))
    state = _failed(state, MovePhase.ROLLED_BACK, now, until, why)
    note = f"{state.reason.value}: {why}; {short_assignment(state.source)} is restored until {until:%Y-%m-%d %H:%M:%S}Z"
    tasks = tasks_after(binding, state, producer) if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE else None
    return Step(
        state,
        state.source,
        state.source_group,
        tasks,
        (until - now).total_seconds(),
        MoveEvent("Warning", "MoveRolledBack", note),
    )


def released(binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, producer: str) -> Step:
    """End a move well: only the target stays."""
    until = later(now, hold_down_s(max(1, state.failures), settings))
    after = msgspec.structs.replace(
        state, phase=MovePhase.RELEASED, since=_whole(now), until=until, template="", message=""
    )
    source, target = short_assignment(state.source), short_assignment(state.target)
    note = f"{state.reason.value}: {target} is healthy, {source} is released"
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    return Step(
        after,
        state.target,
        state.target_group,
        tasks_after(binding, state, producer) if breaks else None,
        (until - now).total_seconds(),
        MoveEvent("Normal", "MoveReleased", note),
    )


def flapped(state: MoveState, settings: MoveSettings, now: Timestamp, why: str) -> MoveState:
    """Return the record of a binding whose released move did not last: one more failure, and a hold-down."""
    return _failed(state, MovePhase.HELD_DOWN, now, later(now, hold_down_s(state.failures + 1, settings)), why)


def is_over(state: MoveState, now: Timestamp) -> bool:
    """Whether the record of an ended move has no further meaning: it lasted, or nothing holds the binding down."""
    if state.phase is not MovePhase.RELEASED:
        return False
    return (state.until is None or state.until <= now) and not state.held_down(now)


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
    if state.until is None or state.until > later(now, 3 * BRAKED_LOOK_S):
        return Step(state, wait_s=BRAKED_LOOK_S)
    state = _entered(state, state.phase, now, _length_s(state, settings))
    return Step(msgspec.structs.replace(state, message=f"storm brake: {braked}"[:MAX_MESSAGE]), wait_s=BRAKED_LOOK_S)


def _breaking(binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, producer: str) -> Step:
    """Wait until the old copies are gone; then start the new ones."""
    leaving = [name for name in state.source if name not in state.target]
    present = present_copies(binding, leaving)
    waited_s = seconds_since(state.since, now)
    if not present and waited_s >= TERMINATION_S:
        state = _entered(state, MovePhase.SURGING, now, settings.deadline_s)
        note = f"{state.reason.value}: the old copies are gone, {short_assignment(state.target)} starts"
        event = MoveEvent("Normal", "MoveStarted", note)
        return Step(state, dict(state.target), state.source_group, None, _wait(state, now), event)
    if state.until is not None and now >= state.until:
        return rolled_back(
            binding, state, settings, now, f"the old copies are still reported by {name_list(present)}", producer
        )
    return Step(state, wait_s=max(1.0, TERMINATION_S - waited_s) if not present else _wait(state, now))


def _surging(
    binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, unready: Container[str]
) -> Step | str:
    """Wait until the new copies are healthy. A text says why the move has failed."""
    problems = unhealthy_copies(binding, state, now, unready)
    if not problems:
        state = _entered(state, MovePhase.SOAKING, now, settings.soak_s)
        state = msgspec.structs.replace(state, template=_template(binding), message="")
        note = f"{state.reason.value}: {short_assignment(state.target)} is healthy"
        return Step(state, wait_s=_wait(state, now), event=MoveEvent("Normal", "MoveHealthy", note))
    if state.until is None or now < state.until:
        return Step(state, wait_s=_wait(state, now))
    return f"not healthy in time: {_problems(problems)}"


def _soaking(
    binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, producer: str, unready: Container[str]
) -> Step | str:
    """Release the old copies when the new ones stayed healthy. A text says why the move has failed."""
    if state.template != _template(binding):
        state = _entered(state, MovePhase.SURGING, now, settings.deadline_s)
        return Step(msgspec.structs.replace(state, template=_template(binding)), wait_s=_wait(state, now))
    problems = unhealthy_copies(binding, state, now, unready)
    if problems:
        return f"unhealthy while soaking: {_problems(problems)}"
    if state.until is not None and now < state.until:
        return Step(state, wait_s=_wait(state, now))
    return released(binding, state, settings, now, producer)


def _stalled(state: MoveState, now: Timestamp, why: str, deadline_s: float | None = None) -> Step:
    """Report a move that failed and has nothing better to return to. Old and new copies stay as they are.

    Args:
        state: the state of the move.
        now: the time of day.
        why: why it failed.
        deadline_s: after how many seconds it may be rolled back; None if it waits for healthy new copies only.
    """
    until = None if deadline_s is None else later(now, deadline_s)
    message = why[:MAX_MESSAGE]
    state = msgspec.structs.replace(state, phase=MovePhase.SURGING, since=_whole(now), until=until, message=message)
    note = f"{state.reason.value}: {why}; old and new copies stay"
    return Step(state, wait_s=_LOOK_S, event=MoveEvent("Warning", "MoveStalled", note))


def _returned(
    binding: Binding, state: MoveState, settings: MoveSettings, now: Timestamp, why: str, producer: str
) -> Step:
    """Turn a move with BreakBeforeMake around: the new copies go, and then the old ones start again."""
    failures = state.failures + 1
    back = msgspec.structs.replace(
        state,
        source=state.target,
        target=state.source,
        source_group=state.target_group,
        target_group=state.source_group,
        failures=failures,
        held_down_until=later(now, hold_down_s(failures, settings)),
        returning=True,
        message=why[:MAX_MESSAGE],
    )
    back = _entered(back, MovePhase.ADMITTED, now, settings.deadline_s)
    note = f"{state.reason.value}: {why}; it returns to {short_assignment(state.source)}"
    return Step(
        back,
        written_clusters(back),
        back.source_group,
        returning_tasks(binding, state, back, producer),
        _wait(back, now),
        MoveEvent("Warning", "MoveRolledBack", note),
    )


def _failed(state: MoveState, phase: MovePhase, now: Timestamp, until: Timestamp, why: str) -> MoveState:
    """Return the record of a binding that stays until a time after one more failure."""
    return msgspec.structs.replace(
        state,
        phase=phase,
        since=_whole(now),
        until=until,
        failures=state.failures + 1,
        held_down_until=until,
        message=why,
    )


def _entered(state: MoveState, phase: MovePhase, now: Timestamp, length_s: float) -> MoveState:
    return msgspec.structs.replace(state, phase=phase, since=_whole(now), until=later(now, length_s))


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
