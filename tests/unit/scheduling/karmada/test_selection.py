import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, outcome, schedule, spread, static


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


def selected(clusters, /, **fields):
    """The clusters that selection took, in its order, or the failure."""
    decision = schedule(clusters, asked(**fields))
    return outcome(decision) if decision.failure else decision.attempts[0].selected.names()


FIVE = fleet(a=5, b=4, c=4, d=9, e=1)


@pytest.mark.parametrize(
    ("least", "most", "fields", "expected"),
    [
        pytest.param(1, 2, {"replicas": 3}, ["d", "a"], id="the roomiest"),
        pytest.param(1, 3, {"replicas": 3}, ["d", "a", "b"], id="of equal room the first by name"),
        pytest.param(1, 9, {"replicas": 3}, ["d", "a", "b", "c", "e"], id="never more than there are"),
        pytest.param(6, 9, {"replicas": 3}, "SelectFailed", id="fewer fit than minGroups"),
        pytest.param(1, 0, {"replicas": 3}, "SelectFailed", id="maxGroups 0 takes none"),
        pytest.param(
            1, 0, {"replicas": 3, "scheduling": DUPLICATED}, "SelectFailed", id="not even of a duplicated one"
        ),
        pytest.param(1, 2, {"replicas": 15}, "SelectFailed", id="the roomiest do not hold all replicas"),
        pytest.param(
            1, 2, {"replicas": 15, "scheduling": DUPLICATED}, ["d", "a"], id="which a duplicated one need not"
        ),
        pytest.param(1, 2, {"replicas": 15, "scheduling": None}, ["d", "a"], id="nor one without a strategy"),
        pytest.param(
            1, 2, {"replicas": 3, "clusters": {"e": 0}}, ["e", "d"], id="a current cluster, even without replicas"
        ),
        pytest.param(
            1, 2, {"replicas": 3, "clusters": {"b": 2}}, ["b", "d"], id="a current cluster before roomier ones"
        ),
        pytest.param(
            1, 2, {"replicas": 11, "clusters": {"e": 1}}, ["e", "d"], id="what it has counts as room: 1+1 and 9 hold 11"
        ),
        pytest.param(
            1,
            2,
            {"replicas": 12, "clusters": {"e": 1}},
            ["a", "d"],
            id="the last slot has nothing better, the first is traded",
        ),
        pytest.param(
            1, 2, {"replicas": 14, "clusters": {"b": 0, "e": 0}}, ["a", "d"], id="both slots are traded, the last first"
        ),
        pytest.param(
            1,
            3,
            {"replicas": 17, "clusters": {"b": 0, "c": 0, "e": 0}},
            ["b", "c", "d"],
            id="trading stops when it is enough",
        ),
        pytest.param(
            1, 1, {"replicas": 0, "requests": {}}, ["a"], id="no replicas: all hold them equally, the first by name"
        ),
        pytest.param(
            1,
            1,
            {"replicas": 3, "scheduling": static(("e", 1))},
            ["a", "b", "c", "d", "e"],
            id="static weights rule constraints out",
        ),
        pytest.param(
            1,
            1,
            {"replicas": 3, "scheduling": {**DYNAMIC, "weightPreference": {}}},
            ["d"],
            id="a weight preference without content does not",
        ),
        pytest.param(
            -1, -1, {"replicas": 3}, "SelectFailed", id="negative bounds, which no webhook lets pass, take none"
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
        pytest.param({"a": 1, "b": 5, "c": 5}, ["a"], 5, ["b"], id="of equally roomy ones the best in order comes in"),
        pytest.param({"a": 5, "b": 5, "c": 5}, ["a"], 6, "SelectFailed", id="one that is only as roomy does not"),
        pytest.param({"a": 2, "b": 1, "c": 9}, ["a", "b"], 10, ["a", "c"], id="the last one makes room"),
        pytest.param(
            {"a": 1, "b": 2, "c": 9, "d": 8}, ["a", "b"], 17, ["d", "c"], id="the displaced one stands in the rest"
        ),
    ],
)
def test_trading_for_room(pods, current, replicas, expected):
    constraint = spread("cluster", 1, len(current))
    workload = {"replicas": replicas, "scheduling": AGGREGATED, "clusters": dict.fromkeys(current, 0)}
    assert selected(fleet(**pods), spread=[constraint], **workload) == expected


@pytest.mark.parametrize("field", ["zone", "provider"])
def test_zone_or_provider_alone_cannot_be_spread_by(field):
    clusters = [cluster("a", pods=5, zones=["z1"], provider="aws")]
    assert selected(clusters, spread=[spread(field, 1, 1)], replicas=1) == "SelectFailed"
    with_cluster = [spread(field, 3, 3), spread("cluster", 1, 1)]
    assert selected(clusters, spread=with_cluster, replicas=1) == ["a"]


def test_a_label_alone_cannot_be_spread_by():
    constraint = {"spreadByLabel": "team", "minGroups": 1, "maxGroups": 1}
    decision = schedule(FIVE, asked(spread=[constraint]))
    assert outcome(decision) == "SelectFailed"
    assert "label team" in decision.failure.message


def test_of_two_constraints_on_a_field_the_last_counts():
    both = [spread("cluster", 9, 9), spread("cluster", 1, 1)]
    assert selected(FIVE, spread=both, replicas=1) == ["d"]


def test_negative_bounds_take_none_where_overflow_orders_the_clusters():
    group = {"affinityName": "g", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "o"}]}
    assert selected(FIVE, spread=[spread("cluster", -1, -1)], groups=[group], scheduling=AGGREGATED) == "SelectFailed"
