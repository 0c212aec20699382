"""The database of the ledger: opening it, and writing batches. SQLite or PostgreSQL."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from berthmaster.ledger.batches import SealedBatch
from berthmaster.ledger.hash_chain import GENESIS, batch_digest, opening_digest
from berthmaster.ledger.records import END_US
from berthmaster.ledger.schema import (
    REVISION,
    batches,
    begin_partition,
    drop_first,
    last_of_first,
    ledger,
    owns,
    partitioned_bytes,
    records,
    segments,
    touched,
)
from berthmaster.model.errors import InputError, LedgerError, shown
from berthmaster.runtime.installation import extra_remedy

_BUSY_MS: Final = 250
"""How long a write waits for another process that writes to the same SQLite file. The recorder tries again later."""
_READ_BUSY_MS: Final = 5000
_TIMEOUT_S: Final = 5
_ADVISORY_LOCK: Final = 0x62657274  # any number that no other program is likely to use
_VACUUM_PAGES: Final = 20_000
_UNENDED: Final = 64
_RECENT: Final = 1000
"""How many segments back a segment without an end is looked for. Each process that opens a segment looks."""
_MAX_URL_FILE: Final = 65_536
_PRIMARY_CODE: Final = 0xFF
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FORMS: Final = "accepted are sqlite:///PATH and postgresql+psycopg://USER@HOST/DATABASE"


class SegmentLostError(LedgerError):
    """The open segment is not in the database as it was written: another database took its place."""


@dataclass(slots=True)
class OpenSegment:
    """A segment that this process writes."""

    segment: int
    digest: bytes
    last_us: int = 0


class Store:
    """An open ledger. All methods raise ``LedgerError`` if the database cannot be read or written."""

    def __init__(self, engine: sa.Engine, path: Path | None) -> None:
        self.engine = engine
        self._path = path
        self._inode = _inode(path)
        # Each batch runs the same statements, so they are compiled once. Rows have a value for each column, in order.
        self._insert_batch, self._insert_records, self._insert_touched = (
            str(sa.insert(table).compile(dialect=engine.dialect)) for table in (batches, records, touched)
        )

    @property
    def is_sqlite(self) -> bool:
        return self._path is not None

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Run statements in one transaction. Raises ``LedgerError`` if one failed, or if the file was replaced."""
        if _inode(self._path) != self._inode:
            raise SegmentLostError(f"{self._path} was removed or replaced")
        try:
            with self.engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise LedgerError(_message(self.engine, error)) from error

    def rows(self, statement: sa.Select[Any]) -> Sequence[Any]:
        with self.transaction() as connection:
            return connection.execute(statement).all()

    def values(self, statement: sa.Select[Any]) -> Sequence[Any]:
        """Return the first column of the rows that a statement finds."""
        with self.transaction() as connection:
            return connection.execute(statement).scalars().all()

    def value(self, statement: sa.Select[Any]) -> Any:  # noqa: ANN401 - the type of a column
        """Return the first column of the only row that a statement finds; None without one."""
        with self.transaction() as connection:
            return connection.execute(statement).scalar_one_or_none()

    def open_segment(
        self, role: str, writer: str, opened_us: int, before_us: int = END_US
    ) -> tuple[OpenSegment, list[tuple[int, str, int]]]:
        """Open a segment, and return it with the segments of the same role that have no end.

        Args:
            before_us: segments that were opened later may belong to a process that still writes.

        Returns:
            The segment; and number, writer and time of the last record of each recent segment of this role that has
            no end, and of which no gap is recorded yet.
        """
        with self.transaction() as connection:
            head = connection.execute(sa.select(ledger).with_for_update()).one_or_none()
            if head is None:
                connection.execute(sa.insert(ledger).values(id=1, segments=0, opening=GENESIS))
            number, previous = (0, GENESIS) if head is None else (head.segments, head.opening)
            number += 1
            opening = opening_digest(previous, number, role, writer, opened_us)
            connection.execute(sa.update(ledger).values(segments=number, opening=opening))
            unended = _unended(connection, role, number, before_us)
            if not self.is_sqlite:
                begin_partition(connection, number, opened_us)
            connection.execute(
                sa.insert(segments).values(
                    segment=number, role=role, writer=writer, opened_us=opened_us, previous=previous, opening=opening,
                    digest=opening, batches=0, records=0, last_us=opened_us, bytes=0,
                )
            )  # fmt: skip
        return OpenSegment(number, opening, opened_us), unended

    def append(self, opened: OpenSegment, batch: SealedBatch) -> None:
        """Write a batch, all of it or nothing. Raises ``SegmentLostError`` if the segment is not there any more."""
        digest = batch_digest(opened.digest, batch)
        last_us = max(opened.last_us, batch.last_us)
        with self.transaction() as connection:
            changed = connection.execute(
                _APPEND,
                {
                    "own": opened.segment, "before": opened.digest, "after": digest, "added": len(batch.rows),
                    "at": last_us, "size": batch.size,
                },
            )  # fmt: skip
            if changed.rowcount != 1:
                found = sa.select(segments.c.digest).where(segments.c.segment == opened.segment)
                if connection.execute(found).scalar_one_or_none() == digest:
                    opened.digest, opened.last_us = digest, last_us  # the response to an earlier attempt was lost
                    return
                raise SegmentLostError(f"segment {opened.segment} is not in the ledger as it was written")
            segment, number = opened.segment, batch.number
            connection.exec_driver_sql(
                self._insert_batch,
                (
                    segment, number, batch.start, batch.rows[0].sequence, len(batch.rows), batch.first_us,
                    batch.last_us, batch.first_document, batch.document_count, batch.payload, batch.documents, digest,
                ),
            )  # fmt: skip
            rows = [(segment, sequence, number, *found_by) for sequence, *found_by in batch.rows]
            connection.exec_driver_sql(self._insert_records, rows)
            if batch.clusters:
                connection.exec_driver_sql(self._insert_touched, [(name, segment, number) for name in batch.clusters])
        opened.digest, opened.last_us = digest, last_us

    def size_bytes(self) -> int:
        """Return how much the database stores, without free space in its file."""
        with self.transaction() as connection:
            if self.is_sqlite:
                pages, free, page = (
                    int(connection.execute(sa.text(f"PRAGMA {name}")).scalar_one())
                    for name in ("page_count", "freelist_count", "page_size")
                )
                return (pages - free) * page
            return partitioned_bytes(connection)

    def may_remove(self) -> bool:
        """Return whether the user may remove records: in PostgreSQL, the owner of the tables."""
        with self.transaction() as connection:
            return self.is_sqlite or owns(connection)

    def begin_partition(self, now_us: int) -> None:
        """Let the next segment begin a partition if it is time: writers that do not own the tables cannot."""
        with self.transaction() as connection:
            head = connection.execute(sa.select(ledger).with_for_update()).one_or_none()
            if not self.is_sqlite and head is not None:
                begin_partition(connection, head.segments + 1, now_us)

    def removed_together(self) -> int | None:
        """Return up to which segment the oldest ones are removed together; None if the last partition has them."""
        with self.transaction() as connection:
            if self.is_sqlite:
                return int(connection.execute(sa.select(sa.func.min(segments.c.segment))).scalar_one() or 0)
            return last_of_first(connection)

    def remove_step(self, segment: int, most_batches: int) -> bool:
        """Remove some batches of a segment, and the segment with its last ones. Return whether more are left.

        In PostgreSQL, remove the first partition, whose last segment this is.
        """
        with self.transaction() as connection:
            if not self.is_sqlite:
                drop_first(connection)
                connection.execute(sa.delete(segments).where(segments.c.segment <= segment))
                return False
            found = sa.select(batches.c.number).where(batches.c.segment == segment).order_by(batches.c.number)
            numbers = list(connection.execute(found.limit(most_batches)).scalars())
            for table, number in ((records, "batch"), (touched, "batch"), (batches, "number")):
                if numbers:
                    own = table.c.segment == segment, table.c[number] <= numbers[-1]
                    connection.execute(sa.delete(table).where(*own))
            if len(numbers) == most_batches:
                return True
            connection.execute(sa.delete(segments).where(segments.c.segment == segment))
            connection.exec_driver_sql(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
        return False


_APPEND: Final = (
    sa.update(segments)
    .where(segments.c.segment == sa.bindparam("own"), segments.c.digest == sa.bindparam("before"))
    .values(
        digest=sa.bindparam("after"),
        batches=segments.c.batches + 1,
        records=segments.c.records + sa.bindparam("added"),
        last_us=sa.bindparam("at"),
        bytes=segments.c.bytes + sa.bindparam("size"),
    )
)


def open_store(url: str | Path, *, create: bool = False) -> Store:
    """Open the ledger at a URL.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql+psycopg://...``, or a file that holds it.
        create: whether to create or upgrade the schema, and to write. Otherwise the ledger is only read.

    Raises:
        InputError: the URL is not accepted, or there is no ledger to read, or a later version wrote it, or the driver
            of PostgreSQL is not installed.
        LedgerError: the database cannot be reached.
    """
    parsed = parsed_url(url)
    path = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
    if path is not None and not create and not path.exists():
        raise InputError(f"--ledger: there is no file {shown(str(path))}; name the database that the controllers write")
    engine = _sqlite(path, writes=create) if path is not None else _postgresql(parsed, writes=create)
    try:
        _prepare(engine, create=create)
    except InputError:
        engine.dispose()
        raise
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        engine.dispose()
        raise LedgerError(_message(engine, error)) from error
    return Store(engine, path)


def parsed_url(url: str | Path) -> URL:
    """Parse the URL of a ledger, or of the file that holds it. Raises ``InputError`` if it is not accepted."""
    where = "--ledger" if isinstance(url, str) else f"--ledger-file {url}"
    try:
        parsed = make_url(url if isinstance(url, str) else _first_line(url))
    except ArgumentError:
        raise InputError(f"{where}: this is not a database URL; {_FORMS}") from None
    if parsed.drivername not in {"sqlite", "postgresql+psycopg"} or not parsed.database:
        # The URL can hold a password, so only its driver is named.
        raise InputError(f"{where}: {shown(parsed.drivername)} is not accepted; {_FORMS}")
    return parsed


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_MAX_URL_FILE).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"--ledger-file {path}: {problem}") from None
    if len(lines) > 2 or (len(lines) == 2 and lines[1].strip()):
        raise InputError(f"--ledger-file {path}: it has several lines; accepted is one line with a URL")
    return lines[0].strip()


