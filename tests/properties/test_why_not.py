"""Each answer of why-not makes a simulation place the workload on the cluster, and nothing smaller of its kind does.

``make test`` asks some questions. ``make bench-why-not-property`` asks 2,000 about files, and about control planes in
use: WHY_NOT_FLEETS is the number of fleets of each kind.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from fleet_dump import load
from fleet_in_use import FleetInUse
from karmada_plane import cluster, deployment, policy, selector
from msgspec.structs import replace

from berthmaster.model.errors import InputError
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.planner import simulated
from berthmaster.simulation.remedies import MAX_FACTOR, Remedy, RemedyKind
from berthmaster.simulation.scheduling_cycle import run, scheduler_of
from berthmaster.simulation.why_not import Search, WhyNotQuestion, lets_others_in, question_of, why_not
from berthmaster.simulation.world import World, world_of

FLEETS = int(os.environ.get("WHY_NOT_FLEETS", "6"))
FROM = int(os.environ.get("WHY_NOT_FLEETS_FROM", "0"))
NOW = datetime(2026, 6, 1, tzinfo=UTC)
PROFILE = karmada_profile()
DIVIDED = {"replicaSchedulingType": "Divided"}
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
QUESTIONS = 12
"""How many pairs of a workload and a cluster are asked about in one fleet."""


def files(seed: int) -> World:
    """A fleet as files describe it: clusters that differ in everything that a filter or a score reads."""
    draw = random.Random(seed)
    clusters = [_cluster(draw, f"m{number}") for number in range(draw.randint(2, 6))]
    names = [each["metadata"]["name"] for each in clusters]
    objects: list[Any] = [*clusters]
    for number in range(4):
        requests = {"cpu": draw.choice(("500m", "1", "3"))} if draw.random() < 0.7 else {}
        template = deployment(f"w{number}", draw.choice((0, 1, 2, 3, 7, 12)), requests=requests or None)
        placement = _placement(draw, names)
        objects += [template, policy(f"p{number}", selector(name=f"w{number}"), placement=placement)]
    return world_of(load(*objects))


def _cluster(draw: random.Random, name: str) -> dict[str, Any]:
    made = cluster(name, draw.randint(1, 24), env=draw.choice(("prod", "stage")), tier=draw.choice(("gold", "silver")))
    made["spec"] |= {"region": draw.choice(("", "eu", "us")), "provider": draw.choice(("", "own", "rented"))}
    if draw.random() < 0.3:
        made["spec"]["taints"] = [TAINT]
    return made


def _affinity(draw: random.Random, names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw.random() < 0.5:
        found["clusterNames"] = draw.sample(names, draw.randint(1, len(names)))
    if draw.random() < 0.4:
        found["labelSelector"] = {"matchLabels": {"env": draw.choice(("prod", "stage"))}}
    if draw.random() < 0.2:
        found["exclude"] = [draw.choice(names)]
    if draw.random() < 0.2:
        region = {"key": "region", "operator": draw.choice(("In", "NotIn")), "values": ["eu"]}
        found["fieldSelector"] = {"matchExpressions": [region]}
    return found


def _placement(draw: random.Random, names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw.random() < 0.4:
        found["clusterAffinities"] = [
            {"affinityName": f"g{group}", **_affinity(draw, names)} for group in range(draw.randint(1, 3))
        ]
    elif draw.random() < 0.7:
        found["clusterAffinity"] = _affinity(draw, names)
    weights = [{"targetCluster": {"clusterNames": [draw.choice(names)]}, "weight": draw.randint(1, 5)}]
    found["replicaScheduling"] = draw.choice(
        (
            {"replicaSchedulingType": "Duplicated"},
            {**DIVIDED, "replicaDivisionPreference": "Aggregated"},
            {**DIVIDED, "replicaDivisionPreference": "Weighted"},
            {**DIVIDED, "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": weights}},
            {
                **DIVIDED, "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            },
        )
    )  # fmt: skip
    if draw.random() < 0.5:
        bounds = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": draw.randint(1, 3)}]
        if draw.random() < 0.4:
            bounds.append({"spreadByField": draw.choice(("region", "provider")), "minGroups": 1, "maxGroups": 1})
        found["spreadConstraints"] = bounds
    return found


def in_use(seed: int) -> World:
    """A control plane in use: bindings with evictions, suspensions, moves under way, lost clusters, Lazy policies."""
    return FleetInUse(seed, own=bool(seed % 2)).world()


def places(world: World, remedies: Sequence[Remedy], resource: str, name: str) -> bool:
    """Return whether a simulation places a workload on a cluster after changes."""
    edits = tuple(each.change for each in remedies)
    rows = simulated(world, ChangeSet(edits=edits), PROFILE, NOW).workloads
    return name in next(each.after.assignment for each in rows if each.resource == resource)


def problems(world: World, asked: WhyNotQuestion, name: str, draw: random.Random, kinds: Counter[str]) -> Iterator[str]:
    """Yield how the answer to a question differs from what a simulation says."""
    resource, found, replicas = str(asked.workload), asked.world.clusters[name], asked.request.replicas
    answer, search = why_not(asked, name), Search(asked, found)
    if places(world, (), resource, name) is not answer.taken:
        yield f"taken={answer.taken}, and a simulation says another thing"
    sets = [] if answer.taken or found.deleting else search.smallest()
    kinds["taken" if answer.taken else "changes" if sets else "none"] += 1
    if answer.changes != ([each.text for each in sets[0]] if sets else []):
        yield f"{answer.changes} are not the smallest changes"
    for remedies in sets:
        texts = [each.text for each in remedies]
        kinds.update(each.kind.name for each in remedies)
        if not places(world, remedies, resource, name) and not (answer.unknown and lets_others_in(asked, remedies)):
            yield f"{texts} do not help"
    for index, remedy in enumerate(sets[0]) if sets else ():
        others = [*sets[0][:index], *sets[0][index + 1 :]]
        if places(world, others, resource, name):
            yield f"{remedy.text} is not needed"
        nearer = range(1, remedy.distance)
        for distance in draw.sample(nearer, min(4, len(nearer))) if remedy.field is not None else ():
            smaller = remedy.field.at(distance)
            near = distance == remedy.distance - 1 or remedy.distance <= 64
            if near and places(world, [*others, smaller], resource, name):
                yield f"{smaller.text} is smaller than {remedy.text}, and helps"
    for remedy in chain.from_iterable(sets):
        if remedy.kind is RemedyKind.MORE_REPLICAS and remedy.field.now + remedy.distance > MAX_FACTOR * replicas:
            yield f"{remedy.text} is more than twice the replicas"


def disagreements(world: World, draw: random.Random, kinds: Counter[str]) -> Iterator[str]:
    """Ask about random pairs of a workload and a cluster, and yield what is wrong with the answers."""
    settled, results = run(world, PROFILE, NOW)
    # An answer is about the time after a move: in its middle, a rescheduling may change nothing.
    pairs_of = zip(world.workloads, results, strict=True)
    world = replace(world, workloads=[now if each.begun is None else each.workload for now, each in pairs_of])
    pairs = [(index, name) for index in range(len(results)) for name in world.clusters]
    for index, name in draw.sample(pairs, min(QUESTIONS, len(pairs))):
        scheduler = scheduler_of(settled, PROFILE)
        try:
            asked = question_of(scheduler, settled, world.workloads[index], results[index], NOW)
        except InputError:
            kinds["no scheduler"] += 1
            continue
        for problem in problems(world, asked, name, draw, kinds):
            yield f"{asked.workload} on {name}: {problem}\n  {asked.binding.spec}"


@pytest.mark.parametrize("seed", range(FROM, FROM + FLEETS))
@pytest.mark.parametrize("fleet", [files, in_use], ids=["files", "a control plane in use"])
def test_an_answer_makes_a_simulation_place_the_workload(fleet, seed):
    kinds: Counter[str] = Counter()
    found = list(disagreements(fleet(seed), random.Random(seed), kinds))
    print(dict(kinds))  # noqa: T201 - `pytest -s` shows what was asked
    assert not found, "\n".join(found)
