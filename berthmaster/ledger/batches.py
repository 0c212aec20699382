"""The content of the ledger: entries, and the batches in which they are written.

Each batch is compressed as a whole, because its records are alike.

The hash chain: each segment continues the opening of the segment before, each batch continues the batch before. A
digest without a key finds accidents and careless changes. Who can change the whole database can compute a new chain;
compare the digest of ``berthmaster ledger verify`` with one that was kept elsewhere to find that.
"""

import hashlib
import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from berthmaster.deciding.decision_recorder import DecisionOutcome, DecisionRecord, MoveInputs
from berthmaster.ledger.fleet_versions import FleetChange, FleetWriter, digest_of
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, holder
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import DamagedLedgerError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.move import MOVE
from berthmaster.model.note import Note
from berthmaster.model.validation import DEFAULT_LIMITS, PlacementLimits
from berthmaster.scheduling.karmada.trigger import Trigger

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
        fleet: how the clusters changed since the decision before.
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
    """What the payload of a batch holds. ``whole`` has the clusters before it; None if those after the batch before."""

    whole: FleetChange | None
    entries: list[Entry]


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
        return max(row.at_us for row in self.rows)

    @property
    def size(self) -> int:
        return len(self.payload) + len(self.documents)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(BatchContent)


def encode_batch(content: BatchContent) -> bytes:
    """Encode the payload of a batch."""
    return _ENCODER.encode(content)


def decode_batch(payload: bytes) -> BatchContent:
    """Decode the payload of a batch. Raises ``InputError`` if the bytes are no payload."""
    try:
        return _DECODER.decode(payload)
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


BATCH_RECORDS: Final = 256
_BATCH_BYTES: Final = 2**20
_WHOLE_AFTER: Final = 12
"""A whole version is written after this many times as many changes as there are clusters: it costs about a twelfth."""
_WHOLE_AFTER_RECORDS: Final = 1024
_LEVEL: Final = 6
_MICROSECONDS: Final = 1_000_000


class BatchWriter:
    """The open batch of a segment, which has ``records``, sealed or not. Not safe for several threads."""

    def __init__(self, configuration: Configuration) -> None:
        self._numbers: dict[bytes, int] = {}
        self._digests: list[bytes] = []
        self._new: list[bytes] = []
        self._fleet = FleetWriter(self._number_of, self._digests.__getitem__)
        self._whole: FleetChange | None = {}
        self._entries: list[Entry] = []
        self._rows: list[RecordRow] = []
        self._clusters: set[str] = set()
        self._bytes = 0
        self._number = 0
        self._start = 0
        self._since_whole = 0
        self._first_document = 0
        self._configuration = self._number_of(encode_json(configuration))
        self._placements: dict[int, tuple[object, int]] = {}
        self._texts: dict[str, int] = {}
        self.records = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full(self) -> bool:
        return len(self._entries) >= BATCH_RECORDS or self._bytes >= _BATCH_BYTES

    @property
    def documents(self) -> int:
        return len(self._digests)

    def add(self, record: DecisionRecord) -> None:
        inputs, outcome, binding = record.inputs, record.outcome, record.binding
        fleet, version = self._fleet.write(inputs.fleet)
        annotations = dict(outcome.annotations)
        applied = annotations.pop(APPLIED_PLACEMENT, None)
        entry = DecisionEntry(
            fleet=fleet,
            sequence=self.records,
            at_us=microseconds(record.at),
            duration_us=round(record.duration_s * _MICROSECONDS),
            reconcile_id=record.reconcile_id,
            error=record.error,
            binding=encode_json(_reduced(binding, outcome)),
            placement=self._placement(binding),
            applied=self._text(binding.metadata.annotations.get(APPLIED_PLACEMENT)),
            configuration=self._configuration,
            now_s=inputs.now_s,
            unready=self._number_of(encode_json(inputs.unready_since_s)) if inputs.unready_since_s else NO_DOCUMENT,
            peers=self._number_of(_encoded_peers(record)) if inputs.peers else NO_DOCUMENT,
            bounds=None if inputs.bounds is None else dict(inputs.bounds),
            moves=inputs.moves,
            version=version,
            outcome=outcome if applied is None else msgspec.structs.replace(outcome, annotations=annotations),
            written=self._text(applied),
        )
        self._append(
            entry, decision_row(entry, binding), len(entry.binding) + len(msgspec.msgpack.encode(inputs.moves))
        )
        self._clusters.update(concerned_clusters(binding, entry))
        self._since_whole += 1

    def note(self, at: datetime, note: Note) -> None:
        entry = NoteEntry(self.records, microseconds(at), note)
        self._append(entry, note_row(entry), len(note.message))
        self._clusters.update(note.clusters)

    def seal(self) -> SealedBatch:
        batch = SealedBatch(
            self._number,
            self._start,
            self._first_document,
            len(self._new),
            zlib.compress(encode_batch(BatchContent(self._whole, self._entries)), _LEVEL),
            zlib.compress(msgspec.msgpack.encode(self._new), _LEVEL) if self._new else b"",
            self._rows,
            sorted(self._clusters),
        )
        self._entries, self._rows, self._clusters, self._new = [], [], set(), []
        self._first_document, self._bytes = len(self._digests), 0
        self._number += 1
        self._whole = None
        if self._fleet.changed > _WHOLE_AFTER * max(1, len(self._fleet)) or self._since_whole >= _WHOLE_AFTER_RECORDS:
            self._whole = self._fleet.whole()
            self._since_whole, self._start = 0, self._number
        return batch

    def _append(self, entry: Entry, row: RecordRow, size: int) -> None:
        self._entries.append(entry)
        self._rows.append(row)
        self._bytes += size
        self.records += 1

    def _number_of(self, document: bytes) -> int:
        digest = digest_of(document)
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self._digests)
            self._digests.append(digest)
            self._new.append(document)
            self._bytes += len(document)
        return number

    def _text(self, text: str | None) -> int:
        """Return the document of a text. Most bindings of a policy have the same applied placement."""
        if text is None:
            return NO_DOCUMENT
        number = self._texts.get(text)
        if number is None:
            if len(self._texts) >= BATCH_RECORDS:
                self._texts.clear()
            number = self._texts[text] = self._number_of(text.encode())
        return number

    def _placement(self, binding: Binding) -> int:
        """Return the document of a placement. The bindings of one policy share one object."""
        placement = binding.spec.placement
        if placement is None:
            return NO_DOCUMENT
        known = self._placements.get(id(placement))
        if known is None:
            if len(self._placements) >= BATCH_RECORDS * BATCH_RECORDS:
                self._placements.clear()
            # The entry keeps the placement alive, so that no other one can get its id.
            known = self._placements[id(placement)] = placement, self._number_of(encode_json(placement))
        return known[1]


