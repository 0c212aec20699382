"""Simulations and plans of stored objects."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fleet_dump import load
from switched_on import world_of

from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.planner import explained, plan, simulated
from berthmaster.simulation.report import Explanation, Row, explanation, row
from berthmaster.simulation.results import Moves, PlannedWorkload, moves
from berthmaster.simulation.scheduling_cycle import present_result
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import Change, World

JSON = Mapping[str, Any]
NOW = datetime(2026, 5, 1, tzinfo=UTC)
PROFILE = karmada_profile()
WEB = ResourceName("default", "Deployment", "web")


def policies(*raw: JSON) -> tuple[Policy, ...]:
    return tuple(defaulted(convert(Policy, each)) for each in raw)


class SimulatedRow(NamedTuple):
    """A workload before and after changes: the two results, how it moves, and what of that is due in any case."""

    resource: str
    before: Row
    after: Row
    moves: Moves
    due: Moves


def row_of(planned: PlannedWorkload) -> SimulatedRow:
    due = moves(planned.before, planned.settled or planned.before)
    return SimulatedRow(planned.resource, row(planned.before), row(planned.after), planned.moves, due)


def planned(world: World, *changes: Change) -> list[PlannedWorkload]:
    return list(simulated(world, ChangeSet(edits=changes), PROFILE, NOW).workloads)


def plan_of_edits(world: World, *changes: Change, observed: bool | None = None, **options: Any) -> Plan:
    """The plan of what-if changes, with the workloads that stay."""
    known = world.has_bindings if observed is None else observed
    edits = ChangeSet(edits=changes)
    return plan(PlanIndex(world, PROFILE), edits, NOW, observed=known, lists_all=True, **options)


def simulated_rows(
    *objects: JSON, over: Iterable[JSON] = (), changes: Iterable[Change] = (), **options: Any
) -> dict[str, SimulatedRow]:
    """The rows of stored objects, with those of files over them, before and after changes."""
    world = world_of(load(*objects, over=over), **options)
    return {each.resource: row_of(each) for each in planned(world, *changes)}


def web_row(*objects: JSON, **given: Any) -> SimulatedRow:
    return simulated_rows(*objects, **given)[str(WEB)]


def explain(*objects: JSON, name: ResourceName = WEB) -> Explanation:
    world = world_of(load(*objects))
    return explained_in(world, *world.find(name))


def explained_in(world: World, workload: SimulatedWorkload, now: datetime = NOW) -> Explanation:
    found, _ = explained(world, workload, ChangeSet(), PROFILE, now)
    return explanation(found.after, present_result(workload, world.schedulers))
