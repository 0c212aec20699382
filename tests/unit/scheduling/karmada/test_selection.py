import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, outcome, schedule, spread, static


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


def selected(clusters, /, **fields):
    decision = schedule(clusters, asked(**fields))
    return outcome(decision) if decision.failure else decision.attempts[0].selected.names()


FIVE = fleet(a=5, b=4, c=4, d=9, e=1)


@pytest.mark.parametrize(
    ("least", "most", "fields", "expected"),
    [
        pytest.param(1, 2, {"replicas": 3}, ["d", "a"], id="the clusters with most available replicas"),
        pytest.param(1, 3, {"replicas": 3}, ["d", "a", "b"], id="of equal available replicas the first by name"),
        pytest.param(1, 9, {"replicas": 3}, ["d", "a", "b", "c", "e"], id="not more than exist"),
        pytest.param(6, 9, {"replicas": 3}, "SelectFailed", id="fewer clusters fit than minGroups"),
        pytest.param(1, 0, {"replicas": 3}, "SelectFailed", id="maxGroups 0 selects none"),
        pytest.param(
            1,
            0,
            {"replicas": 3, "scheduling": DUPLICATED},
            "SelectFailed",
            id="maxGroups 0 selects none for Duplicated",
        ),
        pytest.param(1, 2, {"replicas": 15}, "SelectFailed", id="the best clusters do not hold all replicas"),
        pytest.param(
            1,
            2,
            {"replicas": 15, "scheduling": DUPLICATED},
            ["d", "a"],
            id="Duplicated does not need available replicas",
        ),
        pytest.param(
            1, 2, {"replicas": 15, "scheduling": None}, ["d", "a"], id="no strategy does not need available replicas"
        ),
        pytest.param(
            1, 2, {"replicas": 3, "clusters": {"e": 0}}, ["e", "d"], id="a current cluster with 0 replicas comes first"
        ),
        pytest.param(
            1,
            2,
            {"replicas": 3, "clusters": {"b": 2}},
            ["b", "d"],
            id="a current cluster before clusters with more available replicas",
        ),
        pytest.param(
            1,
            2,
            {"replicas": 11, "clusters": {"e": 1}},
            ["e", "d"],
            id="current replicas count as available: 1+1 and 9 hold 11",
        ),
        pytest.param(
            1,
            2,
            {"replicas": 12, "clusters": {"e": 1}},
            ["a", "d"],
            id="if the last cluster has no better exchange, the first is exchanged",
        ),
        pytest.param(
            1,
            2,
            {"replicas": 14, "clusters": {"b": 0, "e": 0}},
            ["a", "d"],
            id="both clusters are exchanged, the last one first",
        ),
        pytest.param(
            1,
            3,
            {"replicas": 17, "clusters": {"b": 0, "c": 0, "e": 0}},
            ["b", "c", "d"],
            id="exchanging stops when all replicas fit",
        ),
        pytest.param(
            1,
            1,
            {"replicas": 0, "requests": {}},
            ["a"],
            id="without replicas all clusters are equal, the first by name",
        ),
        pytest.param(
            1,
            1,
            {"replicas": 3, "scheduling": static(("e", 1))},
            ["a", "b", "c", "d", "e"],
            id="static weights disable spread constraints",
        ),
        pytest.param(
            1,
            1,
            {"replicas": 3, "scheduling": {**DYNAMIC, "weightPreference": {}}},
            ["d"],
            id="an empty weight preference does not disable spread constraints",
        ),
        pytest.param(
            -1, -1, {"replicas": 3}, "SelectFailed", id="negative bounds, which the webhook denies, select none"
        ),
    ],
)
def test_the_best_clusters_that_hold_all_replicas(least, most, fields, expected):
    fields = {"scheduling": AGGREGATED, **fields}
    found = selected(FIVE, spread=[spread("cluster", least, most)], **fields)
    if fields["scheduling"] == static(("e", 1)):
        found = sorted(found)
    assert found == expected


@pytest.mark.parametrize(
    ("pods", "current", "replicas", "expected"),
    [
        pytest.param(
            {"a": 1, "b": 5, "c": 5}, ["a"], 5, ["b"], id="of equal available replicas the best in order is taken"
        ),
        pytest.param(
            {"a": 5, "b": 5, "c": 5},
            ["a"],
            6,
            "SelectFailed",
            id="a cluster with equal available replicas is not taken",
        ),
        pytest.param({"a": 2, "b": 1, "c": 9}, ["a", "b"], 10, ["a", "c"], id="the last cluster is exchanged"),
        pytest.param(
            {"a": 1, "b": 2, "c": 9, "d": 8}, ["a", "b"], 17, ["d", "c"], id="a removed cluster may be taken again"
        ),
    ],
)
def test_clusters_are_exchanged_until_all_replicas_fit(pods, current, replicas, expected):
    constraint = spread("cluster", 1, len(current))
    workload = {"replicas": replicas, "scheduling": AGGREGATED, "clusters": dict.fromkeys(current, 0)}
    assert selected(fleet(**pods), spread=[constraint], **workload) == expected


@pytest.mark.parametrize("field", ["zone", "provider"])
def test_a_spread_by_zone_or_provider_alone_fails(field):
    clusters = [cluster("a", pods=5, zones=["z1"], provider="aws")]
    assert selected(clusters, spread=[spread(field, 1, 1)], replicas=1) == "SelectFailed"
    with_cluster = [spread(field, 3, 3), spread("cluster", 1, 1)]
    assert selected(clusters, spread=with_cluster, replicas=1) == ["a"]


def test_a_spread_by_label_alone_fails():
    constraint = {"spreadByLabel": "team", "minGroups": 1, "maxGroups": 1}
    decision = schedule(FIVE, asked(spread=[constraint]))
    assert outcome(decision) == "SelectFailed"
    assert "label team" in decision.failure.message


def test_of_two_constraints_on_one_field_the_last_counts():
    both = [spread("cluster", 9, 9), spread("cluster", 1, 1)]
    assert selected(FIVE, spread=both, replicas=1) == ["d"]


def test_negative_bounds_select_none_in_overflow_order():
    group = {"affinityName": "g", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "o"}]}
    assert selected(FIVE, spread=[spread("cluster", -1, -1)], groups=[group], scheduling=AGGREGATED) == "SelectFailed"
