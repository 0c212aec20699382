import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("capacity", "mode", "expected"),
    [
        pytest.param(
            {"A": 25, "B": 10},
            AVOID,
            ({"A": 25, "B": 10}, {"A": 25, "B": 25}),
            id="each overflow is trimmed separately",
        ),
        pytest.param({"B": 10}, AVOID, ({"A": 50, "B": 10}, {}), id="overflow that fits other clusters is dropped"),
        pytest.param({"B": 10}, KEEP, ({"A": 50, "B": 10}, {"B": 30}), id="overflow is kept if requested"),
        pytest.param({"B": 10}, REBALANCE, ({"A": 50, "B": 10}, {"B": 30}), id="overflow is kept with rebalancing"),
    ],
)
def test_overflow_above_an_estimate(capacity, mode, expected):
    assert planned(60, [Share("A", 1), Share("B", 2)], estimated=capacity, mode=mode) == expected


def test_an_estimate_limits_minima():
    shares = [Share("A", 0, 5), Share("B", 1)]
    assert planned(8, shares, estimated={"A": 2}, mode=KEEP) == ({"A": 2, "B": 6}, {"A": 3})


NAMES = [f"member{number}" for number in range(8)]
BOUNDED = st.tuples(st.integers(0, 5), st.integers(0, 12), st.none() | st.integers(0, 40))
SHARES = st.lists(BOUNDED, min_size=1, max_size=len(NAMES)).map(
    lambda drawn: [Share(name, *bounds) for name, bounds in zip(NAMES, drawn, strict=False)]
)
SOUND = SHARES.map(lambda shares: [each._replace(maximum=bounded(each)) for each in shares])
CURRENT = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 30))
CAPACITIES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 25))
MODES = st.fixed_dictionaries({"avoid_disruption": st.booleans(), "keep_unschedulable": st.booleans()})


def bounded(share):
    return None if share.maximum is None else max(share.minimum, share.maximum)


@given(st.integers(0, 100), SOUND, CURRENT, MODES)
def test_as_many_replicas_are_assigned_as_bounds_allow(total, shares, current, mode):
    replicas, overflow = divide_by_weight(total, shares, current, CapacityLimits(), "default/web", **mode)
    assert not overflow
    assert sum(replicas.values()) == placeable(total, shares)


def placeable(total, shares):
    """Minima until no replicas remain, then as many as clusters with a weight take."""
    minima = min(total, sum(each.minimum for each in shares))
    weighted = [each for each in shares if each.weight]
    if any(each.maximum is None for each in weighted):
        return total
    return min(total, minima + sum(each.maximum - each.minimum for each in weighted))


@given(st.integers(0, 100), SOUND)
def test_bounds_hold_with_enough_replicas(total, shares):
    replicas, _ = distribute_by_weight(total, shares, CapacityLimits(), keep=False)
    assert all(each.maximum is None or replicas[each.name] <= each.maximum for each in shares)
    if sum(each.minimum for each in shares) <= total:
        assert all(replicas[each.name] >= each.minimum for each in shares)


@given(st.integers(0, 100), SHARES, CURRENT, CAPACITIES, CAPACITIES, MODES, st.randoms())
def test_the_order_of_clusters_has_no_effect(total, shares, current, estimated, limited, mode, random):
    limits = CapacityLimits(estimated, limited)
    shuffled = random.sample(shares, len(shares))
    expected = divide_by_weight(total, shares, current, limits, "default/web", **mode)
    assert divide_by_weight(total, shuffled, current, limits, "default/web", **mode) == expected


@given(st.integers(0, 100), SHARES, CAPACITIES)
def test_an_estimate_or_limit_is_never_exceeded(total, shares, capacities):
    for limits in (CapacityLimits(capacities), CapacityLimits({}, capacities)):
        replicas, _ = distribute_by_weight(total, shares, limits, keep=True)
        assert all(replicas[name] <= count for name, count in capacities.items() if name in replicas)


@given(st.integers(0, 100), SOUND, CURRENT)
def test_a_division_is_stable(total, shares, current):
    replicas, _ = divide_by_weight(total, shares, current, CapacityLimits(), "default/web", **AVOID)
    assert divide_by_weight(total, shares, replicas, CapacityLimits(), "default/web", **AVOID).replicas == replicas


HOLDING = st.tuples(st.integers(1, 5), st.integers(0, 25))


@given(st.integers(0, 50), st.lists(HOLDING, min_size=1, max_size=2))
def test_estimates_of_two_clusters_settle_within_three_rounds(total, clusters):
    total = min(total, sum(capacity for _, capacity in clusters))
    settled, running = after_rounds(3, total, clusters, AVOID)
    assert settled
    assert running == total


@given(st.integers(0, 120), st.lists(HOLDING, min_size=1, max_size=6))
def test_keeping_overflow_settles_with_any_number_of_clusters(total, clusters):
    # Each round may show that one more cluster is full. Without keeping, KubeAdmiral forgets a full cluster once it
    # is empty, and may try three or more clusters again and again.
    settled, running = after_rounds(len(clusters) + 1, total, clusters, KEEP)
    assert settled
    assert running == min(total, sum(capacity for _, capacity in clusters))


def after_rounds(count, total, clusters, mode):
    """Return whether another round changes nothing, and how many replicas run.

    Clusters are (weight, capacity). In each round, clusters with more replicas than they hold have an estimate.
    """
    shares = [Share(name, weight) for name, (weight, _) in zip(NAMES, clusters, strict=False)]
    holds = {name: capacity for name, (_, capacity) in zip(NAMES, clusters, strict=False)}
    rounds = [{}]
    for _ in range(count + 1):
        estimated = {name: holds[name] for name, replicas in rounds[-1].items() if replicas > holds[name]}
        replicas, overflow = divide_by_weight(
            total, shares, rounds[-1], CapacityLimits(estimated), "default/web", **mode
        )
        rounds.append({name: number + overflow.get(name, 0) for name, number in replicas.items()})
    return rounds[-1] == rounds[-2], sum(min(number, holds[name]) for name, number in rounds[-1].items())


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(REBALANCE, {"A": 5}, id="with rebalancing the minimum is assigned"),
        pytest.param(AVOID, {"A": 3}, id="otherwise growth stops at the maximum"),
    ],
)
def test_a_maximum_below_a_minimum_without_remaining_replicas(mode, expected):
    assert planned(5, [Share("A", 1, 5, 3), Share("B", 1)], mode=mode) == (expected, {})
