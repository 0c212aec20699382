"""Workloads of an affinity group, and the filters by them."""

import pytest
from builders import cluster
from decisions import asked, schedule
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from retained import retained
from tables import cases

from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.scheduling.compiled_placement import Affinities, CompiledPlacement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import Filter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import (
    WorkloadAffinityFilter,
    WorkloadAntiAffinityFilter,
    built_in,
    karmada_profile,
)
from berthmaster.scheduling.peers import AFFINITY, ANTI_AFFINITY, Peers
from berthmaster.scheduling.request import Request


def member(name, *, affinity="", anti="", namespace="default"):
    groups = WorkloadAffinityGroups(affinity_group=affinity, anti_affinity_group=anti)
    return Request.of(asked(name=name, namespace=namespace, workload_affinity_groups=groups))


def peers_of(peers, group="team=x", namespace="default", kind=AFFINITY, except_for=""):
    return {
        name.removesuffix("-deployment"): set(each)
        for name, each in peers.of(kind, namespace, group, except_for=except_for).items()
    }


@pytest.fixture
def peers():
    peers = Peers()
    peers.place(member("web", affinity="team=x"), ["a", "b"])
    peers.place(member("db", affinity="team=x", anti="tier=db"), ["c"])
    return peers


def test_peers_are_the_other_workloads_of_a_group(peers):
    assert peers_of(peers) == {"web": {"a", "b"}, "db": {"c"}}
    assert peers_of(peers, except_for="web-deployment") == {"db": {"c"}}
    assert peers_of(peers, "tier=db", kind=ANTI_AFFINITY) == {"db": {"c"}}


@cases(
    "other",
    {
        "in another namespace": {"namespace": "other"},
        "in another group": {"group": "team=y"},
        "in the anti-affinity group of the same name": {"kind": ANTI_AFFINITY},
        "without a group": {"group": ""},
    },
)
def test_there_are_no_peers(peers, other):
    assert peers_of(peers, **other) == {}


def test_the_current_clusters_of_a_peer_count(peers):
    peers.place(member("web", affinity="team=x"), ["d"])
    assert peers_of(peers)["web"] == {"d"}


def test_a_workload_without_clusters_is_no_peer(peers):
    peers.place(member("db", affinity="team=x", anti="tier=db"), [])
    assert peers_of(peers) == {"web": {"a", "b"}}
    assert peers_of(peers, "tier=db", kind=ANTI_AFFINITY) == {}


def test_a_workload_that_changes_its_group_leaves_the_old_one(peers):
    peers.place(member("db", affinity="team=y"), ["c"])
    assert peers_of(peers) == {"web": {"a", "b"}}
    assert peers_of(peers, "team=y") == {"db": {"c"}}


def test_removed_workloads_leave_nothing_behind(peers):
    for name in ("web", "db"):
        peers.place(member(name), [])
    assert retained(peers) == retained(Peers())


def grouped(name, **groups):
    return asked(name=name, workload_affinity_groups=WorkloadAffinityGroups(**groups))


@cases(
    ("groups", "placed", "current", "expected"),
    {
        "affinity: a current cluster": ({"affinity_group": "t=x"}, {"peer": ["a"]}, {"c": 1}, {"a", "c"}),
        "anti-affinity: not even a current cluster with a peer": (
            {"anti_affinity_group": "t=x"},
            {"peer": ["a"]},
            {"a": 1},
            {"b", "c"},
        ),
    },
)
def test_workload_affinity_and_anti_affinity(groups, placed, current, expected):
    peers = Peers()
    for name, clusters in placed.items():
        peers.place(Request.of(grouped(name, affinity_group="t=x", anti_affinity_group="t=x")), clusters)
    workload = asked(name="web", clusters=current, workload_affinity_groups=WorkloadAffinityGroups(**groups))
    profile = karmada_profile(built_in(workload_affinity=True))
    decision = schedule([cluster(name) for name in "abc"], workload, profile, peers)
    assert {*decision.assignment} == expected


NAMES = ["a", "b", "c", "d"]
ASSIGNED = st.lists(st.sampled_from(NAMES), max_size=4, unique=True)


def with_groups(name, clusters=()):
    current = dict.fromkeys(clusters, 1)
    request = Request.of(asked(name=name))
    return replace(request, name=name, affinity_group="g=1", anti_affinity_group="h=1", current=current)


@given(st.lists(st.tuples(st.sampled_from(["me", "x", "y", "z"]), ASSIGNED), max_size=8), ASSIGNED)
def test_the_rows_that_pass_are_those_without_a_reason(placed, current):
    fleet, peers = Fleet([cluster(name) for name in NAMES]), Peers()
    for name, clusters in placed:
        peers.place(with_groups(name), clusters)
    request = with_groups("me", current)
    compiled = CompiledPlacement(request.placement, Affinities(fleet))
    context = Context(fleet, request, compiled, compiled.groups[0], peers)
    rows = fleet.occupied.nonzero()[0]
    for plugin in (WorkloadAffinityFilter(), WorkloadAntiAffinityFilter()):
        assert plugin.prune(context, rows).tolist() == Filter.prune(plugin, context, rows).tolist()
