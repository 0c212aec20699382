import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeadmiral_builders import divided, member

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.division import capacity_weights, division_weights
from berthmaster.scheduling.kubeadmiral.unit import Preference

GPU = "nvidia.com/gpu"


def weights_of(asked, clusters):
    """The weights of all clusters, in their order."""
    rows = np.arange(len(clusters))
    fleet = Fleet(clusters)
    return division_weights(asked, fleet, Candidates(fleet, rows, np.zeros_like(rows)))


@pytest.mark.parametrize(
    ("allocatable", "available", "weights"),
    [
        pytest.param([100, 100], [40, 10], [778, 222], id="capped at 1.4 times the share of what is allocatable"),
        pytest.param([1, 15], [1, 15], [63, 937], id="halves are rounded away from zero"),
        pytest.param([100, 300, 600], [90, 30, 60], [219, 261, 520], id="three of them"),
        pytest.param([0, 0, 0], [0, 0, 0], [333, 333, 333], id="nothing at all: even, and the sum is 999"),
        pytest.param([5, 5], [0, 0], [500, 500], id="nothing available: even"),
        pytest.param([5, 5], [-3, 0], [500, 500], id="nothing but overcommitted: even"),
        pytest.param([5, 5], [-3, 2], [0, 1000], id="an overcommitted cluster gets nothing"),
        pytest.param([0, 0], [3, 1], [667, 333], id="nothing allocatable: at most an even share, then scaled"),
        pytest.param([0, 5], [5, 0], [500, 500], id="available only where nothing is allocatable: even"),
        pytest.param([1, 1, 1], [1, 1, 1], [334, 333, 333], id="the first of the largest takes the difference"),
        pytest.param([7], [3], [1000], id="the only one"),
    ],
)
def test_capacity_weights(allocatable, available, weights):
    assert capacity_weights(allocatable, available) == weights


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-100, 10_000)), min_size=1, max_size=40))
def test_weights_add_up_unless_they_are_even(numbers):
    allocatable, available = zip(*numbers, strict=True)
    weights = capacity_weights(allocatable, available)
    assert sum(weights) == 1000 or len(set(weights)) == 1


@pytest.mark.parametrize(
    ("fields", "weights"),
    [
        pytest.param(
            {"preferences": {"a": Preference(weight=3)}}, {"a": 3, "b": 0}, id="a static one, and 0 for others"
        ),
        pytest.param({"preferences": {"a": Preference(weight=0)}}, {"a": 0, "b": 0}, id="a static weight of 0 is one"),
        pytest.param(
            {"preferences": {"x": Preference(weight=1)}}, {"a": 0, "b": 0}, id="a static one of another cluster"
        ),
        pytest.param({"preferences": {"a": Preference(minimum=1)}}, {"a": 778, "b": 222}, id="no weight: by CPU"),
        pytest.param({"requests": {GPU: 1}}, {"a": 0, "b": 1000}, id="by GPUs where they are requested"),
        pytest.param({"requests": {GPU: 0}}, {"a": 0, "b": 1000}, id="even if none is"),
        pytest.param({"requests": {"memory": 1}}, {"a": 778, "b": 222}, id="by CPU for other requests"),
    ],
)
def test_division_weights(fields, weights):
    clusters = [
        member("a", allocatable={"cpu": 100}, available={"cpu": 40}),
        member("b", allocatable={"cpu": 100, GPU: 4}, available={"cpu": "9500m", GPU: 4}),
    ]
    assert weights_of(divided(10, **fields), clusters) == weights


def test_parts_of_a_core_count_as_a_whole_one():
    clusters = [
        member("a", allocatable={"cpu": "1500m"}, available={"cpu": "1001m"}),
        member("b", allocatable={"cpu": 2}, available={"cpu": 2}),
    ]
    assert weights_of(divided(10), clusters) == {"a": 500, "b": 500}
