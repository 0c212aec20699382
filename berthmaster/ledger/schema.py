"""The tables of the ledger. One schema serves SQLite and PostgreSQL; ``migrations`` creates it."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table

REVISION: Final = "0004"
"""The revision that this version reads and writes."""

metadata: Final = MetaData()

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
)  # fmt: skip

touched: Final = Table(
    "touched", metadata,
    Column("cluster", String(256), primary_key=True),
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("batch", Integer, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)  # fmt: skip
