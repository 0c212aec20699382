from tables import cases

from berthmaster.scheduling.kubeadmiral.division import (
    CapacityLimits,
    Share,
    distribute_by_weight,
    divide_by_weight,
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
