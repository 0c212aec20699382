"""Where the replicas of clusters that stay not ready go."""

from typing import Any

import pytest
from builders import binding, cluster, placement

from berthmaster.controllers.binding_scheduler.failover import Replacement, eviction_tasks, replacement
from berthmaster.model.binding import Binding, BindingStatus, GracefulEvictionTask
from berthmaster.model.policy import ClusterFailoverBehavior, FailoverBehavior
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
STATIC = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
DUPLICATED = {"replicaSchedulingType": "Duplicated"}
RATHER_M3 = {
    **STATIC,
    "weightPreference": {
        "staticWeightList": [
            {"targetCluster": {"clusterNames": [name]}, "weight": weight}
            for name, weight in (("m1", 1), ("m2", 1), ("m3", 8))
        ]
    },
}
ONE_CPU = {"cpu": 1}


def groups(*names: list[str], strategy: dict[str, Any]) -> dict[str, Any]:
    terms = [{"affinityName": f"g{number}", "clusterNames": each} for number, each in enumerate(names, start=1)]
    return {"clusterAffinities": terms, "replicaScheduling": strategy}


def replaced(
    asked: dict[str, Any],
    current: dict[str, int],
    room: dict[str, int],
    lost: set[str],
    wavering: str = "",
    replicas: int | None = None,
) -> Replacement | str:
    """What becomes of a workload; ``room`` are free cores by cluster, those that are ``lost`` are not ready.

    One that is ``wavering`` is not ready either, but not for long. ``replicas`` are as many as there are unless told.
    """
    fleet = Fleet(cluster(name, cpu=cores, ready=name not in lost | {wavering}) for name, cores in room.items())
    divided = asked["replicaScheduling"]["replicaSchedulingType"] == "Divided"
    if replicas is None:
        replicas = sum(current.values()) if divided else max(current.values())
    workload = binding(
        replicas=replicas,
        requests=ONE_CPU,
        placement=placement(**asked),
        clusters=current,
        status=BindingStatus(scheduler_observing_affinity_name="g1"),
    )
    return replacement(Scheduler(fleet, karmada_profile()), Request.of(workload), frozenset(lost & current.keys()))


@pytest.mark.parametrize(
    ("asked", "current", "room", "lost", "expected"),
    [
        pytest.param(
            groups(["m1", "m2", "m3"], strategy=DYNAMIC),
            {"m1": 2, "m2": 2},
            {"m1": 10, "m2": 10, "m3": 10},
            {"m2"},
            {"m1": 3, "m3": 1},
            id="the group holds it: what is healthy stays and the rest is divided over the ready ones",
        ),
        pytest.param(
            groups(["m1", "m2"], ["m3"], strategy=DYNAMIC),
            {"m1": 2, "m2": 2},
            {"m1": 0, "m2": 10, "m3": 10},
            {"m2"},
            {"m1": 2, "m3": 2},
            id="the group is full: the next one takes what is missing",
        ),
        pytest.param(
            groups(["m1"], ["m2"], ["m3"], strategy=DYNAMIC),
            {"m1": 4},
            {"m1": 10, "m2": 1, "m3": 10},
            {"m1"},
            {"m3": 4},
            id="a group that is too small is passed over",
        ),
        pytest.param(
            groups(["m1", "m2", "m3"], strategy=DYNAMIC),
            {"m1": 2, "m2": 2},
            {"m1": 2, "m2": 10, "m3": 10},
            {"m2", "m3"},
            {"m1": 4},
            id="a candidate that is not ready takes nothing over",
        ),
        pytest.param(
            groups(["m1", "m2", "m3"], strategy=STATIC),
            {"m1": 2, "m2": 2, "m3": 2},
            {"m1": 0, "m2": 0, "m3": 0},
            {"m3"},
            {"m1": 3, "m2": 3},
            id="static weights divide over those that are ready",
        ),
        pytest.param(
            groups(["m1"], ["m2"], strategy=DUPLICATED),
            {"m1": 3},
            {"m1": 10, "m2": 10},
            {"m1"},
            {"m2": 3},
            id="a copy on the only cluster of its group goes to the next group",
        ),
        pytest.param(
            groups(["m1", "m2", "m3"], strategy=RATHER_M3),
            {"m1": 5, "m2": 5},
            {"m1": 0, "m2": 0, "m3": 0},
            {"m2"},
            {"m1": 6, "m3": 4},
            id="fixed weights divide what is missing and take nothing from what is healthy",
        ),
    ],
)
def test_ready_clusters_take_over(
    asked: dict[str, Any], current: dict[str, int], room: dict[str, int], lost: set[str], expected: dict[str, int]
):
    found = replaced(asked, current, room, lost)
    assert isinstance(found, Replacement), found
    assert found.clusters == expected
    assert found.left == tuple(sorted(lost & current.keys()))


