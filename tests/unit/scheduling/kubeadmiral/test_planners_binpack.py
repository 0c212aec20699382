import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.kubeadmiral.division import (
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


def planned(total, shares=AB, current=None, *, scheduled=None, estimated=None, limited=None, mode=AVOID):
    limits = CapacityLimits(estimated or {}, limited or {})
    replicas, overflow = divide_in_order(total, shares, current or {}, scheduled or {}, limits, **mode)
    return {name: count for name, count in replicas.items() if count}, overflow


@pytest.mark.parametrize(
    ("current", "scheduled", "limits", "opened"),
    [
        pytest.param({}, {}, CapacityLimits(), True, id="no replicas are assigned"),
        pytest.param({"A": 3}, {}, CapacityLimits(), True, id="no replicas are observed"),
        pytest.param({"A": 3}, {"A": 3}, CapacityLimits(), True, id="all assigned replicas are scheduled"),
        pytest.param({"A": 3}, {"A": 2}, CapacityLimits(), False, id="fewer replicas are scheduled than assigned"),
        pytest.param(
            {"A": 3}, {"A": 2}, CapacityLimits({"A": 2}), True, id="as many replicas are scheduled as estimated"
        ),
        pytest.param(
            {"A": 3}, {"A": 3}, CapacityLimits({"A": 2}), False, id="more replicas are scheduled than estimated"
        ),
        pytest.param(
            {"A": 3},
            {"A": 3, "B": 1},
            CapacityLimits(),
            False,
            id="replicas are scheduled on a cluster without assigned ones",
        ),
        pytest.param(
            {"A": 3},
            {"A": 3, "B": 0},
            CapacityLimits(),
            True,
            id="no replicas are scheduled on a cluster without assigned ones",
        ),
        pytest.param({"A": 3, "X": 1}, {"A": 2}, CapacityLimits(), True, id="a current cluster is no longer selected"),
        pytest.param(
            {"A": 3}, {"A": 2}, CapacityLimits({}, {"A": 2}), True, id="more replicas are assigned than a limit allows"
        ),
        pytest.param(
            {"A": 3},
            {"A": 2},
            CapacityLimits({}, {"A": 3}),
            False,
            id="as many replicas are assigned as a limit allows",
        ),
    ],
)
def test_replicas_are_divided_again_only_after_the_division_has_settled(current, scheduled, limits, opened):
    assert may_divide_again(AB, current, scheduled, limits) is opened


def test_before_that_even_a_scaling_changes_nothing():
    assert planned(9, current={"A": 3}, scheduled={"A": 2}, mode=REBALANCE) == ({"A": 3}, {})


@pytest.mark.parametrize(
    ("current", "scheduled", "mode", "expected"),
    [
        pytest.param(
            {"A": 10, "B": 8}, {"A": 2, "B": 8}, KEEP, ({"A": 2, "B": 8}, {"A": 8}), id="overflow is kept if requested"
        ),
        pytest.param(
            {"A": 10, "B": 8},
            {"A": 2, "B": 8},
            REBALANCE,
            ({"A": 2, "B": 8}, {"A": 8}),
            id="overflow is kept with rebalancing",
        ),
    ],
)
def test_overflow_above_an_estimate(current, scheduled, mode, expected):
    assert planned(10, AB, current, scheduled=scheduled, estimated={"A": 2}, mode=mode) == expected


def test_scheduled_replicas_count_up_to_a_limit():
    running = {"A": 6, "B": 4}
    assert planned(10, AB, running, scheduled=running, limited={"A": 3}) == ({"A": 3, "B": 7}, {})


def test_scheduled_replicas_on_a_cluster_that_is_no_longer_selected_do_not_stay():
    assert planned(5, [A], {"A": 5, "X": 3}, scheduled={"A": 5, "X": 3}) == ({"A": 5}, {})


NAMES = [f"member{number}" for number in range(6)]
SHARES = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 30)), min_size=1, max_size=6).map(
    lambda drawn: [
        Share(name, 0, low, None if high is None else max(low, high))
        for name, (low, high) in zip(NAMES, drawn, strict=False)
    ]
)


@given(st.integers(0, 90), SHARES, st.sampled_from([AVOID, REBALANCE, KEEP]))
def test_a_first_division_assigns_as_many_replicas_as_maxima_allow(total, shares, mode):
    replicas, overflow = divide_in_order(total, shares, {}, {}, CapacityLimits(), **mode)
    maxima = [each.maximum for each in shares]
    assert sum(replicas.values()) == (total if None in maxima else min(total, sum(maxima)))
    assert all(each.maximum is None or replicas.get(each.name, 0) <= each.maximum for each in shares)
    assert not overflow


@given(st.integers(0, 90), SHARES, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 20)))
def test_estimates_are_never_exceeded(total, shares, estimated):
    replicas, overflow = distribute_in_order(total, shares, CapacityLimits(estimated))
    assert all(replicas[name] <= count for name, count in estimated.items() if name in replicas)
    assert set(overflow) <= set(estimated)


@given(st.integers(1, 90), SHARES)
def test_a_division_is_stable(total, shares):
    replicas, _ = divide_in_order(total, shares, {}, {}, CapacityLimits(), **AVOID)
    assert divide_in_order(total, shares, replicas, replicas, CapacityLimits(), **AVOID).replicas == replicas


@pytest.mark.parametrize(
    ("total", "shares", "current", "limited", "expected"),
    [
        pytest.param(
            10,
            [Share("A", 0, 0, 2), Share("B", 0, 0, 2)],
            {"A": 5},
            {},
            {"A": 10},
            id="scaling down by a negative number adds replicas",
        ),
        pytest.param(8, [A], {"A": 2}, {"A": 3}, {"A": 5}, id="a limit applies to the increment, not to the sum"),
    ],
)
def test_surprising_results_of_kubeadmiral(total, shares, current, limited, expected):
    assert planned(total, shares, current, limited=limited)[0] == expected


def test_scaling_up_fills_a_cluster_up_to_its_maximum():
    assert planned(14, [Share("A", 0, 0, 3), B], {"A": 1, "B": 10})[0] == {"A": 3, "B": 11}
