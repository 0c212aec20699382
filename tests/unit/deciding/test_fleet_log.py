"""A snapshot of a fleet, and what changed between two of them."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tables import cases

from berthmaster.deciding.decision_recorder import NO_CLUSTERS, FleetLog
from berthmaster.model.cluster import APIEnablement, APIResource
from berthmaster.model.quantity import Quantity

NAMES = st.sampled_from("abc")
STEPS = st.lists(st.tuples(NAMES, st.booleans()), max_size=12)


def play(log, expected, steps):
    for name, stays in steps:
        if stays:
            expected[name] = cluster(name)
            log.put(expected[name])
        else:
            expected.pop(name, None)
            log.remove(name)


@pytest.mark.parametrize("most", [0, 4, 1000])
@given(first=STEPS, second=STEPS)
def test_a_snapshot_stays_as_it_was(most, first, second):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("berthmaster.deciding.decision_recorder._LEAST_CHANGES", most)
        log, clusters = FleetLog(), {}
        play(log, clusters, first)
        before, expected_before = log.snapshot(), dict(clusters)
        play(log, clusters, second)
        after = log.snapshot()
    assert before.clusters() == expected_before
    assert after.clusters() == clusters

    for one, other in ((before, after), (after, before), (NO_CLUSTERS, after), (before, before)):
        restored = one.clusters() | other.since(one)
        assert {name: each for name, each in restored.items() if each is not None} == other.clusters()
    assert not before.since(before)


def busier(old, cpu):
    """The cluster with more assumed replicas. All other parts are the same objects."""
    allocating = {"cpu": Quantity(cpu, "")}
    summary = replace(old.status.resource_summary, allocating=allocating)
    return replace(old, status=replace(old.status, resource_summary=summary))


@pytest.mark.parametrize("most", [0, 1, 2, 1000])
@given(steps=st.lists(st.tuples(NAMES, st.integers(-1, 3)), max_size=12), data=st.data())
def test_allocating_amounts_are_followed_from_any_snapshot_to_any_other(most, steps, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("berthmaster.deciding.decision_recorder._LEAST_CHANGES", most)
        log, clusters = FleetLog(), {}
        snapshots = [(log.snapshot(), {})]
        for name, cpu in steps:
            known = clusters.pop(name, None)
            if cpu < 0:
                log.remove(name)
            else:  # 0 stands for a new cluster, other numbers for more assumed replicas
                clusters[name] = busier(known if known is not None and cpu else cluster(name, cpu=10), cpu)
                log.put(clusters[name])
            snapshots.append((log.snapshot(), dict(clusters)))
    one, other = data.draw(st.tuples(st.sampled_from(snapshots), st.sampled_from(snapshots)))
    assert other[0].clusters() == other[1]
    restored = one[0].clusters() | other[0].since(one[0])
    assert {name: each for name, each in restored.items() if each is not None} == other[1]


@cases(
    ("later", "shares"),
    {
        "the same API groups": ({"apps/v1": ["Deployment"]}, True),
        "another kind": ({"apps/v1": ["Deployment", "StatefulSet"]}, False),
    },
)
def test_versions_of_a_cluster_share_their_api_groups(later, shares):
    log = FleetLog()
    first, second = served({"apps/v1": ["Deployment"]}), served(later)
    assert log.sharing_apis(first) is first
    log.put(first)
    found = log.sharing_apis(second)
    assert found == second
    assert (found.status.api_enablements is first.status.api_enablements) is shares


def served(kinds):
    groups = tuple(
        APIEnablement(version, tuple(APIResource(kind.lower(), kind) for kind in kinds))
        for version, kinds in kinds.items()
    )
    return replace(cluster("a"), status=replace(cluster("a").status, api_enablements=groups))
