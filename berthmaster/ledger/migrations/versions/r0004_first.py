"""The first schema of a release; earlier revisions were those of builds before it.

The tables are those of ``schema``. The first revision that changes a column must keep the present definitions here.
"""

from alembic import op

from berthmaster.ledger.schema import PARTITIONED, metadata

revision = "0004"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, in PostgreSQL with one partition."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    if op.get_bind().dialect.name == "postgresql":
        for name in PARTITIONED:
            op.execute(f"CREATE TABLE {name}_0 PARTITION OF {name} FOR VALUES FROM (0) TO (MAXVALUE)")
