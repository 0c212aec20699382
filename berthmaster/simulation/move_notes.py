"""What a row says about the move of its workload."""

from berthmaster.model import move as moves
from berthmaster.model.binding import Binding


def move_note(binding: Binding) -> str:
    """Return a sentence about the move of a binding; empty without one."""
    state = moves.move_of(binding)
    if state is None:
        return moves.move_problem(binding)
    why = f": {state.message}" if state.message else ""
    match state.phase:
        case moves.MovePhase.ELIGIBLE:
            return f"{_should_move(state)}{why}"
        case moves.MovePhase.STABILISING if state.until is not None:
            return f"{_should_move(state)}; it would move to {_place(state)} at {_time(state.until)}"
        case moves.MovePhase.STABILISING:
            return f"{_should_move(state)}; it waits to move to {_place(state)}{why}"
        case moves.MovePhase.RELEASED:
            return f"it moved to {_place(state)} at {_time(state.since)} ({state.reason.value})"
        case moves.MovePhase.ROLLED_BACK | moves.MovePhase.HELD_DOWN:
            return f"it does not move before {_time(state.held_down_until)}{why}"
        case _:
            until = f", until {_time(state.until)}" if state.until is not None else ""
            way = f"{_clusters(state.source)} -> {_clusters(state.target)}, {state.phase.value}{until}"
            return f"a move ({state.reason.value}) to {_place(state)} is under way: {way}{why}"


def _should_move(state: moves.MoveState) -> str:
    return f"it should move since {_time(state.started_at)} ({state.reason.value})"


def _place(state: moves.MoveState) -> str:
    return f"group {state.target_group}" if state.target_group else _clusters(state.target)


def _clusters(replicas: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(replicas.items())) or "no clusters"


def _time(moment: object) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%SZ}"
