"""Requests from bytes, answers to bytes.

Go matches the keys of types without JSON tags whatever their case, and clients rely on it. So do we: keys of the
protocol's own types are compared in lower case, the last of several that are alike counts.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec

from berthmaster.model.cluster import NodeIdentity
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from extender.protocols.kube_scheduler.wire import (
    Args,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    Pod,
    PreemptionArgs,
    PreemptionResult,
)

T = TypeVar("T")
N = TypeVar("N", bound=NodeIdentity)

_NULL: Final = b"null"
# Slower reading tells what is wrong, if anything is.
_NOT_CANONICAL: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_Violations: Final[Any] = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Object: Final[Any] = dict[str, msgspec.Raw]
_Objects: Final[Any] = list[dict[str, msgspec.Raw]]
_Raws: Final[Any] = list[msgspec.Raw]
_Names: Final[Any] = list[str]


class _Canonical(msgspec.Struct, rename="pascal"):
    """``ExtenderArgs`` as kube-scheduler itself writes it: decoded in one go."""

    pod: msgspec.Raw
    nodes: msgspec.Raw
    node_names: list[str] | None


class _Items(msgspec.Struct):
    """A NodeList."""

    items: list[msgspec.Raw] | None


def decode_args(body: bytes) -> Args:
    """A filter or prioritize request. Nodes stay as they came; see ``decode_node``.

    Raises:
        FieldError: it is not JSON, or not such a request.
    """
    try:
        found = _CANONICAL.decode(body)
        pod, nodes, names = bytes(found.pod), found.nodes, found.node_names
    except _NOT_CANONICAL:
        members = _members(body, "")
        pod = members.get("pod", _NULL)
        nodes = msgspec.Raw(members.get("nodes", _NULL))
        names = _value(_Names, members.get("nodenames"), "NodeNames")
    asked, items = _pod(pod), _items(nodes)
    if items is None and names is None:
        raise FieldError("", "has neither Nodes nor NodeNames; accepted is one of them")
    return Args(asked, names if items is None else None, items or [])


def decode_node(kind: type[N], raw: msgspec.Raw, index: int) -> N:
    """One of the nodes of a request: a ``Node``, or a ``NodeIdentity`` where that is enough.

    Raises:
        FieldError: it is no node; ``index`` says which.
    """
    try:
        return decode_json(kind, raw)
    except FieldError as error:
        raise error.below(f"Nodes.items[{index}]") from None


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """A preempt request. A node without victims is no candidate, and left out.

    Raises:
        FieldError: it is not JSON, or not such a request.
    """
    members = _members(body, "")
    pod = _pod(members.get("pod", _NULL))
    candidates: dict[str, MetaVictims] = {}
    for key, name in (("nodenametometavictims", "NodeNameToMetaVictims"), ("nodenametovictims", "NodeNameToVictims")):
        by_node = _value(_Object, members.get(key), name) or {}
        for node, raw in by_node.items():
            victims = _victims(bytes(raw), f"{name}[{node}]")
            if victims.pods:
                candidates[node] = victims
    return PreemptionArgs(pod, candidates)


def encode_filter_result(result: FilterResult) -> bytes:
    """The answer to filter."""
    return msgspec.json.encode(result)


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """The answer to prioritize: a bare array."""
    return msgspec.json.encode([HostPriority(node, score) for node, score in scores.items()])


def encode_preemption_result(candidates: dict[str, MetaVictims]) -> bytes:
    """The answer to preempt."""
    return msgspec.json.encode(PreemptionResult(candidates))


def _pod(raw: bytes) -> Pod:
    if raw == _NULL:
        raise FieldError("Pod", "is missing; accepted is a pod")
    try:
        return decode_json(Pod, raw)
    except FieldError as error:
        raise error.below("Pod") from None


def _items(raw: msgspec.Raw) -> list[msgspec.Raw] | None:
    """The items of a NodeList, None where there is no such list."""
    try:
        found = _ITEMS.decode(raw)
    except _NOT_CANONICAL:
        members = _members(bytes(raw), "Nodes")
        return _value(_Raws, members.get("items"), "Nodes.items") or []
    return None if found is None else found.items or []


def _victims(document: bytes, path: str) -> MetaVictims:
    """``Victims`` or ``MetaVictims``: whole pods, or only their UIDs."""
    if document == _NULL:
        return MetaVictims([])
    members = _members(document, path)
    pods = _value(_Objects, members.get("pods"), f"{path}.Pods") or []
    violations = _value(_Violations, members.get("numpdbviolations"), f"{path}.NumPDBViolations")
    return MetaVictims(
        [MetaPod(_uid(each, f"{path}.Pods[{index}]")) for index, each in enumerate(pods)], violations or 0
    )


def _uid(victim: Mapping[str, msgspec.Raw], path: str) -> str:
    """The UID of a victim: its own in ``MetaPod``, its metadata's in a whole pod."""
    members = _folded(victim)
    if "uid" not in members:
        members = _folded(_value(_Object, members.get("metadata"), f"{path}.metadata") or {})
    found = _value(str, members.get("uid"), f"{path}.UID")
    if not found:
        raise FieldError(path, "has no UID; accepted is a pod that exists")
    return found


def _members(document: bytes, path: str) -> dict[str, bytes]:
    """The members of an object by their names in lower case."""
    found = _value(_Object, document, path)
    if found is None:
        raise FieldError(path, "null is not accepted; accepted is an object")
    return _folded(found)


def _folded(members: Mapping[str, msgspec.Raw]) -> dict[str, bytes]:
    return {key.lower(): bytes(value) for key, value in members.items()}


def _value(kind: type[T], document: bytes | None, path: str) -> T | None:
    """A value of a type; None for null and for what is not there."""
    if document is None or document == _NULL:
        return None
    try:
        return decode_json(kind, document)
    except FieldError as error:
        raise (error.below(path) if path else error) from None


_CANONICAL: Final = msgspec.json.Decoder(_Canonical)
_ITEMS: Final = msgspec.json.Decoder(_Items | None)
