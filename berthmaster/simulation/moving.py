"""Bindings in the middle of a move: what a scheduler decides from, and what users read about the move.

docs/moves.md has the rules. A simulation assumes that a move under way ends well, and shows where copies are now.
"""

from typing import NamedTuple

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.move import MovePhase, MoveReason, MoveState, as_before, as_moved, move_of, move_problem
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed, trigger_of


class Due(NamedTuple):
    """What is due for a binding.

    Attributes:
        binding: the binding as the decision sees it: as if its move had ended, or had not begun.
        trigger: why it must be scheduled.
    """

    binding: Binding
    trigger: Trigger


def due(binding: Binding, fleet: Fleet) -> Due:
    """Return what is due for a binding. An edit of the placement ends its move: it is decided from the source."""
    moved = as_moved(binding)
    if moved is binding:
        return Due(binding, trigger_of(binding, fleet))
    placement, applied = binding.spec.placement, binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    group = moved.status.scheduler_observing_affinity_name
    edited = placement is not None and bool(applied) and placement_changed(placement, applied, group, in_order=False)
    base = as_before(binding) if edited or binding.reschedule_requested else moved
    return Due(base, trigger_of(base, fleet))


def move_note(binding: Binding) -> str:
    """Return a sentence about the move of a binding; empty without one."""
    state = move_of(binding)
    if state is None:
        return move_problem(binding)
    why = f": {state.message}" if state.message else ""
    match state.phase:
        case MovePhase.ELIGIBLE:
            return f"{_reason_to_move(state)}{why}"
        case MovePhase.STABILISING if state.until is not None:
            return f"{_reason_to_move(state)}; it would move to {_place(state)} at {_time(state.until)}"
        case MovePhase.STABILISING:
            return f"{_reason_to_move(state)}; it waits to move to {_place(state)}{why}"
        case MovePhase.RELEASED:
            return f"it moved to {_place(state)} at {_time(state.since)} ({state.reason.value})"
        case MovePhase.ROLLED_BACK | MovePhase.HELD_DOWN:
            return f"it does not move before {_time(state.held_down_until)}{why}"
        case _:
            return f"{_under_way(state)}{why}"


def _under_way(state: MoveState) -> str:
    until = f", until {_time(state.until)}" if state.until is not None else ""
    way = f"{_clusters(state.source)} -> {_clusters(state.target)}"
    return f"a move ({state.reason.value}) to {_place(state)} is under way: {way}, {state.phase.value}{until}"


def _reason_to_move(state: MoveState) -> str:
    since = _time(state.started_at)
    if state.reason is MoveReason.FAILBACK:
        return f"it is not in its preferred group since {since}"
    if state.reason is MoveReason.DRAIN:
        return f"it is to leave a cluster that is being drained since {since}"
    return f"it is to be rescheduled by a move since {since}"


def _place(state: MoveState) -> str:
    return f"group {state.target_group}" if state.target_group else _clusters(state.target)


def _clusters(replicas: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(replicas.items())) or "no clusters"


def _time(moment: object) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%SZ}"
