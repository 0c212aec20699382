"""The replicas of third-party kinds, as Karmada's own interpreters compute them."""

import pytest
from builders import deployment, quantities

from berthmaster.model.errors import FieldError
from berthmaster.model.interpretation import OF_SEVERAL_PARTS, third_party_replicas
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements, Replicas

POD = deployment(requests={"cpu": "250m", "memory": "1Gi"})["spec"]["template"]
BIG = deployment(requests={"cpu": "2", "memory": "512Mi"})["spec"]["template"]
NEEDS = ReplicaRequirements(quantities({"cpu": "250m", "memory": "1Gi"}))


def resource(kind, **spec):
    api_version, _, name = kind.rpartition("/")
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "x", "namespace": "shop"}, "spec": spec}


def managers(**given):
    """A FlinkDeployment whose job manager requests more memory and whose task managers request more CPU."""
    sizes = {
        "jobManager": {"resource": {"cpu": 1, "memory": "2048m"}, **given.pop("job_manager", {})},
        "taskManager": {"resource": {"cpu": 2, "memory": "1024m"}, **given.pop("task_manager", {})},
    }
    return resource("flink.apache.org/v1beta1/FlinkDeployment", **sizes, **given)


def ray(workers):
    config = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": workers}
    return resource("ray.io/v1/RayService", rayClusterConfig=config)


FLINK_NEEDS = ReplicaRequirements(quantities({"cpu": 2, "memory": "2048m"}), NodeClaim(), namespace="shop")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(resource("apps.kruise.io/v1alpha1/CloneSet", replicas=3, template=POD), Replicas(3, NEEDS),
                     id="CloneSet"),
        pytest.param(resource("apps.kruise.io/v1beta1/StatefulSet", replicas=2, template=POD), Replicas(2, NEEDS),
                     id="StatefulSet of Kruise"),
        pytest.param(resource("apps.kruise.io/v1alpha1/BroadcastJob", parallelism=4, template=POD), Replicas(4, NEEDS),
                     id="BroadcastJob"),
        pytest.param(resource("apps.kruise.io/v1alpha1/BroadcastJob", template=POD), Replicas(1, NEEDS),
                     id="BroadcastJob without parallelism"),
        pytest.param(resource("kubeflow.org/v1/Notebook", template=POD), Replicas(1, NEEDS), id="Notebook"),
        pytest.param(
            resource("argoproj.io/v1alpha1/Workflow", parallelism=5, nodeSelector={"disk": "ssd"}),
            Replicas(5, ReplicaRequirements(node_claim=NodeClaim(node_selector={"disk": "ssd"}))), id="Workflow",
        ),
        pytest.param(managers(), Replicas(2, FLINK_NEEDS), id="FlinkDeployment by default"),
        pytest.param(
            managers(job={"parallelism": 5}, flinkConfiguration={"taskmanager.numberOfTaskSlots": "2"}),
            Replicas(4, FLINK_NEEDS), id="FlinkDeployment by parallelism and slots",
        ),
        pytest.param(managers(task_manager={"replicas": 6}, job={"parallelism": 5}), Replicas(7, FLINK_NEEDS),
                     id="FlinkDeployment by the replicas of task managers"),
        pytest.param(
            ray([{"replicas": 2, "template": BIG}, {"replicas": 3}]),
            Replicas(6, ReplicaRequirements(quantities({"cpu": "2", "memory": "1Gi"}))), id="RayService",
        ),
        pytest.param(resource("ray.io/v1/RayService"), Replicas(), id="RayService without a head"),
        pytest.param(resource("apps.kruise.io/v1alpha1/SidecarSet"), Replicas(), id="SidecarSet"),
        pytest.param(resource("argoproj.io/v1alpha1/Rollout", replicas=3), None, id="Rollout is not Karmada's"),
        pytest.param(resource("apps.kruise.io/v1alpha2/CloneSet", replicas=3), None, id="another version"),
        pytest.param(deployment(), None, id="a native kind"),
    ],
)  # fmt: skip
def test_replicas(raw, expected):
    assert third_party_replicas(raw) == expected


@pytest.mark.parametrize("kind", sorted(OF_SEVERAL_PARTS), ids=lambda kind: kind[1])
def test_kinds_of_several_parts_are_placed_as_a_whole(kind):
    assert third_party_replicas(resource("/".join(kind), tasks=[{"minAvailable": 2}])) == Replicas()


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        pytest.param(resource("apps.kruise.io/v1alpha1/CloneSet", replicas=1), "spec.template", id="no pod template"),
        pytest.param(resource("apps.kruise.io/v1alpha1/CloneSet", replicas="x", template=POD), "spec.replicas",
                     id="no number"),
        pytest.param(managers(job_manager={"resource": {"cpu": "much"}}), "spec.jobManager.resource[cpu]",
                     id="no quantity"),
        pytest.param(ray([{"replicas": -1}]), "spec.rayClusterConfig.workerGroupSpecs[0].replicas",
                     id="a negative number"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_an_error_with_its_path(raw, path):
    with pytest.raises(FieldError) as caught:
        third_party_replicas(raw)
    assert caught.value.path == path
