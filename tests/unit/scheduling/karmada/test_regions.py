import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, outcome, schedule, spread


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


THREE = "r1:a5,b3 r2:c9,d1 r3:e4"


@pytest.mark.parametrize(
    ("regions", "clusters", "fields", "expected"),
    [
        pytest.param(
            (2, 2), (1, 3), {"replicas": 6}, "acb", id="if all regions hold their share, more clusters, then the name"
        ),
        pytest.param(
            (2, 2), (1, 2), {"replicas": 17}, "ca", id="a region that holds its share before one that does not"
        ),
        pytest.param((1, 1), (1, 1), {"replicas": 9}, "c", id="the share of a single region is all replicas"),
        pytest.param(
            (1, 1),
            (1, 1),
            {"replicas": 99},
            "c",
            id="if no region holds its share, the one with most available replicas",
        ),
        pytest.param(
            (2, 2), (1, 2), {"replicas": 6, "clusters": {"e": 0}}, "ea", id="a current cluster makes its region better"
        ),
        pytest.param(
            (1, 1), (1, 1), {"replicas": 1, "clusters": {"d": 0}}, "d", id="a current cluster is first in its region"
        ),
        pytest.param(
            (2, 2),
            (1, 2),
            {"replicas": 2, "clusters": {"d": 0, "e": 0}},
            "ed",
            id="scores are averaged over minGroups clusters",
        ),
        pytest.param(
            (1, 2), (1, 9), {"replicas": 0, "requests": {}}, "ab", id="without replicas every region holds its share"
        ),
    ],
)
@pytest.mark.parametrize("scheduling", [AGGREGATED, DYNAMIC], ids=["aggregated", "dynamic weight"])
def test_divided_a_region_weighs_by_its_share(regions, clusters, fields, scheduling, expected):
    found = schedule(world(THREE), asked(spread=bounds(regions, clusters), scheduling=scheduling, **fields))
    taken = found.attempts[0].selected
    assert "".join(taken.names()) == expected


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
