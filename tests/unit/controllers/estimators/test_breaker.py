from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from berthmaster.controllers.estimators.breaker import (
    FAILURES_UNTIL_BROKEN,
    FIRST_REST_S,
    LONGEST_REST_S,
    Breaker,
    Health,
)


@dataclass
class HandClock:
    now_s: float = 100.0

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic_s(self):
        return self.now_s


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def breaker(clock):
    return Breaker(clock)


def fail(breaker, times=FAILURES_UNTIL_BROKEN):
    for _ in range(times):
        breaker.failed()


def test_it_is_waited_for_until_it_has_failed_often_enough(breaker):
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    assert (breaker.health, breaker.waited_for) == (Health.FAILING, True)
    breaker.failed()
    assert (breaker.health, breaker.waited_for) == (Health.BROKEN, False)


def test_an_answer_in_between_starts_the_count_anew(breaker):
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    breaker.succeeded()
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    assert breaker.waited_for


def test_without_a_connection_it_is_broken_at_once(breaker):
    breaker.broke()
    assert not breaker.waited_for


def test_a_well_one_needs_no_trial(breaker, clock):
    clock.now_s += 10 * LONGEST_REST_S
    assert not breaker.begin_trial()


def test_a_trial_is_made_after_a_rest_and_by_one_alone(breaker, clock):
    fail(breaker)
    assert not breaker.begin_trial()
    clock.now_s += FIRST_REST_S
    assert breaker.begin_trial()
    assert not breaker.begin_trial()


def test_a_trial_that_goes_well_heals_it(breaker, clock):
    fail(breaker)
    clock.now_s += FIRST_REST_S
    breaker.begin_trial()
    breaker.succeeded()
    assert (breaker.health, breaker.waited_for) == (Health.WELL, True)


def test_rests_grow_with_each_trial_that_fails_up_to_a_limit(breaker, clock):
    fail(breaker)
    rests = []
    for _ in range(8):
        began_s = clock.now_s
        while not breaker.begin_trial():
            clock.now_s += 0.25
        rests.append(clock.now_s - began_s)
        breaker.broke()
    assert FIRST_REST_S / 2 <= rests[0] <= FIRST_REST_S + 0.25
    assert rests[1] > FIRST_REST_S - 0.25
    assert all(LONGEST_REST_S / 2 <= rest <= LONGEST_REST_S + 0.25 for rest in rests[5:])


def test_failures_that_come_late_do_not_delay_the_trial(breaker, clock):
    fail(breaker)
    clock.now_s += FIRST_REST_S
    fail(breaker)
    assert breaker.begin_trial()


def test_a_trial_that_never_ends_is_over_some_day(breaker, clock):
    fail(breaker)
    clock.now_s += FIRST_REST_S
    assert breaker.begin_trial()
    clock.now_s += 3 * LONGEST_REST_S
    assert breaker.begin_trial()
