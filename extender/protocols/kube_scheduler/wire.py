"""The wire of a kube-scheduler extender (``k8s.io/kube-scheduler/extender/v1``): types, decoding and encoding.

The protocol's Go types have no JSON tags. Their keys are therefore Go's field names, capitalised, and unused fields are
``null`` instead of absent. Go ignores the case of such keys, and clients rely on it: decoding compares the keys of
these types in lower case, and the last of several equal keys counts. Pods and nodes inside have the usual JSON form.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from berthmaster.model.cluster_node import NodeIdentity
from berthmaster.model.decode import NOT_JSON, decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import INT64_MAX, INT64_MIN, ObjectMeta, Value
from berthmaster.model.replicas import PodSpec

T = TypeVar("T")
N = TypeVar("N", bound=NodeIdentity)

_NULL: Final = b"null"
# These errors lead to slower decoding, which finds the problem if there is one.
_Violations: Final[Any] = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
_Object: Final[Any] = dict[str, msgspec.Raw]
_Objects: Final[Any] = list[dict[str, msgspec.Raw]]
_Raws: Final[Any] = list[msgspec.Raw]
_Names: Final[Any] = list[str]


class PodStatus(Value, frozen=True):
    """The part of a pod's status that decisions use."""

    nominated_node_name: str = ""


class Pod(Value, frozen=True):
    """The pod to schedule."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class Args(NamedTuple):
    """A filter or prioritize request (``ExtenderArgs``).

    Attributes:
        names: the names of the nodes, which a scheduler with ``nodeCacheCapable: true`` sends; None if it sends nodes.
        nodes: the nodes, one raw JSON document each; empty if the scheduler sends names.
    """

    pod: Pod
    names: list[str] | None
    nodes: list[msgspec.Raw]


class PreemptionArgs(NamedTuple):
    """A preempt request (``ExtenderPreemptionArgs``): the candidate nodes with their victims."""

    pod: Pod
    candidates: "dict[str, MetaVictims]"


class Go(msgspec.Struct, frozen=True, rename="pascal"):
    """The base of the Go types without JSON tags: capitalised names, and every field is written."""


class NodeList(msgspec.Struct, frozen=True):
    """Nodes, each as the scheduler sent it."""

    items: list[msgspec.Raw]
    metadata: dict[str, str] = {}


class FilterResult(Go, frozen=True):
    """The answer to filter (``ExtenderFilterResult``). ``error`` says why no decision is possible now."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Go, frozen=True):
    """The score of one node, from 0 to 10."""

    host: str
    score: int


class MetaPod(Go, frozen=True):
    """A victim."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(Go, frozen=True):
    """The pods that kube-scheduler would evict from a node."""

    pods: list[MetaPod]
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptionResult(Go, frozen=True):
    """The answer to preempt (``ExtenderPreemptionResult``). It contains UIDs, whatever the request contained."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class _CanonicalArgs(msgspec.Struct, rename="pascal"):
    """``ExtenderArgs`` as kube-scheduler writes it. One call decodes it."""

    pod: msgspec.Raw
    nodes: msgspec.Raw
    node_names: list[str] | None


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None


_CANONICAL: Final = msgspec.json.Decoder(_CanonicalArgs)
_ITEMS: Final = msgspec.json.Decoder(_Items | None)


def decode_args(body: bytes) -> Args:
    """Decode a filter or prioritize request; raises ``FieldError``. The nodes stay raw; see ``decode_node``."""
    try:
        found = _CANONICAL.decode(body)
        pod, nodes, names = bytes(found.pod), found.nodes, found.node_names
    except NOT_JSON:
        members = _members(body, "")
        pod = members.get("pod", _NULL)
        nodes = msgspec.Raw(members.get("nodes", _NULL))
        names = _value(_Names, members.get("nodenames"), "NodeNames")
    decoded, items = _pod(pod), _items(nodes)
    if items is None and names is None:
        if bytes(nodes) == _NULL:
            raise FieldError("", "has neither Nodes nor NodeNames; accepted is one of them")
        items = []  # an empty list is null in Go
    return Args(decoded, names if items is None else None, items or [])


