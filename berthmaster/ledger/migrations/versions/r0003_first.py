"""The first schema of a release. Earlier revisions were those of builds before it; ``open_store`` refuses them.

The tables are those of ``schema``: later revisions have not changed a column yet. The first one that does must keep the
present definitions here.
"""

from alembic import op

from berthmaster.ledger.schema import metadata

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    """Drop the tables."""
    metadata.drop_all(op.get_bind())
