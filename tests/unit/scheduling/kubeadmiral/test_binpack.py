import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.kubeadmiral.planners import (
    CapacityLimits,
    Share,
    distribute_in_order,
    divide_in_order,
    may_divide_again,
)

AVOID = {"avoid_disruption": True, "keep_unschedulable": False}
REBALANCE = {"avoid_disruption": False, "keep_unschedulable": False}
KEEP = {"avoid_disruption": True, "keep_unschedulable": True}
A, B = Share("A", 0), Share("B", 0)
AB = [A, B]


def upto(name, maximum, minimum=0):
    return Share(name, 0, minimum, maximum)


def planned(total, shares=AB, current=None, *, scheduled=None, estimated=None, limited=None, mode=AVOID):
    limits = CapacityLimits(estimated or {}, limited or {})
    replicas, overflow = divide_in_order(total, shares, current or {}, scheduled or {}, limits, **mode)
    return {name: count for name, count in replicas.items() if count}, overflow


@pytest.mark.parametrize(
    ("current", "scheduled", "limits", "opened"),
    [
        pytest.param({}, {}, CapacityLimits(), True, id="nothing was placed yet"),
        pytest.param({"A": 3}, {}, CapacityLimits(), True, id="nothing was observed yet"),
        pytest.param({"A": 3}, {"A": 3}, CapacityLimits(), True, id="all that is placed is scheduled"),
        pytest.param({"A": 3}, {"A": 2}, CapacityLimits(), False, id="less is scheduled than placed"),
        pytest.param({"A": 3}, {"A": 2}, CapacityLimits({"A": 2}), True, id="as much is scheduled as was estimated"),
        pytest.param({"A": 3}, {"A": 3}, CapacityLimits({"A": 2}), False, id="more is scheduled than was estimated"),
        pytest.param(
            {"A": 3}, {"A": 3, "B": 1}, CapacityLimits(), False, id="some are scheduled where nothing is placed"
        ),
        pytest.param(
            {"A": 3}, {"A": 3, "B": 0}, CapacityLimits(), True, id="none are scheduled where nothing is placed"
        ),
        pytest.param({"A": 3, "X": 1}, {"A": 2}, CapacityLimits(), True, id="a cluster is not selected any more"),
        pytest.param({"A": 3}, {"A": 2}, CapacityLimits({}, {"A": 2}), True, id="more is placed than a limit lets"),
        pytest.param({"A": 3}, {"A": 2}, CapacityLimits({}, {"A": 3}), False, id="as much is placed as a limit lets"),
    ],
)
def test_planning_waits_until_what_was_planned_has_settled(current, scheduled, limits, opened):
    assert may_divide_again(AB, current, scheduled, limits) is opened


def test_until_then_nothing_changes_not_even_with_the_number_of_replicas():
    assert planned(9, current={"A": 3}, scheduled={"A": 2}, mode=REBALANCE) == ({"A": 3}, {})


@pytest.mark.parametrize("mode", [AVOID, REBALANCE, KEEP], ids=["avoiding disruption", "rebalancing", "keeping"])
@pytest.mark.parametrize(
    ("total", "shares", "expected"),
    [
        pytest.param(10, AB, {"A": 10}, id="the first takes all it can"),
        pytest.param(10, [B, A], {"B": 10}, id="which is the first in order"),
        pytest.param(10, [upto("A", 4), B], {"A": 4, "B": 6}, id="what it cannot take goes to the next"),
        pytest.param(10, [upto("A", 4), upto("B", 3)], {"A": 4, "B": 3}, id="what none takes is left"),
        pytest.param(10, [A, upto("B", None, 3)], {"A": 7, "B": 3}, id="minima come first"),
        pytest.param(2, [upto("A", None, 2), upto("B", None, 3)], {"A": 2}, id="as far as they go, in order"),
    ],
)
def test_a_first_plan(total, shares, expected, mode):
    assert planned(total, shares, mode=mode) == (expected, {})


