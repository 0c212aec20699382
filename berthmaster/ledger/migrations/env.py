"""Alembic's entry point: it runs the migrations on the connection that ``upgrade`` passes."""

from alembic import context

from berthmaster.ledger.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
