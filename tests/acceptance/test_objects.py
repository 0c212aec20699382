"""What Karmada's controllers write, field by field: bindings, Works and statuses."""

from typing import Any

from acceptance.scenes import Scene
from karmada_model.objects import ident
from kube_store import JSON


def test_a_binding_has_what_policy_and_template_say(scene: Scene):
    scene.cluster("m1")
    web = scene.deployment(
        replicas=2,
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    )
    placement = scene.placement("m1")
    policy = scene.policy("web", placement, conflictResolution="Overwrite", preserveResourcesOnDeletion=True)
    scene.expect(web, {"m1": 2})
    binding, stored = scene.binding(web), scene.plane.get(ident(web)) or {}
    assert {key: value for key, value in binding["spec"].items() if key != "clusters"} == {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": scene.plane.namespace,
            "name": "web",
            "uid": stored["metadata"]["uid"],
            "resourceVersion": binding["spec"]["resource"]["resourceVersion"],
        },
        "replicas": 2,
        "replicaRequirements": {
            "nodeClaim": {
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
            "resourceRequest": {"cpu": "1"},
        },
        "placement": placement,
        "schedulerName": scene.plane.scheduler,
        "conflictResolution": "Overwrite",
        "preserveResourcesOnDeletion": True,
    }
    claim = "propagationpolicy.karmada.io/"
    assert binding["metadata"]["annotations"] == {
        f"{claim}name": "web",
        f"{claim}namespace": scene.plane.namespace,
        "policy.karmada.io/applied-placement": binding["metadata"]["annotations"][
            "policy.karmada.io/applied-placement"
        ],
        **ours(binding),
    }
    policy_id = (scene.plane.get(ident(policy)) or {})["metadata"]["labels"][f"{claim}permanent-id"]
    assert binding["metadata"]["labels"][f"{claim}permanent-id"] == policy_id
    assert set(binding["metadata"]["labels"]) == {f"{claim}permanent-id", "resourcebinding.karmada.io/permanent-id"}
    assert binding["metadata"]["finalizers"] == ["karmada.io/binding-controller"]
    assert [each["kind"] for each in binding["metadata"]["ownerReferences"]] == ["Deployment"]


def ours(binding: JSON) -> JSON:
    annotations = binding["metadata"]["annotations"]
    return {key: value for key, value in annotations.items() if key.startswith("policy.berthmaster.io/")}


def test_a_work_has_the_template_with_the_replicas_of_its_cluster(scene: Scene):
    scene.cluster("m1")
    scene.cluster("m2")
    web = scene.deployment(replicas=3)
    scene.policy(
        "web", scene.placement("m1", "m2"), suspension={"dispatchingOnClusters": {"clusterNames": [scene.name("m2")]}}
    )
    scene.plane.wait("two Works", lambda: len(scene.works(web)) == 2)
    scene.plane.wait("a status", lambda: scene.reported(web).get("m1") == "Healthy")
    binding = scene.binding(web)
    works = {each["metadata"]["namespace"]: each for each in scene.plane.all("Work") if is_of(each, web)}
    for target in binding["spec"]["clusters"]:
        work = works[f"karmada-es-{target['name']}"]
        manifest = work["spec"]["workload"]["manifests"][0]
        assert manifest["spec"]["replicas"] == target["replicas"]
        assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/web:1"
        assert not set(manifest["metadata"]) & {"uid", "resourceVersion", "managedFields", "generation"}
        assert "status" not in manifest
        suspended = target["name"] == scene.name("m2")
        assert work["spec"].get("suspendDispatching", False) is suspended
        assert work["metadata"]["finalizers"] == ["karmada.io/execution-controller"]
        binding_id = binding["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"]
        assert work["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"] == binding_id


def is_of(work: JSON, template: JSON) -> bool:
    manifests: list[Any] = work["spec"]["workload"]["manifests"]
    return bool(manifests) and ident(manifests[0]) == ident(template)


def test_a_status_says_what_the_members_report(scene: Scene):
    web, _ = scene.running(m1=2)
    (item,) = scene.binding(web)["status"]["aggregatedStatus"]
    assert (item["clusterName"], item["applied"], item["health"]) == (scene.name("m1"), True, "Healthy")
    assert {"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}.items() <= item["status"].items()
    conditions = {each["type"]: each["status"] for each in scene.binding(web)["status"]["conditions"]}
    assert conditions["FullyApplied"] == "True"
    scene.plane.members.break_workload(scene.name("m1"), "web")
    scene.plane.wait("a report", lambda: scene.reported(web) == {"m1": "Unhealthy"})
    scene.plane.members.mend()
    scene.plane.wait("another report", lambda: scene.reported(web) == {"m1": "Healthy"})
