"""Berthmaster decides as karmada-scheduler does: random bindings, new ones and scaled ones."""

import json
import random

import pytest
from acceptance.planes import KARMADA_SCHEDULER
from acceptance.random_bindings import random_binding, random_cluster, with_components
from acceptance.scenes import Scene
from e2e.karmada import assigned, condition
from karmada_model.objects import Ident, ident
from kube_store import JSON

from berthmaster.deciding.decide import ClusterState, decide
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.scheduler import Scheduler

CLUSTERS = 10
BINDINGS = {"model": 40, "karmada": 500}
SETS = {"model": 20, "karmada": 200}
TEMPLATES = "MultiplePodTemplatesScheduling"
LIMIT_S = 600.0


def own_decision(state: ClusterState, binding: JSON) -> JSON:
    decision = decide(state, convert(Binding, binding), 0.0)
    clusters = decision.clusters if decision.clusters is not None else assigned(binding)
    group = decision.result.group if decision.result.ok else ""
    return {"scheduled": decision.result.ok, "clusters": dict(clusters), "group": group}


def made_decision(binding: JSON) -> JSON:
    ok = succeeded(binding)
    group = binding["status"].get("schedulerObservingAffinityName", "") if ok else ""
    return {"scheduled": ok, "clusters": assigned(binding), "group": group}


def own_pods(state: ClusterState, binding: JSON) -> JSON:
    write = decide(state, convert(Binding, binding), 0.0).write
    clusters = (write.clusters if write is not None else None) or ()
    return {each.name: {one.name: one.replicas for one in each.components} for each in clusters}


def made_pods(binding: JSON) -> JSON:
    return {
        each["name"]: {one["name"]: one.get("replicas", 0) for one in each.get("components") or ()}
        for each in binding["spec"].get("clusters") or ()
    }


def succeeded(binding: JSON) -> bool:
    return bool(condition(binding).get("status") == "True")


def is_done(binding: JSON) -> bool:
    if not succeeded(binding):
        return bool(condition(binding))
    observed = binding["status"].get("schedulerObservedGeneration")
    return bool(observed == binding["metadata"]["generation"])


def test_random_bindings_get_the_same_answers(scene: Scene):
    chance = random.Random(20)
    state, shorts = random_fleet(chance, scene)
    made = [random_binding(chance, scene, f"w{number}", shorts) for number in range(BINDINGS[scene.plane.kind])]
    expected = decided(scene, state, made)
    found = compare(scene, expected)
    compare(scene, scaled(chance, scene, state, found))
    assert some_fit(expected)


def test_random_sets_of_components_get_the_same_answers(scene: Scene):
    if TEMPLATES not in scene.plane.gates:
        pytest.skip(f"needs a Karmada 1.18 or newer with the gate {TEMPLATES}, and KARMADA_FEATURE_GATES={TEMPLATES}")
    chance = random.Random(21)
    state, shorts = random_fleet(chance, scene)
    made = [
        with_components(chance, random_binding(chance, scene, f"w{number}", shorts))
        for number in range(SETS[scene.plane.kind])
    ]
    expected = decided(scene, state, made)
    wanted = {ident(each): own_pods(state, each) for each in made}
    written = {which: made_pods(each) for which, each in compare(scene, expected).items()}
    if any(pods for clusters in written.values() for pods in clusters.values()):  # not Karmada up to 1.19.0-rc.0
        assert written == wanted
    assert some_fit(expected)


def random_fleet(chance: random.Random, scene: Scene) -> tuple[ClusterState, list[str]]:
    plane = scene.plane
    shorts = [f"m{number}" for number in range(CLUSTERS)]
    for short in shorts:
        random_cluster(chance, scene, short)
    plane.rest(5)  # until Karmada has added what it adds to clusters
    fleet = Fleet(
        KARMADA_CLUSTERS.read(json.dumps(each).encode())
        for each in plane.all("Cluster")
        if each["metadata"]["name"].startswith(plane.prefix)
    )
    return ClusterState(Scheduler(fleet, karmada_profile()), {}, FailoverOptions()), shorts


def decided(scene: Scene, state: ClusterState, bindings: list[JSON]) -> dict[Ident, JSON]:
    """Create bindings for the scheduler of the control plane, and return what Berthmaster would decide."""
    for each in bindings:
        each["spec"]["schedulerName"] = KARMADA_SCHEDULER
        scene.make(each)
        # An older Karmada drops the fields that it does not know.
        each["spec"]["placement"] = (scene.plane.get(ident(each)) or each)["spec"]["placement"]
    return {ident(each): own_decision(state, each) for each in bindings}


def some_fit(expected: dict[Ident, JSON]) -> bool:
    failed = sum(not each["scheduled"] for each in expected.values())
    return 0 < failed < len(expected) / 2


def scaled(chance: random.Random, scene: Scene, state: ClusterState, found: dict[Ident, JSON]) -> dict[Ident, JSON]:
    wanted = {}
    for which, binding in found.items():
        replicas = chance.randint(1, 30)
        wanted[which] = own_decision(state, {**binding, "spec": {**binding["spec"], "replicas": replicas}})
        scene.plane.edit(binding, spec={"replicas": replicas})
    return wanted


def compare(scene: Scene, expected: dict[Ident, JSON]) -> dict[Ident, JSON]:
    def latest() -> list[JSON]:
        found = [
            each
            for each in scene.plane.all("ResourceBinding")
            if each["metadata"]["namespace"] == scene.plane.namespace
        ]
        return [{"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", **each} for each in found]

    scene.plane.wait("all bindings have a condition", lambda: all(map(is_done, latest())), LIMIT_S)
    scene.plane.rest(3)
    found = {ident(each): each for each in latest()}
    made = {which: made_decision(each) for which, each in found.items()}
    different = {which.name: (made[which], wanted) for which, wanted in expected.items() if made[which] != wanted}
    assert different == {}, f"{len(different)} of {len(expected)} differ"
    return found
