import numpy as np
import pytest
from kubeadmiral_builders import divided, member, unit

from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.plugins import DEFAULT_SELECTORS, max_cluster, priority_sort
from berthmaster.scheduling.kubeadmiral.unit import Preference, ReplicasStrategy
from berthmaster.scheduling.request import Candidates, Failure, FailureKind


def scored(**scores):
    rows, values = np.arange(len(scores)), np.array(list(scores.values()), dtype=np.int64)
    return Candidates(Fleet(member(name) for name in scores), rows, np.zeros_like(rows), None, values)


def test_clusters_are_sorted_before_max_cluster():
    assert DEFAULT_SELECTORS == ("PrioritySort", "MaxCluster")


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        pytest.param(unit(), ["c", "a", "b"], id="by score, then name"),
        pytest.param(unit(preferences={"b": Preference(priority=1)}), ["b", "a", "c"], id="a priority replaces scores"),
        pytest.param(
            unit(preferences={"b": Preference(priority=0)}), ["a", "b", "c"], id="a priority of 0 replaces scores"
        ),
        pytest.param(unit(preferences={"b": Preference(weight=9)}), ["c", "a", "b"], id="weights have no effect"),
        pytest.param(
            divided(3, strategy=ReplicasStrategy.BINPACK), ["a", "b", "c"], id="scores have no effect in Binpack"
        ),
        pytest.param(
            divided(3, strategy=ReplicasStrategy.BINPACK, preferences={"c": Preference(priority=2)}),
            ["c", "a", "b"],
            id="priorities sort in Binpack",
        ),
        pytest.param(
            unit(strategy=ReplicasStrategy.BINPACK), ["c", "a", "b"], id="the strategy has no effect in Duplicate"
        ),
    ],
)
def test_priority_sort(asked, order):
    assert priority_sort(asked, scored(b=1, c=5, a=1)).names() == order
    assert priority_sort(asked, scored(a=1, c=5, b=1)).names() == order


def test_scores_may_be_negative():
    assert priority_sort(unit(), scored(a=-300, b=-2, c=0)).names() == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        pytest.param(None, ["a", "b", "c"], id="no limit"),
        pytest.param(0, [], id="a limit of 0"),
        pytest.param(2, ["a", "b"], id="two of equal scores are the first two"),
        pytest.param(9, ["a", "b", "c"], id="a limit above the number of clusters"),
    ],
)
def test_max_cluster(limit, left):
    assert max_cluster(unit(max_clusters=limit), scored(a=1, b=1, c=1)).names() == left


def test_max_cluster_selects_the_best_of_unsorted_candidates():
    assert max_cluster(unit(max_clusters=1), scored(a=1, b=3, c=2)).names() == ["b"]


def test_a_negative_limit_fails():
    refused = max_cluster(unit(max_clusters=-1), scored(a=1))
    assert refused == Failure(FailureKind.SELECT_FAILED, "maxClusters is -1; accepted are 0 and more")
