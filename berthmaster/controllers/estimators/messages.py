"""The messages of the estimators of Karmada (``pkg/estimator/pb``).

The messages contain types of Kubernetes (quantities, node selectors, tolerations) as bytes: the protobuf messages of
``k8s.io/api/core/v1/generated.proto``, without the envelope of the API server.

Karmada 1.18 gave these fields new numbers and the type bytes, and 1.19 removed the fields with the types themselves.
Both have the same bytes. Every question has both, so that estimators of all releases read it. ``estimator.proto`` has
the fields.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from berthmaster.model.binding import Component, ObjectReference
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import ServiceError
from berthmaster.model.meta import Value
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements

_SERVICE: Final = "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator"
REPLICAS: Final = f"{_SERVICE}/MaxAvailableReplicas"
COMPONENT_SETS: Final = f"{_SERVICE}/MaxAvailableComponentSets"
UNSCHEDULABLE: Final = f"{_SERVICE}/GetUnschedulableReplicas"
METHODS: Final = (REPLICAS, COMPONENT_SETS, UNSCHEDULABLE)
Metadata = tuple[tuple[str, str], ...]


class Question(NamedTuple):
    """A question to the estimators of all clusters.

    Attributes:
        method: the gRPC method, one of ``METHODS``.
        content: the request without its cluster.
    """

    method: str
    content: bytes

    def request(self, cluster: str) -> bytes:
        return _encoded("Cluster", {"cluster": cluster}) + self.content


class _SelectorRequirement(Value, frozen=True):
    """``core/v1.NodeSelectorRequirement``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _SelectorTerm(Value, frozen=True):
    """``core/v1.NodeSelectorTerm``."""

    match_expressions: tuple[_SelectorRequirement, ...] = ()
    match_fields: tuple[_SelectorRequirement, ...] = ()


class _NodeSelector(Value, frozen=True):
    """``core/v1.NodeSelector``."""

    node_selector_terms: tuple[_SelectorTerm, ...] = ()


def replicas_question(requirements: ReplicaRequirements | None) -> Question:
    """Return the question how many more replicas fit.

    Absent requirements are an empty message: they ask for pod slots. Without the message the answer would mean nothing.

    Raises:
        InputError: the node affinity is invalid.
    """
    fields: dict[str, Any] = {}
    if requirements is not None:
        fields = _requirements(requirements, namespace=requirements.namespace)
    return Question(REPLICAS, _encoded("Replicas", {"replicaRequirements": fields}))


def sets_question(components: Iterable[Component], namespace: str) -> Question:
    """Return the question how many more complete sets of the pods of these templates fit.

    Args:
        namespace: the namespace of the workload, whose quotas count.

    Raises:
        InputError: a node affinity is invalid.
    """
    fields = {"components": list(map(_component, components)), **_given(namespace=namespace)}
    return Question(COMPONENT_SETS, _encoded("ComponentSets", fields))


def unschedulable_question(workload: ObjectReference, for_s: int) -> Question:
    """Return the question how many replicas of a workload have been unschedulable for so many seconds."""
    resource = _given(
        apiVersion=workload.api_version, kind=workload.kind, namespace=workload.namespace, name=workload.name
    )
    fields = {"resource": resource, "unschedulableThreshold": for_s * 1_000_000_000}
    return Question(UNSCHEDULABLE, _encoded("Unschedulable", fields))


def answered_number(response: bytes) -> int:
    """Decode the number in the response to any question. Raises ``ServiceError`` for anything else."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - protobuf is an optional dependency

    try:
        number: int = _generated().Answer.FromString(response).number
    except DecodeError as error:
        raise ServiceError(f"the response is not a protobuf message: {error}") from None
    return number


def _component(component: Component) -> dict[str, Any]:
    fields = _given(name=component.name, replicas=component.replicas)
    if component.replica_requirements is not None:
        fields["replicaRequirements"] = _requirements(component.replica_requirements)
    return fields


def _requirements(requirements: ReplicaRequirements, **scope: str) -> dict[str, Any]:
    amounts = sorted(requirements.resource_request.items())
    request = [{"key": name, "value": {"string": amount.canonical()}} for name, amount in amounts]
    fields = _given(priorityClassName=requirements.priority_class_name, **scope)
    if requirements.node_claim is not None:
        fields["nodeClaim"] = _node_claim(requirements.node_claim)
    return {**fields, "olderRequest": request, "resourceRequest": request}


def _node_claim(claim: NodeClaim) -> dict[str, Any]:
    tolerations = builtins(claim.tolerations)
    fields = {
        "nodeSelector": [{"key": key, "value": value} for key, value in sorted(claim.node_selector.items())],
        "olderTolerations": tolerations,
        "tolerations": tolerations,
    }
    if claim.hard_node_affinity is not None:
        affinity = builtins(convert(_NodeSelector, claim.hard_node_affinity))
        fields |= {"olderAffinity": affinity, "nodeAffinity": affinity}
    return fields


def _given(**fields: str | int) -> dict[str, Any]:
    """Return the fields of a message without those at their default, which proto3 omits."""
    return {name: value for name, value in fields.items() if value}


def _encoded(message: str, fields: Mapping[str, Any]) -> bytes:
    encoded: bytes = getattr(_generated(), message)(**fields).SerializeToString()
    return encoded


@cache
def _generated() -> Any:  # noqa: ANN401 - the generated module has no types
    from berthmaster.controllers.estimators import estimator_pb2  # noqa: PLC0415 - protobuf is an optional dependency

    return estimator_pb2
