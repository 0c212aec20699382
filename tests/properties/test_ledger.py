"""Properties of the ledger: what it holds gives every decision again, and it finds every change of a record."""

import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import strategies as draws
from fake_clock import FakeClock
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ledger_histories import Scheduling, all_times, filled, finish, of_shop, opened, recorder_at, sqlite_url
from msgspec.structs import replace

from berthmaster.ledger.audit import audit
from berthmaster.ledger.replay import replay
from berthmaster.model.binding import WorkloadAffinityGroups

UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
"""A history has many parts, and shrinking one takes minutes."""
_NAMES = st.sampled_from(["web", "api", "cart", "search"])
_BOUNDS = st.none() | st.dictionaries(st.sampled_from([*draws.NAMES[:3], "gone"]), st.integers(0, 5))


_GROUPS = st.sampled_from([None, WorkloadAffinityGroups("app=a"), WorkloadAffinityGroups("", "app=a")])
_EASY = draws.easy_placements(st.sampled_from([draws.AGGREGATED, draws.DYNAMIC, draws.DUPLICATED]))
_BINDINGS = draws.bindings(placed=_EASY, replicas=st.integers(1, 6)) | draws.bindings()


@st.composite
def steps(draw):
    """One event of a history."""
    kind = draw(st.sampled_from(["cluster", "binding", "binding", "scale", "scale", "remove", "time", "flush"]))
    if kind == "cluster":
        return kind, draw(draws.fleets(min_size=1, max_size=3))
    if kind == "binding":
        binding = draw(_BINDINGS)
        spec = replace(binding.spec, workload_affinity_groups=draw(_GROUPS))
        return kind, of_shop(draw(_NAMES), replace(binding, spec=spec)), draw(_BOUNDS)
    if kind == "scale":
        return kind, draw(_NAMES), draw(st.integers(0, 9))
    if kind == "remove":
        return kind, draw(st.sampled_from(draws.NAMES))
    return kind, draw(st.sampled_from([1.0, 59.0, 90.0]))


def run(scheduling, recorder, history, bounds):
    for kind, *values in history:
        match kind:
            case "cluster":
                for each in values[0]:
                    scheduling.clusters.update_cluster(each)
            case "binding":
                bounds["now"] = values[1]
                scheduling.put(values[0])
            case "scale":
                known = scheduling.bindings.get(("shop", f"{values[0]}-deployment"))
                if known is not None:
                    scheduling.put(replace(known, spec=replace(known.spec, replicas=values[1])))
            case "remove":
                scheduling.clusters.remove_cluster(values[0])
            case "time":
                scheduling.clock.pass_by(values[0])
                for key in list(scheduling.bindings):
                    scheduling.reconcile(*key)
            case "flush":
                recorder.step()


@settings(max_examples=8, phases=UNSHRUNK)
@given(draws.fleets(min_size=2, max_size=6), st.lists(steps(), min_size=3, max_size=25))
def test_a_replay_gives_every_decision_byte_for_byte(fleet, history):
    clock, bounds = FakeClock(), {"now": None}
    with tempfile.TemporaryDirectory() as folder:
        url = sqlite_url(Path(folder))
        recorder = recorder_at(url, clock)
        scheduling = Scheduling(recorder, clock, lambda _query: bounds["now"])
        run(scheduling, recorder, [("cluster", fleet), *history], bounds)
        finish(recorder)
        if not scheduling.recorded:
            return
        store = opened(url)
        replayed = list(replay(store, *all_times()))
        store.close()
    assert len(replayed) == len(scheduling.recorded)
    for one, record in zip(replayed, scheduling.recorded, strict=True):
        assert one.past.outcome == record.outcome
        assert one.same


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
    """Another value of the same type."""
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


@settings(max_examples=20)
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
