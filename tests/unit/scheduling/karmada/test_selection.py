from builders import cluster
from decisions import asked, outcome, schedule


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


FIVE = fleet(a=5, b=4, c=4, d=9, e=1)


def test_a_spread_by_label_alone_fails():
    constraint = {"spreadByLabel": "team", "minGroups": 1, "maxGroups": 1}
    decision = schedule(FIVE, asked(spread=[constraint]))
    assert outcome(decision) == "SelectFailed"
    assert "label team" in decision.failure.message
