import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.columns import fnv1_32_of_names
from berthmaster.scheduling.kubeadmiral.division import (
    CapacityLimits,
    Share,
    capacity_weights,
    divide_by_weight,
    divide_in_order,
    reachable,
)


def weighed(allocatable, available):
    return capacity_weights(np.array(allocatable), np.array(available)).tolist()


@pytest.mark.parametrize(
    ("allocatable", "available", "weights"),
    [
        pytest.param([100, 100], [40, 10], [778, 222], id="capped at 1.4 times the share of allocatable resources"),
        pytest.param([1, 15], [1, 15], [63, 937], id="halves are rounded away from zero"),
        pytest.param([100, 300, 600], [90, 30, 60], [219, 261, 520], id="three halves are rounded away from zero"),
        pytest.param([0, 0, 0], [0, 0, 0], [333, 333, 333], id="no resources: even, with a sum of 999"),
        pytest.param([5, 5], [0, 0], [500, 500], id="no available resources: even"),
        pytest.param([5, 5], [-3, 0], [500, 500], id="only overcommitted clusters: even"),
        pytest.param([5, 5], [-3, 2], [0, 1000], id="an overcommitted cluster gets 0"),
        pytest.param([0, 0], [3, 1], [667, 333], id="no allocatable resources: at most an even share, then scaled"),
        pytest.param([0, 5], [5, 0], [500, 500], id="available resources only without allocatable ones: even"),
        pytest.param([1, 1, 1], [1, 1, 1], [334, 333, 333], id="the first of the largest gets the difference"),
    ],
)
def test_capacity_weights(allocatable, available, weights):
    assert weighed(allocatable, available) == weights


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-100, 10_000)), min_size=1, max_size=40))
def test_weights_add_up_unless_they_are_even(numbers):
    allocatable, available = zip(*numbers, strict=True)
    weights = weighed(allocatable, available)
    assert sum(weights) == 1000 or len(set(weights)) == 1


CLUSTERS = [f"member{index}" for index in range(80)]


@given(st.data())
@pytest.mark.parametrize("in_order", [False, True], ids=["by weight", "in order"])
def test_clusters_that_cannot_be_reached_change_nothing(in_order, data):
    total = data.draw(st.integers(1, 60))
    levels = data.draw(st.sampled_from([(0, 1), (3,), tuple(range(50))]))
    weights = data.draw(st.lists(st.sampled_from(levels), min_size=80, max_size=80))
    bounds = st.tuples(st.integers(0, 3), st.none() | st.integers(3, 9))
    bounded = data.draw(st.dictionaries(st.sampled_from(CLUSTERS), bounds, max_size=10))
    counts = st.fixed_dictionaries({}, optional={name: st.integers(0, 9) for name in bounded})
    current, limits = data.draw(counts), CapacityLimits(data.draw(counts), data.draw(counts))
    modes = data.draw(st.fixed_dictionaries({"avoid_disruption": st.booleans(), "keep_unschedulable": st.booleans()}))
    shares = [Share(name, weight, *bounded.get(name, ())) for name, weight in zip(CLUSTERS, weights, strict=True)]

    def digests(positions):
        return np.array(fnv1_32_of_names([CLUSTERS[each] for each in positions], b"default/web"), dtype=np.uint32)

    mask = np.array([name in bounded for name in CLUSTERS])
    reached, left_out = reachable(total, None if in_order else np.array(weights), mask, digests)
    some = [shares[index] for index in reached.nonzero()[0]]
    if in_order:
        whole, part = (divide_in_order(total, each, current, {}, limits, **modes) for each in (shares, some))
    else:
        whole = divide_by_weight(total, shares, current, limits, "default/web", **modes)
        part = divide_by_weight(total, some, current, limits, "default/web", left_out=left_out, **modes)
    assert positive(part.replicas) == positive(whole.replicas)
    assert part.overflow == whole.overflow
    assert len(some) <= max(total, 32) + len(bounded)


def positive(replicas):
    return {name: count for name, count in replicas.items() if count}
