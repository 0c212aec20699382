from builders import cluster
from decisions import asked, schedule
from tables import cases

from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.request import Peers, Request


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
