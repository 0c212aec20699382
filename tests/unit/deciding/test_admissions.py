"""What counts as under way: each rule of the module's description, one by one.

``tests/properties/test_move_budgets.py`` searches for interleavings.
"""

from datetime import UTC, datetime

import pytest

from berthmaster.deciding.admissions import QUIET_S, Admissions, Budgets, MoveCandidate
from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_selector import MoveSubject
from berthmaster.model.move import MoveReason

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
START = 1000.0
ONE = ("shop", "one")
TWO = ("shop", "two")


def move(key=ONE, *, policy="shop/a", source="old", reason=MoveReason.DRAIN):
    return MoveCandidate(key, MoveSubject("shop", {}, policy), reason, {source: 1}, {"new": 1})


@pytest.fixture
def admissions():
    """Two moves at once, one of each policy; the leader leads for long."""
    budgets = Budgets(MovesConfig(budgets=(Budget("b", max_moves=2, max_moves_per_policy=1),)))
    return Admissions(budgets, START - QUIET_S)


def admit(admissions, candidate, version="10", now_s=START):
    return admissions.admit(candidate, version, NOON, now_s) is None


def counted(admissions, now_s=START):
    return [each.key for each in admissions.active(now_s)]


def test_an_admitted_move_counts_before_its_write(admissions):
    assert admit(admissions, move())
    assert not admit(admissions, move(TWO))


def test_a_refused_write_frees_its_place(admissions):
    admit(admissions, move())
    admissions.refused(ONE)
    assert admit(admissions, move(TWO))


def test_a_written_move_counts_until_a_version_without_it(admissions):
    admit(admissions, move())
    admissions.observe(ONE, move(), "11")
    assert counted(admissions) == [ONE]
    admissions.observe(ONE, None, "12")
    assert counted(admissions) == []


def test_a_version_that_is_observed_late_changes_nothing(admissions):
    admit(admissions, move())
    admissions.observe(ONE, move(), "11")
    admissions.observe(ONE, None, "9")
    admissions.observe(ONE, None, "10")
    assert counted(admissions) == [ONE]


@pytest.mark.parametrize(("after_s", "count"), [(QUIET_S - 1, 1), (QUIET_S, 0)])
def test_a_lost_response_counts_until_its_write_is_impossible(admissions, after_s, count):
    admit(admissions, move())
    admissions.lost(ONE, START)
    assert len(counted(admissions, START + after_s)) == count


@pytest.mark.parametrize(("version", "count"), [("9", 1), ("10", 1), ("11", 0)])
def test_a_lost_response_counts_until_a_later_version_shows_its_result(admissions, version, count):
    admit(admissions, move())
    admissions.lost(ONE, START)
    admissions.observe(ONE, None, version)
    assert len(counted(admissions)) == count


def test_a_conflict_after_a_lost_response_keeps_the_first_reservation(admissions):
    """The conflict may be with the write whose response was lost."""
    admit(admissions, move())
    admissions.lost(ONE, START)
    assert admit(admissions, move())
    admissions.refused(ONE)
    assert counted(admissions) == [ONE]
    assert not admit(admissions, move(TWO))


def test_both_possible_moves_of_a_binding_count(admissions):
    """Its policy has changed between the two writes."""
    admit(admissions, move())
    admissions.lost(ONE, START)
    assert admit(admissions, move(policy="shop/b"))
    assert not admit(admissions, move(TWO, policy="shop/a"))
    assert not admit(admissions, move(TWO, policy="shop/b"))


def test_a_move_under_way_is_admitted_again_with_other_clusters(admissions):
    admissions.observe(ONE, move(), "10")
    assert admit(admissions, move(source="other"))


def test_a_deleted_binding_does_not_count(admissions):
    admissions.observe(ONE, move(), "10")
    admit(admissions, move(TWO, policy="shop/b"))
    admissions.remove(ONE)
    admissions.remove(TWO)
    assert counted(admissions) == []


@pytest.mark.parametrize(("after_s", "admitted"), [(0.0, False), (QUIET_S - 1, False), (QUIET_S, True)])
def test_a_new_leader_admits_nothing_until_writes_of_the_last_one_are_impossible(admissions, after_s, admitted):
    admissions.lead(START)
    assert admit(admissions, move(), now_s=START + after_s) is admitted
    assert admissions.cause_of(ONE) == ("stabilising" if admitted else "starting")


@pytest.mark.parametrize(("after_s", "begins"), [(0.0, False), (31.0, True)])
def test_a_failback_leaves_the_next_place_to_a_drain_that_asked_before(admissions, after_s, begins):
    """A drain that asks no more keeps no place."""
    failback = move(TWO, policy="shop/b", reason=MoveReason.FAILBACK)
    admissions.observe(ONE, move(policy="shop/c"), "10")
    admissions.observe(("shop", "three"), move(("shop", "three"), policy="shop/d"), "10")
    assert not admit(admissions, move(("shop", "four")))
    admissions.observe(ONE, None, "11")
    assert admit(admissions, failback, now_s=START + after_s) is begins
    assert admissions.cause_of(TWO) == ("stabilising" if begins else "limit")
    assert begins or admit(admissions, move(("shop", "four")), now_s=START + after_s)


def test_a_new_leader_fails_over_at_once(admissions):
    admissions.lead(START)
    assert admit(admissions, move(reason=MoveReason.FAILOVER))


def test_before_it_leads_a_process_admits_nothing():
    assert not admit(Admissions(Budgets(MovesConfig()), float("inf")), move())


def test_other_budgets_keep_the_moves_under_way(admissions):
    admissions.observe(ONE, move(), "10")
    admissions.set_budgets(Budgets(MovesConfig(budgets=(Budget("b", max_moves=1),))))
    assert not admit(admissions, move(TWO))


def test_versions_that_are_no_numbers_are_taken_in_the_order_of_their_arrival(admissions):
    admissions.observe(ONE, move(), "a")
    admissions.observe(ONE, None, "b")
    assert counted(admissions) == []
