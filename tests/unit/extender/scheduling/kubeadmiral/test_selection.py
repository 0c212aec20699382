import pytest
from extender.scheduling.kubeadmiral.selectors import DEFAULT_SELECTORS, Scored, max_cluster, priority_sort
from kubeadmiral_builders import divided, member, unit

from extender.scheduling.kubeadmiral.unit import Preference, ReplicasStrategy
from fleet.errors import InputError


def scored(**scores):
    return [Scored(member(name), score) for name, score in scores.items()]


def names(clusters):
    return [each.cluster.name for each in clusters]


def test_clusters_are_sorted_before_they_are_cut_off():
    assert DEFAULT_SELECTORS == ("PrioritySort", "MaxCluster")


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        pytest.param(unit(), ["c", "a", "b"], id="by score, then name"),
        pytest.param(
            unit(preferences={"b": Preference(priority=1)}), ["b", "a", "c"], id="a priority takes the place of scores"
        ),
        pytest.param(unit(preferences={"b": Preference(priority=0)}), ["a", "b", "c"], id="even a priority of 0 does"),
        pytest.param(unit(preferences={"b": Preference(weight=9)}), ["c", "a", "b"], id="weights play no part"),
        pytest.param(
            divided(3, strategy=ReplicasStrategy.BINPACK), ["a", "b", "c"], id="scores play no part in Binpack"
        ),
        pytest.param(
            divided(3, strategy=ReplicasStrategy.BINPACK, preferences={"c": Preference(priority=2)}),
            ["c", "a", "b"],
            id="priorities do",
        ),
        pytest.param(
            unit(strategy=ReplicasStrategy.BINPACK), ["c", "a", "b"], id="the strategy plays no part in Duplicate"
        ),
    ],
)
def test_priority_sort(asked, order):
    clusters = scored(b=1, c=5, a=1)
    assert names(priority_sort(asked, clusters)) == order
    assert names(priority_sort(asked, clusters[::-1])) == order


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        pytest.param(None, ["a", "b", "c"], id="no limit"),
        pytest.param(0, [], id="no cluster at all"),
        pytest.param(2, ["a", "b"], id="the first two of equal scores"),
        pytest.param(9, ["a", "b", "c"], id="more than there are"),
    ],
)
def test_max_cluster(limit, left):
    assert names(max_cluster(unit(max_clusters=limit), scored(a=1, b=1, c=1))) == left


def test_max_cluster_takes_the_best_of_what_is_not_sorted():
    assert names(max_cluster(unit(max_clusters=1), scored(a=1, b=3, c=2))) == ["b"]


def test_a_negative_limit_is_refused():
    with pytest.raises(InputError, match="maxClusters is -1; accepted are 0 and more"):
        max_cluster(unit(max_clusters=-1), scored(a=1))
