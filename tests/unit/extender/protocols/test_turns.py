"""FairTurns: who comes next."""

import threading

import pytest
from fake_clock import FakeClock
from tables import cases
from waiting import LIMIT_S, wait_for

from berthmaster.runtime.clock import SystemClock
from extender.protocols.turns import FairTurns, Rank, Turn, UserTimes

ALICE, BOB = Turn(Rank.STORED, "alice"), Turn(Rank.STORED, "bob")
TRY, PLAN = Turn(Rank.DRY_RUN, "bob"), Turn(Rank.PLAN)


def order(turns: FairTurns, wanted: list[Turn]) -> list[Turn]:
    """Return in which order turns are given to those who wait."""
    clock, got, threads = SystemClock(), [], []

    def wait(turn: Turn) -> None:
        with turns.held(turn, clock) as held:
            assert held
            got.append(turn)

    with turns.held(Turn(Rank.STORED, "first"), clock):
        for number, each in enumerate(wanted, start=1):
            threads.append(threading.Thread(target=wait, args=(each,)))
            threads[-1].start()
            wait_for(lambda number=number: len(turns._waiting) == number)  # noqa: SLF001 - it shows nothing of this
    for each in threads:
        each.join(LIMIT_S)
    return got


@cases(
    ("wanted", "expected"),
    {
        "the first is the first": ([ALICE, BOB], [ALICE, BOB]),
        "changes before dry runs and plans": ([PLAN, TRY, ALICE], [ALICE, TRY, PLAN]),
        "the user who had less": ([Turn(Rank.STORED, "busy"), ALICE], [ALICE, Turn(Rank.STORED, "busy")]),
        "a dry run of a user who had less": (
            [Turn(Rank.DRY_RUN, "busy"), Turn(Rank.STORED, "busy"), TRY],
            [Turn(Rank.STORED, "busy"), TRY, Turn(Rank.DRY_RUN, "busy")],
        ),
        "one plan among ten": ([PLAN, *[ALICE] * 20], [*[ALICE] * 8, PLAN, *[ALICE] * 12]),
    },
)
def test_the_next_turn_is_chosen(wanted: list[Turn], expected: list[Turn]):
    turns = FairTurns()
    turns.times.add("busy", 60.0, SystemClock().monotonic_s())
    assert order(turns, wanted) == expected


def test_one_that_waited_too_long_gets_no_turn_and_stops_no_other():
    turns, clock = FairTurns(), SystemClock()
    with turns.held(BOB, clock), turns.held(ALICE, clock, 0.01) as held:
        assert not held
    with turns.held(TRY, clock, 0.0) as held:
        assert held


def test_a_turn_ends_with_an_error():
    turns, clock = FairTurns(), FakeClock()

    def fail() -> None:
        with turns.held(BOB, clock):
            clock.pass_by(3.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert turns.times.of("bob", clock.monotonic_s()) == 3.0
    with turns.held(BOB, clock, 0.0) as held:
        assert held


@cases(("after_s", "left_s"), {"now": (0.0, 8.0), "ten seconds later": (10.0, 4.0), "a minute later": (60.0, 0.125)})
def test_time_that_a_user_had_counts_less_and_less(after_s: float, left_s: float):
    times = UserTimes()
    times.add("alice", 4.0, 100.0)
    times.add("alice", 4.0, 100.0)
    assert times.of("alice", 100.0 + after_s) == left_s
    assert times.of("bob", 100.0) == 0.0


def test_the_users_with_the_least_time_are_forgotten():
    times = UserTimes()
    times.add("busy", 60.0, 0.0)
    for number in range(3_000):
        times.add(f"user{number}", 0.001, 0.0)
    assert times.of("busy", 0.0) == 60.0
    assert len(times._times) == 1_024  # noqa: SLF001 - memory is not seen otherwise
