"""The first schema of a release. Earlier revisions were those of builds before it; ``open_store`` refuses them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ledger",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("segments", sa.Integer, nullable=False),
        sa.Column("opening", sa.LargeBinary(32), nullable=False),
    )
    op.create_table(
        "segments",
        sa.Column("segment", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("writer", sa.String(256), nullable=False),
        sa.Column("opened_us", sa.BigInteger, nullable=False),
        sa.Column("previous", sa.LargeBinary(32), nullable=False),
        sa.Column("opening", sa.LargeBinary(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("batches", sa.Integer, nullable=False),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("last_us", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "batches",
        sa.Column("segment", sa.Integer, sa.ForeignKey("segments.segment"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("first_record", sa.Integer, nullable=False),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("first_us", sa.BigInteger, nullable=False),
        sa.Column("last_us", sa.BigInteger, nullable=False),
        sa.Column("first_document", sa.Integer, nullable=False),
        sa.Column("document_count", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("documents", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
    )
    op.create_index("batches_by_document", "batches", ["segment", "first_document"])
    op.create_table(
        "records",
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
        sqlite_with_rowid=False,
    )
    op.create_index("records_by_time", "records", ["at_us"])
    op.create_index("records_by_object", "records", ["name", "namespace", "at_us"])
    op.create_table(
        "touched",
        sa.Column("cluster", sa.String(256), primary_key=True),
        sa.Column("segment", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("batch", sa.Integer, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in ("touched", "records", "batches", "segments", "ledger"):
        op.drop_table(name)
