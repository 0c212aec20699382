"""The past: what a recorded decision read and said, restored from its segment."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import select

from berthmaster.deciding.decision_recorder import DecisionOutcome, GroupKey
from berthmaster.deciding.writes import AssignmentWrite, SchedulingResult, Version, status_write
from berthmaster.ledger.batches import BatchContent, decode_batch
from berthmaster.ledger.entries import NO_DOCUMENT, Configuration, DecisionEntry, Entry
from berthmaster.ledger.fleet_versions import FleetReader
from berthmaster.ledger.schema import batches
from berthmaster.ledger.store import Store
from berthmaster.ledger.times import MICROSECONDS
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import DamagedLedgerError, NotRecordedError
from berthmaster.model.meta import with_metadata, with_spec
from berthmaster.model.placement import Placement
from berthmaster.model.unsupported_placement import UnsupportedPlacement

T = TypeVar("T")
_MAX_BYTES: Final = 256 * 2**20
_KEPT: Final = 256
"""How many batches' documents are kept decoded."""


class PastDecision(msgspec.Struct, frozen=True):
    """A recorded decision with what it read. The binding has no status of members unless it has a move."""

    segment: int
    entry: DecisionEntry
    binding: Binding
    configuration: Configuration
    unready_since_s: Mapping[str, float]
    peers: Mapping[GroupKey, Mapping[str, frozenset[str]]]
    bounds: Mapping[str, int] | None
    outcome: DecisionOutcome

    @property
    def id(self) -> str:
        return f"{self.segment}.{self.entry.sequence}"


class Recalled(NamedTuple):
    """A recorded decision and the fleet that it was taken on."""

    past: PastDecision
    clusters: list[Cluster]


class Documents:
    """The documents of one segment, by number. Reads the batches that have them."""

    def __init__(self, store: Store, segment: int) -> None:
        self._store = store
        self._segment = segment
        self._batches: dict[int, list[bytes]] = {}

    def __call__(self, number: int) -> bytes:
        """Return a document. Raises ``InputError`` if the segment has no such document."""
        for start, kept in self._batches.items():
            if start <= number < start + len(kept):
                return kept[number - start]
        found = self._store.rows(
            select(batches.c.first_document, batches.c.documents)
            .where(batches.c.segment == self._segment, batches.c.first_document <= number)
            .where(batches.c.document_count > 0)
            .order_by(batches.c.first_document.desc())
            .limit(1)
        )
        row = found[0] if found else None
        first: int = -1 if row is None else row.first_document
        documents = [] if row is None else documents_of(row.documents)
        if number >= first + len(documents):
            raise DamagedLedgerError(f"segment {self._segment} of the ledger lacks document {number}")
        if len(self._batches) >= _KEPT:
            self._batches.clear()
        self._batches[first] = documents
        return documents[number - first]


def content_of(store: Store, segment: int, number: int) -> BatchContent | None:
    """Return what a batch holds; None if there is no such batch."""
    payload = store.value(select(batches.c.payload).where(batches.c.segment == segment, batches.c.number == number))
    return None if payload is None else decode_batch(unpacked(payload))


