"""The content of the ledger: entries, as they are written to batches.

The hash chain: each segment continues the opening of the segment before, each batch continues the batch before.

A digest without a key finds accidents and careless changes. Who can change the whole database can compute a new chain;
compare the digest of ``berthmaster ledger verify`` with one that was kept elsewhere to find that.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from berthmaster.deciding.decision_recorder import DecisionOutcome, MoveInputs
from berthmaster.ledger.fleet_versions import FleetChange
from berthmaster.model.errors import DamagedLedgerError
from berthmaster.model.note import Note
from berthmaster.model.validation import DEFAULT_LIMITS, PlacementLimits

T = TypeVar("T")

FORMAT: Final = 3
"""The version of everything inside a batch. A reader refuses a later one."""
NO_DOCUMENT: Final = -1


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """How a process decides. A document; every decision refers to one."""

    version: str
    plugins: tuple[str, ...]
    keep_empty: bool = False
    limits: PlacementLimits = DEFAULT_LIMITS
    failover_after_s: float | None = None
    producer: str = "berthmaster"
    gates: Mapping[str, bool] = {}


class DecisionEntry(msgspec.Struct, frozen=True, array_like=True, tag="decision", gc=False):
    """A decision, with everything that it read. Documents are numbers; ``NO_DOCUMENT`` is none.

    Attributes:
        fleet: how the clusters changed since the decision before. It is the first field, so that a reader of the fleet
            can skip the others.
        at_us: when it was taken, in microseconds since 1970.
        duration_us: from the start of the decision to the last write.
        error: why its assignment was not written; empty if it was.
        binding: the binding as it was read, as JSON, without placement and applied placement, and without the status of
            members unless it has a move.
        placement, applied: the documents of the binding's placement and of the annotation with the applied one.
        configuration: the document with how the process decides.
        unready: the document with the monotonic time since which clusters are not ready.
        peers: the document with the clusters of the workloads in the binding's affinity groups.
        outcome: the decision, without the annotation of the applied placement.
        written: the document with that annotation; ``NO_DOCUMENT`` if it does not change.
    """

    fleet: FleetChange
    sequence: int
    at_us: int
    duration_us: int
    reconcile_id: str
    error: str
    binding: bytes
    placement: int
    applied: int
    configuration: int
    now_s: float
    unready: int
    peers: int
    bounds: dict[str, int] | None
    moves: MoveInputs | None
    version: bytes
    outcome: DecisionOutcome
    written: int


class NoteEntry(msgspec.Struct, frozen=True, array_like=True, tag="note", gc=False):
    """Another fact, with its position in the segment and its time in microseconds since 1970."""

    sequence: int
    at_us: int
    note: Note


Entry = DecisionEntry | NoteEntry


class BatchContent(msgspec.Struct, frozen=True, array_like=True):
    """What the payload of a batch holds.

    Attributes:
        whole: the clusters before its first record; None if they are those after the batch before.
    """

    whole: FleetChange | None
    entries: list[Entry]


class _Skipped(msgspec.Struct, frozen=True, array_like=True, tag="note"):
    """A note, for a reader of the fleet."""


class _OnlyFleet(msgspec.Struct, frozen=True, array_like=True, tag="decision"):
    """A decision, for a reader of the fleet."""

    fleet: FleetChange


class _OnlyFleets(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a batch, for a reader of the fleet."""

    whole: FleetChange | None
    entries: list[_OnlyFleet | _Skipped]


class RecordRow(NamedTuple):
    """What a record can be found by. It is derived from its entry, and the audit derives it again.

    Attributes:
        kind: ``decision`` or the kind of a note.
        reason: the reason of a decision, or ``NotWritten``.
        namespace, resource_kind, name: the workload of a decision, or the object of a note.
    """

    sequence: int
    at_us: int
    kind: str
    trigger: str
    reason: str
    namespace: str
    resource_kind: str
    name: str
    policy: str


class SealedBatch(NamedTuple):
    """Encoded entries that one transaction writes.

    Attributes:
        start: the number of the batch from which to read: the last one that starts with a whole fleet version.
        documents: the compressed documents that no earlier batch of the segment has.
        clusters: the names of the clusters whose replicas a decision changes, or that a note is about.
    """

    number: int
    start: int
    first_document: int
    document_count: int
    payload: bytes
    documents: bytes
    rows: list[RecordRow]
    clusters: list[str]

    @property
    def first_us(self) -> int:
        """The earliest time of a record. Records of several threads are nearly, and not quite, in the order of time."""
        return min(row.at_us for row in self.rows)

    @property
    def last_us(self) -> int:
        """The latest time of a record."""
        return max(row.at_us for row in self.rows)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(BatchContent)
_FLEETS: Final = msgspec.msgpack.Decoder(_OnlyFleets)


def encode_batch(content: BatchContent) -> bytes:
    """Encode the payload of a batch."""
    return _ENCODER.encode(content)


def decode_batch(payload: bytes) -> BatchContent:
    """Decode the payload of a batch. Raises ``InputError`` if the bytes are no payload."""
    return _decoded(_DECODER, payload)


def decode_fleet(payload: bytes) -> tuple[FleetChange | None, list[FleetChange]]:
    """Decode only the clusters before the first record, and how they changed; raises as ``decode_batch``."""
    content = _decoded(_FLEETS, payload)
    return content.whole, [each.fleet for each in content.entries if isinstance(each, _OnlyFleet)]


def _decoded(decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise DamagedLedgerError(f"a batch of the ledger cannot be decoded: {error}") from None


GENESIS: Final = bytes(32)
"""The digest before the first segment."""


def opening_digest(previous: bytes, segment: int, role: str, writer: str, opened_us: int) -> bytes:
    """Return the digest with which a segment starts."""
    return _digest(previous, b"segment", segment, role, writer, opened_us, FORMAT)


def batch_digest(previous: bytes, batch: SealedBatch) -> bytes:
    """Return the digest of a segment after a batch."""
    return _digest(
        previous, b"batch", batch.number, batch.start, batch.first_document, batch.document_count, len(batch.rows),
        batch.rows[0].sequence, batch.first_us, batch.last_us, batch.payload, batch.documents,
    )  # fmt: skip


def _digest(*parts: bytes | str | int) -> bytes:
    """Return a digest of parts with their lengths, so that no two lists of parts give the same bytes."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        hashed.update(len(data).to_bytes(8))
        hashed.update(data)
    return hashed.digest()
