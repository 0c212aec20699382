"""The question of the page What if: as the form has it, as the address carries it, and as changes.

A question keeps the texts that the visitor wrote. So the form shows them again, and an address can be sent to others.
Everything wrong in it is reported at once.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import msgspec.structs

from berthmaster.manifests import ManifestLimits, objects_in
from berthmaster.manifests.files import parse_file
from berthmaster.manifests.loader import objects_of
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError, name_list, shown
from berthmaster.model.gaps import texts
from berthmaster.model.hints import closest
from berthmaster.model.policy import Policy
from berthmaster.model.readers import ANY_READER
from berthmaster.native_api.what_if import PolicyName
from berthmaster.simulation.changes import (
    ClusterChange,
    Down,
    RemoveCluster,
    Scale,
    Up,
    label_change,
    scale_change,
    taint_change,
)
from berthmaster.simulation.plan_answer import Switch
from berthmaster.simulation.workload import ResourceName
from console.query import MAX_TEXT, QueryError
from console.source import SourceError

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

MAX_ADDRESS: Final = 3800
"""The most characters of a question in an address. The server reads request lines of up to 4,094 bytes. The answer to a
longer question has no address of its own."""
MAX_JSON_BYTES: Final = 64 * 2**10
"""The largest question that an address carries."""
MAX_ENTRIES: Final = 100
MAX_POLICY_BYTES: Final = 256 * 2**10
SEPARATORS: Final = re.compile(r"[\s,]+")
_WORDS: Final = ("lose", "recover", "leave", "taints", "labels", "scales", "deleted")
_HELP: Final = "open /what-if and ask again with the form"


class WhatIfQuestion(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a visitor asks. The texts are as in the options of ``berthmaster simulate`` and ``plan``.

    Attributes:
        lose: the clusters that fail: names, and whole domains such as ``region=eu-west-1``.
        taints: ``CLUSTER=KEY[=VALUE]:EFFECT``, or ``CLUSTER=KEY[:EFFECT]-``.
        labels: ``CLUSTER=KEY=VALUE``, or ``CLUSTER=KEY-``.
        scales: ``[NAMESPACE/]KIND/NAME=N``.
        deleted: the policies that are deleted, as ``[NAMESPACE/]KIND/NAME``.
    """

    lose: tuple[str, ...] = ()
    recover: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    policies: str = ""
    deleted: tuple[str, ...] = ()
    failover: Switch = Switch.AUTO
    preemption: Switch = Switch.AUTO

    @property
    def empty(self) -> bool:
        """Whether no change is asked for."""
        return self == WhatIfQuestion(failover=self.failover, preemption=self.preemption)


def question_of(form: "MultiDict[str, str]") -> WhatIfQuestion:
    """Return the question that a form asks. Words are separated by spaces, commas or lines.

    Raises ``QueryError`` if it is too large.
    """
    words = {name: _words(form.getlist(name)) for name in _WORDS}
    policies = "\n".join(form.getlist("policies")).replace("\r\n", "\n").strip()
    failover, preemption = (_switch(form.getlist(name)) for name in ("failover", "preemption"))
    asked = WhatIfQuestion(policies=policies, failover=failover, preemption=preemption)
    return _bounded(msgspec.structs.replace(asked, **words))


def _bounded(question: WhatIfQuestion) -> WhatIfQuestion:
    """Return a question that costs a bounded time. Raises ``QueryError`` for one that is too large."""
    for name in _WORDS:
        count = len(getattr(question, name))
        if count > MAX_ENTRIES:
            raise QueryError(f"{LABELS[name]}: {count:,} words; at most {MAX_ENTRIES} are accepted")
        longest = max(getattr(question, name), key=len, default="")
        if len(longest) > MAX_TEXT:
            raise QueryError(f"{LABELS[name]}: {shown(longest)} is longer than {MAX_TEXT} characters")
    if len(question.policies) > MAX_POLICY_BYTES:
        count = len(question.policies)
        raise QueryError(f"{LABELS['policies']}: {count:,} characters; at most {MAX_POLICY_BYTES:,} are accepted")
    return question


def _switch(values: list[str]) -> Switch:
    """Return the choice of a form; ``auto`` for a value that the form does not have."""
    return Switch(values[0]) if values and values[0] in list(Switch) else Switch.AUTO


