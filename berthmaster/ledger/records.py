"""Records as people and programs ask for them, without the database."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import Key, object_name
from berthmaster.simulation.report import Explanation

END_US: Final = 2**62
_MAX_DIGITS: Final = 9


class RecordId(NamedTuple):
    """The position of a record: its segment, and its number there."""

    segment: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.segment}.{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> "RecordId":
        parts = text.split(".")
        if len(parts) != 2 or not all(
            part.isascii() and part.isdecimal() and len(part) <= _MAX_DIGITS for part in parts
        ):
            raise InputError(f"{shown(text)} is not the id of a record; accepted is SEGMENT.NUMBER, from history")
        return cls(int(parts[0]), int(parts[1]))


class Query(NamedTuple):
    """Which records to find. Empty fields match all.

    Attributes:
        cluster: a cluster whose replicas the decision changes, or that the note is about.
        policy: the policy: its name, ``NAMESPACE/NAME``, or kind and both.
        trigger: the trigger of a decision, or the kind of a note.
        user: who asked for the change that a note is about, as the API server names users.
        since_us, until_us: the range of times, in microseconds since 1970.
        namespaces: the namespaces of the objects, ``CLUSTER_SCOPED`` for those without one; None for all.
        moves_only: whether only decisions that change an assignment or evict from a cluster count.
        is_chosen: whether the resource of a kind with a key counts; None if all do.
    """

    namespace: str = ""
    resource_kind: str = ""
    name: str = ""
    cluster: str = ""
    policy: str = ""
    trigger: str = ""
    since_us: int = 0
    until_us: int = END_US
    decisions_only: bool = False
    cluster_scoped: bool = False
    namespaces: frozenset[str] | None = None
    moves_only: bool = False
    user: str = ""
    is_chosen: Callable[[str, Key], bool] | None = None

    def accepts(self, row: "HistoryRow") -> bool:
        """Return whether a record meets the conditions that the database does not know."""
        chosen = self.is_chosen is None or self.is_chosen(row.resource_kind, (row.namespace, row.name))
        return chosen and (not self.moves_only or row.moves) and self.user in {"", row.user}


class HistoryRow(msgspec.Struct, frozen=True, rename="camel"):
    """A record for people.

    Attributes:
        id: ``SEGMENT.NUMBER``.
        time: when, in RFC 3339 with microseconds.
        trigger: the trigger of a decision; ``Move`` for a step of a move.
        reason: the reason of the condition ``Scheduled``; ``NotWritten`` if the assignment was not written.
        message: the message of the condition, the error of the write, the event of a move, or the message of a note.
        before, after: the replicas by cluster; equal if nothing moved. None for notes.
        duration_ms: from the start of the decision to the last write.
    """

    id: str
    time: str
    kind: str
    namespace: str
    resource_kind: str
    name: str
    trigger: str = ""
    reason: str = ""
    message: str = ""
    policy: str = ""
    group: str = ""
    before: dict[str, int] | None = None
    after: dict[str, int] | None = None
    uid: str = ""
    generation: int = 0
    reconcile_id: str = ""
    duration_ms: float = 0.0
    fleet: str = ""
    details: dict[str, Any] = {}
    evicted_from: list[str] = []

    @property
    def resource(self) -> str:
        return object_name(self.namespace, self.resource_kind, self.name)

    @property
    def user(self) -> str:
        """Who asked for the change; empty for a decision, or if that is not on record."""
        return str(self.details.get("username", ""))

    @property
    def moves(self) -> bool:
        """Whether the decision changes the assignment or evicts from a cluster."""
        return self.before != self.after or bool(self.evicted_from)


class Page(NamedTuple):
    """Records, the latest first, and the record after which the next page starts; None at the end.

    A page can have fewer records than its limit, and none, if the query skips most records.
    """

    rows: list[HistoryRow]
    after: RecordId | None


class ChangeRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A change between the inputs of two decisions.

    Attributes:
        decisive: whether it is in the set that made the difference.
    """

    subject: str
    aspect: str
    before: str
    after: str
    decisive: bool


class InputDifference(msgspec.Struct, frozen=True, rename="camel"):
    """What changed between two decisions on a binding.

    Attributes:
        changes: all changes, the decisive ones first.
        without: the replicas by cluster that the later decision would have given without the decisive changes.
        smallest: whether no smaller set makes the difference. Otherwise none of its changes can be left out.
    """

    previous: str
    previous_time: int
    changes: list[ChangeRecord]
    without: dict[str, int] | None
    smallest: bool
    summary: str


class PastExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of a recorded decision.

    Attributes:
        explanation: the diagnosis, made now from what the decision read.
        reproduced: whether this version decides the same, byte for byte. If not, the diagnosis is that of this
            version, and can differ from the record.
        difference: how its inputs differ from those of the decision before on the same binding. None if it was not
            asked, or if the ledger has no such decision.
    """

    record: HistoryRow
    explanation: Explanation
    reproduced: bool
    notes: list[str] = []
    difference: InputDifference | None = None


class Audit(msgspec.Struct, frozen=True):
    """The result of an audit.

    Attributes:
        gaps: the notes about records that are missing, one sentence each. They are no problems of the chain.
        head: the digest of everything. Keep it elsewhere to find out later that the whole ledger was replaced.
    """

    problems: list[str]
    segments: int
    batches: int
    records: int
    gaps: list[str]
    head: str
