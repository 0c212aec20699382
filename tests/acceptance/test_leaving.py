"""How workloads leave clusters: taints, evictions, deleted clusters, lost clusters."""

from acceptance.planes import OWN_TAINT
from acceptance.random_bindings import ONE_CLUSTER
from acceptance.scenes import Scene
from decisions import DUPLICATED
from karmada_model.evictions import evict
from karmada_model.objects import ident
from kube_store import JSON

MAINTENANCE = {"key": "acceptance.berthmaster.io/maintenance", "effect": "NoSchedule"}


def taint(cluster: JSON, *taints: JSON) -> None:
    """Replace the taints of the suite, and keep those of Karmada."""
    kept = [each for each in cluster["spec"].get("taints") or () if each["key"].startswith("cluster.karmada.io/")]
    cluster["spec"]["taints"] = [*kept, {"key": OWN_TAINT, "effect": "NoSchedule"}, *taints]


def test_a_taint_keeps_new_workloads_away_and_old_ones_in_place(scene: Scene):
    first = scene.cluster("m1")
    scene.cluster("m2")
    web, late = scene.deployment("web"), scene.deployment("late", replicas=0)
    scene.policy("web", scene.placement("m1", "m2"), scene.selector("web"), scene.selector("late"))
    scene.expect(web, {"m1": 2, "m2": 2})
    scene.plane.change(ident(first), lambda content: taint(content, MAINTENANCE))
    scene.plane.rest(3)
    assert scene.assignment(web) == {"m1": 2, "m2": 2}
    scene.plane.edit(late, spec={"replicas": 4})
    scene.expect(late, {"m2": 4})
    scene.plane.edit(web, spec={"replicas": 6})
    scene.plane.wait("all replicas", lambda: sum(scene.assignment(web).values()) == 6)
    scene.plane.change(ident(first), taint)


def test_an_evicted_cluster_keeps_its_copy_until_the_new_one_is_healthy(scene: Scene):
    web, _ = scene.running(on=("m1", "m2"), m1=4)
    scene.cluster("m2")
    scene.plane.change(ident(scene.binding(web)), lambda content: evict(content, scene.name("m1")))
    scene.plane.wait("a new assignment", lambda: scene.assignment(web) == {"m2": 4})
    lowest = 4
    while scene.works(web).keys() != {"m2"}:
        scene.plane.rest(1)
        lowest = min(lowest, sum(scene.healthy(web).values()))
    assert lowest == 4, "healthy replicas were always there"
    scene.expect(web, {"m2": 4})


def test_a_deleted_cluster_is_left(scene: Scene):
    first = scene.cluster("m1")
    scene.cluster("m2")
    web = scene.deployment()
    scene.policy("web", scene.placement("m1", "m2"))
    scene.expect(web, {"m1": 2, "m2": 2})
    scene.remove(first)
    scene.expect(web, {"m2": 4})
    scene.plane.wait("the cluster is gone", lambda: scene.plane.get(ident(first)) is None)


def test_a_lost_cluster_is_replaced(scene: Scene):
    scene.cluster("m1")
    scene.cluster("m2")
    scene.cluster("m3")
    web = scene.deployment()
    scene.policy("web", scene.placement("m1", "m2", "m3"))
    scene.plane.wait("an assignment", lambda: sum(scene.healthy(web).values()) == 4)
    scene.plane.members.lose(scene.name("m1"))
    scene.plane.wait("m1 is left", lambda: scene.assignment(web) and "m1" not in scene.assignment(web))
    scene.plane.wait("all replicas run", lambda: sum(scene.healthy(web).values()) == 4)
    assert sum(scene.assignment(web).values()) == 4
    scene.plane.members.recover(scene.name("m1"))
    scene.plane.wait("the old copy is gone", lambda: "m1" not in scene.works(web))


def test_a_lost_cluster_of_a_duplicated_workload_is_replaced(scene: Scene):
    scene.cluster("m1", cpu=200)
    scene.cluster("m2")
    web = scene.deployment()
    scene.policy("web", scene.placement("m1", "m2", strategy=DUPLICATED, spreadConstraints=ONE_CLUSTER))
    scene.expect(web, {"m1": 4})
    scene.plane.members.lose(scene.name("m1"))
    scene.plane.wait("m2 replaces m1", lambda: scene.healthy(web) == {"m2": 4})
    scene.plane.members.recover(scene.name("m1"))
    scene.expect(web, {"m2": 4})
