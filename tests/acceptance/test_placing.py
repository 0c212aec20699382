"""From a policy to running pods: policies, schedulers, scaling, triggers, dependencies, suspension."""

import pytest
from acceptance.planes import KARMADA_SCHEDULER
from acceptance.scenes import Scene
from decisions import AGGREGATED, DUPLICATED, DYNAMIC
from kube_store import JSON


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param(DYNAMIC, {"m1": 2, "m2": 2}, id="by available replicas"),
        pytest.param(DUPLICATED, {"m1": 4, "m2": 4}, id="duplicated"),
        pytest.param(
            {
                **DYNAMIC,
                "weightPreference": {
                    "staticWeightList": [
                        {"targetCluster": {"labelSelector": {"matchLabels": {"size": "large"}}}, "weight": 3},
                        {"targetCluster": {"labelSelector": {"matchLabels": {"size": "small"}}}, "weight": 1},
                    ]
                },
            },
            {"m1": 3, "m2": 1},
            id="by static weights",
        ),
    ],
)
def test_a_policy_becomes_running_pods(scene: Scene, strategy: JSON, expected: dict[str, int]):
    scene.cluster("m1", size="large")
    scene.cluster("m2", size="small")
    web = scene.deployment()
    scene.policy("web", scene.placement("m1", "m2", strategy=strategy))
    scene.expect(web, expected)
    assert scene.holder(web) == "web"
    binding = scene.binding(web)
    assert binding["spec"]["schedulerName"] == scene.plane.scheduler
    assert scene.scheduled(web)["status"] == "True"
    scene.plane.wait("the scheduler observes the latest generation", lambda: observed(scene.binding(web)))


