"""Partitions in PostgreSQL. The tables as they are become the first partition."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TABLES = {
    "batches": ("segment, number", {"batches_by_document": "segment, first_document"}),
    "records": ("segment, sequence", {"records_by_time": "at_us", "records_by_object": "name, namespace, at_us"}),
    "touched": ("cluster, segment, batch", {}),
}


def upgrade() -> None:
    """Divide the tables that grow."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("SET LOCAL statement_timeout = 0")
    for name, (key, indexes) in _TABLES.items():
        op.execute(f"ALTER TABLE {name} RENAME TO {name}_0")
        op.execute(f"ALTER INDEX {name}_pkey RENAME TO {name}_0_pkey")
        op.execute(f"CREATE TABLE {name} (LIKE {name}_0) PARTITION BY RANGE (segment)")
        op.execute(f"ALTER TABLE {name} ADD CONSTRAINT {name}_pkey PRIMARY KEY ({key})")
        for index, columns in indexes.items():
            op.execute(f"ALTER INDEX {index} RENAME TO {index}_0")
            op.execute(f"CREATE INDEX {index} ON {name} ({columns})")
    op.execute("ALTER TABLE batches ADD FOREIGN KEY (segment) REFERENCES segments (segment)")
    for name in _TABLES:
        op.execute(f"ALTER TABLE {name} ATTACH PARTITION {name}_0 FOR VALUES FROM (0) TO (MAXVALUE)")


def downgrade() -> None:
    """Bring back one table each, without the records of later partitions."""
    if op.get_bind().dialect.name != "postgresql":
        return
    raise NotImplementedError("restore a backup: partitions are not joined again")
