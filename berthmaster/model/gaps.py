"""What is not known, and what follows for an answer: facts, and the one place that makes sentences of them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.errors import name_list
from berthmaster.model.kinds import group_of
from berthmaster.model.meta import Key, object_name
from berthmaster.model.readers import ELSEWHERE, Reader
from berthmaster.model.taint_policy import TAINT_POLICY
from berthmaster.model.unread_kinds import consequence_of

MOST_NAMED: Final = 20
"""How many objects that are left out an answer names."""
_NAMED: Final = 5
_SO: Final = ": {consequence}"
_INVALID_BUDGETS: Final = "the budgets in the lease of the controllers are invalid, and not shown"


class GapKind(StrEnum):
    """The kinds of gaps. Dumps contain the values.

    Facts of a kind are the names in braces of its sentence, except ``names`` and ``where``.
    """

    FORBIDDEN = "Forbidden"
    FORBIDDEN_MOVES = "ForbiddenMoves"
    NOT_SERVED = "NotServed"
    NOT_SERVED_UNUSED = "NotServedUnused"
    INVALID_OBJECT = "InvalidObject"
    MORE_INVALID_OBJECTS = "MoreInvalidObjects"
    UNREAD_OBJECT = "UnreadObject"
    NO_WORKLOADS = "NoWorkloads"
    NO_BINDINGS = "NoBindings"
    NO_TEMPLATES = "NoTemplates"
    NOT_WATCHABLE = "NotWatchable"
    TOO_MANY_KINDS = "TooManyKinds"
    DISCOVERY_FAILED = "DiscoveryFailed"
    NOT_LISTED = "NotListed"
    NOT_WATCHED_YET = "NotWatchedYet"
    LABELS = "Labels"
    REPLICAS = "Replicas"
    DEPENDENCIES = "Dependencies"
    COMPONENTS = "Components"
    WAITED_FOR = "WaitedFor"
    UNKNOWN_PAUSE = "UnknownPause"
    NO_BUDGETS = "NoBudgets"
    INVALID_BUDGETS = "InvalidBudgets"
    SWITCHES = "Switches"


class _Words(NamedTuple):
    """The sentence of a kind.

    Attributes:
        cause: what is not known, or why. ``{names}`` stands for the names of the resources that the gap is about.
        consequence: what follows from it, with its separator.
        elsewhere: the sentence for a reader who may not see each of these resources; empty if the sentence has
            ``{names}``, which then leaves out what the reader may not see.
    """

    cause: str
    consequence: str = ""
    elsewhere: str = ""


_WORDS: Final[Mapping[GapKind, _Words]] = {
    GapKind.FORBIDDEN: _Words("no right to {verb} {type}{where}", _SO),
    GapKind.FORBIDDEN_MOVES: _Words("no right to {verb} {type}{where}", ": what moves there is not shown"),
    GapKind.NOT_SERVED: _Words("{kind} of {api_version} is not served", _SO),
    GapKind.NOT_SERVED_UNUSED: _Words(
        "{kind} of {api_version} is not served", ": a policy selects it, but it has no objects"
    ),
    GapKind.INVALID_OBJECT: _Words(
        "{error}", "; the object is left out",
        elsewhere="invalid objects in namespaces that are not shown here are left out; the list of workloads names "
        "those in namespaces that you may see",
    ),
    GapKind.MORE_INVALID_OBJECTS: _Words("and {number} more objects are left out"),
    GapKind.UNREAD_OBJECT: _Words(
        "{object} {problem}", "; it is left out, or counts as it was when it was read last",
        elsewhere="objects in namespaces that are not shown here cannot be read, and are left out",
    ),
    GapKind.NO_WORKLOADS: _Words(
        "the manifests have no binding and no resource template", ": the workloads of the fleet are not known"
    ),
    GapKind.NO_BINDINGS: _Words(
        "the manifests have no binding", ": moves, and what is assigned to clusters now, are not known"
    ),
    GapKind.NO_TEMPLATES: _Words(
        "templates are not watched: workloads without a binding are missing, and so are the policies that match a "
        "workload; watch them with --watch workloads"
    ),
    GapKind.NOT_WATCHABLE: _Words("{kind} of {api_version} is not served, or cannot be listed and watched", _SO),
    GapKind.TOO_MANY_KINDS: _Words(
        "{kind} of {api_version} is not watched: bindings and policies name more than {limit} kinds", _SO
    ),
    GapKind.DISCOVERY_FAILED: _Words("{kind} of {api_version} is not watched: discovery failed: {error}", _SO),
    GapKind.NOT_LISTED: _Words("{kind} of {api_version} is not listed: {problem}", _SO),
    GapKind.NOT_WATCHED_YET: _Words("{kind} of {api_version} is not watched yet; retry in a moment"),
    GapKind.LABELS: _Words("the labels are not known, so that it is not known whether {policy} selects {names}"),
    GapKind.REPLICAS: _Words("the replicas are not known, so that it is not known where {policy} places {names}"),
    GapKind.DEPENDENCIES: _Words("the dependencies of {names} are not known, so that more resources may move"),
    GapKind.COMPONENTS: _Words(
        "the components of {names} are those of their bindings: what the new templates ask for is not known"
    ),
    GapKind.WAITED_FOR: _Words(
        "{policy} waits for objects, and it is not known whether they exist ({objects})",
        "; the plan assumes that they do",
    ),
    GapKind.UNKNOWN_PAUSE: _Words("the pause {pause} of the leader is unknown: it is not known what moves wait for"),
    GapKind.NO_BUDGETS: _Words(
        "the lease of the controllers does not record their budgets: an earlier version leads, or there are too many; "
        "the budgets are not shown"
    ),
    GapKind.SWITCHES: _Words(
        "no right to get the Lease {name}: what the controllers of Berthmaster record is not known, and their failover "
        "and preemption count as off"
    ),
    GapKind.INVALID_BUDGETS: _Words(f"{_INVALID_BUDGETS}: {{error}}", elsewhere=_INVALID_BUDGETS),
}  # fmt: skip


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is not known.

    Attributes:
        about: the resources that the sentence names, each as ``NAMESPACE/KIND/NAME``; None if it is not known which
            resources it names.
    """

    kind: GapKind
    about: tuple[str, ...] | None = ()
    facts: dict[str, str] = {}

    @property
    def changes_answers(self) -> bool:
        """Whether an answer can be another one without the gap. Answers name the switches that they assume."""
        about_switches = self.kind is GapKind.SWITCHES or self.facts.get("kind") == TAINT_POLICY
        return not about_switches and self.kind is not GapKind.NOT_SERVED_UNUSED

    def cause(self, reader: Reader) -> str:
        return self._sentence(reader, "")

    def text(self, reader: Reader) -> str:
        """Return the sentence for a reader: a reader of few namespaces gets no name of others."""
        return self._sentence(reader, _WORDS[self.kind].consequence)

    def _sentence(self, reader: Reader, consequence: str) -> str:
        words = _WORDS[self.kind]
        about = self.about or ()
        seen = reader.seen(about)
        hides = len(seen) < len(about) or (self.about is None and reader.namespaces is not None)
        if hides and words.elsewhere:
            return words.elsewhere
        names = [name_list(seen, _NAMED)] if seen else []
        if hides:
            names.append(ELSEWHERE)
        facts = self.facts
        namespace = facts.get("namespace")
        kind = facts.get("group", group_of(facts.get("api_version", ""))), facts.get("kind", "")
        return f"{words.cause}{consequence}".format_map(
            {
                **facts,
                "names": " and ".join(names),
                "where": f" in the namespace {namespace}" if namespace else "",
                "consequence": consequence_of(*kind),
            }
        )


def unread_object(kind: str, key: Key, problem: str) -> Gap:
    """Return the gap of an object that exists and is not read. ``problem`` follows the name of the object."""
    facts = {"object": f"{kind} {object_name(*key)}", "problem": problem}
    return Gap(GapKind.UNREAD_OBJECT, (object_name(key[0], kind, key[1]),), facts)


def few(gaps: Sequence[Gap]) -> list[Gap]:
    """Return the first gaps of objects, and one for how many more there are."""
    more = len(gaps) - MOST_NAMED
    rest = [Gap(GapKind.MORE_INVALID_OBJECTS, facts={"number": str(more)})] if more > 0 else []
    return [*gaps[:MOST_NAMED], *rest]


def texts(gaps: Iterable[Gap], reader: Reader) -> list[str]:
    return list(dict.fromkeys(each.text(reader) for each in gaps))