@pytest.mark.parametrize("strategy", [pytest.param(DYNAMIC, id="by room"), pytest.param(STATIC, id="by fixed weights")])
def test_a_cluster_that_keeps_what_it_has_and_is_not_ready_takes_nothing_over(strategy: dict[str, Any]):
    asked = groups(["m1", "m2", "m3"], strategy=strategy)
    found = replaced(asked, {"m1": 2, "m2": 2}, {"m1": 10, "m2": 10, "m3": 10}, {"m1"}, wavering="m2")
    assert isinstance(found, Replacement), found
    assert found.clusters == {"m2": 2, "m3": 2}


@pytest.mark.parametrize(
    ("asked", "current", "room", "lost", "said"),
    [
        pytest.param(
            groups(["m1", "m2"], strategy=DYNAMIC),
            {"m1": 2, "m2": 8},
            {"m1": 3, "m2": 10},
            {"m2"},
            "replicas",
            id="nobody has the room",
        ),
        pytest.param(
            groups(["m1"], strategy=DYNAMIC), {"m1": 2}, {"m1": 5}, {"m1"}, "none of 1 clusters fits", id="it is alone"
        ),
        pytest.param(
            groups(["m1", "m2"], strategy=DUPLICATED),
            {"m1": 2, "m2": 2},
            {"m1": 5, "m2": 5},
            {"m2"},
            "no ready cluster takes their place",
            id="copies elsewhere are no reason to give one up",
        ),
        pytest.param(
            groups(["m1", "m2"], ["m3"], strategy=DUPLICATED),
            {"m1": 2, "m2": 2},
            {"m1": 5, "m2": 5, "m3": 5},
            {"m2"},
            "no ready cluster takes their place",
            id="a copy in the next group would be taken away again while its group has others",
        ),
        pytest.param(
            {
                **groups(["m1", "m2", "m3", "m4"], strategy=DYNAMIC),
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}],
            },
            {"m1": 5, "m2": 7},
            {"m1": 0, "m2": 0, "m3": 6, "m4": 6},
            {"m2"},
            "what is healthy would have to move",
            id="the spread constraint is only met if what is healthy moves",
        ),
    ],
)
def test_it_stays_where_it_is_when_nobody_takes_over(
    asked: dict[str, Any], current: dict[str, int], room: dict[str, int], lost: set[str], said: str
):
    found = replaced(asked, current, room, lost)
    assert isinstance(found, str), found
    assert said in found


@pytest.mark.parametrize(
    ("kept", "group"),
    [
        pytest.param(True, "g1", id="with a part of it still in its group, that group goes on counting"),
        pytest.param(False, "g2", id="with nothing left there, the group that took over counts"),
    ],
)
def test_the_group_it_counts_as_coming_from(*, kept: bool, group: str):
    current = {"m1": 1, "m2": 1} if kept else {"m2": 1}
    found = replaced(groups(["m1", "m2"], ["m3"], strategy=DYNAMIC), current, {"m1": 0, "m2": 5, "m3": 5}, {"m2"})
    assert isinstance(found, Replacement), found
    assert found.group == group


@pytest.mark.parametrize(
    ("given", "purge_mode"),
    [
        pytest.param({}, "Gracefully", id="gracefully unless told"),
        pytest.param(
            {"failover": FailoverBehavior(cluster=ClusterFailoverBehavior("Directly"))},
            "Directly",
            id="as the policy says",
        ),
    ],
)
def test_karmada_is_asked_to_take_it_off_the_lost_cluster(given: dict[str, Any], purge_mode: str):
    workload: Binding = binding(replicas=3, clusters={"m1": 1, "m2": 2}, **given)
    (task,) = eviction_tasks(workload, Replacement({"m1": 3}, "g1", ("m2",)), "me")
    assert (task.from_cluster, task.producer, task.replicas, task.purge_mode) == ("m2", "me", 2, purge_mode)
    assert task.clusters_before_failover == ("m1", "m2")


def test_a_cluster_that_is_being_left_already_is_not_left_twice():
    workload = binding(clusters={"m2": 2}, graceful_eviction_tasks=(GracefulEvictionTask("m2"),))
    assert eviction_tasks(workload, Replacement({"m1": 2}, "", ("m2",)), "me") == ()


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param(5, {"m1": 5}, id="what is healthy is just enough"),
        pytest.param(3, {"m1": 3}, id="what is healthy is more than enough"),
        pytest.param(6, {"m1": 6}, id="one is missing"),
    ],
)
def test_a_workload_that_was_scaled_down_leaves_the_lost_cluster_first(replicas: int, expected: dict[str, int]):
    asked = groups(["m1", "m2"], strategy=DYNAMIC)
    found = replaced(asked, {"m1": 5, "m2": 5}, {"m1": 10, "m2": 10}, {"m2"}, replicas=replicas)
    assert isinstance(found, Replacement)
    assert (found.clusters, found.left) == (expected, ("m2",))
