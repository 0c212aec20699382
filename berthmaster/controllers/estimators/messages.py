"""The messages of ``MaxAvailableReplicas`` and ``MaxAvailableComponentSets`` (karmada ``pkg/estimator/pb``).

The messages contain types of Kubernetes (quantities, node selectors, tolerations) as bytes: the protobuf messages of
``k8s.io/api/core/v1/generated.proto``, without the envelope of the API server.

Karmada 1.18 gave these fields new numbers and the type bytes, and 1.19 removed the fields with the types themselves.
Both have the same bytes. Every question has both, so that estimators of all releases read it.

The wire format (protobuf.dev/programming-guides/encoding) is implemented here: the few fields need less code than their
descriptors, and no install needs a protobuf library. Tests compare the results with that library.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from berthmaster.model.binding import Component
from berthmaster.model.cluster import Toleration
from berthmaster.model.decode import convert
from berthmaster.model.errors import ServiceError
from berthmaster.model.meta import Value
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements

_SERVICE: Final = "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator"
REPLICAS: Final = f"{_SERVICE}/MaxAvailableReplicas"
COMPONENT_SETS: Final = f"{_SERVICE}/MaxAvailableComponentSets"
Metadata = tuple[tuple[str, str], ...]

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10
_MASK_64: Final = 2**64 - 1
_MASK_32: Final = 2**32 - 1


class Question(NamedTuple):
    """A question to the estimators of all clusters.

    Attributes:
        method: the gRPC method: ``REPLICAS`` or ``COMPONENT_SETS``.
        content: the request without its cluster.
    """

    method: str
    content: bytes

    def request(self, cluster: str) -> bytes:
        """Return the encoded request to one cluster's estimator."""
        return _text(1, cluster) + self.content


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
    if requirements is None:
        return Question(REPLICAS, _message(2, b""))
    scope = _text(3, requirements.namespace) + _text(4, requirements.priority_class_name)
    content = _claim(requirements) + _amounts(2, requirements) + scope + _amounts(5, requirements)
    return Question(REPLICAS, _message(2, content))


def sets_question(components: Iterable[Component], namespace: str) -> Question:
    """Return the question how many more complete sets of the pods of these templates fit.

    Args:
        components: the templates.
        namespace: the namespace of the workload, whose quotas count.

    Raises:
        InputError: a node affinity is invalid.
    """
    encoded = b"".join(_message(2, _component(each)) for each in components)
    return Question(COMPONENT_SETS, encoded + _text(3, namespace))


def answered_number(response: bytes) -> int:
    """Decode the number in the response to either question.

    Raises:
        ServiceError: the response is not a protobuf message.
    """
    return _int32(response, 1)


def _component(component: Component) -> bytes:
    requirements = component.replica_requirements
    needs = b""
    if requirements is not None:
        content = _claim(requirements) + _amounts(2, requirements) + _text(3, requirements.priority_class_name)
        needs = _message(2, content + _amounts(4, requirements))
    replicas = _integer(3, component.replicas) if component.replicas else b""
    return _text(1, component.name) + needs + replicas


def _claim(requirements: ReplicaRequirements) -> bytes:
    claim = requirements.node_claim
    return _message(1, _node_claim(claim)) if claim is not None else b""


def _amounts(number: int, requirements: ReplicaRequirements) -> bytes:
    amounts = requirements.resource_request.items()
    return _entries(number, ((name, _text(1, amount.canonical())) for name, amount in amounts))


def _node_claim(claim: NodeClaim) -> bytes:
    selector = ((key, value.encode()) for key, value in claim.node_selector.items())
    affinity = None if claim.hard_node_affinity is None else _affinity(claim.hard_node_affinity)
    tolerations = [_toleration(each) for each in claim.tolerations]
    older = b"".join(_message(3, each) for each in tolerations)
    newer = b"".join(_message(5, each) for each in tolerations)
    return _optional(1, affinity) + _entries(2, selector) + older + _optional(4, affinity) + newer


def _affinity(raw: object) -> bytes:
    selector = convert(_NodeSelector, raw)
    return b"".join(
        _message(1, _requirements(1, term.match_expressions) + _requirements(2, term.match_fields))
        for term in selector.node_selector_terms
    )


def _requirements(number: int, requirements: Sequence[_SelectorRequirement]) -> bytes:
    return b"".join(
        _message(
            number,
            _text(1, each.key)
            + _text(2, each.operator)
            + b"".join(_message(3, value.encode()) for value in each.values),
        )
        for each in requirements
    )


def _toleration(toleration: Toleration) -> bytes:
    seconds = toleration.toleration_seconds
    return (
        _text(1, toleration.key)
        + _text(2, toleration.operator)
        + _text(3, toleration.value)
        + _text(4, toleration.effect)
        + (b"" if seconds is None else _integer(5, seconds))
    )


def _message(number: int, content: bytes) -> bytes:
    """Encode a message or bytes field, even if it is empty."""
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _optional(number: int, content: bytes | None) -> bytes:
    """Encode a message or bytes field; None is omitted."""
    return b"" if content is None else _message(number, content)


def _text(number: int, content: str) -> bytes:
    """Encode a string field; an empty string is omitted."""
    return _message(number, content.encode()) if content else b""


def _integer(number: int, value: int) -> bytes:
    """Encode an ``int32`` or ``int64`` field, even if it is 0."""
    return _varint(number << 3 | _VARINT) + _varint(value & _MASK_64)


def _entries(number: int, pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """Encode a map field from strings to bytes (or encoded strings), sorted by key."""
    return b"".join(_message(number, _text(1, key) + _message(2, value)) for key, value in sorted(pairs))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _int32(content: bytes, number: int) -> int:
    """Decode the ``int32`` in a field of a message; 0 if it is absent, the last value if it is repeated.

    Raises:
        ServiceError: the content is not a protobuf message.
    """
    value = 0
    for found, each in _integers(content):
        if found == number:
            value = each & _MASK_32
    return value - 2**32 if value >= 2**31 else value


def _integers(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield number and value of each integer field, and skip the other fields."""
    position = 0
    while position < len(content):
        tag, position = _read_varint(content, position)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise ServiceError("the response is not a protobuf message: a field has the number 0")
        if kind == _VARINT:
            value, position = _read_varint(content, position)
            yield number, value
            continue
        if kind == _LENGTH:
            size, position = _read_varint(content, position)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ServiceError(f"the response is not a protobuf message: field {number} has the wire type {kind}")
        position += size
        if position > len(content):
            raise ServiceError("the response is not a protobuf message: a field is truncated")


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    """Decode an integer, and return it with the position after it."""
    value = 0
    for index, byte in enumerate(content[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & _MASK_64, position + index + 1
    raise ServiceError("the response is not a protobuf message: an integer is truncated")
