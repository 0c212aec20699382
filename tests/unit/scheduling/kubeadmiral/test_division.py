"""The planners Spread and Binpack."""

from tables import cases

from berthmaster.scheduling.kubeadmiral.division import (
    CapacityLimits,
    Share,
    distribute_by_weight,
    divide_by_weight,
    divide_in_order,
    may_divide_again,
)

AVOID = {"avoid_disruption": True, "keep_unschedulable": False}
REBALANCE = {"avoid_disruption": False, "keep_unschedulable": False}
KEEP = {"avoid_disruption": True, "keep_unschedulable": True}


def planned(total, shares, current=None, *, key="", estimated=None, limited=None, mode=AVOID):
    replicas, overflow = divide_by_weight(
        total, shares, current or {}, CapacityLimits(estimated or {}, limited or {}), key, **mode
    )
    return {name: count for name, count in replicas.items() if count}, overflow


@cases(
    ("capacity", "mode", "expected"),
    {
        "each overflow is trimmed separately": ({"A": 25, "B": 10}, AVOID, ({"A": 25, "B": 10}, {"A": 25, "B": 25})),
        "overflow that fits other clusters is dropped": ({"B": 10}, AVOID, ({"A": 50, "B": 10}, {})),
        "overflow is kept if requested": ({"B": 10}, KEEP, ({"A": 50, "B": 10}, {"B": 30})),
        "overflow is kept with rebalancing": ({"B": 10}, REBALANCE, ({"A": 50, "B": 10}, {"B": 30})),
    },
)
def test_overflow_above_an_estimate(capacity, mode, expected):
    assert planned(60, [Share("A", 1), Share("B", 2)], estimated=capacity, mode=mode) == expected


def test_an_estimate_or_a_limit_bounds_minima():
    shares = [Share("A", 0, 5), Share("B", 1)]
    assert distribute_by_weight(3, shares[:1], CapacityLimits({}, {"A": 2}), keep=True).replicas == {"A": 2}
    assert planned(8, shares, estimated={"A": 2}, mode=KEEP) == ({"A": 2, "B": 6}, {"A": 3})


@cases(
    ("mode", "expected"),
    {
        "with rebalancing the minimum is assigned": (REBALANCE, {"A": 5}),
        "otherwise growth stops at the maximum": (AVOID, {"A": 3}),
    },
)
def test_a_maximum_below_a_minimum_without_remaining_replicas(mode, expected):
    assert planned(5, [Share("A", 1, 5, 3), Share("B", 1)], mode=mode) == (expected, {})


A, B = Share("A", 0), Share("B", 0)
AB = [A, B]


def filled(total, shares=AB, current=None, *, scheduled=None, estimated=None, limited=None, mode=AVOID):
    limits = CapacityLimits(estimated or {}, limited or {})
    replicas, overflow = divide_in_order(total, shares, current or {}, scheduled or {}, limits, **mode)
    return {name: count for name, count in replicas.items() if count}, overflow


@cases(
    ("current", "scheduled", "limits", "opened"),
    {
        "no replicas are assigned": ({}, {}, CapacityLimits(), True),
        "no replicas are observed": ({"A": 3}, {}, CapacityLimits(), True),
        "all assigned replicas are scheduled": ({"A": 3}, {"A": 3}, CapacityLimits(), True),
        "fewer replicas are scheduled than assigned": ({"A": 3}, {"A": 2}, CapacityLimits(), False),
        "as many replicas are scheduled as estimated": ({"A": 3}, {"A": 2}, CapacityLimits({"A": 2}), True),
        "more replicas are scheduled than estimated": ({"A": 3}, {"A": 3}, CapacityLimits({"A": 2}), False),
        "replicas are scheduled on a cluster without assigned ones": (
            {"A": 3},
            {"A": 3, "B": 1},
            CapacityLimits(),
            False,
        ),
        "no replicas are scheduled on a cluster without assigned ones": (
            {"A": 3},
            {"A": 3, "B": 0},
            CapacityLimits(),
            True,
        ),
        "a current cluster is no longer selected": ({"A": 3, "X": 1}, {"A": 2}, CapacityLimits(), True),
        "more replicas are assigned than a limit allows": ({"A": 3}, {"A": 2}, CapacityLimits({}, {"A": 2}), True),
        "as many replicas are assigned as a limit allows": ({"A": 3}, {"A": 2}, CapacityLimits({}, {"A": 3}), False),
    },
)
def test_replicas_are_divided_again_only_after_the_division_has_settled(current, scheduled, limits, opened):
    assert may_divide_again(AB, current, scheduled, limits) is opened


def test_before_that_even_a_scaling_changes_nothing():
    assert filled(9, current={"A": 3}, scheduled={"A": 2}, mode=REBALANCE) == ({"A": 3}, {})


@cases(
    ("current", "scheduled", "mode", "expected"),
    {
        "overflow is kept if requested": ({"A": 10, "B": 8}, {"A": 2, "B": 8}, KEEP, ({"A": 2, "B": 8}, {"A": 8})),
        "overflow is kept with rebalancing": (
            {"A": 10, "B": 8},
            {"A": 2, "B": 8},
            REBALANCE,
            ({"A": 2, "B": 8}, {"A": 8}),
        ),
    },
)
def test_overflow_of_clusters_that_are_filled_in_order(current, scheduled, mode, expected):
    assert filled(10, AB, current, scheduled=scheduled, estimated={"A": 2}, mode=mode) == expected


def test_scheduled_replicas_count_up_to_a_limit():
    running = {"A": 6, "B": 4}
    assert filled(10, AB, running, scheduled=running, limited={"A": 3}) == ({"A": 3, "B": 7}, {})


def test_scheduled_replicas_on_a_cluster_that_is_no_longer_selected_do_not_stay():
    assert filled(5, [A], {"A": 5, "X": 3}, scheduled={"A": 5, "X": 3}) == ({"A": 5}, {})


@cases(
    ("total", "shares", "current", "limited", "expected"),
    {
        "scaling down by a negative number adds replicas": (
            10,
            [Share("A", 0, 0, 2), Share("B", 0, 0, 2)],
            {"A": 5},
            {},
            {"A": 10},
        ),
        "a limit applies to the increment, not to the sum": (8, [A], {"A": 2}, {"A": 3}, {"A": 5}),
    },
)
def test_surprising_results_of_kubeadmiral(total, shares, current, limited, expected):
    assert filled(total, shares, current, limited=limited)[0] == expected


def test_scaling_up_fills_a_cluster_up_to_its_maximum():
    assert filled(14, [Share("A", 0, 0, 3), B], {"A": 1, "B": 10})[0] == {"A": 3, "B": 11}