@pytest.mark.parametrize(
    ("total", "shares", "current", "expected"),
    [
        pytest.param(10, AB, {"B": 10}, {"B": 10}, id="as many: nothing moves"),
        pytest.param(12, AB, {"B": 10}, {"A": 2, "B": 10}, id="growth fills the first"),
        pytest.param(14, [upto("A", 3), B], {"A": 1, "B": 10}, {"A": 3, "B": 11}, id="up to its maximum"),
        pytest.param(7, AB, {"A": 4, "B": 6}, {"A": 4, "B": 3}, id="shrinking empties the last"),
        pytest.param(3, AB, {"A": 4, "B": 6}, {"A": 3}, id="and then the one before it"),
    ],
)
def test_what_runs_is_moved_only_as_far_as_it_takes(total, shares, current, expected):
    assert planned(total, shares, current)[0] == expected


def test_without_that_what_runs_plays_no_part():
    assert planned(10, AB, {"B": 10}, mode=REBALANCE) == ({"A": 10}, {})


@pytest.mark.parametrize(
    ("current", "scheduled", "mode", "expected"),
    [
        pytest.param({"A": 10}, {"A": 2}, AVOID, ({"A": 2, "B": 8}, {"A": 8}), id="kept until others run elsewhere"),
        pytest.param(
            {"A": 10, "B": 8}, {"A": 2, "B": 8}, AVOID, ({"A": 2, "B": 8}, {}), id="dropped when all are scheduled"
        ),
        pytest.param(
            {"A": 10, "B": 8}, {"A": 2, "B": 8}, KEEP, ({"A": 2, "B": 8}, {"A": 8}), id="kept even then if asked for"
        ),
        pytest.param(
            {"A": 10, "B": 8}, {"A": 2, "B": 8}, REBALANCE, ({"A": 2, "B": 8}, {"A": 8}), id="kept when rebalancing"
        ),
    ],
)
def test_what_an_estimate_cuts_off(current, scheduled, mode, expected):
    assert planned(10, AB, current, scheduled=scheduled, estimated={"A": 2}, mode=mode) == expected


def test_what_is_scheduled_is_counted_up_to_a_limit():
    running = {"A": 6, "B": 4}
    assert planned(10, AB, running, scheduled=running, limited={"A": 3}) == ({"A": 3, "B": 7}, {})


def test_what_is_scheduled_on_a_cluster_that_is_not_selected_any_more_does_not_stay():
    assert planned(5, [A], {"A": 5, "X": 3}, scheduled={"A": 5, "X": 3}) == ({"A": 5}, {})


@pytest.mark.parametrize(
    ("total", "shares", "current", "limited", "expected"),
    [
        pytest.param(
            10, [upto("A", 2), upto("B", 2)], {"A": 5}, {}, {"A": 10}, id="shrinking by less than nothing adds"
        ),
        pytest.param(8, [A], {"A": 2}, {"A": 3}, {"A": 5}, id="a limit bounds the growth, not the sum"),
    ],
)
def test_what_looks_wrong_is_as_in_kubeadmiral(total, shares, current, limited, expected):
    assert planned(total, shares, current, limited=limited)[0] == expected


NAMES = [f"member{number}" for number in range(6)]
SHARES = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 30)), min_size=1, max_size=6).map(
    lambda drawn: [
        Share(name, 0, low, None if high is None else max(low, high))
        for name, (low, high) in zip(NAMES, drawn, strict=False)
    ]
)


@given(st.integers(0, 90), SHARES, st.sampled_from([AVOID, REBALANCE, KEEP]))
def test_a_first_plan_places_as_much_as_maxima_let(total, shares, mode):
    replicas, overflow = divide_in_order(total, shares, {}, {}, CapacityLimits(), **mode)
    room = [each.maximum for each in shares]
    assert sum(replicas.values()) == (total if None in room else min(total, sum(room)))
    assert all(each.maximum is None or replicas.get(each.name, 0) <= each.maximum for each in shares)
    assert not overflow


@given(st.integers(0, 90), SHARES, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 20)))
def test_estimates_are_never_passed(total, shares, estimated):
    replicas, overflow = distribute_in_order(total, shares, CapacityLimits(estimated))
    assert all(replicas[name] <= count for name, count in estimated.items() if name in replicas)
    assert set(overflow) <= set(estimated)


@given(st.integers(1, 90), SHARES)
def test_a_plan_is_kept_once_it_is_there(total, shares):
    replicas, _ = divide_in_order(total, shares, {}, {}, CapacityLimits(), **AVOID)
    assert divide_in_order(total, shares, replicas, replicas, CapacityLimits(), **AVOID).replicas == replicas
