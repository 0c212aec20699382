"""Simulations and plans of stored objects."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from fleet_dump import load
from switched_on import world_of

from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy, defaulted
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.planner import planned_fleet
from berthmaster.simulation.report import ChangeRow, Explanation, change_row, explanation
from berthmaster.simulation.run import PlannedWorkload, explained
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World

JSON = Mapping[str, Any]
NOW = datetime(2026, 5, 1, tzinfo=UTC)
PROFILE = karmada_profile()
WEB = ResourceName("default", "Deployment", "web")


def policies(*raw: JSON) -> tuple[Policy, ...]:
    return tuple(defaulted(convert(Policy, each)) for each in raw)


def planned(world: World, *changes: Change) -> list[PlannedWorkload]:
    return list(planned_fleet(world, ChangeSet(edits=changes), PROFILE, NOW).workloads)


def simulated(
    *objects: JSON, over: Iterable[JSON] = (), changes: Iterable[Change] = (), **options: Any
) -> dict[str, ChangeRow]:
    """The rows of stored objects, with those of files over them, before and after changes."""
    world = world_of(load(*objects, over=over), **options)
    fleet = planned_fleet(world, ChangeSet(edits=tuple(changes)), PROFILE, NOW)
    return {each.resource: change_row(each, fleet.hosts) for each in fleet.workloads}


def web_row(*objects: JSON, **given: Any) -> ChangeRow:
    return simulated(*objects, **given)[str(WEB)]


def explain(*objects: JSON, name: ResourceName = WEB) -> Explanation:
    world = world_of(load(*objects))
    (workload,) = world.find(name)
    return explanation(*explained(world, workload, PROFILE, NOW))
