"""Verify the ledger: find changed, removed and swapped records."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, Table, func, inspect, select, type_coerce
from sqlalchemy.types import NullType

from berthmaster.ledger.batches import SealedBatch, decode_batch
from berthmaster.ledger.entries import Entry, NoteEntry, RecordRow, clusters_of, row_of
from berthmaster.ledger.hash_chain import GENESIS, batch_digest, opening_digest
from berthmaster.ledger.past import documents_of, unpacked
from berthmaster.ledger.records import Audit
from berthmaster.ledger.schema import batches, ledger, records, segments, touched
from berthmaster.ledger.store import Store
from berthmaster.model.errors import DamagedLedgerError, InputError

_TABLES: Final = (ledger, segments, batches, records, touched)
_ROW = [records.c[name] for name in RecordRow._fields]


def _raw(table: Table) -> Select[Any]:
    """Select rows as the database has them: in SQLite a value can have any type, whatever its column says."""
    columns: list[Any] = [type_coerce(column, NullType()).label(column.name) for column in table.c]
    return select(*columns)


def _mistyped(table: Table, rows: Sequence[Row[Any]]) -> list[str]:
    """Return which values have another type than their column, one for each row."""
    kinds = [(column.name, column.type.python_type) for column in table.c]
    found = (next((name for name, kind in kinds if not isinstance(getattr(row, name), kind)), "") for row in rows)
    return [f"a value in the column {name} of the table {table.name} has another type" for name in found if name]


def audit(store: Store) -> Audit:
    """Read everything, and compare it with the chain."""
    with store.transaction() as connection:
        replaced = sorted(each.name for each in _TABLES if each.name not in inspect(connection).get_table_names())
        if replaced:
            # A view can have other rows each time, and endlessly many.
            missing = [f"{name} is no table: it was removed or replaced" for name in replaced]
            return Audit(missing, 0, 0, 0, [], hashlib.sha256().hexdigest())
        heads = connection.execute(_raw(ledger)).all()
        opened = connection.execute(_raw(segments).order_by(segments.c.segment)).all()
    mistyped = [*_mistyped(ledger, heads), *_mistyped(segments, opened)]
    if mistyped:
        return Audit(mistyped, len(opened), 0, 0, [], hashlib.sha256().hexdigest())
    head = heads[0] if heads else None
    audited = [_SegmentAudit(store, segment) for segment in opened]
    problems = {each.segment.segment: list(each.run()) for each in audited}
    removed = {number: opening for each in audited for number, opening in each.removed.items()}
    for number in removed:
        problems.pop(number, None)  # the retention removes its batches now
    return Audit(
        [*(problem for found in problems.values() for problem in found), *_openings(opened, head, removed),
         *_strays(store)],
        len(opened),
        sum(each.batches for each in opened),
        sum(each.records for each in opened),
        [gap for each in audited for gap in each.gaps],
        hashlib.sha256(b"".join(each.digest for each in opened)).hexdigest(),
    )  # fmt: skip


class _SegmentAudit:
    def __init__(self, store: Store, segment: Row[Any]) -> None:
        self.segment = segment
        self.gaps: list[str] = []
        self.removed: dict[int, bytes] = {}
        self._store = store
        self._digest: bytes = segment.opening
        self._records = self._documents = self._bytes = 0
        self._last_us: int = segment.opened_us

    def run(self) -> Iterator[str]:
        own, count = self.segment, 0
        found = select(batches.c.number).where(batches.c.segment == own.segment).order_by(batches.c.number)
        for number in self._store.values(found):
            if not isinstance(number, int):
                yield f"a batch of segment {own.segment} has no number"
                continue
            if number != count:
                yield f"batches {count} to {number - 1} of segment {own.segment} are missing"
            yield from (f"batch {number} of segment {own.segment}: {problem}" for problem in self._batch(number))
            count = number + 1
        if (self._digest, count, self._records) != (own.digest, own.batches, own.records):
            yield f"segment {own.segment} does not end as it was written: batches were removed or changed"
        if (self._bytes, self._last_us) != (own.bytes, own.last_us):
            yield f"the size or the time of segment {own.segment} was changed"

    def _batch(self, number: int) -> Iterator[str]:
        key = self.segment.segment
        with self._store.transaction() as connection:
            wanted = _raw(batches).where(batches.c.segment == key, batches.c.number == number)
            row = connection.execute(wanted).one_or_none()
            found_by = connection.execute(
                select(*_ROW).where(records.c.segment == key, records.c.batch == number).order_by(records.c.sequence)
            ).all()
            found = select(touched.c.cluster).where(touched.c.segment == key, touched.c.batch == number)
            named = set(connection.execute(found).scalars())
        if row is None or (mistyped := _mistyped(batches, [row])):
            yield "it is missing" if row is None else mistyped[0]
            return
        try:
            entries, documents = decode_batch(unpacked(row.payload)).entries, documents_of(row.documents)
            rows = [row_of(entry) for entry in entries]
            about = set().union(*map(clusters_of, entries))
        except InputError as error:
            yield error.problem if isinstance(error, DamagedLedgerError) else str(error)
            return
        if not rows:
            yield "it is empty"
            return
        yield from self._stated(row, rows, len(documents))
        if [RecordRow(*each) for each in found_by] != rows:
            yield "the rows that its records are found by were changed, removed or swapped"
        if named != about:
            yield "the clusters that it is found by were changed"
        yield from self._take(entries)

    def _stated(self, row: Row[Any], rows: list[RecordRow], documents: int) -> Iterator[str]:
        """Compare what a batch states with what it holds, and with the batch before."""
        sealed = SealedBatch(
            row.number, row.start, row.first_document, row.document_count, row.payload, row.documents, rows, []
        )
        digest = batch_digest(self._digest, sealed)
        if digest != row.digest:
            yield "it was changed, or it does not continue the batch before it"
        stated = (row.first_record, row.records, row.first_us, row.last_us, row.first_document, row.document_count)
        held = (self._records, len(rows), sealed.first_us, sealed.last_us, self._documents, documents)
        if stated != held or [each.sequence for each in rows] != list(
            range(rows[0].sequence, rows[0].sequence + len(rows))
        ):
            yield "its numbers or times were changed"
        self._digest, self._last_us = row.digest, max(self._last_us, sealed.last_us)
        self._records = rows[0].sequence + len(rows)
        self._documents = row.first_document + documents
        self._bytes += len(row.payload) + len(row.documents)

    def _take(self, entries: Sequence[Entry]) -> Iterator[str]:
        for entry in entries:
            if not isinstance(entry, NoteEntry):
                continue
            note = entry.note
            if note.kind == "gap":
                self.gaps.append(f"{self.segment.segment}.{entry.sequence}: {note.message}")
            elif note.kind == "retention":
                try:
                    self.removed[int(note.details["segment"])] = bytes.fromhex(note.details["opening"])
                except (KeyError, TypeError, ValueError):
                    yield f"the record {self.segment.segment}.{entry.sequence} of a removal cannot be read"


def _openings(opened: Sequence[Row[Any]], head: Row[Any] | None, removed: dict[int, bytes]) -> Iterator[str]:
    """Check that the segments follow each other, and that only the retention removed others."""
    previous, number = GENESIS, 0
    for segment in opened:
        if segment.segment != number + 1:
            if removed.get(segment.segment - 1) != segment.previous:
                missing = f"segments {number + 1} to {segment.segment - 1} are missing"
                yield f"{missing}, and no record says that the retention removed them"
        elif segment.previous != previous:
            yield f"segment {segment.segment} does not follow segment {number}"
        expected = opening_digest(segment.previous, segment.segment, segment.role, segment.writer, segment.opened_us)
        if segment.opening != expected:
            yield f"the opening of segment {segment.segment} was changed"
        previous, number = segment.opening, segment.segment
    if head is None and opened:
        yield "the row of the table ledger, which counts the segments, is missing"
    if head is not None and (number, previous) != (head.segments, head.opening):
        yield f"the last segment is {number}, and {head.segments} were opened: a segment was removed or changed"


def _strays(store: Store) -> Iterator[str]:
    """Find rows without a batch, and batches without a segment."""
    for table, owner, what in (
        (records, batches, "rows of the table records belong to no batch"),
        (touched, batches, "rows of the table touched belong to no batch"),
        (batches, segments, "batches belong to no segment"),
    ):
        own = owner.c.segment == table.c.segment
        if owner is batches:
            own &= batches.c.number == table.c.batch
        found = select(func.count()).select_from(table.outerjoin(owner, own)).where(owner.c.segment.is_(None))
        if stray := store.value(found):
            yield f"{stray} {what}"
