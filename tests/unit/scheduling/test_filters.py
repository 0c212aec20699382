import pytest
from builders import cluster
from decisions import asked, schedule, spread

from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.request import Peers, Request
from berthmaster.scheduling.scheduler import Scheduler


def fits(candidate, **fields):
    """Return whether a cluster passes all filters, and check that it has reasons only if it does not."""
    scheduler, request = Scheduler(Fleet([candidate]), karmada_profile()), Request.of(asked(**fields))
    decision = scheduler.schedule(request)
    passes = bool(len(decision.attempts[0].rows))
    explained = explain(scheduler, request, decision).groups[0].clusters[0]
    assert passes == (not explained.rejections)
    return passes


def test_static_weights_do_not_disable_the_filter():
    weighted = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    assert not fits(cluster(), spread=[spread("region", 1, 1)], scheduling=weighted)


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
