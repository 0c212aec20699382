"""Export records by time range, as JSON Lines or Parquet."""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec
from sqlalchemy import select

from berthmaster.ledger.entries import DecisionEntry
from berthmaster.ledger.history import row_for
from berthmaster.ledger.past import SegmentReader
from berthmaster.ledger.records import HistoryRow
from berthmaster.ledger.schema import batches
from berthmaster.ledger.store import Store
from berthmaster.manifests.redaction import redacted
from berthmaster.model.decode import builtins
from berthmaster.model.errors import InputError
from berthmaster.runtime.installation import extra_remedy

_ROWS: Final = 1000


class ExportedRecord(HistoryRow, frozen=True, rename="camel"):
    """A record with everything that its decision read, without the fleet.

    Attributes:
        clusters: the names of the clusters of the fleet version whose numbers or fields changed since the record
            before, and their free and allocated amounts; empty without ``--fleet``.
    """

    binding: Any = None
    bounds: dict[str, int] | None = None
    version: str = ""
    plugins: tuple[str, ...] = ()
    clusters: list[Any] = []


def exported(store: Store, since_us: int, until_us: int, *, redact: bool, fleet: bool) -> Iterator[ExportedRecord]:
    """Yield the records of a time range in the order of the ledger."""
    found = (
        select(batches.c.segment, batches.c.start, batches.c.number)
        .where(batches.c.last_us >= since_us, batches.c.first_us <= until_us)
        .order_by(batches.c.segment, batches.c.number)
    )
    ranges: dict[int, tuple[int, int]] = {}
    for segment, start, number in store.rows(found):
        ranges[segment] = (ranges.get(segment, (start, 0))[0], number)
    for segment, (first, last) in ranges.items():
        reader = SegmentReader(store, segment)
        for entry in reader.entries(first, last):
            if not since_us <= entry.at_us <= until_us:
                continue
            row = msgspec.structs.asdict(row_for(segment, entry))
            if not isinstance(entry, DecisionEntry):
                yield ExportedRecord(**row)
                continue
            clusters, _ = reader.fleet.changes()
            past = reader.past(entry)
            yield ExportedRecord(
                **row,
                binding=_document(past.binding, redact=redact),
                bounds=None if past.bounds is None else dict(past.bounds),
                version=past.configuration.version,
                plugins=past.configuration.plugins,
                clusters=[_document(each, redact=redact) for each in clusters] if fleet else [],
            )


def _document(value: object, *, redact: bool) -> Any:  # noqa: ANN401 - a JSON value
    raw = builtins(value)
    return redacted(raw) if redact else raw


def write_json_lines(records: Iterator[ExportedRecord], out: BinaryIO) -> int:
    """Write one JSON object per line, and return how many."""
    count = 0
    for record in records:
        out.write(msgspec.json.encode(record) + b"\n")
        count += 1
    return count


def write_parquet(records: Iterator[ExportedRecord], out: BinaryIO) -> int:
    """Write a Parquet file with nested values as JSON text, and return how many rows it has. Needs pyarrow."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(f"Parquet needs the extra 'parquet': {extra_remedy('parquet')}") from None
    schema = pa.schema(
        [
            (name, pa.int64() if name == "generation" else pa.float64() if name == "durationMs" else pa.string())
            for name in ExportedRecord.__struct_encode_fields__
        ]
    )
    count = 0
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for record in records:
            rows.append({name: _flat(value) for name, value in builtins(record).items()})
            count += 1
            if len(rows) >= _ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema))
    return count


def _flat(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value
