"""The minimal decision on small fleets: what it keeps, what it moves, and what it calls drift."""

from builders import binding, cluster, placement
from decisions import DYNAMIC
from tables import cases, data

from berthmaster.model.binding import BindingStatus
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.scheduling.karmada.minimal import decide_minimal
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

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


@cases(("current", "fields", "expected", "drift"), data("scheduling/minimal_decisions")["minimal decisions"])
def test_a_minimal_decision(current, fields, expected, drift):
    found = decided(current, **fields)
    assert dict(found.assignment) == expected
    assert found.drift.keys() == set(map(DriftKind, drift))
    assert found.is_exact
    assert found.moved <= found.moved_fresh or DriftKind.STUCK in found.drift


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
