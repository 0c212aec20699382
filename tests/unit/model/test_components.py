"""The pod templates of workloads that have several: what the scripts that Karmada brings return, and where they fail.

The right values come from these scripts, run by hand.
"""

import pytest
from tables import cases

from berthmaster.model.components import components_of
from berthmaster.model.decode import builtins
from berthmaster.model.errors import FieldError


def pod(cpu="1", **spec):
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec}}


def of(api_version, kind, **spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


RAY = {
    "headGroupSpec": {"template": pod("4")},
    "workerGroupSpecs": [{"groupName": "g", "replicas": 3, "template": pod()}, {}],
}
SPARK = {"type": "Scala", "driver": {"memory": "512m"}, "executor": {"instances": 5, "cores": 2, "memory": "8g"}}


@cases(
    ("raw", "components"),
    {
        "Volcano: the fewest pods, and a task without name": (
            of("batch.volcano.sh/v1alpha1", "Job",
               tasks=[{"name": "a", "minAvailable": 3, "template": pod("2")}, {"replicas": 9}]),
            {"a": (3, {"cpu": "2"}), "task-1": (1, {})},
        ),
        "Volcano without tasks": (of("batch.volcano.sh/v1alpha1", "Job"), {}),
        "Ray": (of("ray.io/v1", "RayCluster", **RAY),
                {"ray-head": (1, {"cpu": "4"}), "g": (3, {"cpu": "1"}), "worker-2": (0, {})}),
        "a job of Ray": (of("ray.io/v1", "RayJob", rayClusterSpec=RAY),
                         {"ray-head": (1, {"cpu": "4"}), "g": (3, {"cpu": "1"}), "worker-2": (0, {})}),
        "PyTorch": (
            of("kubeflow.org/v1", "PyTorchJob",
               pytorchReplicaSpecs={"Worker": {"replicas": 4, "template": pod("2")}, "Master": {"template": pod()}}),
            {"master": (1, {"cpu": "1"}), "worker": (4, {"cpu": "2"})},
        ),
        "TensorFlow": (
            of("kubeflow.org/v1", "TFJob", tfReplicaSpecs={"Evaluator": {"template": pod()}, "PS": {"replicas": 2}}),
            {"ps": (2, {}), "evaluator": (1, {"cpu": "1"})},
        ),
        "MPI: a worker has no pods by default": (
            of("kubeflow.org/v2beta1", "MPIJob",
               mpiReplicaSpecs={"Launcher": {"template": pod()}, "Worker": {"template": pod("2")}, "Other": {}}),
            {"Launcher": (1, {"cpu": "1"}), "Worker": (0, {"cpu": "2"})},
        ),
        "Flink: as many task managers as the slots need": (
            of("flink.apache.org/v1beta1", "FlinkDeployment", jobManager={"resource": {"cpu": 0.5, "memory": "2Gi"}},
               flinkConfiguration={"taskmanager.numberOfTaskSlots": "2"}, job={"parallelism": 5}),
            {"jobmanager": (1, {"cpu": "0.5", "memory": "2Gi"}), "taskmanager": (3, {})},
        ),
        "Spark: the overhead of memory": (
            of("sparkoperator.k8s.io/v1beta2", "SparkApplication", **SPARK),
            {"driver": (1, {"cpu": "1", "memory": "896.000000Mi"}),
             "executor": (5, {"cpu": "2", "memory": "9011.200000Mi"})},
        ),
        "Spark: the most executors that are asked for, and a given overhead": (
            of("sparkoperator.k8s.io/v1beta2", "SparkApplication", type="Python",
               driver={"memoryOverhead": "1g"}, executor={"gpu": {"name": "nvidia.com/gpu", "quantity": 2}},
               dynamicAllocation={"enabled": True, "initialExecutors": 3, "minExecutors": 9}),
            {"driver": (1, {"cpu": "1", "memory": "2.000000Gi"}),
             "executor": (9, {"cpu": "1", "memory": "1433.600000Mi", "nvidia.com/gpu": "2"})},
        ),
    },
)  # fmt: skip
def test_the_components_of_a_kind(raw, components):
    found = {}
    for each in components_of(raw):
        requirements = each.replica_requirements
        found[each.name] = each.replicas, builtins(requirements.resource_request) if requirements is not None else {}
    assert found == components


def test_constraints_on_nodes_are_those_of_the_parts():
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    placed = {"nodeSelector": {"disk": "fast"}, "priorityClassName": "high",
              "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}}}  # fmt: skip
    spark = of("sparkoperator.k8s.io/v1beta2", "SparkApplication", type="Java", driver=placed, executor={})
    flink = of("flink.apache.org/v1beta1", "FlinkDeployment", podTemplate={"spec": placed})
    driver, executor = components_of(spark)
    claim = driver.replica_requirements.node_claim
    assert (claim.node_selector, claim.hard_node_affinity) == ({"disk": "fast"}, affinity)
    assert (driver.replica_requirements.priority_class_name, executor.replica_requirements.node_claim) == ("high", None)
    for each in components_of(flink):
        assert each.replica_requirements.node_claim.hard_node_affinity is None, "as Karmada's script"
        assert each.replica_requirements.node_claim.node_selector == {"disk": "fast"}


@pytest.mark.parametrize("memory", ["lots", "512", "-1g", ""])
def test_a_memory_without_unit_is_refused(memory):
    spark = of("sparkoperator.k8s.io/v1beta2", "SparkApplication", driver={"memory": memory or " "})
    with pytest.raises(FieldError, match=r"spec.driver.memory: .* is not accepted; accepted is an amount of memory"):
        components_of(spark)


def test_other_kinds_have_no_known_components():
    assert components_of(of("apps/v1", "Deployment", replicas=2)) is None