class SegmentReader:
    """Reads the decisions of one segment in order. ``fleet`` is the version of the last decision that was read."""

    def __init__(self, store: Store, segment: int) -> None:
        self._store = store
        self._segment = segment
        self._documents = Documents(store, segment)
        self._decoded: dict[int, object] = {}
        self.fleet = FleetReader(self._documents)

    def entries(self, first: int, last: int | None = None) -> Iterator[Entry]:
        """Yield the entries from a ``start`` batch on, up to the last. ``fleet`` has the version of each decision."""
        number = first
        while last is None or number <= last:
            content = content_of(self._store, self._segment, number)
            if content is None:
                return
            yield from self._follow(content)
            number += 1

    def _follow(self, content: BatchContent) -> Iterator[Entry]:
        if content.whole is not None:
            self.fleet.start(content.whole)
        for entry in content.entries:
            if isinstance(entry, DecisionEntry):
                self.fleet.read(entry.fleet)
            yield entry

    def decision(self, number: int, sequence: int) -> Recalled:
        entries = (each for payload in self._since_whole(number) for each in self._follow(decode_batch(payload)))
        found = next((entry for entry in entries if entry.sequence == sequence), None)
        if not isinstance(found, DecisionEntry):
            raise NotRecordedError(f"the ledger has no decision {self._segment}.{sequence}")
        clusters, _ = self.fleet.changes()
        return Recalled(self.past(found), clusters)

    def _since_whole(self, number: int) -> list[bytes]:
        """Return the payload of a batch, after those of the batches since its last whole fleet version."""
        own = batches.c.segment == self._segment
        start = select(batches.c.start).where(own, batches.c.number == number).scalar_subquery()
        statement = select(batches.c.payload).where(own, batches.c.number >= start, batches.c.number <= number)
        return list(map(unpacked, self._store.values(statement.order_by(batches.c.number))))

    def past(self, entry: DecisionEntry) -> PastDecision:
        """Return a decision with what it read. ``fleet.changes`` must have been called for its fleet version.

        Raises:
            InputError: the recorded fleet version is not the one that was restored, or the ledger is damaged.
        """
        if self.fleet.version() != entry.version:
            raise DamagedLedgerError(f"the fleet of decision {self._segment}.{entry.sequence} is damaged in the ledger")
        return PastDecision(
            self._segment,
            entry,
            self._binding(entry),
            self._part(entry.configuration, partial(decode_json, Configuration)) or Configuration("", ()),
            self._part(entry.unready, partial(decode_json, dict[str, float])) or {},
            self._part(entry.peers, _peers) or {},
            entry.bounds,
            self._outcome(entry),
        )

    def bindings(self, entry: DecisionEntry) -> tuple[Binding, Binding]:
        """Return the binding of a decision as it was read, and as the decision left it. Reads no fleet version."""
        before, outcome = self._binding(entry), self._outcome(entry)
        if entry.error:
            return before, before
        after, at = before, datetime.fromtimestamp(entry.at_us / MICROSECONDS, UTC)
        if outcome.annotations or outcome.targets is not None or outcome.evictions is not None:
            after = AssignmentWrite(outcome.annotations, outcome.targets, outcome.evictions).annotated(before)
        result = SchedulingResult(outcome.reason, outcome.message, outcome.group)
        status = status_write(after, result, at, refresh=outcome.refresh)
        return before, status.applied(after, Version(after.metadata.resource_version, after.metadata.generation))

    def _binding(self, entry: DecisionEntry) -> Binding:
        binding, applied = decode_json(Binding, entry.binding), self._text(entry.applied)
        if applied is not None:
            binding = with_metadata(binding, annotations={**binding.metadata.annotations, APPLIED_PLACEMENT: applied})
        return with_spec(binding, placement=self._part(entry.placement, _placement))

    def _outcome(self, entry: DecisionEntry) -> DecisionOutcome:
        written = self._text(entry.written)
        if written is None:
            return entry.outcome
        annotations = {**entry.outcome.annotations, APPLIED_PLACEMENT: written}
        return replace(entry.outcome, annotations=annotations)

    def _text(self, number: int) -> str | None:
        return None if number == NO_DOCUMENT else self._documents(number).decode()

    def _part(self, number: int, decode: Callable[[bytes], T]) -> T | None:
        """Return a decoded document. Equal placements must be one object: the engine knows them by identity."""
        if number == NO_DOCUMENT:
            return None
        if number not in self._decoded:
            if len(self._decoded) >= _KEPT:
                self._decoded.clear()
            self._decoded[number] = decode(self._documents(number))
        return self._decoded[number]  # type: ignore[return-value]  # a number is always decoded the same way


def unpacked(data: bytes) -> bytes:
    """Decompress a payload or documents. Raises ``InputError`` if they are damaged, or would need too much memory."""
    decompressor = zlib.decompressobj()
    try:
        unpacked = decompressor.decompress(data, _MAX_BYTES)
    except zlib.error as error:
        raise DamagedLedgerError(f"a batch of the ledger is damaged: {error}") from None
    if not decompressor.eof:
        raise DamagedLedgerError("a batch of the ledger is cut off or too large")
    return unpacked


def documents_of(data: bytes) -> list[bytes]:
    """Return the documents of a batch."""
    if not data:
        return []
    try:
        return msgspec.msgpack.decode(unpacked(data), type=list[bytes])
    except msgspec.DecodeError as error:
        raise DamagedLedgerError(f"the documents of a batch of the ledger cannot be decoded: {error}") from None


def _placement(document: bytes) -> Placement:
    found = decode_json(UnsupportedPlacement, document)
    return found if found.unsupported else decode_json(Placement, document)


def _peers(document: bytes) -> dict[GroupKey, dict[str, frozenset[str]]]:
    listed = decode_json(list[tuple[str, str, dict[str, frozenset[str]]]], document)
    return {(kind, group): members for kind, group, members in listed}
