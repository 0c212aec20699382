"""Partitions of the ledger in PostgreSQL: the retention drops tables. Each has the segments of about a week.

Segments are numbered in the order of time. More and smaller partitions would make each query slower: it is planned for
all of them.
"""

from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import OperationalError

from berthmaster.ledger.schema import segments

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
