"""Where the replicas of lost clusters go."""

from typing import Any

from builders import binding, cluster, placement
from decisions import DUPLICATED, DYNAMIC
from tables import cases

from berthmaster.deciding.failover import Replacement, eviction_tasks, replacement
from berthmaster.model.binding import Binding, BindingStatus, GracefulEvictionTask
from berthmaster.model.failover_behavior import ClusterFailoverBehavior, FailoverBehavior
from berthmaster.model.move_refusal import MoveRefusal
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

STATIC = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
PREFER_M3 = {
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
    free: dict[str, int],
    lost: set[str],
    unready: str = "",
    replicas: int | None = None,
) -> Replacement | str:
    """Fail a workload over.

    Args:
        asked: its placement.
        current: its assignment.
        free: free cores by cluster.
        lost: the clusters that were not ready for too long.
        unready: a cluster that is not ready, but not lost yet.
        replicas: the wanted replicas; by default as many as assigned.
    """
    fleet = Fleet(cluster(name, cpu=cores, ready=name not in lost | {unready}) for name, cores in free.items())
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


@cases(
    ("asked", "current", "free", "lost", "expected"),
    {
        "the group has capacity: healthy replicas stay and the rest is divided over ready clusters": (
            groups(["m1", "m2", "m3"], strategy=DYNAMIC),
            {"m1": 2, "m2": 2},
            {"m1": 10, "m2": 10, "m3": 10},
            {"m2"},
            {"m1": 3, "m3": 1},
        ),
        "the group is full: the next group takes the whole workload": (
            groups(["m1", "m2"], ["m3"], strategy=DYNAMIC),
            {"m1": 2, "m2": 2},
            {"m1": 0, "m2": 10, "m3": 10},
            {"m2"},
            {"m3": 4},
        ),
        "a group that is too small is skipped": (
            groups(["m1"], ["m2"], ["m3"], strategy=DYNAMIC),
            {"m1": 4},
            {"m1": 10, "m2": 1, "m3": 10},
            {"m1"},
            {"m3": 4},
        ),
        "a candidate that is not ready gets no replicas": (
            groups(["m1", "m2", "m3"], strategy=DYNAMIC),
            {"m1": 2, "m2": 2},
            {"m1": 2, "m2": 10, "m3": 10},
            {"m2", "m3"},
            {"m1": 4},
        ),
        "static weights divide over the ready clusters": (
            groups(["m1", "m2", "m3"], strategy=STATIC),
            {"m1": 2, "m2": 2, "m3": 2},
            {"m1": 0, "m2": 0, "m3": 0},
            {"m3"},
            {"m1": 3, "m2": 3},
        ),
        "a copy on the only cluster of its group goes to the next group": (
            groups(["m1"], ["m2"], strategy=DUPLICATED),
            {"m1": 3},
            {"m1": 10, "m2": 10},
            {"m1"},
            {"m2": 3},
        ),
        "static weights divide the missing replicas and take none from healthy clusters": (
            groups(["m1", "m2", "m3"], strategy=PREFER_M3),
            {"m1": 5, "m2": 5},
            {"m1": 0, "m2": 0, "m3": 0},
            {"m2"},
            {"m1": 6, "m3": 4},
        ),
    },
)
def test_ready_clusters_take_lost_replicas(
    asked: dict[str, Any], current: dict[str, int], free: dict[str, int], lost: set[str], expected: dict[str, int]
):
    found = replaced(asked, current, free, lost)
    assert isinstance(found, Replacement), found
    assert found.clusters == expected
    assert found.left == tuple(sorted(lost & current.keys()))


@cases("strategy", {"by available replicas": DYNAMIC, "by static weights": STATIC})
def test_a_kept_cluster_that_is_not_ready_gets_no_more_replicas(strategy: dict[str, Any]):
    asked = groups(["m1", "m2", "m3"], strategy=strategy)
    found = replaced(asked, {"m1": 2, "m2": 2}, {"m1": 10, "m2": 10, "m3": 10}, {"m1"}, unready="m2")
    assert isinstance(found, Replacement), found
    assert found.clusters == {"m2": 2, "m3": 2}


