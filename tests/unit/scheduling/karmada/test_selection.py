from builders import cluster
from decisions import DUPLICATED, asked, outcome, schedule, spread


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


FIVE = fleet(a=5, b=4, c=4, d=9, e=1)


def test_a_spread_by_label_alone_fails():
    constraint = {"spreadByLabel": "team", "minGroups": 1, "maxGroups": 1}
    decision = schedule(FIVE, asked(spread=[constraint]))
    assert outcome(decision) == "SelectFailed"
    assert "label team" in decision.failure.message


def test_a_maximum_of_no_cluster_fails():
    asked_for = asked(replicas=3, scheduling=DUPLICATED, spread=[spread("cluster", 1, 0)])
    assert outcome(schedule(FIVE, asked_for)) == "SelectFailed"
