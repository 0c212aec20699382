import pytest
from fake_clock import FakeClock

from berthmaster.controllers.estimators.cluster_estimator import (
    FAILURES_UNTIL_BROKEN,
    FIRST_TRIAL_WAIT_S,
    LONGEST_TRIAL_WAIT_S,
    CircuitBreaker,
    EstimatorHealth,
)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def breaker(clock):
    return CircuitBreaker(clock)


def fail(breaker, times=FAILURES_UNTIL_BROKEN):
    for _ in range(times):
        breaker.failed()


def test_the_breaker_opens_after_enough_failures(breaker):
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    assert (breaker.health, breaker.closed) == (EstimatorHealth.FAILING, True)
    breaker.failed()
    assert (breaker.health, breaker.closed) == (EstimatorHealth.BROKEN, False)


def test_a_success_resets_the_count(breaker):
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    breaker.succeeded()
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    assert breaker.closed


def test_without_a_connection_the_breaker_opens_at_once(breaker):
    breaker.open()
    assert not breaker.closed


def test_a_closed_breaker_has_no_trial(breaker, clock):
    clock.pass_by(10 * LONGEST_TRIAL_WAIT_S)
    assert not breaker.begin_trial()


def test_one_trial_is_due_after_the_wait(breaker, clock):
    fail(breaker)
    assert not breaker.begin_trial()
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    assert breaker.begin_trial()
    assert not breaker.begin_trial()


def test_a_successful_trial_closes_the_breaker(breaker, clock):
    fail(breaker)
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    breaker.begin_trial()
    breaker.succeeded()
    assert (breaker.health, breaker.closed) == (EstimatorHealth.HEALTHY, True)


def test_rests_grow_with_failed_trials_up_to_a_limit(breaker, clock):
    fail(breaker)
    rests = []
    for _ in range(8):
        began_s = clock.passed_s
        while not breaker.begin_trial():
            clock.pass_by(0.25)
        rests.append(clock.passed_s - began_s)
        breaker.open()
    assert FIRST_TRIAL_WAIT_S / 2 <= rests[0] <= FIRST_TRIAL_WAIT_S + 0.25
    assert rests[1] > FIRST_TRIAL_WAIT_S - 0.25
    assert all(LONGEST_TRIAL_WAIT_S / 2 <= rest <= LONGEST_TRIAL_WAIT_S + 0.25 for rest in rests[5:])


def test_late_failures_do_not_delay_the_trial(breaker, clock):
    fail(breaker)
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    fail(breaker)
    assert breaker.begin_trial()


def test_a_trial_that_does_not_end_times_out(breaker, clock):
    fail(breaker)
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    assert breaker.begin_trial()
    clock.pass_by(3 * LONGEST_TRIAL_WAIT_S)
    assert breaker.begin_trial()
