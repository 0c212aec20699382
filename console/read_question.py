"""A question of the page What if as changes for the extender. Everything wrong in it is reported at once."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from berthmaster.manifests import ManifestLimits, objects_in
from berthmaster.manifests.files import parse_file
from berthmaster.manifests.loader import objects_of
from berthmaster.model.errors import InputError, name_list, shown
from berthmaster.model.gaps import texts
from berthmaster.model.hints import closest
from berthmaster.model.policy import Policy
from berthmaster.model.readers import ANY_READER
from berthmaster.native_api.what_if import PolicyName
from berthmaster.simulation.change_texts import CHANGE_TEXTS
from berthmaster.simulation.changes import ClusterChange, Down, WorkloadChange, WorkloadEdit
from berthmaster.simulation.workload import ResourceName
from console.question import LABELS, MAX_ENTRIES, MAX_POLICY_BYTES, WhatIfQuestion
from console.source import SourceError

_Change = ClusterChange | WorkloadChange
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
    for each in CHANGE_TEXTS:
        for text in getattr(question, each.field):
            if each.field != "lose" or text not in domains:
                _add_change(found, each.field, text, each.read)
    lost = set(question.lose)
    for text in filter(domains.__contains__, question.lose):
        for name in domains[text]:
            if name not in lost:
                lost.add(name)
                found.add(Down(name), "lose", text)
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
    domains = [each for each in question.lose if "=" in each]
    named = replace(question, lose=tuple(each for each in question.lose if each not in domains))
    words = [
        _phrase(domains, "domain fails", "domains fail"),
        *(_phrase(getattr(named, each.field), each.one, each.many) for each in CHANGE_TEXTS),
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
    if isinstance(change, WorkloadEdit):
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
