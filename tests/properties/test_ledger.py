"""Properties of the ledger: what it holds gives every decision again, and it finds every change of a record."""

import os
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ledger_histories import filled, opened, sqlite_url
from random_histories import DAYS, FLEETS, HISTORIES, check_days, check_replay

from berthmaster.ledger.audit import audit

UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
"""A history has many parts, and shrinking one takes minutes."""
EXAMPLES = int(os.environ.get("LEDGER_HISTORIES", "0"))


@settings(max_examples=EXAMPLES or 8, phases=UNSHRUNK)
@given(FLEETS, HISTORIES)
def test_a_replay_gives_every_decision_byte_for_byte(fleet, history):
    with tempfile.TemporaryDirectory() as folder:
        check_replay(sqlite_url(Path(folder)), fleet, history)


@settings(max_examples=EXAMPLES or 25, phases=UNSHRUNK)
@given(DAYS)
def test_the_last_days_are_those_of_the_bindings_then(history):
    with tempfile.TemporaryDirectory() as folder:
        check_days(sqlite_url(Path(folder)), history)


@cache
def filled_ledger() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        url = sqlite_url(Path(folder))
        filled(url)
        connection = sqlite3.connect(Path(folder) / "ledger.db")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return (Path(folder) / "ledger.db").read_bytes()


def altered(value, random):
    if isinstance(value, bytes):
        at = random.randrange(max(1, len(value)))
        return value[:at] + bytes([value[at] ^ 1 << random.randrange(8)]) + value[at + 1 :] if value else b"x"
    return value + random.choice([-1, 1]) if isinstance(value, int) else value + "x"


KEYS = {
    "ledger": ["id"], "segments": ["segment"], "batches": ["segment", "number"], "records": ["segment", "sequence"],
    "touched": ["cluster", "segment", "batch"],
}  # fmt: skip


def rows_of(connection, table, *columns):
    return list(connection.execute(f"SELECT {', '.join([*columns, *KEYS[table]])} FROM {table}"))  # noqa: S608


def where(table):
    return "WHERE " + " AND ".join(f"{name} = ?" for name in KEYS[table])


def change_a_value(connection, random):
    table = random.choice(list(KEYS))
    columns = [each[1] for each in connection.execute(f"PRAGMA table_info({table})") if each[1] != "id"]
    column = random.choice(columns)
    value, *key = random.choice(rows_of(connection, table, column))
    connection.execute(
        f"UPDATE OR REPLACE {table} SET {column} = ? {where(table)}",  # noqa: S608
        [altered(value, random), *key],
    )


def remove_a_row(connection, random):
    table = random.choice(["segments", "batches", "records", "touched"])
    connection.execute(f"DELETE FROM {table} {where(table)}", random.choice(rows_of(connection, table)))  # noqa: S608


def remove_the_last_batch_of_a_segment(connection, random):
    key = random.choice(list(connection.execute("SELECT segment, max(number) FROM batches GROUP BY 1")))
    connection.execute("DELETE FROM batches WHERE segment = ? AND number = ?", key)
    connection.execute("DELETE FROM records WHERE segment = ? AND batch = ?", key)
    connection.execute("DELETE FROM touched WHERE segment = ? AND batch = ?", key)


def remove_a_whole_segment(connection, random):
    key = [random.randint(1, 3)]
    connection.execute("DELETE FROM touched WHERE segment = ?", key)
    connection.execute("DELETE FROM records WHERE segment = ?", key)
    connection.execute("DELETE FROM batches WHERE segment = ?", key)
    connection.execute("DELETE FROM segments WHERE segment = ?", key)


def swap_two_batches(connection, random):
    (one, *first), (other, *second) = random.sample(rows_of(connection, "batches", "payload"), 2)
    for payload, key in ((other, first), (one, second)):
        connection.execute("UPDATE batches SET payload = ? WHERE segment = ? AND number = ?", (payload, *key))


def swap_two_records(connection, random):
    rows = [row for row in rows_of(connection, "records", "kind", "name", "at_us") if row[3] == 1]
    (*one, _, first), (*other, _, second) = random.sample(rows, 2)
    for values, key in ((other, first), (one, second)):
        connection.execute(
            "UPDATE records SET kind = ?, name = ?, at_us = ? WHERE segment = 1 AND sequence = ?", [*values, key]
        )


CHANGES = [
    change_a_value, change_a_value, change_a_value, remove_a_row, remove_the_last_batch_of_a_segment,
    remove_a_whole_segment, swap_two_batches, swap_two_records,
]  # fmt: skip


@settings(max_examples=EXAMPLES or 20)
@given(st.sampled_from([None, *CHANGES]), st.randoms(use_true_random=False))
def test_the_audit_finds_each_change_and_only_changes(change, random):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(filled_ledger())
        if change is not None:
            connection = sqlite3.connect(path)
            change(connection, random)
            connection.commit()
            connection.close()
        store = opened(f"sqlite:///{path}")
        result = audit(store)
        store.close()
    assert bool(result.problems) is (change is not None)
