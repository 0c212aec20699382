"""The pod templates of workloads that have several, in Karmada's order of interpreters.

A script of a control plane (``componentResource``) comes first, then those that Karmada brings (karmada
``pkg/resourceinterpreter/default/thirdparty``). Karmada asks them if its gate ``MultiplePodTemplatesScheduling`` is on.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from berthmaster.model.binding import Component
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.interpretation import Interpreter
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements, count_at, requirements_at, type_of, value_at
from berthmaster.model.third_party_replicas import as_number, converted, flink_requests, task_managers

_TENSORFLOW: Final = {"PS": "ps", "Worker": "worker", "Chief": "chief", "Master": "master", "Evaluator": "evaluator"}
_PYTORCH: Final = {"Master": "master", "Worker": "worker"}
_JAVA_MEMORY: Final = re.compile(r"(\d+\.?\d*)([kmgtp]?b?)")
_UNITS: Final = ("B", "Ki", "Mi", "Gi", "Ti", "Pi")
_MIN_OVERHEAD: Final = (384.0, _UNITS.index("Mi"))
_REQUIRED_AFFINITY: Final = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def components_of(raw: Mapping[str, Any], interpreter: Interpreter | None = None) -> tuple[Component, ...] | None:
    """Return the pod templates of a resource; None if they are not known.

    Raises:
        FieldError: a field that an interpreter reads is invalid.
    """
    if interpreter is not None and (scripted := interpreter.components(raw)) is not None:
        return scripted.found
    known = _known(*type_of(raw))
    return tuple(known(raw)) if known is not None else None


def _known(api_version: str, kind: str) -> Callable[[Mapping[str, Any]], Iterator[Component]] | None:
    match api_version, kind:
        case "batch.volcano.sh/v1alpha1", "Job":
            return _volcano_job
        case "flink.apache.org/v1beta1", "FlinkDeployment":
            return _flink_deployment
        case "kubeflow.org/v1", "PyTorchJob":
            return _pytorch_job
        case "kubeflow.org/v1", "TFJob":
            return _tensorflow_job
        case "kubeflow.org/v2beta1", "MPIJob":
            return _mpi_job
        case "ray.io/v1", "RayCluster":
            return _ray_cluster
        case "ray.io/v1", "RayJob":
            return _ray_job
        case "sparkoperator.k8s.io/v1beta2", "SparkApplication":
            return _spark_application
        case _:
            return None


def _volcano_job(raw: Mapping[str, Any]) -> Iterator[Component]:
    for index, task in enumerate(value_at(raw, "spec.tasks") or ()):
        path = f"spec.tasks[{index}]"
        name = value_at(task, "name") or f"task-{index}"
        yield Component(name, count_at(raw, f"{path}.minAvailable"), _at(raw, f"{path}.template"))


def _ray(raw: Mapping[str, Any], cluster: str) -> Iterator[Component]:
    head = f"{cluster}.headGroupSpec.template"
    if value_at(raw, head) is not None:
        yield Component("ray-head", 1, requirements_at(raw, head))
    for index, group in enumerate(value_at(raw, f"{cluster}.workerGroupSpecs") or ()):
        path = f"{cluster}.workerGroupSpecs[{index}]"
        name = value_at(group, "groupName") or f"worker-{index + 1}"
        yield Component(name, count_at(raw, f"{path}.replicas", absent=0), _at(raw, f"{path}.template"))


def _ray_cluster(raw: Mapping[str, Any]) -> Iterator[Component]:
    yield from _ray(raw, "spec")


def _ray_job(raw: Mapping[str, Any]) -> Iterator[Component]:
    yield from _ray(raw, "spec.rayClusterSpec")


def _kubeflow(raw: Mapping[str, Any], field: str, names: Mapping[str, str]) -> Iterator[Component]:
    for key, name in names.items():
        path = f"spec.{field}.{key}"
        if value_at(raw, path) is not None:
            yield Component(name, count_at(raw, f"{path}.replicas"), _at(raw, f"{path}.template"))


def _tensorflow_job(raw: Mapping[str, Any]) -> Iterator[Component]:
    yield from _kubeflow(raw, "tfReplicaSpecs", _TENSORFLOW)


def _pytorch_job(raw: Mapping[str, Any]) -> Iterator[Component]:
    yield from _kubeflow(raw, "pytorchReplicaSpecs", _PYTORCH)


def _mpi_job(raw: Mapping[str, Any]) -> Iterator[Component]:
    for name in value_at(raw, "spec.mpiReplicaSpecs") or ():
        path = f"spec.mpiReplicaSpecs.{name}"
        if value_at(raw, f"{path}.template") is not None:
            count = count_at(raw, f"{path}.replicas", absent=0 if name.lower() == "worker" else 1)
            yield Component(name, count, requirements_at(raw, f"{path}.template"))


def _flink_deployment(raw: Mapping[str, Any]) -> Iterator[Component]:
    pod = value_at(raw, "spec.podTemplate.spec") or {}
    claim, priority = _claim(pod, ("nodeSelector", "tolerations")), str(pod.get("priorityClassName") or "")
    counts = {"jobManager": count_at(raw, "spec.jobManager.replicas"), "taskManager": task_managers(raw)}
    for part, count in counts.items():
        requests = flink_requests(raw, f"spec.{part}.resource")
        yield Component(part.lower(), count, ReplicaRequirements(dict(requests), claim, priority_class_name=priority))


def _spark_application(raw: Mapping[str, Any]) -> Iterator[Component]:
    """The driver, and as many executors as at least run."""
    executors = count_at(raw, "spec.executor.instances")
    if value_at(raw, "spec.dynamicAllocation.enabled"):
        names = ("initialExecutors", "minExecutors")
        executors = max(executors, *(count_at(raw, f"spec.dynamicAllocation.{name}") for name in names))
    on_jvm = str(value_at(raw, "spec.type") or "").lower() in {"java", "scala"}
    factor = as_number(value_at(raw, "spec.memoryOverheadFactor"))
    factor = (0.1 if on_jvm else 0.4) if factor is None else factor
    for part, count in (("driver", 1), ("executor", executors)):
        pod = value_at(raw, f"spec.{part}") or {}
        requests = {
            "cpu": converted(Quantity, pod.get("cores") or 1, f"spec.{part}.cores"),
            "memory": _spark_memory(pod, f"spec.{part}", factor),
        }
        gpu = pod.get("gpu") or {}
        if gpu.get("name") and (as_number(gpu.get("quantity")) or 0) > 0:
            requests[gpu["name"]] = converted(Quantity, gpu["quantity"], f"spec.{part}.gpu.quantity")
        claim = _claim(pod, ("nodeSelector", "tolerations"), value_at(pod, _REQUIRED_AFFINITY))
        priority = str(pod.get("priorityClassName") or "")
        yield Component(part, count, ReplicaRequirements(requests, claim, priority_class_name=priority))


def _spark_memory(pod: Mapping[str, Any], path: str, factor: float) -> Quantity:
    """Return the memory with its overhead, in the smaller of the two units, as Spark writes both."""
    amount, unit = _java_memory(pod.get("memory") or "1g", f"{path}.memory")
    if pod.get("memoryOverhead"):
        overhead, its_unit = _java_memory(pod["memoryOverhead"], f"{path}.memoryOverhead")
    else:
        least, its_unit = _MIN_OVERHEAD
        smaller = min(unit, its_unit)
        overhead = max(_in(amount * factor, unit, smaller), _in(least, its_unit, smaller))
        its_unit = smaller
    smaller = min(unit, its_unit)
    total = _in(amount, unit, smaller) + _in(overhead, its_unit, smaller)
    return converted(Quantity, f"{total:f}{_UNITS[smaller]}".removesuffix("B"), f"{path}.memory")


def _java_memory(text: object, path: str) -> tuple[float, int]:
    """Return an amount such as 512m, and the position of its unit."""
    found = _JAVA_MEMORY.fullmatch(str(text).lower())
    if found is None or not found[2]:
        raise FieldError(path, f"{shown(text)} is not accepted; accepted is an amount of memory such as 512m")
    return float(found[1]), "bkmgtp".index(found[2][0])


def _in(amount: float, unit: int, other: int) -> float:
    return float(amount * 1024.0 ** (unit - other))


def _at(raw: Mapping[str, Any], path: str) -> ReplicaRequirements | None:
    return requirements_at(raw, path) if value_at(raw, path) is not None else None


def _claim(
    pod: Mapping[str, Any], names: tuple[str, ...], affinity: Mapping[str, Any] | None = None
) -> NodeClaim | None:
    fields = {key: pod[key] for key in names if pod.get(key) is not None}
    if affinity is not None:
        fields["hardNodeAffinity"] = affinity
    return converted(NodeClaim, fields, "spec") if fields else None
