"""The replicas of a workload: how many its manifest asks for, and what each of them requests.

Kinds are interpreted as in Karmada (``resourceinterpreter/default/native``): Deployment, StatefulSet, ReplicaSet, Job
and Pod are known. A ``ReplicaPath`` adds a custom resource. All other kinds have no replicas and are placed as a whole.
Requests of a pod are counted as in kube-scheduler (``component-helpers`` ``resource.PodRequests``).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import Count, Value
from berthmaster.model.quantity import Quantity, negative_amounts
from berthmaster.model.taint import Toleration

Amounts = Mapping[str, Quantity]

_ALWAYS: Final = "Always"
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6})\]")
_PATH: Final = re.compile(r"[^.\[\]]+(\[\d{1,6}\])*(\.[^.\[\]]+(\[\d{1,6}\])*)*")
_NONE: Final = "-"
_POD: Final = ("v1", "Pod")
_JOB: Final = ("batch/v1", "Job")
_COUNT: Final[type[int]] = Count  # an annotated int; msgspec reads its bounds


class ResourceRequirements(Value, frozen=True):
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class Container(Value, frozen=True):
    """A container; an init container with ``restart_policy`` Always is a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == _ALWAYS

    def requests(self) -> Amounts:
        """Return the requests. As in the API server, the default of a request is the limit of the resource."""
        return {**self.resources.limits, **self.resources.requests}


class NodeAffinity(Value, frozen=True):
    """The nodes that a pod may run on, without preferences."""

    required_during_scheduling_ignored_during_execution: dict[str, Any] | None = None


class Affinity(Value, frozen=True):
    """The node affinity of a pod; other affinities are not read."""

    node_affinity: NodeAffinity | None = None


