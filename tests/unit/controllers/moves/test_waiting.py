"""When bindings without a place are looked at again."""

from fake_clock import FakeClock

from berthmaster.controllers.moves.waiting import INTERVAL_S, WaitingMoves

A, B = ("shop", "a"), ("shop", "b")


def test_a_gain_brings_back_all_that_wait_once_in_an_interval():
    clock = FakeClock()
    waiting = WaitingMoves(clock)
    for key in (A, B, A):
        waiting.update(key, waits=True)
    waiting.gained(["m1"])
    waiting.gained(["m2"])
    assert waiting.take() == ([B, A], {"m1", "m2"}), "the binding that waits longest comes first"
    waiting.gained(["m1"])
    assert waiting.take() == ([], set())
    clock.pass_by(INTERVAL_S)
    assert waiting.take() == ([B, A], {"m1"})


def test_without_a_gain_or_without_bindings_nothing_is_looked_at():
    waiting = WaitingMoves(FakeClock())
    waiting.gained(["m1"])
    waiting.update(A, waits=True)
    assert waiting.take() == ([], set())
    waiting.gained(["m1"])
    waiting.update(A, waits=False)
    assert (len(waiting), waiting.take()) == (0, ([], {"m1"}))