def decode_node(kind: type[N], raw: msgspec.Raw, index: int) -> N:
    """Decode a node of a request, as a ``NodeIdentity`` if that is enough. Raises ``FieldError``."""
    try:
        return decode_json(kind, raw)
    except FieldError as error:
        raise error.below(f"Nodes.items[{index}]") from None


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Decode a preempt request; raises ``FieldError``.

    A node with an empty list of victims is a candidate: it can take the pod without an eviction. ``null`` is none.
    """
    members = _members(body, "")
    pod = _pod(members.get("pod", _NULL))
    candidates: dict[str, MetaVictims] = {}
    for key, name in (("nodenametometavictims", "NodeNameToMetaVictims"), ("nodenametovictims", "NodeNameToVictims")):
        by_node = _value(_Object, members.get(key), name) or {}
        for node, raw in by_node.items():
            if bytes(raw) != _NULL:
                candidates[node] = _victims(bytes(raw), f"{name}[{node}]")
    return PreemptionArgs(pod, candidates)


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """Encode the answer to prioritize: an array."""
    return msgspec.json.encode([HostPriority(node, score) for node, score in scores.items()])


def encode_preemption_result(candidates: dict[str, MetaVictims]) -> bytes:
    """Encode the answer to preempt."""
    return msgspec.json.encode(PreemptionResult(candidates))


def _pod(raw: bytes) -> Pod:
    if raw == _NULL:
        raise FieldError("Pod", "is missing; accepted is a pod")
    try:
        return decode_json(Pod, raw)
    except FieldError as error:
        raise error.below("Pod") from None


def _items(raw: msgspec.Raw) -> list[msgspec.Raw] | None:
    """Return the nodes; None if ``Nodes`` or its ``items`` are null."""
    try:
        found = _ITEMS.decode(raw)
    except NOT_JSON:
        members = _members(bytes(raw), "Nodes")
        return _value(_Raws, members.get("items"), "Nodes.items")
    return None if found is None else found.items


def _victims(document: bytes, path: str) -> MetaVictims:
    """Decode ``Victims``, which contain pods, or ``MetaVictims``, which contain UIDs."""
    members = _members(document, path)
    pods = _value(_Objects, members.get("pods"), f"{path}.Pods") or []
    violations = _value(_Violations, members.get("numpdbviolations"), f"{path}.NumPDBViolations")
    return MetaVictims(
        [MetaPod(_uid(each, f"{path}.Pods[{index}]")) for index, each in enumerate(pods)], violations or 0
    )


def _uid(victim: Mapping[str, msgspec.Raw], path: str) -> str:
    """Return the UID of a victim: from a ``MetaPod``, or from the metadata of a pod."""
    members = _folded(victim)
    if "uid" not in members:
        members = _folded(_value(_Object, members.get("metadata"), f"{path}.metadata") or {})
    found = _value(str, members.get("uid"), f"{path}.UID")
    if not found:
        raise FieldError(path, "has no UID; accepted is an existing pod")
    return found


def _members(document: bytes, path: str) -> dict[str, bytes]:
    found = _value(_Object, document, path)
    if found is None:
        raise FieldError(path, "null is not accepted; accepted is an object")
    return _folded(found)


def _folded(members: Mapping[str, msgspec.Raw]) -> dict[str, bytes]:
    return {key.lower(): bytes(value) for key, value in members.items()}


def _value(kind: type[T], document: bytes | None, path: str) -> T | None:
    """Decode a value; return None for null and for an absent value."""
    if document is None or document == _NULL:
        return None
    try:
        return decode_json(kind, document)
    except FieldError as error:
        raise (error.below(path) if path else error) from None
