"""Which policy a workload belongs to: ranks, edits, deletion, and preemption by Karmada's detector."""

from collections.abc import Callable
from typing import Any

import pytest
from acceptance.scenes import Scene
from kube_store import JSON

PREEMPTION = "PropagationPolicyPreemption"


@pytest.fixture
def preempting(scene: Scene) -> Scene:
    """A scene on a Karmada whose detector preempts, or with Berthmaster's preemption controller."""
    if scene.plane.preempts:
        scene.plane.use_webhook()  # it records drops in priority
    elif PREEMPTION not in scene.plane.gates:
        pytest.skip(f"needs a Karmada with the gate {PREEMPTION}, and KARMADA_FEATURE_GATES={PREEMPTION}")
    return scene


def two_clusters(scene: Scene) -> None:
    for name in ("m1", "m2"):
        scene.cluster(name)


def held_by(scene: Scene, name: str, **spec: Any) -> tuple[JSON, JSON]:
    """Create two clusters, and a Deployment that a policy holds on the first one. Return it and the policy."""
    two_clusters(scene)
    web = scene.deployment()
    policy = scene.policy(name, scene.placement("m1"), **spec)
    scene.expect(web, {"m1": 4})
    return web, policy


@pytest.mark.parametrize(
    ("first", "second", "holder"),
    [
        pytest.param({"name": "a"}, {"name": "b"}, "a", id="of equals the first name"),
        pytest.param({"name": "a"}, {"name": "b", "priority": 1}, "b", id="the higher priority"),
        pytest.param({"name": "a", "by": "kind"}, {"name": "b"}, "b", id="the closer match"),
        pytest.param({"name": "a", "wide": True, "priority": 9}, {"name": "b"}, "b", id="a PP before any CPP"),
    ],
)
def test_an_unclaimed_workload_goes_to(scene: Scene, first: JSON, second: JSON, holder: str):
    two_clusters(scene)
    for number, given in enumerate((dict(first), dict(second)), start=1):
        selector = scene.selector("" if given.pop("by", "name") == "kind" else "web")
        scene.policy(given.pop("name"), scene.placement(f"m{number}"), selector, **given)
    scene.plane.rest(2)
    web = scene.deployment()
    scene.plane.wait("a claim", lambda: scene.holder(web))
    assert scene.holder(web) == holder
    scene.expect(web, {"m1" if holder == "a" else "m2": 4})


def test_a_claim_lasts_without_preemption(scene: Scene):
    web, _ = held_by(scene, "low")
    scene.policy("high", scene.placement("m2"), priority=9)
    scene.plane.rest(5)
    assert (scene.holder(web), scene.assignment(web)) == ("low", {"m1": 4})


@pytest.mark.parametrize(
    ("release", "moves"),
    [
        pytest.param(lambda scene, policy: scene.remove(policy), True, id="its deletion"),
        pytest.param(
            lambda scene, policy: scene.plane.edit(policy, spec={"resourceSelectors": [scene.selector("other")]}),
            True,
            id="selecting something else",
        ),
        pytest.param(
            lambda scene, policy: scene.plane.edit(policy, spec={"priority": -5}), False, id="not its priority"
        ),
    ],
)
def test_the_next_policy_gets_a_workload_after(scene: Scene, release: Callable[..., None], *, moves: bool):
    web, first = held_by(scene, "first")
    scene.policy("next", scene.placement("m2"))
    scene.plane.rest(2)
    assert scene.holder(web) == "first"
    release(scene, first)
    scene.plane.rest(3)
    if moves:
        scene.expect(web, {"m2": 4})
    assert scene.holder(web) == ("next" if moves else "first")


@pytest.mark.parametrize(
    ("held", "preemptor", "takes"),
    [
        pytest.param({"priority": 5}, {"priority": 6}, True, id="a higher priority takes"),
        pytest.param({"priority": 5}, {"priority": 5}, False, id="an equal one does not"),
        pytest.param({"priority": 9, "wide": True}, {"priority": -1}, True, id="a PP takes from any CPP"),
        pytest.param({"priority": 1}, {"priority": 9, "wide": True}, False, id="a CPP never takes from a PP"),
        pytest.param({"wide": True}, {"priority": 1, "wide": True}, True, id="a CPP takes from a lower CPP"),
    ],
)
def test_preemption(preempting: Scene, held: JSON, preemptor: JSON, *, takes: bool):
    scene = preempting
    web, _ = held_by(scene, "held", **held)
    scene.policy("preemptor", scene.placement("m2"), preemption="Always", **preemptor)
    if takes:
        scene.expect(web, {"m2": 4})
    else:
        scene.plane.rest(5)
    assert scene.holder(web) == ("preemptor" if takes else "held")


def test_a_drop_in_priority_lets_the_highest_candidate_take(preempting: Scene):
    scene = preempting
    web, held = held_by(scene, "held", priority=9)
    for name, priority in (("four", 4), ("seven", 7), ("two", 2)):
        scene.policy(name, scene.placement("m2"), priority=priority, preemption="Always")
    scene.plane.rest(3)
    assert scene.holder(web) == "held"
    scene.plane.edit(held, spec={"priority": 3})
    scene.expect(web, {"m2": 4})
    assert scene.holder(web) == "seven"


def test_a_drop_in_priority_wakes_the_old_priority_too_if_berthmaster_preempts(preempting: Scene):
    """Karmada looks at the priorities strictly between the new and the old one; Berthmaster includes the old one."""
    scene = preempting
    web, held = held_by(scene, "held", priority=9)
    scene.policy("equal", scene.placement("m2"), priority=9, preemption="Always")
    scene.plane.rest(3)
    assert scene.holder(web) == "held"
    scene.plane.edit(held, spec={"priority": 3})
    scene.plane.rest(5)
    assert scene.holder(web) == ("equal" if scene.plane.preempts else "held")


def test_the_loser_gets_a_workload_back_when_the_winner_is_deleted(preempting: Scene):
    scene = preempting
    web, _ = held_by(scene, "loser")
    winner = scene.policy("winner", scene.placement("m2"), priority=1, preemption="Always")
    scene.expect(web, {"m2": 4})
    scene.remove(winner)
    scene.expect(web, {"m1": 4})
    assert scene.holder(web) == "loser"
