"""The tables of the ledger. One schema serves SQLite and PostgreSQL; ``migrations`` creates it.

In PostgreSQL, three tables have partitions, each with the segments of about a week, and the retention drops them.
Segments are numbered in the order of time.
"""

from contextlib import suppress
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    func,
    select,
    text,
)
from sqlalchemy.exc import OperationalError

REVISION: Final = "0004"

metadata: Final = MetaData()
_PARTITIONS: Final[Any] = {"postgresql_partition_by": "RANGE (segment)"}

ledger: Final = Table(
    "ledger", metadata,
    Column("id", Integer, primary_key=True, comment="always 1"),
    Column("segments", Integer, nullable=False, comment="how many segments were ever opened"),
    Column("opening", LargeBinary(32), nullable=False, comment="the opening digest of the last segment"),
)  # fmt: skip

segments: Final = Table(
    "segments", metadata,
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("role", String(32), nullable=False, comment="which process writes: controllers, webhook, command"),
    Column("writer", String(256), nullable=False, comment="the identity of the process"),
    Column("opened_us", BigInteger, nullable=False),
    Column("previous", LargeBinary(32), nullable=False, comment="the opening digest of the segment before"),
    Column("opening", LargeBinary(32), nullable=False),
    Column("digest", LargeBinary(32), nullable=False, comment="the digest after the last batch"),
    Column("batches", Integer, nullable=False),
    Column("records", Integer, nullable=False),
    Column("last_us", BigInteger, nullable=False, comment="the time of the last record"),
    Column("bytes", BigInteger, nullable=False, comment="of payloads and documents"),
)  # fmt: skip

batches: Final = Table(
    "batches", metadata,
    Column("segment", Integer, ForeignKey("segments.segment"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("start", Integer, nullable=False, comment="the batch with the last whole fleet version"),
    Column("first_record", Integer, nullable=False),
    Column("records", Integer, nullable=False),
    Column("first_us", BigInteger, nullable=False),
    Column("last_us", BigInteger, nullable=False),
    Column("first_document", Integer, nullable=False),
    Column("document_count", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("documents", LargeBinary, nullable=False),
    Column("digest", LargeBinary(32), nullable=False),
    Index("batches_by_document", "segment", "first_document"),
    **_PARTITIONS,
)  # fmt: skip

records: Final = Table(
    "records", metadata,
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("batch", Integer, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("trigger", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("namespace", String(256), nullable=False),
    Column("resource_kind", String(256), nullable=False),
    Column("name", String(256), nullable=False),
    Column("policy", String(600), nullable=False),
    Index("records_by_time", "at_us"),
    Index("records_by_object", "name", "namespace", "at_us"),
    sqlite_with_rowid=False,
    **_PARTITIONS,
)  # fmt: skip

touched: Final = Table(
    "touched", metadata,
    Column("cluster", String(256), primary_key=True),
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("batch", Integer, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
    **_PARTITIONS,
)  # fmt: skip


PARTITIONED: Final = ("batches", "records", "touched")
_AGE_US: Final = 7 * 24 * 3600 * 1_000_000
_RECORDS: Final = 1_000_000
_LOCK_MS: Final = 1000


def partitions(connection: Connection) -> list[int]:
    """Return the first segment of each partition, in order. The last partition has no end."""
    found = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'records'::regclass")
    return sorted(int(name.rpartition("_")[2]) for name in connection.execute(found).scalars())


def begin_partition(connection: Connection, segment: int, opened_us: int) -> None:
    """Let a partition begin with a segment if the last partition is a week old, or has a million records.

    The tables are locked for that. If others use them, the last partition also gets this segment.

    Args:
        connection: a transaction that has locked the table ``ledger``, so that there is no later segment.
    """
    last = partitions(connection)[-1]
    held = select(func.min(segments.c.opened_us), func.sum(segments.c.records)).where(segments.c.segment >= last)
    begun_us, count = connection.execute(held).one()
    if begun_us is None or (opened_us - begun_us < _AGE_US and count < _RECORDS):
        return
    with suppress(OperationalError), connection.begin_nested():
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_LOCK_MS}")
        for name in PARTITIONED:
            connection.exec_driver_sql(f"ALTER TABLE {name} DETACH PARTITION {name}_{last}")
            bounds = f"FOR VALUES FROM ({last}) TO ({segment})"
            connection.exec_driver_sql(f"ALTER TABLE {name} ATTACH PARTITION {name}_{last} {bounds}")
            bounds = f"FOR VALUES FROM ({segment}) TO (MAXVALUE)"
            connection.exec_driver_sql(f"CREATE TABLE {name}_{segment} PARTITION OF {name} {bounds}")


def last_of_first(connection: Connection) -> int | None:
    """Return the last segment of the first partition; None if it has no end."""
    known = partitions(connection)
    return known[1] - 1 if len(known) > 1 else None


def drop_first(connection: Connection) -> None:
    """Drop the first partition. It is not the last one."""
    first = partitions(connection)[0]
    for name in PARTITIONED:
        connection.exec_driver_sql(f"DROP TABLE {name}_{first}")


def partitioned_bytes(connection: Connection) -> int:
    """Return how much all segments take."""
    tables = ["segments", *(f"{name}_{first}" for name in PARTITIONED for first in partitions(connection))]
    return sum(int(connection.execute(select(func.pg_total_relation_size(each))).scalar_one()) for each in tables)
