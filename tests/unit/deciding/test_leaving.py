"""What clusters get back when the moves under way have ended."""

from datetime import UTC, datetime, timedelta

import pytest
from builders import binding

from berthmaster.deciding.leaving import Leaving, leaving_of, room_after
from berthmaster.model.move import MovePhase, MoveReason, MoveState

T0 = datetime(2026, 1, 1, tzinfo=UTC)
CPU = (("cpu", 500),)


def state(phase: MovePhase) -> MoveState:
    return MoveState(
        MoveReason.REBALANCE, phase, source={"m1": 3, "m2": 1}, target={"m1": 1, "m2": 1, "m3": 2}, since=T0
    )


@pytest.mark.parametrize(
    ("phase", "leaves", "after_s"),
    [
        pytest.param(MovePhase.STABILISING, False, 0, id="a move that waits takes nothing"),
        pytest.param(MovePhase.SURGING, True, 9999, id="a move under way, however long"),
        pytest.param(MovePhase.RELEASED, True, 59, id="pods end after the release"),
        pytest.param(MovePhase.RELEASED, False, 61, id="then the cluster reports it"),
        pytest.param(MovePhase.ROLLED_BACK, False, 0, id="a failed move takes nothing"),
    ],
)
def test_what_a_move_leaves_is_free_when_it_has_ended(phase: MovePhase, after_s: float, *, leaves: bool):
    found = leaving_of(binding(replicas=4), state(phase))
    room = room_after([found] if found is not None else [], None, T0 + timedelta(seconds=after_s))
    assert room == ({"m1": 2} if leaves else {})


@pytest.mark.parametrize(
    ("requests", "room"),
    [
        pytest.param(CPU, {"m1": 3, "m2": 2}, id="as large"),
        pytest.param((("cpu", 700),), {"m1": 2, "m2": 1}, id="larger, rounded down"),
        pytest.param((("cpu", 500), ("memory", 1)), {}, id="a resource that no pod leaves"),
        pytest.param(None, {"m1": 3, "m2": 2}, id="without requests each pod is one"),
    ],
)
def test_room_is_in_replicas_of_the_workload_that_asks(requests, room):
    leaving = [Leaving({"m1": 1}, CPU), Leaving({"m1": 2, "m2": 2}, CPU)]
    assert room_after(leaving, requests, T0) == room
