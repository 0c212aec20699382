"""The third-party kinds of karmada ``pkg/resourceinterpreter/default/thirdparty``, and how their replicas are computed.

Most keep their replicas in one field (``replicas.THIRD_PARTY_REPLICA_PATHS``). Those here are computed from several
fields, have no replicas, or consist of several pod templates. With default feature gates Karmada gives the bindings of
the last no replicas and places them as a whole (``MultiplePodTemplatesScheduling`` is off).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import (
    BUILT_IN_REPLICA_PATHS,
    THIRD_PARTY_REPLICA_PATHS,
    Amounts,
    NodeClaim,
    ReplicaRequirements,
    Replicas,
    count_at,
    largest_amounts,
    requirements_at,
    value_at,
)

T = TypeVar("T")
Kind = tuple[str, str]

_WITHOUT_REPLICAS: Final = frozenset(
    {
        ("apps.kruise.io/v1alpha1", "AdvancedCronJob"),
        ("apps.kruise.io/v1alpha1", "DaemonSet"),
        ("apps.kruise.io/v1alpha1", "SidecarSet"),
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("kyverno.io/v1", "ClusterPolicy"),
        ("kyverno.io/v1", "Policy"),
        ("source.toolkit.fluxcd.io/v1", "GitRepository"),
        ("source.toolkit.fluxcd.io/v1beta2", "Bucket"),
        ("source.toolkit.fluxcd.io/v1beta2", "HelmChart"),
        ("source.toolkit.fluxcd.io/v1beta2", "HelmRepository"),
        ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository"),
    }
)
OF_SEVERAL_PARTS: Final = frozenset(
    {
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("kubeflow.org/v1", "TFJob"),
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("ray.io/v1", "RayCluster"),
        ("ray.io/v1", "RayJob"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
    }
)
"""Kinds of several pod templates, which Karmada places as a whole unless ``MultiplePodTemplatesScheduling`` is on."""
INTERPRETED_KINDS: Final = (
    frozenset((each.api_version, each.kind) for each in (*BUILT_IN_REPLICA_PATHS, *THIRD_PARTY_REPLICA_PATHS))
    | _WITHOUT_REPLICAS
    | OF_SEVERAL_PARTS
    | {("v1", "Pod")}
)


def _notebook(raw: Mapping[str, Any]) -> Replicas:
    return Replicas(1, requirements_at(raw, "spec.template"))


def _workflow(raw: Mapping[str, Any]) -> Replicas:
    """An Argo Workflow runs up to ``parallelism`` pods. Its own node constraints count, and no requests."""
    spec = raw.get("spec") or {}
    fields = {key: spec[key] for key in ("affinity", "nodeSelector", "tolerations") if key in spec}
    return Replicas(count_at(raw, "spec.parallelism"), requirements_at({"template": {"spec": fields}}, "template"))


def _flink_deployment(raw: Mapping[str, Any]) -> Replicas:
    """The job managers and task managers are counted together. Each requests the larger CPU and memory of the two."""
    count = count_at(raw, "spec.jobManager.replicas") + task_managers(raw)
    managers = [flink_requests(raw, f"spec.{each}.resource") for each in ("jobManager", "taskManager")]
    pod = value_at(raw, "spec.podTemplate.spec") or {}
    fields = {key: pod[key] for key in ("nodeSelector", "tolerations") if pod.get(key) is not None}
    return Replicas(
        count,
        ReplicaRequirements(
            resource_request=largest_amounts(managers),
            node_claim=converted(NodeClaim, fields, "spec.podTemplate.spec"),
            namespace=str((raw.get("metadata") or {}).get("namespace") or ""),
            priority_class_name=str(pod.get("priorityClassName") or ""),
        ),
    )


def task_managers(raw: Mapping[str, Any]) -> int:
    """Return the number of task managers: their replicas, or else the parallelism divided by the slots of each."""
    parallelism = as_number(value_at(raw, "spec.job.parallelism"))
    slots = as_number((value_at(raw, "spec.flinkConfiguration") or {}).get("taskmanager.numberOfTaskSlots"))
    computed = math.ceil(parallelism / slots) if parallelism is not None and slots else 1
    return count_at(raw, "spec.taskManager.replicas", absent=computed)


def flink_requests(raw: Mapping[str, Any], path: str) -> Amounts:
    given = value_at(raw, path) or {}
    amounts = {key: given[key] for key in ("cpu", "memory") if given.get(key) is not None}
    return converted(dict[str, Quantity], amounts, path)


def _ray_service(raw: Mapping[str, Any]) -> Replicas:
    """The head and the workers of all groups are counted together. Each requests the largest CPU and memory."""
    config = "spec.rayClusterConfig"
    head = f"{config}.headGroupSpec.template"
    if value_at(raw, head) is None:
        return Replicas()
    total, of_head = 1, requirements_at(raw, head)
    requests = [of_head.resource_request] if of_head is not None else []
    for index, group in enumerate(value_at(raw, f"{config}.workerGroupSpecs") or ()):
        path = f"{config}.workerGroupSpecs[{index}]"
        total += count_at(raw, f"{path}.replicas", absent=0)
        of_group = None
        if isinstance(group, Mapping) and group.get("template") is not None:
            of_group = requirements_at(raw, f"{path}.template")
        if of_group is not None:
            requests.append(of_group.resource_request)
    shared = largest_amounts({key: each[key] for key in ("cpu", "memory") if key in each} for each in requests)
    if of_head is None:
        return Replicas(total)  # the script merges the groups into the requirements of the head, if it has some
    merged = {**of_head.resource_request, **shared}
    return Replicas(
        total, ReplicaRequirements(merged, of_head.node_claim, priority_class_name=of_head.priority_class_name)
    )


COMPUTED_REPLICAS: Final[Mapping[Kind, Callable[[Mapping[str, Any]], Replicas]]] = {
    ("kubeflow.org/v1", "Notebook"): _notebook,
    ("argoproj.io/v1alpha1", "Workflow"): _workflow,
    ("flink.apache.org/v1beta1", "FlinkDeployment"): _flink_deployment,
    ("ray.io/v1", "RayService"): _ray_service,
}


def as_number(value: object) -> float | None:
    """Return a number, also from text, as Lua's ``tonumber`` does; None if it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except ValueError:
        return None


def converted(kind: type[T], raw: Any, path: str) -> T:  # noqa: ANN401 - any JSON value
    try:
        return convert(kind, raw)
    except FieldError as error:
        raise error.below(path) from None
