from builders import cluster
from decisions import AGGREGATED, DUPLICATED, asked, outcome, schedule, spread


def world(text):
    """Parse ``"r1:a5,b3 r2:c9"``: region r1 has a cluster a that holds 5 pods, and so on."""
    return [
        cluster(member[0], region=name, pods=int(member[1:]))
        for name, _, members in (part.partition(":") for part in text.split())
        for member in members.split(",")
    ]


def selected(text, /, **fields):
    decision = schedule(world(text), asked(**fields))
    return outcome(decision) if decision.failure else "".join(decision.attempts[0].selected.names())


def bounds(regions, clusters=None):
    constraints = [spread("region", *regions)]
    return constraints if clusters is None else [*constraints, spread("cluster", *clusters)]


def test_a_hundred_regions_need_no_enumeration():
    clusters = [cluster(f"m{index}", region=f"r{index % 100}", pods=index % 7 + 1) for index in range(300)]
    decision = schedule(clusters, asked(replicas=60, scheduling=AGGREGATED, spread=bounds((40, 50), (100, 120))))
    assert len(decision.attempts[0].selected) == 120
    assert sum(decision.assignment.values()) == 60


def test_a_search_that_is_too_large_fails_with_advice():
    clusters = [cluster(f"c{number}", region=f"r{number}") for number in range(1200)]
    decision = schedule(clusters, asked(scheduling=DUPLICATED, spread=bounds((600, 1100), (600, 9999))))
    assert outcome(decision) == "SelectFailed"
    assert "the choice of 600 to 1100 of 1200 regions" in decision.failure.message
    assert "lower maxGroups of the regions" in decision.failure.message