def encoded(question: WhatIfQuestion) -> str:
    """Return a question for an address: JSON, compressed, in the URL-safe alphabet of base64 without padding."""
    data = zlib.compress(msgspec.json.encode(question), 9)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> WhatIfQuestion:
    """Read a question from an address. Raises ``QueryError`` if the text is not a question, or too large."""
    if len(text) > MAX_ADDRESS:
        raise QueryError(f"question: longer than {MAX_ADDRESS} characters; {_HELP}")
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True)
        reader = zlib.decompressobj()
        content = reader.decompress(data, MAX_JSON_BYTES)
        if not reader.eof or reader.unused_data:
            raise QueryError(f"question: {shown(text)} is incomplete or too large; {_HELP}")
        return _bounded(decode_json(WhatIfQuestion, content))
    except (UnicodeEncodeError, binascii.Error, zlib.error, FieldError):
        raise QueryError(f"question: {shown(text)} is not a question of this page; {_HELP}") from None


def _words(values: Iterable[str]) -> tuple[str, ...]:
    found = (word for value in values for word in SEPARATORS.split(value) if word)
    return tuple(dict.fromkeys(found))


LABELS: Final = {
    "lose": "Clusters to lose",
    "recover": "Clusters that recover",
    "leave": "Clusters that leave the fleet",
    "taints": "Taints",
    "labels": "Labels of clusters",
    "scales": "Replicas of workloads",
    "policies": "Policies",
    "deleted": "Policies to delete",
}
_Change = ClusterChange | Scale
_READERS: Final[Sequence[tuple[str, Callable[[str], _Change]]]] = (
    ("recover", Up),
    ("labels", label_change),
    ("taints", taint_change),
    ("leave", RemoveCluster),
    ("lose", Down),
    ("scales", scale_change),
)
"""How the words of each field are read, in the order in which changes take effect in ``berthmaster simulate``."""
_LIMITS: Final = ManifestLimits(file_bytes=MAX_POLICY_BYTES, depth=50, aliased_nodes=10_000, documents=MAX_ENTRIES)
_MAX_HINTS: Final = 10
_PLACE: Final = re.compile(r"(changes|create|delete)\[(\d+)\]\.?(.*)")
"""A path in the request: its list, the number of the entry, and the path in the entry."""
_KINDS: Final = {"propagationpolicy": "PropagationPolicy", "clusterpropagationpolicy": "ClusterPropagationPolicy"}


class FormProblem(NamedTuple):
    """What is wrong with a field of the form."""

    field: str
    message: str

    @property
    def label(self) -> str:
        return LABELS.get(self.field, "The question")


@dataclass(slots=True)
class ReadQuestion:
    """A question as the extender gets it.

    Attributes:
        problems: what is wrong. Nothing may be asked if there is a problem.
        status: the status of the page if the extender cannot answer; 0 otherwise.
        clusters: the names of the fleet.
        may_see: whether the visitor may see a namespace; an empty name stands for cluster-scoped objects.
    """

    changes: list[_Change] = field(default_factory=list)
    origins: list[tuple[str, str]] = field(default_factory=list)
    create: list[Policy] = field(default_factory=list)
    delete: list[PolicyName] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[FormProblem] = field(default_factory=list)
    status: int = 0
    clusters: Collection[str] = ()
    may_see: Callable[[str], bool] = lambda _namespace: True

    def unknown_cluster(self, text: str, cluster: str) -> str:
        """Return the problem of a text that names no cluster of the fleet. The first problems have hints."""
        problem = f"{shown(text)}: there is no cluster {shown(cluster)}"
        if len(self.problems) >= _MAX_HINTS:
            return problem
        close = closest(cluster, self.clusters)
        hint = f"did you mean {close}?" if close else f"the fleet has {name_list(sorted(self.clusters), 5)}"
        return f"{problem}; {hint}"

    def add(self, change: _Change, name: str, text: str) -> None:
        """Add a change that a text of a field asks for."""
        self.changes.append(change)
        self.origins.append((name, text))