class PodSpec(Value, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    overhead: dict[str, Quantity] = {}
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""

    @property
    def required_node_affinity(self) -> dict[str, Any] | None:
        node_affinity = self.affinity.node_affinity if self.affinity is not None else None
        return node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None


class PodTemplate(Value, frozen=True):
    spec: PodSpec = PodSpec()


def pod_requests(pod: PodSpec) -> dict[str, Quantity]:
    """Return the requests of a pod for each resource.

    The result is the larger of two phases: all containers with all sidecars, or the largest init container with
    the sidecars that start before it. Requests at pod level replace these sums. Overhead is added.
    """
    sidecars = (each for each in pod.init_containers if each.is_sidecar)
    running = _sum(each.requests() for each in (*pod.containers, *sidecars))
    requests = largest_amounts([running, *_starting(pod.init_containers)])
    # A pod-level limit becomes the request of a resource that no container requests.
    return dict(_sum([{**pod.resources.limits, **requests, **pod.resources.requests}, pod.overhead]))


def pod_errors(pod: PodSpec) -> Iterator[FieldError]:
    for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        for index, container in enumerate(containers):
            yield from _resource_errors(f"{field}[{index}].resources", container.resources)
    yield from _resource_errors("resources", pod.resources)
    yield from negative_amounts("overhead", pod.overhead)


def _resource_errors(path: str, resources: ResourceRequirements) -> Iterator[FieldError]:
    yield from negative_amounts(f"{path}.requests", resources.requests)
    yield from negative_amounts(f"{path}.limits", resources.limits)


def _starting(init_containers: Iterable[Container]) -> Iterator[Amounts]:
    """Yield the requests while each init container runs, in order, together with the sidecars before it."""
    sidecars: Amounts = {}
    for container in init_containers:
        needed = _sum([sidecars, container.requests()])
        if container.is_sidecar:
            sidecars = needed
        yield needed


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def largest_amounts(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    largest: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            if name not in largest or largest[name] < amount:
                largest[name] = amount
    return largest


class ReplicaPath(NamedTuple):
    """The fields in which a kind keeps its replicas and their requests.

    Attributes:
        replicas: the path of the replica count, such as ``spec.replicas`` or ``spec.groups[0].size``; empty for a kind
            without replicas.
        pod_template: the path of the pod template; None if the requests are not known.
    """

    api_version: str
    kind: str
    replicas: str
    pod_template: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ReplicaPath":
        """Parse ``GROUP/VERSION/KIND=REPLICAS[,TEMPLATE]``, or ``=-`` for no replicas. Raises ``InputError``.

        ``*=-`` takes all kinds whose replicas are not known as kinds without replicas (``UNKNOWN_KINDS``).
        """
        if text == "*=-":
            return UNKNOWN_KINDS
        what, equals, where = text.partition("=")
        api_version, slash, kind = what.rpartition("/")
        if where == _NONE and slash and api_version and kind:
            return cls(api_version, kind, "")
        replicas, comma, pod_template = where.partition(",")
        paths = [replicas, pod_template] if comma else [replicas]
        if not (equals and slash and api_version and kind) or not all(map(_PATH.fullmatch, paths)):
            raise InputError(
                f"{shown(text)} is not a replica path; accepted is GROUP/VERSION/KIND=PATH[,PATH], "
                "as in example.io/v1/Widget=spec.size,spec.template; GROUP/VERSION/KIND=- for no replicas; and *=- "
                "for all kinds whose replicas are not known"
            )
        return cls(api_version, kind, replicas, pod_template or None)


class Template(Value, frozen=True):
    api_version: str
    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] = {}


class NodeClaim(Value, frozen=True):
    """The requirements of a replica on its node. Only estimators inside a member cluster can evaluate them."""

    hard_node_affinity: dict[str, Any] | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class ReplicaRequirements(Value, frozen=True):
    """The requirements of one replica."""

    resource_request: dict[str, Quantity] = {}
    node_claim: NodeClaim | None = None
    namespace: str = ""
    priority_class_name: str = ""


class Replicas(NamedTuple):
    """The number of replicas of a workload and the requirements of each; 0 and None without replicas."""

    number: int = 0
    requirements: ReplicaRequirements | None = None


UNKNOWN_KINDS: Final = ReplicaPath("*", "*", "")
"""Stands for all kinds whose replicas are not known: they count as kinds without replicas."""
BUILT_IN_REPLICA_PATHS: Final = (
    ReplicaPath("apps/v1", "Deployment", "spec.replicas", "spec.template"),
    ReplicaPath("apps/v1", "ReplicaSet", "spec.replicas", "spec.template"),
    ReplicaPath("apps/v1", "StatefulSet", "spec.replicas", "spec.template"),
    ReplicaPath("batch/v1", "Job", "spec.parallelism", "spec.template"),
)
THIRD_PARTY_REPLICA_PATHS: Final = (
    ReplicaPath("apps.kruise.io/v1alpha1", "CloneSet", "spec.replicas", "spec.template"),
    ReplicaPath("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.replicas", "spec.template"),
    ReplicaPath("apps.kruise.io/v1alpha1", "BroadcastJob", "spec.parallelism", "spec.template"),
    ReplicaPath("apps.kruise.io/v1beta1", "StatefulSet", "spec.replicas", "spec.template"),
)
"""The kinds of third parties that keep their replicas in one field, and that Karmada interprets out of the box."""


def template_of(raw: Mapping[str, Any]) -> Template:
    """Return the part of a resource with a type and a name that policy matching reads."""
    metadata = raw.get("metadata") or {}
    fields = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    try:
        return convert(Template, {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind"), **fields})
    except FieldError as error:
        is_top = error.path in {"apiVersion", "kind"}
        raise (error if is_top else error.below("metadata")) from None


def replica_path_of(raw: Mapping[str, Any], paths: Iterable[ReplicaPath] = ()) -> ReplicaPath | None:
    identity = type_of(raw)
    return next((each for each in (*paths, *BUILT_IN_REPLICA_PATHS) if (each.api_version, each.kind) == identity), None)


def replicas_of(raw: Mapping[str, Any], paths: Iterable[ReplicaPath] = ()) -> Replicas:
    """Return the replicas of a resource. ``paths`` precede the built-in ones.

    As in the API server, the default of the replica count is 1. A Job never runs more pods than its completions.
    """
    path = replica_path_of(raw, paths)
    if path is not None:
        if not path.replicas:
            return Replicas()
        count = count_at(raw, path.replicas)
        if type_of(raw) == _JOB:
            count = min(count, count_at(raw, "spec.completions", absent=count))
        requirements = requirements_at(raw, path.pod_template) if path.pod_template is not None else None
        return Replicas(count, requirements)
    return Replicas(1, requirements_at(raw, "")) if type_of(raw) == _POD else Replicas()


def type_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Return the API version and the kind of an object."""
    return str(raw.get("apiVersion")), str(raw.get("kind"))


def _node_claim(pod: PodSpec) -> NodeClaim | None:
    affinity = pod.required_node_affinity
    if pod.node_selector is None and affinity is None and not pod.tolerations:
        return None
    return NodeClaim(hard_node_affinity=affinity, node_selector=pod.node_selector or {}, tolerations=pod.tolerations)


def requirements_at(raw: Mapping[str, Any], path: str) -> ReplicaRequirements | None:
    """Return the requirements of the pod template at a path; an empty path means the resource.

    A template that requests nothing and has no constraint on its node has no requirements, as in Karmada (``pkg/util``
    ``helper.GenerateReplicaRequirements``). With 0 replicas it is then no workload: all candidates get it.

    Raises:
        FieldError: there is no template, or it is invalid.
    """
    found = value_at(raw, path)
    if found is None:
        raise FieldError(path, "is missing; accepted is a pod template")
    try:
        pod = convert(PodTemplate, found).spec
    except FieldError as error:
        raise (error.below(path) if path else error) from None
    for problem in pod_errors(pod):
        raise problem.below(f"{path}.spec" if path else "spec")
    claim = _node_claim(pod)
    requests = {name: amount for name, amount in pod_requests(pod).items() if amount.nanos > 0}
    if claim is None and not requests:
        return None
    return ReplicaRequirements(resource_request=requests, node_claim=claim, priority_class_name=pod.priority_class_name)


def count_at(raw: Mapping[str, Any], path: str, *, absent: int = 1) -> int:
    found = value_at(raw, path)
    if found is None:
        return absent
    try:
        return convert(_COUNT, found)
    except FieldError as error:
        raise error.below(path) from None


def value_at(raw: object, path: str) -> Any:  # noqa: ANN401 - any JSON value
    walked, value = "", raw
    for step in _STEP.finditer(path):
        if value is None:
            return None
        container = dict if step[1] is not None else list
        if not isinstance(value, container):
            accepted = "an object" if container is dict else "an array"
            raise FieldError(walked, f"{shown(value)} is not accepted; accepted is {accepted}")
        if isinstance(value, dict):
            value = value.get(step[1])
        elif isinstance(value, list):
            value = value[int(step[2])] if int(step[2]) < len(value) else None
        walked += step[0]
    return value
