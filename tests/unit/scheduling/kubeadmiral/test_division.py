import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.kubeadmiral.division import capacity_weights


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
    assert capacity_weights(allocatable, available) == weights


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-100, 10_000)), min_size=1, max_size=40))
def test_weights_add_up_unless_they_are_even(numbers):
    allocatable, available = zip(*numbers, strict=True)
    weights = capacity_weights(allocatable, available)
    assert sum(weights) == 1000 or len(set(weights)) == 1
