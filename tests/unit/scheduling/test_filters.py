import pytest
from builders import cluster
from decisions import asked, schedule

from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.request import Peers, Request


def grouped(name, **groups):
    return asked(name=name, workload_affinity_groups=WorkloadAffinityGroups(**groups))


@pytest.mark.parametrize(
    ("groups", "placed", "current", "expected"),
    [
        pytest.param(
            {"affinity_group": "t=x"}, {"peer": ["a"]}, {"c": 1}, {"a", "c"}, id="affinity: a current cluster"
        ),
        pytest.param(
            {"anti_affinity_group": "t=x"},
            {"peer": ["a"]},
            {"a": 1},
            {"b", "c"},
            id="anti-affinity: not even a current cluster with a peer",
        ),
    ],
)
def test_workload_affinity_and_anti_affinity(groups, placed, current, expected):
    peers = Peers()
    for name, clusters in placed.items():
        peers.place(Request.of(grouped(name, affinity_group="t=x", anti_affinity_group="t=x")), clusters)
    workload = asked(name="web", clusters=current, workload_affinity_groups=WorkloadAffinityGroups(**groups))
    profile = karmada_profile(built_in(workload_affinity=True))
    decision = schedule([cluster(name) for name in "abc"], workload, profile, peers)
    assert {*decision.assignment} == expected
