"""A test of placements and a plan of the same change agree."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fleet_in_use import FleetInUse
from one_question import edits_of, losses_of, simulated

from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex, what_if
from berthmaster.simulation.changes import Down
from berthmaster.simulation.expectations import Expectation, Lack, deviations, planned_fleet
from berthmaster.simulation.plan_answer import Switch
from berthmaster.simulation.planner import plan
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import World

FLEETS = 12
PROFILE = karmada_profile()


def change_sets(world: World, policies: list[Mapping[str, Any]], draw: random.Random) -> Iterator[ChangeSet]:
    yield ChangeSet()
    for loss in losses_of(world):
        yield what_if([Down(each) for each in loss.clusters], world)
    for edits in edits_of(world, draw):
        yield what_if(edits, world)
    for raw in policies:
        names = draw.sample(sorted(world.clusters), 1)
        placed = {**raw["spec"]["placement"], "clusterAffinity": {"clusterNames": names}, "clusterAffinities": None}
        changed = defaulted(convert(Policy, {**raw, "spec": {**raw["spec"], "placement": placed}}))
        yield ChangeSet(policies=(changed,))
        yield ChangeSet(policies=(changed,), edits=(Down(draw.choice(sorted(world.clusters))),))


def expected_by(row, **fields) -> Expectation:
    return Expectation(workload=ResourceName.parse(row.resource), **fields)


@pytest.mark.parametrize("own", [pytest.param(False, id="Karmada"), pytest.param(True, id="Berthmaster")])
@pytest.mark.parametrize("seed", range(FLEETS))
def test_a_test_expects_what_a_plan_shows(seed, own):
    fleet = FleetInUse(seed, own=own)
    now, draw = fleet.stage.clock.now(), random.Random(seed)
    for world in (fleet.world(Switch.AUTO), fleet.world(Switch.ON), fleet.files()):
        for changes in change_sets(world, fleet.policies, draw):
            answer = plan(PlanIndex(world, PROFILE), changes, now)
            outcome = planned_fleet(PlanIndex(world, PROFILE), changes, now)
            assert outcome.plan == answer
            assert sorted(each.resource for each in outcome.rows) == sorted(map(str, world.workloads))
            expected = [
                Expectation(moves=answer.summary.moved, overcommitted=tuple(answer.overcommitted)),
                *(expected_by(each, moves=1, group=each.group or "") for each in answer.moves),
                *(expected_by(each, nowhere=1) for each in answer.unplaced if each.nowhere),
                *(expected_by(each, short=1) for each in answer.unplaced if not each.nowhere),
            ]
            assert [each for one in expected for each in deviations(one, outcome)] == []
            for each in answer.moves:
                (row,) = outcome.chosen(expected_by(each))
                running = next(deviations(expected_by(each, clusters=("-",)), outcome)).found
                assert set(running) <= each.after.keys() - outcome.hosts.stopping
                assert not each.not_running.keys() & set(running) or set(running) <= row.before.assignment.keys()


@pytest.mark.parametrize("seed", range(FLEETS))
def test_a_test_finds_what_a_simulation_leaves(seed):
    fleet = FleetInUse(seed, own=True)
    now, world = fleet.stage.clock.now(), fleet.world(Switch.ON)
    for loss in losses_of(world):
        changes = [Down(each) for each in loss.clusters]
        outcome = planned_fleet(PlanIndex(world, PROFILE), what_if(changes, world), now)
        found = simulated(world, changes, now)
        lacking = {lack: {each.resource for each in outcome.rows if outcome.lack(each) is lack} for lack in Lack}
        assert set(found["nowhere"]) <= lacking[Lack.EVERYTHING]
        assert set(found["short"]) <= lacking[Lack.REPLICAS]
