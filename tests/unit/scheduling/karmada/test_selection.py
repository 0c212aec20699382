import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, asked, outcome, schedule, spread, static


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


def selected(clusters, /, **fields):
    decision = schedule(clusters, asked(**fields))
    return outcome(decision) if decision.failure else decision.attempts[0].selected.names()


FIVE = fleet(a=5, b=4, c=4, d=9, e=1)


@pytest.mark.parametrize(
    ("least", "most", "fields", "expected"),
    [
        pytest.param(
            1,
            0,
            {"replicas": 3, "scheduling": DUPLICATED},
            "SelectFailed",
            id="maxGroups 0 selects none for Duplicated",
        ),
        pytest.param(
            1,
            2,
            {"replicas": 12, "clusters": {"e": 1}},
            ["a", "d"],
            id="if the last cluster has no better exchange, the first is exchanged",
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
            {"a": 1, "b": 2, "c": 9, "d": 8}, ["a", "b"], 17, ["d", "c"], id="a removed cluster may be taken again"
        ),
    ],
)
def test_clusters_are_exchanged_until_all_replicas_fit(pods, current, replicas, expected):
    constraint = spread("cluster", 1, len(current))
    workload = {"replicas": replicas, "scheduling": AGGREGATED, "clusters": dict.fromkeys(current, 0)}
    assert selected(fleet(**pods), spread=[constraint], **workload) == expected


def test_a_spread_by_label_alone_fails():
    constraint = {"spreadByLabel": "team", "minGroups": 1, "maxGroups": 1}
    decision = schedule(FIVE, asked(spread=[constraint]))
    assert outcome(decision) == "SelectFailed"
    assert "label team" in decision.failure.message