def observed(binding: JSON) -> bool:
    return bool(binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"])


def test_a_workload_that_fits_nowhere_says_so_and_is_scheduled_once_it_fits(scene: Scene):
    scene.cluster("m1", cpu=2)
    web = scene.deployment(replicas=4)
    scene.policy("web", scene.placement("m1"))
    scene.plane.wait("a condition", lambda: scene.scheduled(web).get("reason") == "Unschedulable")
    assert scene.assignment(web) == {}
    scene.plane.edit(web, spec={"replicas": 2})
    scene.expect(web, {"m1": 2})


def test_the_first_group_that_holds_the_workload_gets_it(scene: Scene):
    for name, cpu in (("m1", 1), ("m2", 2), ("m3", 8)):
        scene.cluster(name, cpu=cpu)
    web = scene.deployment()
    scene.policy("web", scene.placement(clusterAffinities=scene.groups(near=["m1", "m2"], far=["m3"])))
    scene.expect(web, {"m3": 4})
    assert scene.binding(web)["status"]["schedulerObservingAffinityName"] == "far"
    scene.plane.edit(web, spec={"replicas": 2})
    scene.expect(web, {"m3": 2})


def test_two_schedulers_side_by_side(scene: Scene):
    scene.cluster("m1", cpu=200)
    scene.cluster("m2")
    ours, theirs = scene.deployment("ours"), scene.deployment("theirs")
    placement = scene.placement("m1", "m2", strategy=AGGREGATED)
    scene.policy("ours", placement, scene.selector("ours"))
    scene.policy("theirs", placement, scene.selector("theirs"), schedulerName=KARMADA_SCHEDULER)
    for web in (ours, theirs):
        scene.plane.wait("an assignment", lambda web=web: scene.assignment(web))
        scene.plane.wait("healthy pods", lambda web=web: sum(scene.healthy(web).values()) == 4)
        scene.plane.edit(web, spec={"replicas": 6})
    for web in (ours, theirs):
        scene.plane.wait("more replicas", lambda web=web: sum(scene.assignment(web).values()) == 6)
    assert scene.assignment(ours) == scene.assignment(theirs)


def test_scaling_keeps_the_clusters(scene: Scene):
    web, _ = scene.running(m1=2, m2=2)
    scene.plane.edit(web, spec={"replicas": 8})
    scene.expect(web, {"m1": 4, "m2": 4})
    scene.plane.edit(web, spec={"replicas": 2})
    scene.expect(web, {"m1": 1, "m2": 1})


def test_an_edited_placement_moves_the_workload(scene: Scene):
    web, policy = scene.running(m1=4)
    scene.cluster("m2")
    scene.plane.edit(policy, spec={"placement": scene.placement("m2")})
    scene.expect(web, {"m2": 4})


def test_a_lazy_policy_moves_nothing_until_its_workload_changes(scene: Scene):
    for name in ("m1", "m2"):
        scene.cluster(name)
    policy = scene.policy("web", scene.placement("m1"), activationPreference="Lazy")
    web = scene.deployment()
    scene.expect(web, {"m1": 4})
    scene.plane.edit(policy, spec={"placement": scene.placement("m2")})
    scene.plane.rest(5)
    assert scene.assignment(web) == {"m1": 4}
    scene.plane.edit(web, spec={"replicas": 2})
    scene.expect(web, {"m2": 2})


def test_an_edit_of_another_group_moves_nothing(scene: Scene):
    for name in ("m1", "m2", "m3"):
        scene.cluster(name)
    web = scene.deployment()
    policy = scene.policy("web", scene.placement(clusterAffinities=scene.groups(near=["m1"], far=["m2"])))
    scene.expect(web, {"m1": 4})
    groups = scene.groups(near=["m1"], far=["m3"])
    scene.plane.edit(policy, spec={"placement": {"clusterAffinities": groups}})
    scene.plane.wait(
        "the binding has the new placement",
        lambda: scene.binding(web)["spec"]["placement"]["clusterAffinities"][1]["clusterNames"] == [scene.name("m3")],
    )
    scene.plane.rest(3)
    assert scene.assignment(web) == {"m1": 4}


def test_a_rebalancer_spreads_over_a_new_cluster(scene: Scene):
    web, _ = scene.running(on=("m1", "m2"), m1=4)
    scene.cluster("m2")
    scene.plane.rest(3)
    assert scene.assignment(web) == {"m1": 4}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": scene.plane.namespace, "name": "web"}
    scene.make(
        {
            "apiVersion": "apps.karmada.io/v1alpha1",
            "kind": "WorkloadRebalancer",
            "metadata": {"name": scene.name("now")},
            "spec": {"workloads": [workload]},
        }
    )
    scene.expect(web, {"m1": 2, "m2": 2})


def test_suspended_scheduling_waits(scene: Scene):
    web, _ = scene.running(m1=4)
    scene.plane.edit(scene.binding(web), spec={"suspension": {"scheduling": True}})
    scene.plane.edit(web, spec={"replicas": 6})
    scene.plane.wait("the binding knows", lambda: scene.binding(web)["spec"]["replicas"] == 6)
    scene.plane.rest(3)
    assert scene.assignment(web) == {"m1": 4}
    scene.plane.edit(scene.binding(web), spec={"suspension": None})
    scene.expect(web, {"m1": 6})


def test_suspended_dispatching_keeps_pods_away(scene: Scene):
    scene.cluster("m1")
    web = scene.deployment()
    policy = scene.policy("web", scene.placement("m1"), suspension={"dispatching": True})
    scene.plane.wait("a Work", lambda: scene.works(web) == {"m1": 4})
    scene.plane.rest(5)
    assert scene.healthy(web) == {}
    scene.plane.edit(policy, spec={"suspension": None})
    scene.expect(web, {"m1": 4})


def test_dependencies_follow_their_workload(scene: Scene):
    for name in ("m1", "m2"):
        scene.cluster(name)
    settings = scene.make(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": scene.plane.namespace},
            "data": {"key": "value"},
        }
    )
    web = scene.deployment(volumes=[{"name": "settings", "configMap": {"name": "settings"}}])
    policy = scene.policy("web", scene.placement("m1"), propagateDeps=True)
    scene.expect(web, {"m1": 4})
    scene.plane.wait("the ConfigMap follows", lambda: scene.works(settings).keys() == {"m1"})
    scene.plane.edit(policy, spec={"placement": scene.placement("m2")})
    scene.expect(web, {"m2": 4})
    scene.plane.wait("the ConfigMap moves too", lambda: scene.works(settings).keys() == {"m2"})
    assert "placement" not in scene.binding(settings)["spec"]


def test_a_deleted_workload_leaves_nothing(scene: Scene):
    web, _ = scene.running(m1=4)
    scene.remove(web)
    scene.plane.wait("no binding", lambda: not scene.binding(web))
    scene.plane.wait("no Work", lambda: not scene.works(web))
    assert scene.healthy(web) == {}


def test_a_deleted_policy_leaves_its_workload_running(scene: Scene):
    web, policy = scene.running(m1=4)
    scene.remove(policy)
    scene.plane.wait("no claim", lambda: scene.holder(web) == "")
    scene.plane.edit(web, spec={"replicas": 6})
    scene.plane.rest(5)
    assert (scene.assignment(web), scene.healthy(web)) == ({"m1": 4}, {"m1": 4})
