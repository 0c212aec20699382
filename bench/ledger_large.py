"""Time questions to a large ledger in PostgreSQL: ``python bench/ledger_large.py --decisions 10000000``.

A recorder writes one segment of real decisions. SQL copies it until there are enough, one decision a second, in
partitions of a week or a million records. Payloads are copied for every tenth segment only, and the questions are about
those.
"""

import random
import tempfile
import time
from pathlib import Path
from typing import Final

import click
from e2e.postgresql import postgresql
from ledger import _NAMES, _START, Fleet, Times, fill
from sqlalchemy import text

from berthmaster.ledger.explanations import past_explanation, recall
from berthmaster.ledger.history import page
from berthmaster.ledger.records import Query
from berthmaster.ledger.schema import begin_partition, partitions
from berthmaster.ledger.store import Store, open_store

_SAMPLED: Final = 10
_QUERIES: Final = 200
_SECOND_US: Final = 1_000_000
_COPIES: Final = (
    """INSERT INTO segments SELECT :own, role, writer, opened_us + :later, previous, opening, digest, batches, records,
       last_us + :later, bytes FROM segments WHERE segment = 1""",
    """INSERT INTO batches SELECT :own, number, start, first_record, records, first_us + :later, last_us + :later,
       first_document, document_count, CASE WHEN :kept THEN payload ELSE '' END, CASE WHEN :kept THEN documents ELSE ''
       END, digest FROM batches WHERE segment = 1""",
    """INSERT INTO records
       SELECT :own, sequence, batch, at_us + :later, kind, trigger, reason, namespace, resource_kind,
              CASE WHEN kind = 'decision' THEN 'w' || ((:first + sequence - 1) % :names) ELSE name END, policy
       FROM records WHERE segment = 1""",
    "INSERT INTO touched SELECT cluster, :own, batch FROM touched WHERE segment = 1",
)


def copy(store: Store, decisions: int, each: int) -> None:
    """Copy the first segment until there are so many decisions, of which each segment has some."""
    for number in range(1, decisions // each):
        own, later = number + 1, number * each * _SECOND_US
        values = {"own": own, "later": later, "first": number * each, "names": _NAMES, "kept": number % _SAMPLED == 0}
        with store.transaction() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            begin_partition(connection, own, round(_START.timestamp() * _SECOND_US) + later)
            for statement in _COPIES:
                connection.execute(text(statement), values)
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))


def ask(store: Store, decisions: int, each: int) -> None:
    """Time questions about random decisions."""
    chosen, explaining, listing, of_cluster = random.Random(2), Times(), Times(), Times()
    for _ in range(_QUERIES):
        segment = chosen.randrange(decisions // each // _SAMPLED) * _SAMPLED
        number = segment * each + chosen.randrange(each // 10, each)
        at_us = round(_START.timestamp() * _SECOND_US) + number * _SECOND_US
        query = Query("bench", "Deployment", f"w{number % _NAMES}", since_us=at_us - _SECOND_US, until_us=at_us)
        with explaining.measured():
            explained = past_explanation(recall(store, query))
        cluster = next(iter(explained.record.after or {"": 0}))
        with listing.measured():
            rows = page(store, query._replace(since_us=at_us - 100 * _SECOND_US), 50)
        with of_cluster.measured():
            found = page(store, Query(cluster=cluster, since_us=at_us - 60 * _SECOND_US, until_us=at_us), 20)
        if not rows.rows or not found.rows:
            raise click.ClickException("a history is empty")
    explaining.show("explain --at")
    listing.show("history of a workload")
    of_cluster.show("history of a cluster")


def find(store: Store, decisions: int) -> None:
    """Time the search of records without their payloads: that of one workload in all partitions, and the latest."""
    chosen, of_one, latest = random.Random(3), Times(), Times()
    for _ in range(_QUERIES):
        with store.transaction() as connection:
            name = f"w{chosen.randrange(min(decisions, _NAMES))}"
            found = "SELECT * FROM records WHERE name = :name AND namespace = 'bench' ORDER BY at_us DESC LIMIT 256"
            with of_one.measured():
                connection.execute(text(found), {"name": name}).all()
            with latest.measured():
                connection.execute(text("SELECT * FROM records ORDER BY at_us DESC LIMIT 256")).all()
    of_one.show("the records of a workload are found")
    latest.show("the latest records are found")


@click.command()
@click.option("--decisions", default=10_000_000, show_default=True, help="How many decisions the ledger has.")
@click.option("--segment", "each", default=5000, show_default=True, help="How many decisions a segment has.")
@click.option("--clusters", default=100, show_default=True, help="The number of clusters: 3, 10, 100, 1000 or 5000.")
def main(decisions: int, each: int, clusters: int) -> None:
    """Time questions to a large ledger in PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="berthmaster-bench-ledger-") as folder:
        Path(folder).chmod(0o755)
        with postgresql(Path(folder) / "server") as url:
            open_store(url, create=True).close()
            fill(url, Fleet(clusters), each, clusters // 10, 100)
            store = open_store(url, create=True)
            begun_s = time.monotonic()
            copy(store, decisions, each)
            with store.transaction() as connection:
                known = len(partitions(connection))
            print(f"{decisions} decisions in {known} partitions, {store.size_bytes() / 2**30:.1f} GiB, "
                  f"made in {time.monotonic() - begun_s:.0f} s", flush=True)  # fmt: skip
            ask(store, decisions, each)
            find(store, decisions)
            store.close()


if __name__ == "__main__":
    main()
