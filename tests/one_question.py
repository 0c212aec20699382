"""One question about a fleet in use, asked in every way that there is: the figures must be equal.

The losses of clusters and regions are asked from simulations, plans and failures; the edits of clusters and scales from
simulations and plans.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from fleet_in_use import REGIONS, FleetInUse

from berthmaster.model.cluster import NO_SCHEDULE, Taint
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, RemoveCluster, Reschedule, Scale
from berthmaster.simulation.failures import DomainLoss, FailureDomain, Failures
from berthmaster.simulation.losses import is_left, loss_of, runs_nowhere
from berthmaster.simulation.plan_answer import Switch
from berthmaster.simulation.planner import plan
from berthmaster.simulation.planner import simulated as simulation_of
from berthmaster.simulation.world import Change, World

_PROFILE: Final = karmada_profile()
Figures = dict[str, Any]


def losses_of(world: World) -> Iterator[DomainLoss]:
    """Yield the loss of each cluster and of each region."""
    for name in world.clusters:
        yield DomainLoss(FailureDomain.CLUSTER, name, (name,))
    for region in REGIONS:
        names = tuple(sorted(name for name, each in world.clusters.items() if each.spec.region == region))
        if names:
            yield DomainLoss(FailureDomain.REGION, region, names)


def edits_of(world: World, draw: random.Random) -> Iterator[tuple[Change, ...]]:
    """Yield changes of clusters and of replicas."""
    name = draw.choice(sorted(world.clusters))
    yield (AddTaint(name, Taint("gpu", NO_SCHEDULE)),)
    yield (AddLabel(name, "env", draw.choice(("prod", "stage"))),)
    yield (RemoveCluster(name),)
    yield (Reschedule(),)
    scalable = [each for each in world.workloads if each.waits is None and each.claim is not None]
    if scalable:
        yield (Scale(draw.choice(scalable).name, draw.randint(0, 9)), Down(name))


def simulated(world: World, changes: Sequence[Change], now: datetime) -> Figures:
    """Return the figures of a simulation."""
    fleet = simulation_of(world, ChangeSet(edits=tuple(changes)), _PROFILE, now)
    left = [each for each in fleet.workloads if is_left(each, fleet.hosts)]
    caused = [each.resource for each in fleet.workloads if each.moves and not each.is_due]
    loss = loss_of(fleet.workloads, fleet.hosts) if fleet.hosts.stopping else None
    return {
        "nowhere": sorted(each.resource for each in left if runs_nowhere(each, fleet.hosts)),
        "short": sorted(each.resource for each in left if not runs_nowhere(each, fleet.hosts)),
        "moved": len(caused),
        "caused": sorted(caused),
        "loss": None if loss is None else (loss.workloads, loss.replicas, sorted(loss.only_copy)),
    }


def planned(world: World, changes: Sequence[Change], now: datetime) -> Figures:
    """Return the figures of a plan."""
    found = plan(PlanIndex(world, _PROFILE), ChangeSet(edits=tuple(changes)), now)
    by_change = [each for each in found.unplaced if each.by_change]
    loss = found.loss
    return {
        "nowhere": sorted(each.resource for each in by_change if each.nowhere),
        "short": sorted(each.resource for each in by_change if not each.nowhere),
        "moved": sum(not each.due for each in found.moves),
        "caused": sorted(each.resource for each in found.moves if not each.due),
        "loss": None if loss is None else (loss.workloads, loss.replicas, sorted(loss.only_copy)),
    }


def failed(failures: Failures, loss: DomainLoss) -> Figures:
    """Return the figures of a failure."""
    found = failures.impact(loss)
    return {
        "nowhere": sorted(found.nowhere),
        "short": sorted(found.short),
        "moved": found.moved,
        "loss": (found.stopping, found.stopped, sorted(found.only_copy)),
    }


def all_disagreements(fleet: FleetInUse, draw: random.Random) -> Iterator[str]:
    """Yield the disagreements about a fleet in use, as configured and with eviction, and about its files."""
    now = fleet.stage.clock.now()
    for world in (fleet.world(), fleet.world(Switch.ON), fleet.files()):
        yield from disagreements(world, now, draw)


def disagreements(world: World, now: datetime, draw: random.Random) -> Iterator[str]:
    """Yield each question about a world whose answers differ."""
    failures = Failures(world, _PROFILE, now)
    for loss in losses_of(world):
        changes = [Down(name) for name in loss.clusters]
        first, second, third = simulated(world, changes, now), planned(world, changes, now), failed(failures, loss)
        if first != second:
            yield f"{loss}: simulate {first}; plan {second}"
        if {name: first[name] for name in third} != third:
            yield f"{loss}: simulate {first}; resilience {third}"
    for changes in edits_of(world, draw):
        first, second = simulated(world, changes, now), planned(world, changes, now)
        if first != second:
            yield f"{changes}: simulate {first}; plan {second}"