def _sqlite(path: Path, *, writes: bool) -> sa.Engine:
    def connected(connection: Any, _record: object) -> None:  # noqa: ANN401 - sqlite3's connection
        connection.isolation_level = None  # SQLAlchemy begins transactions, see below
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_MS if writes else _READ_BUSY_MS}")
        if writes:
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=NORMAL")
            cursor.execute(f"PRAGMA journal_size_limit={64 * 2**20}")
        else:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    engine = sa.create_engine(URL.create("sqlite", database=str(path)))
    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "begin", begun)
    return engine


def _postgresql(url: URL, *, writes: bool) -> sa.Engine:
    options = f"-c statement_timeout={_TIMEOUT_S * 1000 if writes else 60_000} -c lock_timeout={_TIMEOUT_S * 1000}"
    if not writes:
        options += " -c default_transaction_read_only=on"
    arguments = {"connect_timeout": _TIMEOUT_S, "options": options, "tcp_user_timeout": _TIMEOUT_S * 1000}
    try:
        return sa.create_engine(url, connect_args=arguments, paramstyle="format", pool_pre_ping=True, pool_size=2)
    except ImportError:  # also if the library of PostgreSQL that psycopg loads is missing
        raise InputError(f"--ledger: PostgreSQL needs the extra 'postgresql': {extra_remedy('postgresql')}") from None


