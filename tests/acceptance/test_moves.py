"""Moves: failback, drain, failover and rollback, with new copies before old ones go."""

import json
from collections.abc import Callable

from acceptance.scenes import Scene
from acceptance.test_leaving import taint
from karmada_model.objects import ident
from kube_store import JSON

from berthmaster.model.move import DRAINING, FAILBACK, MOVE

LIMIT_S = 300
"""In seconds. A new leader begins no planned move for one minute."""
DRAIN: JSON = {"key": DRAINING, "effect": "NoSchedule"}


def lowest_until(scene: Scene, web: JSON, what: str, check: Callable[[], bool]) -> int:
    """Wait until a check holds, and return the lowest number of healthy replicas that was seen on the way."""
    lowest = total(scene, web)
    for _ in range(LIMIT_S):
        if check():
            return lowest
        scene.plane.rest(1)
        lowest = min(lowest, total(scene, web))
    raise AssertionError(f"after {LIMIT_S} s still not: {what}; the move is {move(scene, web)}")


def total(scene: Scene, web: JSON) -> int:
    return sum(scene.healthy(web).values())


def move(scene: Scene, web: JSON) -> JSON:
    return dict(json.loads(scene.binding(web)["metadata"].get("annotations", {}).get(MOVE, "{}")))


def resize(cluster: JSON, cpu: str) -> None:
    cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = cpu


def in_second_group(scene: Scene) -> tuple[JSON, JSON]:
    small = scene.cluster("m1", cpu=1)
    scene.cluster("m2")
    web = scene.deployment()
    placement = scene.placement(clusterAffinities=scene.groups(near=["m1"], far=["m2"]))
    scene.policy("web", placement, annotations={FAILBACK: "after=5s,headroom=0%"})
    scene.expect(web, {"m2": 4})
    return web, small


def test_a_workload_returns_to_its_first_group(scene: Scene):
    web, small = in_second_group(scene)
    scene.plane.change(ident(small), lambda content: resize(content, "100"), status=True)
    lowest = lowest_until(scene, web, "it returns", lambda: scene.works(web) == {"m1": 4})
    assert lowest == 4, "healthy replicas were always there"
    scene.expect(web, {"m1": 4})
    assert scene.binding(web)["status"]["schedulerObservingAffinityName"] == "near"


def test_a_move_whose_new_copies_never_become_healthy_is_rolled_back(scene: Scene):
    web, small = in_second_group(scene)
    scene.plane.members.break_workload(scene.name("m1"), "web")
    scene.plane.change(ident(small), lambda content: resize(content, "100"), status=True)
    lowest = lowest_until(scene, web, "it begins", lambda: scene.works(web) == {"m1": 4, "m2": 4})
    lowest = min(lowest, lowest_until(scene, web, "it is rolled back", lambda: scene.works(web) == {"m2": 4}))
    assert lowest == 4, "healthy replicas were always there"
    assert scene.assignment(web) == {"m2": 4}
    assert move(scene, web)["failures"] == 1
    scene.plane.members.mend()


def test_a_move_is_not_rolled_back_to_copies_that_became_unhealthy(scene: Scene):
    web, small = in_second_group(scene)
    scene.plane.change(ident(small), lambda content: resize(content, "100"), status=True)
    lowest_until(scene, web, "both run", lambda: scene.healthy(web) == {"m1": 4, "m2": 4})
    scene.plane.members.break_workload(scene.name("m2"), "web")
    lowest = lowest_until(scene, web, "it soaks", lambda: move(scene, web)["phase"] == "Soaking")
    scene.plane.members.set_ready(scene.name("m1"), "False")
    scene.plane.rest(2)
    scene.plane.members.set_ready(scene.name("m1"), "True")
    lowest = min(lowest, lowest_until(scene, web, "it ends", lambda: scene.works(web) == {"m1": 4}))
    assert lowest == 4, "healthy replicas were always there"
    scene.plane.members.mend()


def test_a_drained_cluster_is_left(scene: Scene):
    first = scene.cluster("m1")
    scene.cluster("m2")
    web = scene.deployment()
    scene.policy("web", scene.placement("m1", "m2"))
    scene.expect(web, {"m1": 2, "m2": 2})
    scene.plane.change(ident(first), lambda content: taint(content, DRAIN))
    lowest = lowest_until(scene, web, "m1 is left", lambda: scene.works(web) == {"m2": 4})
    assert lowest == 4, "healthy replicas were always there"
    scene.plane.change(ident(first), taint)
    scene.plane.rest(5)
    scene.expect(web, {"m2": 4})


def test_a_failover_that_the_group_cannot_hold_moves_the_whole_workload(scene: Scene):
    for name, cpu in (("m1", 2), ("m2", 2), ("m3", 100)):
        scene.cluster(name, cpu=cpu)
    web = scene.deployment()
    scene.policy("web", scene.placement(clusterAffinities=scene.groups(near=["m1", "m2"], far=["m3"])))
    scene.expect(web, {"m1": 2, "m2": 2})
    scene.plane.members.lose(scene.name("m1"))
    lowest = lowest_until(scene, web, "the next group has it all", lambda: scene.healthy(web) == {"m3": 4})
    assert lowest == 2, "the healthy copy stayed until the new ones were healthy"
    assert scene.assignment(web) == {"m3": 4}
    scene.plane.members.recover(scene.name("m1"))
    scene.expect(web, {"m3": 4})
