"""The tables of the ledger. One schema serves SQLite and PostgreSQL; ``migrations`` creates it.

In PostgreSQL, three tables have partitions, each with the segments of about a week, and the retention drops them.
Segments are numbered in the order of time.
"""

from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

REVISION: Final = "0004"

metadata: Final = sa.MetaData()
_PARTITIONS: Final[Any] = {"postgresql_partition_by": "RANGE (segment)"}

ledger: Final = sa.Table(
    "ledger", metadata,
    sa.Column("id", sa.Integer, primary_key=True, comment="always 1"),
    sa.Column("segments", sa.Integer, nullable=False, comment="how many segments were ever opened"),
    sa.Column("opening", sa.LargeBinary(32), nullable=False, comment="the opening digest of the last segment"),
)  # fmt: skip

segments: Final = sa.Table(
    "segments", metadata,
    sa.Column("segment", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("role", sa.String(32), nullable=False, comment="which process writes: controllers, webhook, command"),
    sa.Column("writer", sa.String(256), nullable=False, comment="the identity of the process"),
    sa.Column("opened_us", sa.BigInteger, nullable=False),
    sa.Column("previous", sa.LargeBinary(32), nullable=False, comment="the opening digest of the segment before"),
    sa.Column("opening", sa.LargeBinary(32), nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False, comment="the digest after the last batch"),
    sa.Column("batches", sa.Integer, nullable=False),
    sa.Column("records", sa.Integer, nullable=False),
    sa.Column("last_us", sa.BigInteger, nullable=False, comment="the time of the last record"),
    sa.Column("bytes", sa.BigInteger, nullable=False, comment="of payloads and documents"),
)  # fmt: skip

batches: Final = sa.Table(
    "batches", metadata,
    sa.Column("segment", sa.Integer, sa.ForeignKey("segments.segment"), primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("start", sa.Integer, nullable=False, comment="the batch with the last whole fleet version"),
    sa.Column("first_record", sa.Integer, nullable=False),
    sa.Column("records", sa.Integer, nullable=False),
    sa.Column("first_us", sa.BigInteger, nullable=False),
    sa.Column("last_us", sa.BigInteger, nullable=False),
    sa.Column("first_document", sa.Integer, nullable=False),
    sa.Column("document_count", sa.Integer, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("documents", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Index("batches_by_document", "segment", "first_document"),
    **_PARTITIONS,
)  # fmt: skip

records: Final = sa.Table(
    "records", metadata,
    sa.Column("segment", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch", sa.Integer, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("trigger", sa.String(16), nullable=False),
    sa.Column("reason", sa.String(64), nullable=False),
    sa.Column("namespace", sa.String(256), nullable=False),
    sa.Column("resource_kind", sa.String(256), nullable=False),
    sa.Column("name", sa.String(256), nullable=False),
    sa.Column("policy", sa.String(600), nullable=False),
    sa.Index("records_by_time", "at_us"),
    sa.Index("records_by_object", "name", "namespace", "at_us"),
    sqlite_with_rowid=False,
    **_PARTITIONS,
)  # fmt: skip

touched: Final = sa.Table(
    "touched", metadata,
    sa.Column("cluster", sa.String(256), primary_key=True),
    sa.Column("segment", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch", sa.Integer, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
    **_PARTITIONS,
)  # fmt: skip


PARTITIONED: Final = ("batches", "records", "touched")
_AGE_US: Final = 7 * 24 * 3600 * 1_000_000
_RECORDS: Final = 1_000_000
_LOCK_MS: Final = 1000


def partitions(connection: sa.Connection) -> list[int]:
    """Return the first segment of each partition, in order. The last partition has no end."""
    found = sa.text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'records'::regclass")
    return sorted(int(name.rpartition("_")[2]) for name in connection.execute(found).scalars())


def owns(connection: sa.Connection) -> bool:
    """Return whether the user owns the tables: only the owner may begin and drop partitions."""
    owner = sa.text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'records'::regclass")
    return bool(connection.execute(owner).scalar_one())


def begin_partition(connection: sa.Connection, segment: int, opened_us: int) -> None:
    """Let a partition begin with a segment if the last partition is a week old, or has a million records.

    The tables are locked for that. If others use them, or the user does not own them, the last partition also gets this
    segment. The transaction has locked the table ``ledger``, so that there is no later segment.
    """
    if not owns(connection):
        return
    last = partitions(connection)[-1]
    held = sa.select(sa.func.min(segments.c.opened_us), sa.func.sum(segments.c.records))
    begun_us, count = connection.execute(held.where(segments.c.segment >= last)).one()
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


def last_of_first(connection: sa.Connection) -> int | None:
    """Return the last segment of the first partition; None if it has no end."""
    known = partitions(connection)
    return known[1] - 1 if len(known) > 1 else None


def drop_first(connection: sa.Connection) -> None:
    """Drop the first partition. It is not the last one."""
    first = partitions(connection)[0]
    for name in PARTITIONED:
        connection.exec_driver_sql(f"DROP TABLE {name}_{first}")


def partitioned_bytes(connection: sa.Connection) -> int:
    """Return how much all segments take."""
    tables = ["segments", *(f"{name}_{first}" for name in PARTITIONED for first in partitions(connection))]
    return sum(int(connection.execute(sa.select(sa.func.pg_total_relation_size(each))).scalar_one()) for each in tables)