@cases(
    ("asked", "current", "free", "lost", "problem"),
    {
        "no cluster has the capacity": (
            groups(["m1", "m2"], strategy=DYNAMIC),
            {"m1": 2, "m2": 8},
            {"m1": 3, "m2": 10},
            {"m2"},
            "replicas",
        ),
        "there is no other cluster": (
            groups(["m1"], strategy=DYNAMIC),
            {"m1": 2},
            {"m1": 5},
            {"m1"},
            "none of 1 clusters fits",
        ),
        "a lost copy stays if the other clusters have their copy already": (
            groups(["m1", "m2"], strategy=DUPLICATED),
            {"m1": 2, "m2": 2},
            {"m1": 5, "m2": 5},
            {"m2"},
            "no ready cluster can take its place",
        ),
        "a copy in the next group would be removed while its own group has others": (
            groups(["m1", "m2"], ["m3"], strategy=DUPLICATED),
            {"m1": 2, "m2": 2},
            {"m1": 5, "m2": 5, "m3": 5},
            {"m2"},
            "no ready cluster can take its place",
        ),
        "the spread constraint requires healthy replicas to move": (
            {
                **groups(["m1", "m2", "m3", "m4"], strategy=DYNAMIC),
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}],
            },
            {"m1": 5, "m2": 7},
            {"m1": 0, "m2": 0, "m3": 6, "m4": 6},
            {"m2"},
            "healthy replicas would have to move",
        ),
    },
)
def test_a_workload_stays_without_a_replacement(
    asked: dict[str, Any], current: dict[str, int], free: dict[str, int], lost: set[str], problem: str
):
    found = replaced(asked, current, free, lost)
    assert isinstance(found, MoveRefusal), found
    assert problem in found.message


@cases(
    ("kept", "group"),
    {
        "with replicas left in the first group, the whole workload leaves it": (True, "g2"),
        "with no replicas left there, the new group counts": (False, "g2"),
    },
)
def test_the_group_of_the_new_assignment(*, kept: bool, group: str):
    current = {"m1": 1, "m2": 1} if kept else {"m2": 1}
    found = replaced(groups(["m1", "m2"], ["m3"], strategy=DYNAMIC), current, {"m1": 0, "m2": 5, "m3": 5}, {"m2"})
    assert isinstance(found, Replacement), found
    assert found.group == group


@cases(
    ("given", "purge_mode"),
    {
        "gracefully by default": ({}, "Gracefully"),
        "as the policy requires": (
            {"failover": FailoverBehavior(cluster=ClusterFailoverBehavior("Directly"))},
            "Directly",
        ),
    },
)
def test_an_eviction_task_removes_the_workload_from_the_lost_cluster(given: dict[str, Any], purge_mode: str):
    workload: Binding = binding(replicas=3, clusters={"m1": 1, "m2": 2}, **given)
    (task,) = eviction_tasks(workload, Replacement({"m1": 3}, "g1", ("m2",)), "me")
    assert (task.from_cluster, task.producer, task.replicas, task.purge_mode) == ("m2", "me", 2, purge_mode)
    assert task.clusters_before_failover == ("m1", "m2")


def test_a_cluster_with_an_eviction_task_gets_no_second_one():
    workload = binding(clusters={"m2": 2}, graceful_eviction_tasks=(GracefulEvictionTask("m2"),))
    assert eviction_tasks(workload, Replacement({"m1": 2}, "", ("m2",)), "me") == ()


@cases(
    ("replicas", "expected"),
    {
        "healthy replicas are just enough": (5, {"m1": 5}),
        "healthy replicas are more than enough": (3, {"m1": 3}),
        "one replica is missing": (6, {"m1": 6}),
    },
)
def test_a_workload_that_was_scaled_down_leaves_the_lost_cluster_first(replicas: int, expected: dict[str, int]):
    asked = groups(["m1", "m2"], strategy=DYNAMIC)
    found = replaced(asked, {"m1": 5, "m2": 5}, {"m1": 10, "m2": 10}, {"m2"}, replicas=replicas)
    assert isinstance(found, Replacement)
    assert (found.clusters, found.left) == (expected, ("m2",))
