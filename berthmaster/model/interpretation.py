"""What is known about the replicas of a resource, in Karmada's order of interpreters.

A script of a control plane comes first, then the third-party kinds that Karmada knows, then the native ones. Karmada
places a kind without an interpreter as a whole. A file does not show which interpreters a control plane has, so such
a kind counts as unknown unless all of them were read.

The third-party kinds are those of karmada ``pkg/resourceinterpreter/default/thirdparty``. Most keep their replicas in
one field. Some are computed from several fields. Some consist of several pod templates: with default feature gates
Karmada gives their bindings no replicas and places them as a whole (``MultiplePodTemplatesScheduling`` is off).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.model.binding import Component
from berthmaster.model.decode import convert
from berthmaster.model.dependencies import ScriptedDependencies
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kinds import scope_of
from berthmaster.model.meta import ObjectMeta, Value
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import (
    BUILT_IN_REPLICA_PATHS,
    THIRD_PARTY_REPLICA_PATHS,
    UNKNOWN_KINDS,
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


class UnknownReplicas(NamedTuple):
    reason: str


class ScriptedComponents(NamedTuple):
    """The pod templates of a resource, as a script returns them. ``found``: None if the script failed."""

    found: tuple[Component, ...] | None


class Interpreter(NamedTuple):
    """The scripts of a control plane.

    Attributes:
        replicas: returns the replicas of a resource, or why its script failed; None for a kind without a script.
        dependencies: returns what a resource needs; None for a kind without a script.
        components: returns the pod templates of a resource; None for a kind without a script.
    """

    replicas: Callable[[Mapping[str, Any]], Replicas | UnknownReplicas | None]
    dependencies: Callable[[Mapping[str, Any]], ScriptedDependencies | None]
    components: Callable[[Mapping[str, Any]], ScriptedComponents | None]


class InterpreterScript(Value, frozen=True):
    lua_script: str = ""


class InterpreterTarget(Value, frozen=True):
    api_version: str
    kind: str


class CustomizationRules(Value, frozen=True):
    """The scripts of a customization. Only those that decisions need are read."""

    replica_resource: InterpreterScript | None = None
    component_resource: InterpreterScript | None = None
    dependency_interpretation: InterpreterScript | None = None


class CustomizationSpec(Value, frozen=True):
    target: InterpreterTarget
    customizations: CustomizationRules = CustomizationRules()


class ResourceInterpreterCustomization(Value, frozen=True):
    """Karmada's ``ResourceInterpreterCustomization`` (``config.karmada.io/v1alpha1``)."""

    metadata: ObjectMeta
    spec: CustomizationSpec
    api_version: str = "config.karmada.io/v1alpha1"
    kind: str = "ResourceInterpreterCustomization"


def replica_scripts(customizations: Iterable[ResourceInterpreterCustomization]) -> dict[tuple[str, str], str]:
    """Return the script for the replicas of each kind. Of several customizations the first by name counts."""
    return _scripts(customizations, lambda rules: rules.replica_resource)


def component_scripts(customizations: Iterable[ResourceInterpreterCustomization]) -> dict[tuple[str, str], str]:
    """Return the script for the pod templates of each kind, as ``replica_scripts``."""
    return _scripts(customizations, lambda rules: rules.component_resource)


def dependency_scripts(customizations: Iterable[ResourceInterpreterCustomization]) -> dict[tuple[str, str], str]:
    """Return the script for the dependencies of each kind, as ``replica_scripts``."""
    return _scripts(customizations, lambda rules: rules.dependency_interpretation)


def _scripts(
    customizations: Iterable[ResourceInterpreterCustomization],
    rule_of: Callable[[CustomizationRules], InterpreterScript | None],
) -> dict[tuple[str, str], str]:
    scripts: dict[tuple[str, str], str] = {}
    for each in sorted(customizations, key=lambda customization: customization.metadata.name):
        rule, target = rule_of(each.spec.customizations), each.spec.target
        if rule is not None and rule.lua_script:
            scripts.setdefault((target.api_version, target.kind), rule.lua_script)
    return scripts


def interpreted(
    raw: Mapping[str, Any],
    paths: Sequence[ReplicaPath] = (),
    interpreter: Interpreter | None = None,
    *,
    complete: bool = False,
) -> Replicas | UnknownReplicas:
    """Return the replicas of a resource, or why they are not known.

    Args:
        paths: the paths that the user gave; they come first.
        complete: whether these are all interpreters of the control plane. A kind without one then has no replicas.
    """
    kind = str(raw.get("apiVersion")), str(raw.get("kind"))
    if any((each.api_version, each.kind) == kind for each in paths):
        return replicas_of(raw, paths)
    if interpreter is not None and (found := interpreter.replicas(raw)) is not None:
        return found
    if kind in _COMPUTED:
        return _COMPUTED[kind](raw)
    if kind in _INTERPRETED or complete or scope_of(*kind) is not None:
        return replicas_of(raw, THIRD_PARTY_REPLICA_PATHS)
    if UNKNOWN_KINDS in paths:
        return Replicas()
    return UnknownReplicas(
        f"the replicas of {kind[1]} of {kind[0]} are not known: pass --replica-path {kind[0]}/{kind[1]}=PATH[,PATH], "
        f"{kind[0]}/{kind[1]}=- if it has none, '*=-' for all such kinds, or its ResourceInterpreterCustomization"
    )


def has_replica_count(api_version: str, kind: str) -> bool:
    """Return whether resources of a kind that is known without a control plane say how many replicas they want."""
    known = (api_version, kind)
    return known in _COMPUTED or any(
        (each.api_version, each.kind) == known for each in (*BUILT_IN_REPLICA_PATHS, *THIRD_PARTY_REPLICA_PATHS)
    )


def check_replica_paths(paths: Iterable[ReplicaPath], resources: Iterable[Mapping[str, Any]]) -> None:
    """Check that each path of a user exists in a resource. Raises ``InputError`` if one does not."""
    by_kind: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for raw in resources:
        by_kind.setdefault((str(raw.get("apiVersion")), str(raw.get("kind"))), []).append(raw)
    for path in (each for each in paths if each != UNKNOWN_KINDS):
        found = by_kind.get((path.api_version, path.kind), [])
        option = f"--replica-path {path.api_version}/{path.kind}"
        if not found:
            similar = sorted(f"{version}/{kind}" for version, kind in by_kind if kind.lower() == path.kind.lower())
            hint = f"; the input has {', '.join(similar)}" if similar else ""
            raise InputError(f"{option}: there is no {path.kind} of {path.api_version} in the input{hint}")
        for field in filter(None, (path.replicas, path.pod_template)):
            if all(value_at(raw, field) is None for raw in found):
                raise InputError(f"{option}: no {path.kind} in the input has the field {field}; correct the path")


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
_INTERPRETED: Final = (
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


_COMPUTED: Final[Mapping[Kind, Callable[[Mapping[str, Any]], Replicas]]] = {
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