def _prepare(engine: sa.Engine, *, create: bool) -> None:
    """Bring the schema to this version's revision, or check that it has it."""
    with engine.begin() as connection:
        revision: str | None = None
        if sa.inspect(connection).has_table("alembic_version"):
            revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        if revision == REVISION:
            return
        if revision is not None:
            problem = "a build before the first release wrote this ledger; name another database"
            if revision > REVISION:
                problem = f"a later version wrote this ledger (schema {revision}); use that version"
            raise InputError(f"--ledger: {_name(engine)}: {problem}")
        if not create:
            missing = "has no ledger; name the database that the controllers write"
            raise InputError(f"--ledger: the database {_name(engine)} {missing}")
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        from berthmaster.ledger.migrations import upgrade  # noqa: PLC0415 - Alembic is slow to import

        upgrade(connection)


def _unended(connection: sa.Connection, role: str, number: int, before_us: int) -> list[tuple[int, str, int]]:
    """Return the recent segments of a role without an end. A gap is recorded with the number of its segment as name."""
    last = (records.c.segment == segments.c.segment) & (records.c.sequence == segments.c.records - 1)
    own = (segments.c.role == role) & (segments.c.segment > number - _RECENT)
    recent = connection.execute(
        sa.select(segments.c.segment, segments.c.writer, segments.c.last_us)
        .outerjoin(records, last)
        .where(own, segments.c.opened_us < before_us, sa.or_(records.c.kind.is_(None), records.c.kind != "stop"))
        .order_by(segments.c.segment.desc())
        .limit(_UNENDED)
    ).all()
    noted = sa.select(records.c.name).where(
        records.c.name.in_([str(each.segment) for each in recent]), records.c.namespace == "", records.c.kind == "gap"
    )
    known = set(connection.execute(noted).scalars())
    return [(each.segment, each.writer, each.last_us) for each in recent if str(each.segment) not in known]


def _inode(path: Path | None) -> int:
    try:
        return 0 if path is None else os.stat(path).st_ino  # noqa: PTH116 - the writer asks before each transaction
    except FileNotFoundError:
        return -1


def _message(engine: sa.Engine, error: Exception) -> str:
    """Return which database failed, its own message without the statement and its values, and what to do."""
    cause = getattr(error, "orig", None) or error
    problem = str(cause).partition("\n")[0] or type(error).__name__
    if engine.dialect.name != "sqlite":
        remedy = "check that the database runs and that the URL and the rights of its user are right"
        return f"{_name(engine)}: {problem}; {remedy}"
    damaged = getattr(cause, "sqlite_errorcode", 0) & _PRIMARY_CODE in _DAMAGED
    remedy = "restore it from a backup, or name a new file" if damaged else "check its rights and the space on its disk"
    return f"{_name(engine)}: {problem}; {remedy}"


def _name(engine: sa.Engine) -> str:
    url = engine.url
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)  # the query can hold a password, too
