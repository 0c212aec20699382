import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, WEIGHTED, asked, outcome, schedule, static

from berthmaster.model.decode import convert
from berthmaster.model.policy import ReplicaSchedulingStrategy
from berthmaster.scheduling.fleet import Strategy, strategy_of
from berthmaster.scheduling.karmada.division import order_by_weight


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


THREE = fleet(a=8, b=4, c=4)


def assigned(clusters, /, current=None, **fields):
    return outcome(schedule(clusters, asked(clusters=current or {}, **{"replicas": 6, **fields})))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {"a": 6}, id="the fewest clusters"),
        pytest.param(
            {"replicas": 9}, {"a": 6, "b": 3}, id="the fewest clusters, by available replicas, without filling them"
        ),
        pytest.param({"replicas": 16}, {"a": 8, "b": 4, "c": 4}, id="aggregated: exactly the available replicas"),
        pytest.param({"replicas": 17}, "Insufficient", id="aggregated: more than the available replicas"),
        pytest.param({"current": {"c": 2}}, {"c": 6}, id="scaling up: clusters with replicas come first"),
        pytest.param({"current": {"c": 0}}, {"a": 6}, id="scaling up: clusters with 0 replicas have no preference"),
        pytest.param(
            {"current": {"b": 1, "c": 1}, "replicas": 9},
            {"b": 5, "c": 4},
            id="scaling up: only as many clusters with replicas as needed",
        ),
        pytest.param(
            {"current": {"c": 2}, "replicas": 9},
            {"a": 5, "c": 4},
            id="scaling up: then the clusters with most available replicas",
        ),
        pytest.param(
            {"current": {"a": 4, "b": 5}}, {"a": 3, "b": 3}, id="scaling down: the fewest clusters, by current replicas"
        ),
        pytest.param({"current": {"a": 2, "b": 5}, "replicas": 5}, {"b": 5}, id="scaling down to one"),
        pytest.param(
            {"current": {"c": 2}, "fresh": True}, {"a": 6}, id="fresh mode: current clusters have no preference"
        ),
        pytest.param(
            {"current": {"c": 9}, "fresh": True, "replicas": 11},
            {"c": 11},
            id="fresh mode: used capacity counts as available",
        ),
    ],
)
def test_aggregated(fields, expected):
    assert assigned(THREE, scheduling=AGGREGATED, **fields) == expected


def test_above_twelve_clusters_the_sort_of_go_decides_between_equal_weights():
    names = [f"m{index:02}" for index in range(16)]
    large, current = ["m05", "m11"], ["m03", "m07", "m14"]
    clusters = [cluster(name, pods=9 if name in large else 2) for name in names]
    # Current clusters come first in the order, so that the list of weights is not sorted at the start.
    listed = [*current, *large, *(name for name in names if name not in {*current, *large})]
    order = order_by_weight([9 if name in large else 2 for name in listed])
    used = {listed[position] for position in order[:5]}
    assert used != {*large, *current}, "a stable sort would do the same"
    assert assigned(clusters, current=dict.fromkeys(current, 0), scheduling=AGGREGATED, replicas=23).keys() == used


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        pytest.param(None, Strategy.DUPLICATED, id="none"),
        pytest.param(DUPLICATED, Strategy.DUPLICATED, id="duplicated"),
        pytest.param(AGGREGATED, Strategy.AGGREGATED, id="aggregated"),
        pytest.param(DYNAMIC, Strategy.DYNAMIC_WEIGHT, id="dynamic weight"),
        pytest.param(WEIGHTED, Strategy.STATIC_WEIGHT, id="weighted alone"),
        pytest.param(
            {**static(("a", 1)), "replicaSchedulingType": "Duplicated"},
            Strategy.DUPLICATED,
            id="Duplicated with weights",
        ),
        pytest.param(
            {**WEIGHTED, "weightPreference": {**static(("a", 1))["weightPreference"], **DYNAMIC["weightPreference"]}},
            Strategy.DYNAMIC_WEIGHT,
            id="dynamic and static weights",
        ),
        pytest.param({"replicaSchedulingType": "Divided"}, Strategy.UNKNOWN, id="Divided without a preference"),
        pytest.param({"replicaDivisionPreference": "Aggregated"}, Strategy.UNKNOWN, id="a preference without a type"),
    ],
)
def test_the_strategy_of_a_placement(scheduling, expected):
    assert strategy_of(scheduling and convert(ReplicaSchedulingStrategy, scheduling)) is expected


def test_a_group_with_an_unknown_strategy_fails():
    decision = schedule(THREE, asked(scheduling={"replicaSchedulingType": "Divided"}))
    assert "names no strategy" in decision.failure.message
