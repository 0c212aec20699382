"""The replicas of the third-party kinds that Karmada interprets out of the box.

The kinds are those of karmada ``pkg/resourceinterpreter/default/thirdparty``. Most keep their replicas in one field.
Some are computed from several fields. Some consist of several pod templates: with default feature gates Karmada gives
their bindings no replicas and places them as a whole (``MultiplePodTemplatesScheduling`` is off).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import (
    Amounts,
    NodeClaim,
    ReplicaPath,
    ReplicaRequirements,
    Replicas,
    count_at,
    largest_amounts,
    replicas_of,
    requirements_at,
    value_at,
)

T = TypeVar("T")
Kind = tuple[str, str]
"""The ``apiVersion`` and ``kind`` of a resource."""

_PATHS: Final = (
    ReplicaPath("apps.kruise.io/v1alpha1", "CloneSet", "spec.replicas", "spec.template"),
    ReplicaPath("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.replicas", "spec.template"),
    ReplicaPath("apps.kruise.io/v1alpha1", "BroadcastJob", "spec.parallelism", "spec.template"),
    ReplicaPath("apps.kruise.io/v1beta1", "StatefulSet", "spec.replicas", "spec.template"),
)
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


def third_party_replicas(raw: Mapping[str, Any]) -> Replicas | None:
    """Return the replicas of a resource of one of these kinds; None for another kind.

    Raises:
        FieldError: a field has the wrong type, or there is no pod template where the kind requires one.
    """
    kind = str(raw.get("apiVersion")), str(raw.get("kind"))
    if kind in _COMPUTED:
        return _COMPUTED[kind](raw)
    if kind in _WITHOUT_REPLICAS or kind in OF_SEVERAL_PARTS:
        return Replicas()
    return replicas_of(raw, _PATHS) if any((each.api_version, each.kind) == kind for each in _PATHS) else None


def _notebook(raw: Mapping[str, Any]) -> Replicas:
    return Replicas(1, requirements_at(raw, "spec.template"))


def _workflow(raw: Mapping[str, Any]) -> Replicas:
    """An Argo Workflow runs up to ``parallelism`` pods. Its own node constraints count, and no requests."""
    spec = raw.get("spec") or {}
    fields = {key: spec[key] for key in ("affinity", "nodeSelector", "tolerations") if key in spec}
    return Replicas(count_at(raw, "spec.parallelism"), requirements_at({"template": {"spec": fields}}, "template"))


def _flink_deployment(raw: Mapping[str, Any]) -> Replicas:
    """The job managers and task managers are counted together. Each requests the larger CPU and memory of the two."""
    count = count_at(raw, "spec.jobManager.replicas") + _task_managers(raw)
    managers = [_flink_requests(raw, f"spec.{each}.resource") for each in ("jobManager", "taskManager")]
    pod = value_at(raw, "spec.podTemplate.spec") or {}
    fields = {key: pod[key] for key in ("nodeSelector", "tolerations") if pod.get(key) is not None}
    return Replicas(
        count,
        ReplicaRequirements(
            resource_request=largest_amounts(managers),
            node_claim=_converted(NodeClaim, fields, "spec.podTemplate.spec"),
            namespace=str((raw.get("metadata") or {}).get("namespace") or ""),
            priority_class_name=str(pod.get("priorityClassName") or ""),
        ),
    )


def _task_managers(raw: Mapping[str, Any]) -> int:
    """Return the number of task managers: their replicas, or else the parallelism divided by the slots of each."""
    parallelism = _number(value_at(raw, "spec.job.parallelism"))
    slots = _number((value_at(raw, "spec.flinkConfiguration") or {}).get("taskmanager.numberOfTaskSlots"))
    computed = math.ceil(parallelism / slots) if parallelism is not None and slots else 1
    return count_at(raw, "spec.taskManager.replicas", absent=computed)


def _flink_requests(raw: Mapping[str, Any], path: str) -> Amounts:
    given = value_at(raw, path) or {}
    amounts = {key: given[key] for key in ("cpu", "memory") if given.get(key) is not None}
    return _converted(dict[str, Quantity], amounts, path)


def _ray_service(raw: Mapping[str, Any]) -> Replicas:
    """The head and the workers of all groups are counted together. Each requests the largest CPU and memory."""
    config = "spec.rayClusterConfig"
    head = f"{config}.headGroupSpec.template"
    if value_at(raw, head) is None:
        return Replicas()
    total, requirements = 1, requirements_at(raw, head)
    requests = [requirements.resource_request]
    for index, group in enumerate(value_at(raw, f"{config}.workerGroupSpecs") or ()):
        path = f"{config}.workerGroupSpecs[{index}]"
        total += count_at(raw, f"{path}.replicas", absent=0)
        if isinstance(group, Mapping) and group.get("template") is not None:
            requests.append(requirements_at(raw, f"{path}.template").resource_request)
    shared = largest_amounts({key: each[key] for key in ("cpu", "memory") if key in each} for each in requests)
    claim, priority = requirements.node_claim, requirements.priority_class_name
    merged = {**requirements.resource_request, **shared}
    return Replicas(total, ReplicaRequirements(merged, claim, priority_class_name=priority))


_COMPUTED: Final[Mapping[Kind, Callable[[Mapping[str, Any]], Replicas]]] = {
    ("kubeflow.org/v1", "Notebook"): _notebook,
    ("argoproj.io/v1alpha1", "Workflow"): _workflow,
    ("flink.apache.org/v1beta1", "FlinkDeployment"): _flink_deployment,
    ("ray.io/v1", "RayService"): _ray_service,
}


def _number(value: object) -> float | None:
    """Return a number, also from text, as Lua's ``tonumber`` does; None if it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except ValueError:
        return None


def _converted(kind: type[T], raw: Any, path: str) -> T:  # noqa: ANN401 - any JSON value
    try:
        return convert(kind, raw)
    except FieldError as error:
        raise error.below(path) from None
