import pytest
from decisions import asked
from retained import retained
from tables import cases

from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.scheduling.request import AFFINITY, ANTI_AFFINITY, Peers, Request


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
