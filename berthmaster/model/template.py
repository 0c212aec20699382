"""What the template of a workload says about its replicas (karmada ``resourceinterpreter/default/native``).

Deployments, StatefulSets, ReplicaSets, Jobs and Pods are known. A custom resource takes part with a
``ReplicaPath`` that says where its replicas are; every other kind is placed as a whole and has none.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from berthmaster.model.base import Count
from berthmaster.model.binding import NodeClaim, ReplicaRequirements
from berthmaster.model.claim import Template
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.pod import PodSpec, PodTemplate, pod_errors, pod_requests

_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6})\]")
_PATH: Final = re.compile(r"[^.\[\]]+(\[\d{1,6}\])*(\.[^.\[\]]+(\[\d{1,6}\])*)*")


class ReplicaPath(NamedTuple):
    """Where a kind keeps its replicas and what each of them needs.

    Attributes:
        api_version: group and version, as in a manifest.
        kind: the kind.
        replicas: the path of their number, as in ``spec.replicas`` or ``spec.groups[0].size``.
        pod_template: the path of an object whose ``spec`` is a pod's; None where requests are not known.
    """

    api_version: str
    kind: str
    replicas: str
    pod_template: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ReplicaPath":
        """Read ``GROUP/VERSION/KIND=REPLICAS[,TEMPLATE]``: ``example.io/v1/Widget=spec.size,spec.template``.

        Raises:
            InputError: it does not have this form.
        """
        what, equals, where = text.partition("=")
        api_version, slash, kind = what.rpartition("/")
        replicas, comma, pod_template = where.partition(",")
        paths = [replicas, pod_template] if comma else [replicas]
        if not (equals and slash and api_version and kind) or not all(map(_PATH.fullmatch, paths)):
            raise InputError(
                f"{shown(text)} does not say where replicas are; accepted is GROUP/VERSION/KIND=PATH[,PATH], "
                "as in example.io/v1/Widget=spec.size,spec.template"
            )
        return cls(api_version, kind, replicas, pod_template or None)


class Replicas(NamedTuple):
    """How many replicas a workload has and what each needs; 0 and None for what has none."""

    number: int = 0
    requirements: ReplicaRequirements | None = None


BUILT_IN: Final = (
    ReplicaPath("apps/v1", "Deployment", "spec.replicas", "spec.template"),
    ReplicaPath("apps/v1", "ReplicaSet", "spec.replicas", "spec.template"),
    ReplicaPath("apps/v1", "StatefulSet", "spec.replicas", "spec.template"),
    ReplicaPath("batch/v1", "Job", "spec.parallelism", "spec.template"),
)
_POD: Final = ("v1", "Pod")
_JOB: Final = ("batch/v1", "Job")
_COUNT: Final[type[int]] = Count  # an annotated int: msgspec reads its bounds


def template_of(raw: Mapping[str, Any]) -> Template:
    """What policy matching needs of a resource, which has apiVersion, kind and metadata.name.

    Raises:
        FieldError: a field of these is of the wrong type.
    """
    metadata = raw.get("metadata") or {}
    fields = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    try:
        return convert(Template, {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind"), **fields})
    except FieldError as error:
        is_top = error.path in {"apiVersion", "kind"}
        raise (error if is_top else error.below("metadata")) from None


def replicas_of(raw: Mapping[str, Any], paths: Iterable[ReplicaPath] = ()) -> Replicas:
    """The replicas of a resource; ``paths`` come before what is known of a kind.

    An absent number is 1, which is what the API server makes of it. A Job never runs more pods than it has
    completions.

    Raises:
        FieldError: a field is of the wrong type or negative; its path starts at the resource.
    """
    identity = (str(raw.get("apiVersion")), str(raw.get("kind")))
    path = next((each for each in (*paths, *BUILT_IN) if (each.api_version, each.kind) == identity), None)
    if path is not None:
        count = _count(raw, path.replicas)
        if identity == _JOB:
            count = min(count, _count(raw, "spec.completions", absent=count))
        requirements = _requirements(raw, path.pod_template) if path.pod_template is not None else None
        return Replicas(count, requirements)
    return Replicas(1, _requirements(raw, "")) if identity == _POD else Replicas()


def requirements_of(pod: PodSpec) -> ReplicaRequirements:
    """What a replica needs of a cluster and of its node; never None, for a pod has to run somewhere."""
    return ReplicaRequirements(
        resource_request=pod_requests(pod),
        node_claim=_node_claim(pod),
        priority_class_name=pod.priority_class_name,
    )


def _node_claim(pod: PodSpec) -> NodeClaim | None:
    """What a pod asks of its node; None if it takes any."""
    affinity = pod.required_node_affinity
    if pod.node_selector is None and affinity is None and not pod.tolerations:
        return None
    return NodeClaim(hard_node_affinity=affinity, node_selector=pod.node_selector or {}, tolerations=pod.tolerations)


def _requirements(raw: Mapping[str, Any], path: str) -> ReplicaRequirements:
    """The requirements from the pod template at a path, which is the resource itself if empty."""
    found = _at(raw, path) if path else raw
    if found is None:
        raise FieldError(path, "is missing; accepted is a pod template")
    try:
        pod = convert(PodTemplate, found).spec
    except FieldError as error:
        raise (error.below(path) if path else error) from None
    for problem in pod_errors(pod):
        raise problem.below(f"{path}.spec" if path else "spec")
    return requirements_of(pod)


def _count(raw: Mapping[str, Any], path: str, *, absent: int = 1) -> int:
    found = _at(raw, path)
    if found is None:
        return absent
    try:
        return convert(_COUNT, found)
    except FieldError as error:
        raise error.below(path) from None


def _at(raw: object, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a path, None where there is none.

    Raises:
        FieldError: something on the way is no object or array.
    """
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
