"""Fleets in use that lose clusters: which workloads each answer calls left, beside what the members then run.

The control plane, its schedulers and its members are modelled twice: one loses the clusters, one does not. A workload
is left if fewer of its replicas run after the loss than without it, and fewer than it should have.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

from asked_extender import changes_of
from fleet_in_use import FleetInUse
from kube_store import JSON
from one_question import failed, losses_of, planned, simulated

from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.failures import DomainLoss, Failures
from berthmaster.simulation.plan_answer import DEFAULT_BRAKE
from berthmaster.simulation.world import World

_PROFILE: Final = karmada_profile()


class LosingFleet:
    """A fleet in use, and a loss of one of its clusters or regions.

    Not compared are workloads whose move is under way, those that only a restart of their scheduler would place, those
    without replicas that run nowhere or cannot be scheduled, and those that Karmada holds up: it writes no copy before
    the one that is purged is gone, which never happens on a cluster that is out of reach.

    Args:
        seed: of everything random.
        own: whether Berthmaster's scheduler decides, or karmada-scheduler by its rules.

    Attributes:
        cases: how many workloads of each kind were compared.
    """

    def __init__(self, seed: int, *, own: bool) -> None:
        self._seed, self._own = seed, own
        self._draw = random.Random(f"{seed}-{own}-loss")
        self.cases: Counter[str] = Counter()

    def differences(self) -> Iterator[str]:
        """Ask about the loss, play it, and yield what happened otherwise."""
        fleet, other = (FleetInUse(self._seed, own=self._own) for _ in range(2))
        for each in (fleet, other) if self._seed % 2 else ():
            each.go_on()
        world, now = fleet.world(), fleet.stage.clock.now()
        losses = [each for each in losses_of(world) if _is_plain(each, world)]
        if not losses:
            return
        loss = self._draw.choice(losses)
        changes = changes_of(loss)
        answers = {
            "simulate": simulated(world, changes, now),
            "plan": planned(world, changes, now),
            "resilience": failed(Failures(world, _PROFILE, now), loss),
        }
        unknown = fleet.waiting_for_a_restart(world) | fleet.moving()
        for each in (fleet, other):
            each.start_schedulers()
            each.stage.settle()
        unknown |= fleet.moving()
        for name in loss.clusters:
            fleet.stage.model.members.lose(name)
        for each in (fleet, other):
            each.rest()
        for template in fleet.templates:
            name = template["metadata"]["name"]
            if name in unknown or _is_held_up(fleet, template) or not _wants_copies(fleet, other, template):
                continue
            happened = _left(fleet, other, template)
            self.cases[happened] += 1
            for answer, figures in answers.items():
                said = next((each for each in ("nowhere", "short") if f"shop/Deployment/{name}" in figures[each]), "")
                if said != happened:
                    runs = (_running(each, template) for each in (other, fleet))
                    yield (
                        f"{name}: {', '.join(loss.clusters)} lost: {answer} says {said!r}, happened {happened!r}; "
                        f"without the loss, and with it: {', '.join(map(str, runs))}"
                    )


def _is_plain(loss: DomainLoss, world: World) -> bool:
    """Return whether all clusters of a loss are ready until then, and they are too few for the storm brake."""
    lost = [world.clusters[name] for name in loss.clusters]
    return len(lost) < DEFAULT_BRAKE.min_clusters and all(each.ready and not each.deleting for each in lost)


def _running(fleet: FleetInUse, template: JSON) -> dict[str, int]:
    """Return the replicas of a workload that run where its binding has them."""
    healthy = fleet.stage.model.members.healthy(template)
    return {name: healthy[name] for name in fleet.assignment(template) if name in healthy}


def _left(fleet: FleetInUse, other: FleetInUse, template: JSON) -> str:
    """Return whether a loss leaves a workload "nowhere" or "short"; empty if it leaves it alone.

    A duplicated workload has all replicas on each cluster: one copy is enough.
    """
    runs, otherwise = _running(fleet, template), _running(other, template)
    if _fails(fleet, template) and not _fails(other, template):
        return "short" if runs else "nowhere"
    if not runs:
        return "nowhere" if otherwise else ""
    binding = fleet.stage.binding(template) or {"spec": {}}
    scheduling = (binding["spec"].get("placement") or {}).get("replicaScheduling") or {}
    if scheduling.get("replicaSchedulingType") != "Divided":
        return ""
    assigned, wanted = fleet.assignment(template), _wanted(fleet, template)
    in_vain = any(count > runs.get(name, 0) for name, count in assigned.items())
    if not in_vain or assigned == other.assignment(template):
        wanted = min(sum(otherwise.values()), wanted)
    return "short" if sum(runs.values()) < wanted else ""


def _wants_copies(fleet: FleetInUse, other: FleetInUse, template: JSON) -> bool:
    if _wanted(fleet, template):
        return True
    return not _fails(fleet, template) and bool(_running(fleet, template) or _running(other, template))


def _wanted(fleet: FleetInUse, template: JSON) -> int:
    return int((fleet.stage.get(template) or template)["spec"]["replicas"])


def _is_held_up(fleet: FleetInUse, template: JSON) -> bool:
    members = fleet.stage.model.members
    works = fleet.stage.works(template)
    return any("deletionTimestamp" in each["metadata"] and not members.member(name).up for name, each in works.items())


def _fails(fleet: FleetInUse, template: JSON) -> bool:
    return bool(fleet.stage.condition(template).get("status") == "False")
