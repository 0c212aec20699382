"""One question about a fleet in use, asked in every way that there is: the figures must be equal.

The losses of clusters and regions are asked from simulations, plans and failures; the edits of clusters and scales from
simulations and plans. Each is also asked from an extender that watches the fleet, and from the console's pages. Edits
of policies and scales are asked from plans, which decide few workloads by an index, and from simulations of all.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from asked_extender import AskedExtender, Figures, changes_of, figures_of, form_of, linked_question
from fleet_in_use import REGIONS, FleetInUse

from berthmaster.model.policy import Policy
from berthmaster.model.taint import NO_SCHEDULE, Taint
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, RemoveCluster, Reschedule, Scale
from berthmaster.simulation.failures import DomainLoss, FailureDomain, Failures
from berthmaster.simulation.losses import is_left, loss_of, runs_nowhere
from berthmaster.simulation.plan_answer import Plan, Switch
from berthmaster.simulation.plan_review import review_plan
from berthmaster.simulation.planner import plan, plan_of_simulation
from berthmaster.simulation.planner import simulated as simulation_of
from berthmaster.simulation.world import Change, World

_PROFILE: Final = karmada_profile()


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
    loss = found.loss
    return {
        **_left_by(found),
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


def reviewed(world: World, policy: Policy, now: datetime) -> dict[str, Figures]:
    """Return what a plan, a simulation of all workloads and the gate's review say that another policy leaves."""
    changes, index = ChangeSet(policies=(policy,)), PlanIndex(world, _PROFILE)
    found = {
        "plan": plan(index, changes, now),
        "simulate": plan_of_simulation(index, changes, simulation_of(world, changes, _PROFILE, now)),
        "review": review_plan(index, changes, now, None).plan,
    }
    return {name: _left_by(each) for name, each in found.items() if each is not None}


def _left_by(found: Plan) -> Figures:
    by_change = [each for each in found.unplaced if each.by_change]
    return {
        "nowhere": sorted(each.resource for each in by_change if each.nowhere),
        "short": sorted(each.resource for each in by_change if not each.nowhere),
    }


def _figures_of_plan(found: Plan) -> Figures:
    """Return what a plan says that changes cause, row by row."""
    caused = [each for each in found.moves if not each.due]
    return {
        "moves": sorted((each.resource, each.after, each.deleted, each.reason) for each in caused),
        "unplaced": sorted((each.resource, each.nowhere, each.message) for each in found.unplaced if each.by_change),
        "policies": [(each.policy, each.action, each.keeps, each.gains, each.loses) for each in found.policies],
    }


class Interview:
    """Asks each question about a fleet in use in every way that there is.

    Attributes:
        questions: how many questions were asked.
    """

    def __init__(self, fleet: FleetInUse, draw: random.Random) -> None:
        self._fleet, self._draw = fleet, draw
        self._now = fleet.stage.clock.now()
        self.questions = 0

    def disagreements(self, *, over_the_api: bool = True) -> Iterator[str]:
        """Yield the questions whose answers differ: about the fleet as configured and with eviction, and its files."""
        fleet = self._fleet
        switches = (Switch.AUTO, Switch.ON)
        if not over_the_api:
            for world in map(fleet.world, switches):
                yield from self._about(world)
        else:
            with AskedExtender(fleet) as extender:
                for switch in switches:
                    yield from self._about(fleet.world(switch), extender, switch)
        yield from self._about(fleet.files())

    def _about(
        self, world: World, extender: AskedExtender | None = None, switch: Switch = Switch.AUTO
    ) -> Iterator[str]:
        """Yield each question about a world whose answers differ."""
        failures = Failures(world, _PROFILE, self._now)
        shown = {} if extender is None else {(each.domain, each.name): each for each in extender.impacts(switch)}
        for loss in losses_of(world):
            answers = self._answers(world, changes_of(loss), extender, switch)
            answers["resilience"] = failed(failures, loss)
            if extender is not None:
                impact = shown[loss.domain, loss.name]
                answers["the page Resilience"] = figures_of(impact)
                answers["the page to which it links"] = extender.what_if(linked_question(impact))
            yield from self._differing(loss, answers)
        if extender is not None:
            worst = dict.fromkeys(("cluster", "region"), 0)
            for impact in shown.values():
                domain = impact.domain.value.lower()
                worst[domain] = max(worst.get(domain, 0), len(impact.only_copy))
            yield from self._differing("the worst loss", {"simulate": worst, "the metric": extender.worst_losses()})
        for changes in edits_of(world, self._draw):
            answers = self._answers(world, changes, extender, switch)
            if extender is not None and (question := form_of(changes, switch)) is not None:
                answers["the page What if"] = extender.what_if(question)
            yield from self._differing(changes, answers)
        yield from self._about_few(world)

    def _about_few(self, world: World) -> Iterator[str]:
        """Yield each change that concerns few workloads whose plan differs from that of a simulation of all."""
        questions = [ChangeSet(policies=(each,)) for each in self._fleet.edited_policies()]
        scaled = [each for each in world.workloads if each.waits is None and each.claim is not None]
        questions += [ChangeSet(workload_edits=(Scale(each.name, self._draw.randint(0, 9)),)) for each in scaled[:2]]
        for changes in questions:
            index = PlanIndex(world, _PROFILE)
            everything = plan_of_simulation(index, changes, simulation_of(world, changes, _PROFILE, self._now))
            answers = {"simulate": everything, "plan": plan(index, changes, self._now, observed=world.has_bindings)}
            yield from self._differing(changes, {name: _figures_of_plan(each) for name, each in answers.items()})

    def _answers(
        self, world: World, changes: Sequence[Change], extender: AskedExtender | None, switch: Switch
    ) -> dict[str, Figures]:
        found = {"simulate": simulated(world, changes, self._now), "plan": planned(world, changes, self._now)}
        if extender is None:
            return found
        found["/v1/plan"] = extender.planned(changes, switch)
        return found

    def _differing(self, question: object, answers: Mapping[str, Figures]) -> Iterator[str]:
        self.questions += 1
        first = answers["simulate"]
        for name, each in answers.items():
            if each != {figure: first[figure] for figure in each}:
                yield f"{question}: simulate {first}; {name} {each}"