def microseconds(at: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return round(at.timestamp() * _MICROSECONDS)


def decision_row(entry: DecisionEntry, binding: Binding) -> RecordRow:
    """Return what a decision can be found by."""
    resource, policy = binding.spec.resource, holder(binding.metadata)
    return RecordRow(
        entry.sequence,
        entry.at_us,
        "decision",
        trigger_of(entry),
        "NotWritten" if entry.error else entry.outcome.reason,
        resource.namespace,
        resource.kind,
        resource.name,
        str(policy or ""),
    )


def trigger_of(entry: DecisionEntry) -> str:
    """Return the trigger of a decision; ``Move`` for a step of a move, which has no trigger of its own."""
    trigger = entry.outcome.trigger
    return "Move" if trigger == Trigger.NONE.value and MOVE in entry.outcome.annotations else trigger


def note_row(entry: NoteEntry) -> RecordRow:
    """Return what a note can be found by."""
    note = entry.note
    return RecordRow(
        entry.sequence, entry.at_us, note.kind, "", "", note.namespace, note.resource_kind, note.name, note.policy
    )


def row_of(entry: Entry) -> RecordRow:
    """Return what an entry can be found by, from its bytes alone."""
    return note_row(entry) if isinstance(entry, NoteEntry) else decision_row(entry, decode_json(Binding, entry.binding))


def clusters_of(entry: Entry) -> AbstractSet[str]:
    """Return the clusters that an entry is about, from its bytes alone."""
    if isinstance(entry, NoteEntry):
        return set(entry.note.clusters)
    return concerned_clusters(decode_json(Binding, entry.binding), entry)


def concerned_clusters(binding: Binding, entry: DecisionEntry) -> AbstractSet[str]:
    """Return the clusters whose replicas a decision changes, and those from which its workload is evicted then."""
    changed = _changed_clusters(binding, entry)
    return changed | evicted_from(binding, entry) if changed or entry.outcome.evictions is not None else changed


def evicted_from(binding: Binding, entry: DecisionEntry) -> AbstractSet[str]:
    """Return the clusters from which a workload is evicted: by the decision, or by others before it."""
    tasks = (*binding.spec.graceful_eviction_tasks, *(entry.outcome.evictions or ()))
    return {task.from_cluster for task in tasks}


def _changed_clusters(binding: Binding, entry: DecisionEntry) -> AbstractSet[str]:
    after = entry.outcome.clusters
    if after is None:
        return frozenset()
    if not binding.spec.clusters:
        return after.keys()
    before = {target.name: target.replicas for target in binding.spec.clusters}
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _reduced(binding: Binding, outcome: DecisionOutcome) -> Binding:
    """Return what a decision can read of a binding, without the documents.

    Only the steps of a move read what the members report. They begin, continue, end or hold up a move, so the binding
    has the state of a move before or after them.
    """
    meta = binding.metadata
    annotations = dict(meta.annotations)
    annotations.pop(APPLIED_PLACEMENT, None)
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        labels=meta.labels,
        annotations=annotations,
        deletion_timestamp=meta.deletion_timestamp,
    )
    spec = msgspec.structs.replace(binding.spec, placement=None, required_by=())
    status = binding.status
    if MOVE not in annotations and MOVE not in outcome.annotations:
        status = msgspec.structs.replace(status, aggregated_status=())
    return msgspec.structs.replace(binding, metadata=kept, spec=spec, status=status)


def _encoded_peers(record: DecisionRecord) -> bytes:
    return encode_json(
        [
            [kind, group, {name: sorted(clusters) for name, clusters in sorted(members.items())}]
            for (kind, group), members in sorted(record.inputs.peers.items())
        ]
    )
