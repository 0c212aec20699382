import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeadmiral_builders import divided, member

from berthmaster.scheduling.context import Candidates
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.division import capacity_weights, division_weights


def weights_of(asked, clusters):
    rows = np.arange(len(clusters))
    fleet = Fleet(clusters)
    return division_weights(asked, fleet, Candidates(fleet, rows, np.zeros_like(rows)))


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
        pytest.param([7], [3], [1000], id="a single cluster"),
    ],
)
def test_capacity_weights(allocatable, available, weights):
    assert capacity_weights(allocatable, available) == weights


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-100, 10_000)), min_size=1, max_size=40))
def test_weights_add_up_unless_they_are_even(numbers):
    allocatable, available = zip(*numbers, strict=True)
    weights = capacity_weights(allocatable, available)
    assert sum(weights) == 1000 or len(set(weights)) == 1


def test_a_part_of_a_core_counts_as_a_whole_one():
    clusters = [
        member("a", allocatable={"cpu": "1500m"}, available={"cpu": "1001m"}),
        member("b", allocatable={"cpu": 2}, available={"cpu": 2}),
    ]
    assert weights_of(divided(10), clusters) == {"a": 500, "b": 500}
