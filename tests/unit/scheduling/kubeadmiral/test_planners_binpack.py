from tables import cases

from berthmaster.scheduling.kubeadmiral.division import (
    CapacityLimits,
    Share,
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
    assert planned(9, current={"A": 3}, scheduled={"A": 2}, mode=REBALANCE) == ({"A": 3}, {})


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
def test_overflow_above_an_estimate(current, scheduled, mode, expected):
    assert planned(10, AB, current, scheduled=scheduled, estimated={"A": 2}, mode=mode) == expected


def test_scheduled_replicas_count_up_to_a_limit():
    running = {"A": 6, "B": 4}
    assert planned(10, AB, running, scheduled=running, limited={"A": 3}) == ({"A": 3, "B": 7}, {})


def test_scheduled_replicas_on_a_cluster_that_is_no_longer_selected_do_not_stay():
    assert planned(5, [A], {"A": 5, "X": 3}, scheduled={"A": 5, "X": 3}) == ({"A": 5}, {})


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
    assert planned(total, shares, current, limited=limited)[0] == expected


def test_scaling_up_fills_a_cluster_up_to_its_maximum():
    assert planned(14, [Share("A", 0, 0, 3), B], {"A": 1, "B": 10})[0] == {"A": 3, "B": 11}
