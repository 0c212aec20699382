"""The minimal decision on small fleets: what it keeps, what it moves, and what it calls drift."""

import pytest
from builders import binding, cluster, placement
from decisions import AGGREGATED, DUPLICATED, DYNAMIC
from tables import cases

from berthmaster.model.binding import BindingStatus
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.minimal import DriftKind, decide_minimal
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

EQUAL = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
GROUPS = [
    {"affinityName": "first", "clusterNames": ["a", "b"]},
    {"affinityName": "second", "clusterNames": ["c", "d"]},
]
OVERFLOWING = [
    {"affinityName": "own", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "o", "clusterNames": ["b"]}]}
]
FLEET = {"a": "north", "b": "north", "c": "south", "d": "west"}


def clusters_by(low, high):
    return {"spreadByField": "cluster", "minGroups": low, "maxGroups": high}


def regions_by(low, high):
    return {"spreadByField": "region", "minGroups": low, "maxGroups": high}


def decided(current, *, group="", stuck=None, tolerance=10.0, wanted=None, room=20, **fields):
    allocated = {name: {"pods": count} for name, count in current.items()}
    fleet = [cluster(each, region=region, pods=room, allocated=allocated.get(each)) for each, region in FLEET.items()]
    replicas = sum(current.values()) if wanted is None else wanted
    status = BindingStatus(scheduler_observing_affinity_name=group)
    bound = binding(placement=placement(**fields), replicas=replicas, clusters=current, status=status)
    scheduler = Scheduler(Fleet(fleet), karmada_profile())
    return decide_minimal(scheduler, Request.of(bound), tolerance=tolerance, stuck=stuck or {})


@pytest.mark.parametrize(
    ("current", "fields", "expected", "drift"),
    [
        pytest.param(
            {"a": 3, "b": 3, "c": 2, "d": 2}, {"replicaScheduling": EQUAL}, {"a": 3, "b": 3, "c": 2, "d": 2}, set(),
            id="equal weights rounded to whole replicas stay",
        ),
        pytest.param(
            {"a": 8, "b": 4, "c": 4}, {"replicaScheduling": EQUAL}, {"a": 5, "b": 4, "c": 4, "d": 3},
            {DriftKind.WEIGHTS}, id="a joined cluster gets as little as the tolerance allows",
        ),
        pytest.param(
            {"a": 2, "gone": 4}, {"replicaScheduling": AGGREGATED}, {"a": 6}, {DriftKind.CLUSTERS},
            id="replicas of a cluster that does not exist go to the cluster that has the others",
        ),
        pytest.param(
            {"a": 2}, {"replicaScheduling": DUPLICATED}, {"a": 2, "b": 2, "c": 2, "d": 2}, {DriftKind.COPIES},
            id="a duplicated workload gets the missing copies",
        ),
        pytest.param(
            {"a": 4, "b": 2},
            {"replicaScheduling": AGGREGATED, "spreadConstraints": [regions_by(2, 3), clusters_by(2, 3)]},
            {"a": 4, "b": 2}, set(), id="an aggregated workload has as many regions as a fresh decision",
        ),
        pytest.param(
            {"a": 4, "c": 3, "d": 1}, {"replicaScheduling": AGGREGATED, "spreadConstraints": [clusters_by(1, 2)]},
            {"a": 4, "c": 4}, {DriftKind.SPREAD}, id="of too many clusters the one with the fewest replicas loses them",
        ),
        pytest.param(
            {"c": 4}, {"group": "second", "clusterAffinities": GROUPS, "replicaScheduling": AGGREGATED}, {"a": 4},
            {DriftKind.GROUP}, id="an earlier group can hold the workload",
        ),
        pytest.param(
            {"a": 1, "b": 3}, {"group": "own", "clusterAffinities": OVERFLOWING, "replicaScheduling": AGGREGATED},
            {"a": 4}, {DriftKind.OVERFLOW}, id="replicas return from overflow clusters",
        ),
        pytest.param(
            {"a": 2, "b": 2}, {"replicaScheduling": AGGREGATED, "stuck": {"b": 2}}, {"a": 4}, {DriftKind.STUCK},
            id="replicas that do not run go where others run",
        ),
        pytest.param(
            {"a": 2, "b": 2, "c": 2, "d": 2}, {"replicaScheduling": EQUAL, "stuck": {"b": 2}},
            {"a": 2, "b": 2, "c": 2, "d": 2}, {DriftKind.STUCK}, id="static weights keep replicas that do not run",
        ),
        pytest.param(
            {"a": 3}, {"replicaScheduling": AGGREGATED, "wanted": 5}, {"a": 5}, {DriftKind.REPLICAS},
            id="the requested replicas have changed",
        ),
        pytest.param(
            {"a": 3}, {"clusterAffinity": {"clusterNames": ["none"]}}, {"a": 3}, set(), id="no cluster fits",
        ),
    ],
)  # fmt: skip
def test_a_minimal_decision(current, fields, expected, drift):
    found = decided(current, **fields)
    assert dict(found.assignment) == expected
    assert found.drift.keys() == drift
    assert found.is_exact
    assert found.moved <= found.moved_fresh or DriftKind.STUCK in drift


@cases(
    ("current", "constraints", "expected"),
    {
        "regions": ({"a": 5, "b": 1}, [regions_by(2, 3), clusters_by(2, 3)], {"a": 3, "b": 2, "c": 1}),
        "clusters": ({"a": 9, "b": 1, "c": 9, "d": 1}, [clusters_by(1, 3)], {"a": 7, "b": 6, "c": 7}),
    },
)
def test_the_search_says_that_it_is_a_heuristic_if_weights_and_constraints_disagree(current, constraints, expected):
    found = decided(current, replicaScheduling=DYNAMIC, spreadConstraints=constraints)
    assert dict(found.assignment) == expected
    assert found.drift.keys() == {DriftKind.SPREAD, DriftKind.WEIGHTS}
    assert not found.is_exact
