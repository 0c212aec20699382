"""Puts entries into batches: when a batch is full, and which documents and fleet it starts with."""

import zlib
from datetime import datetime
from typing import Final

import msgspec

from berthmaster.deciding.decision_recorder import DecisionOutcome, DecisionRecord
from berthmaster.ledger.batches import BatchContent, SealedBatch, encode_batch
from berthmaster.ledger.entries import (
    NO_DOCUMENT,
    Configuration,
    DecisionEntry,
    Entry,
    NoteEntry,
    RecordRow,
    concerned_clusters,
    decision_row,
    note_row,
)
from berthmaster.ledger.fleet_versions import FleetChange, FleetWriter, digest_of
from berthmaster.ledger.times import MICROSECONDS, microseconds
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.move import MOVE
from berthmaster.model.note import Note

BATCH_RECORDS: Final = 256
_BATCH_BYTES: Final = 2**20
_WHOLE_AFTER: Final = 12
"""A whole version is written after this many times as many changes as there are clusters: it costs about a twelfth."""
_WHOLE_AFTER_RECORDS: Final = 1024
_LEVEL: Final = 6


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
            duration_us=round(record.duration_s * MICROSECONDS),
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