def read(
    question: WhatIfQuestion,
    clusters: Collection[str],
    may_see: Callable[[str], bool],
    domains: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> ReadQuestion:
    """Read a question.

    Args:
        domains: the clusters of each region, zone and provider, by words such as ``region=eu-west-1``.
    """
    found = ReadQuestion(clusters=clusters, may_see=may_see)
    for name, reader in _READERS:
        for text in getattr(question, name):
            if name != "lose" or text not in domains:
                _add_change(found, name, text, reader)
    lost = set(question.lose)
    for text in filter(domains.__contains__, question.lose):
        for each in domains[text]:
            if each not in lost:
                lost.add(each)
                found.add(Down(each), "lose", text)
    _read_policies(found, question.policies)
    for text in question.deleted:
        _add_deletion(found, text)
    return found


def refusals(error: SourceError, question: ReadQuestion) -> Iterator[FormProblem]:
    """Yield what the extender refuses, at the fields that the visitor sees."""
    if not error.errors:
        yield FormProblem("", error.detail or str(error))
    for each in error.errors:
        match _PLACE.fullmatch(each.path):
            case None:
                yield FormProblem("", f"{each.path}: {each.detail}" if each.path else each.detail)
            case place:
                yield _refused_entry(place[1], int(place[2]), place[3], each.detail, question)


def _refused_entry(kind: str, number: int, path: str, reason: str, question: ReadQuestion) -> FormProblem:
    if kind == "changes" and number < len(question.origins):
        name, written = question.origins[number]
        return FormProblem(name, f"{shown(written)}: {reason}")
    if kind == "create" and number < len(question.create):
        where = f"{question.create[number].reference}: {path}" if path else str(question.create[number].reference)
        return FormProblem("policies", f"{where}: {reason}")
    return FormProblem("deleted" if kind == "delete" else "", reason)


def question_words(question: WhatIfQuestion) -> list[str]:
    """Return what a question asks, one phrase for each field, for the top of the answer."""
    words = [
        _phrase([each for each in question.lose if "=" in each], "domain fails", "domains fail"),
        _phrase([each for each in question.lose if "=" not in each], "cluster fails", "clusters fail"),
        _phrase(question.recover, "cluster recovers", "clusters recover"),
        _phrase(question.leave, "cluster leaves", "clusters leave"),
        _phrase(question.taints, "taint changes", "taints change"),
        _phrase(question.labels, "label changes", "labels change"),
        _phrase(question.scales, "workload is scaled", "workloads are scaled"),
        "the pasted policies are applied" if question.policies else "",
        _phrase(question.deleted, "policy is deleted", "policies are deleted"),
    ]
    return [each for each in words if each]


def _phrase(texts: Sequence[str], one: str, many: str) -> str:
    return f"{len(texts)} {one if len(texts) == 1 else many}: {name_list(texts, 5)}" if texts else ""


def _add_change(found: ReadQuestion, name: str, text: str, reader: Callable[[str], _Change]) -> None:
    try:
        change = reader(text)
    except InputError as error:
        found.problems.append(FormProblem(name, str(error)))
        return
    if isinstance(change, Scale):
        problem = "" if found.may_see(change.resource.namespace) else _hidden(text, change.resource.namespace)
    else:
        problem = "" if change.cluster in found.clusters else found.unknown_cluster(text, change.cluster)
    if problem:
        found.problems.append(FormProblem(name, problem))
    else:
        found.add(change, name, text)


def _hidden(text: str, namespace: str) -> str:
    place = f"the namespace {shown(namespace)}" if namespace else "objects without a namespace"
    return f"{shown(text)}: you may not see {place}; name an object of a namespace that you may see"


def _read_policies(found: ReadQuestion, text: str) -> None:
    if not text:
        return
    try:
        numbered = parse_file(text.encode(errors="replace"), "the pasted text", _LIMITS)
        documents = [
            document
            for number, raw in numbered
            if raw is not None
            for document in objects_in("the pasted text", number, raw, _LIMITS.depth)
        ]
        manifests = objects_of(documents)
    except InputError as error:
        found.problems.append(FormProblem("policies", str(error)))
        return
    others = sorted({each.kind for each in documents if each.kind not in _KINDS.values()})
    if others:
        accepted = "accepted are PropagationPolicy and ClusterPropagationPolicy"
        found.problems.append(FormProblem("policies", f"the kind {name_list(others, 5)} is not accepted; {accepted}"))
    if not manifests.policies and not others and not manifests.gaps:
        found.problems.append(FormProblem("policies", "the pasted text has no policy"))
    found.problems += [FormProblem("policies", each) for each in texts(manifests.gaps, ANY_READER)]
    found.problems += [
        FormProblem("policies", _hidden(str(each.reference), each.metadata.namespace))
        for each in manifests.policies
        if not found.may_see(each.metadata.namespace)
    ]
    found.notes += manifests.warnings
    found.create += manifests.policies


def _add_deletion(found: ReadQuestion, text: str) -> None:
    try:
        name = ResourceName.parse(text)
    except InputError as error:
        found.problems.append(FormProblem("deleted", str(error)))
        return
    kind = _KINDS.get(name.kind.lower())
    accepted = "accepted is NAMESPACE/PropagationPolicy/NAME or ClusterPropagationPolicy/NAME"
    if kind is None or (kind == "ClusterPropagationPolicy") == bool(name.namespace):
        found.problems.append(FormProblem("deleted", f"{shown(text)}: {accepted}"))
    elif not found.may_see(name.namespace):
        found.problems.append(FormProblem("deleted", _hidden(text, name.namespace)))
    else:
        found.delete.append(PolicyName(kind=kind, name=name.name, namespace=name.namespace))  # type: ignore[arg-type]
