"""Whether a workload could return to an earlier group."""

from typing import Any

from builders import binding, cluster, placement
from decisions import DUPLICATED, DYNAMIC
from tables import cases

from berthmaster.deciding.move_targets import Target, earlier_target, rank
from berthmaster.model.binding import BindingStatus, GracefulEvictionTask
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.scheduler import Scheduler

THREE = [
    {"affinityName": "g1", "clusterNames": ["a"]},
    {"affinityName": "g2", "clusterNames": ["b"]},
    {"affinityName": "g3", "clusterNames": ["c"]},
]
OVERFLOWING = [
    {"affinityName": "g1", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "o", "clusterNames": ["b"]}]}
]


def found(
    free: dict[str, int], current: dict[str, int], group: str, terms: Any, strategy: Any = DYNAMIC, **given: Any
) -> Target | str:
    fleet = Fleet(cluster(name, cpu=cores) for name, cores in free.items())
    workload = binding(
        replicas=10,
        requests={"cpu": 1},
        placement=placement(clusterAffinities=terms, replicaScheduling=strategy),
        clusters=current,
        status=BindingStatus(scheduler_observing_affinity_name=group),
        graceful_eviction_tasks=given.get("tasks", ()),
    )
    avoided = frozenset(given.get("avoided", ()))
    return earlier_target(Scheduler(fleet, karmada_profile()), workload, avoided, given.get("headroom", 10))


@cases(
    ("free", "given", "expected"),
    {
        "the first group": ({"a": 11, "b": 20, "c": 0}, {}, Target({"a": 10}, "g1")),
        "with too little headroom the next one": ({"a": 10, "b": 11, "c": 0}, {}, Target({"b": 10}, "g2")),
        "no headroom is asked for": ({"a": 10, "b": 0, "c": 0}, {"headroom": 0}, Target({"a": 10}, "g1")),
        "an avoided cluster": ({"a": 20, "b": 20, "c": 0}, {"avoided": ["a"]}, Target({"b": 10}, "g2")),
        "a cluster with an eviction task": (
            {"a": 20, "b": 20, "c": 0},
            {"tasks": (GracefulEvictionTask("a"),)},
            Target({"b": 10}, "g2"),
        ),
        "no earlier group has the capacity": ({"a": 5, "b": 5, "c": 99}, {}, "group g1"),
    },
)
def test_the_best_earlier_group_that_holds_all_replicas_with_headroom(free: Any, given: Any, expected: Any):
    answer = found(free, {"c": 10}, "g3", THREE, **given)
    assert (answer == expected) if isinstance(expected, Target) else expected in answer.message


def test_copies_return_without_a_division():
    assert found({"a": 1, "b": 1, "c": 1}, {"c": 10}, "g3", THREE, DUPLICATED) == Target({"a": 10}, "g1")


def test_a_workload_that_overflows_returns_to_its_own_clusters():
    # The replicas that the cluster runs are free for them.
    assert found({"a": 7, "b": 0}, {"a": 4, "b": 6}, "g1", OVERFLOWING) == Target({"a": 10}, "g1")
    assert "g1" in found({"a": 6, "b": 0}, {"a": 4, "b": 6}, "g1", OVERFLOWING).about


@cases(
    ("terms", "group", "clusters", "expected"),
    {
        "the first group": (THREE, "g1", ["a"], (0, False)),
        "the third group": (THREE, "g3", ["c"], (2, False)),
        "no overflow is used": (OVERFLOWING, "g1", ["a"], (0, False)),
        "overflow is used": (OVERFLOWING, "g1", ["a", "b"], (0, True)),
        "a group that does not exist counts as the first": (THREE, "gone", ["a"], (0, False)),
    },
)
def test_how_far_an_assignment_is_from_what_is_preferred(terms: Any, group: str, clusters: list[str], expected: Any):
    scheduler = Scheduler(Fleet(cluster(name) for name in "abc"), karmada_profile())
    assert rank(scheduler, placement(clusterAffinities=terms), group, dict.fromkeys(clusters, 1)) == expected
