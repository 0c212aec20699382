"""A snapshot of a fleet, and what changed between two of them."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berthmaster.controllers.fleet_log import NO_CLUSTERS, FleetLog
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
        patch.setattr("berthmaster.controllers.fleet_log._LEAST_CHANGES", most)
        log, clusters = FleetLog(), {}
        play(log, clusters, first)
        before, expected_before = log.snapshot(), dict(clusters)
        play(log, clusters, second)
        after = log.snapshot()
    assert before.clusters() == expected_before
    assert after.clusters() == clusters

    for one, other in ((before, after), (after, before), (NO_CLUSTERS, after), (before, before)):
        changes = list(other.since(one))
        assert len({each.name for each in changes}) == len(changes)
        restored = one.clusters() | {each.name: each.cluster for each in changes}
        assert {name: each for name, each in restored.items() if each is not None} == other.clusters()
    assert not list(before.since(before))


def busier(old, cpu):
    """The cluster with more assumed replicas. All other parts are the same objects."""
    allocating = {"cpu": Quantity(cpu, "")}
    summary = replace(old.status.resource_summary, allocating=allocating)
    return replace(old, status=replace(old.status, resource_summary=summary))


def test_a_change_says_if_only_allocating_amounts_differ():
    log = FleetLog()
    log.put(first := busier(cluster("a", cpu=10), 1))
    start = log.snapshot()
    log.put(busier(first, 2))
    log.put(busier(first, 3))
    assumed = log.snapshot()
    log.put(replace(busier(first, 4), spec=replace(first.spec)))
    log.put(busier(first, 5))
    observed = log.snapshot()
    assert [each.allocating for each in assumed.since(start)] == [[3]]
    assert [each.allocating for each in observed.since(start)] == [None], "one of the changes was of another kind"
    assert [each.allocating for each in start.since(observed)] == [[1]], "compared with each other"


@pytest.mark.parametrize(
    ("later", "shares"),
    [
        pytest.param({"apps/v1": ["Deployment"]}, True, id="the same API groups"),
        pytest.param({"apps/v1": ["Deployment", "StatefulSet"]}, False, id="another kind"),
    ],
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
