"""The recorder: bounded waiting, faults of the database, gaps, segments, retention."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from builders import cluster
from fake_clock import FakeClock
from ledger_histories import Scheduling, all_times, filled, opened, recorder_at, sqlite_url, wanted
from tables import cases
from waiting import wait_for

from berthmaster.ledger import recorder as recorder_module
from berthmaster.ledger.audit import audit
from berthmaster.ledger.history import page
from berthmaster.ledger.recorder import LedgerRecorder
from berthmaster.ledger.records import Query, RecordId
from berthmaster.ledger.replay import replay
from berthmaster.ledger.retention import Retention
from berthmaster.ledger.store import SegmentLostError, open_store
from berthmaster.model.errors import InputError, LedgerError
from berthmaster.model.note import Note

A_NOTE = Note("refusal", "refused")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path)


def noted(recorder: LedgerRecorder, clock: FakeClock | None = None, passed_s: float = 0.0) -> None:
    """Write a note, and let some time pass."""
    recorder.noted(A_NOTE)
    recorder.step()
    if clock is not None:
        clock.pass_by(passed_s)


def finish(recorder: LedgerRecorder, clock: FakeClock) -> None:
    """Try a write that failed again, and end."""
    clock.pass_by(60)
    recorder.step()
    recorder.finish()


def test_records_of_one_person(url: str):
    recorder = recorder_at(url, FakeClock())
    for user in ("alice", "bob"):
        recorder.noted(
            Note("exemption", f"update by {user}", "shop", "web", "PropagationPolicy", details={"username": user})
        )
    recorder.finish()
    store = opened(url)
    assert [each.message for each in page(store, Query(user="bob"), 10).rows] == ["update by bob"]
    assert page(store, Query(user="carol"), 10).rows == []
    store.close()


def kinds(url: str) -> list[str]:
    """The kinds of all records, the first one first."""
    store = opened(url)
    found = [row.kind for row in page(store, Query(), 1000).rows]
    store.close()
    return found[::-1]


def messages(url: str, kind: str) -> list[str]:
    store = opened(url)
    found = [row.message for row in page(store, Query(trigger=kind), 1000).rows]
    store.close()
    return found[::-1]


def sound(url: str) -> bool:
    store = opened(url)
    problems = audit(store).problems
    store.close()
    return problems == []


class Faulty:
    """A store whose writes fail while ``error`` is set."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.opens = 0

    def __call__(self, url: str):
        self.opens += 1
        store = open_store(url, create=True)
        append = store.append

        def failing(*args):
            if self.error is not None:
                raise self.error
            append(*args)

        store.append = failing
        return store


def test_a_recorder_without_records_opens_no_database(tmp_path, clock):
    recorder = recorder_at(f"sqlite:///{tmp_path / 'ledger.db'}", clock)
    recorder.step()
    recorder.finish()
    assert not (tmp_path / "ledger.db").exists()


def test_the_first_record_creates_the_schema(tmp_path, clock):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    recorder = recorder_at(url, clock)
    recorder.noted(A_NOTE)
    recorder.finish()
    assert kinds(url) == ["start", "refusal", "stop"]


def test_records_that_do_not_fit_are_counted_and_the_gap_is_a_record(url, clock):
    recorder = recorder_at(url, clock, most_waiting=5)
    for _ in range(12):
        recorder.noted(A_NOTE)
    recorder.finish()
    assert kinds(url) == ["start", *["refusal"] * 5, "gap", "stop"]
    assert messages(url, "gap") == ["7 records are missing: the ledger could not be written fast enough"]


def test_decisions_are_written_in_the_order_in_which_they_were_taken(url, clock):
    scheduling = Scheduling(None, clock)
    scheduling.clusters.update_cluster(cluster("m1", cpu=100))
    for name in ("first", "second"):
        clock.pass_by(1)
        scheduling.put(wanted(name))
    first, second = scheduling.recorded
    recorder = recorder_at(url, clock)
    recorder.decided(second)
    recorder.noted(A_NOTE)
    recorder.decided(first)  # its write took longer
    recorder.finish()
    store = opened(url)
    rows = sorted(page(store, Query(), 10).rows, key=lambda row: RecordId.parse(row.id))
    store.close()
    assert [row.name or row.kind for row in rows] == ["start", "first", "refusal", "second", "stop"]


def test_nothing_is_lost_while_the_database_fails_for_a_short_time(url, clock):
    faulty = Faulty()
    recorder = recorder_at(url, clock, opened=faulty)
    noted(recorder)
    faulty.error = LedgerError("database or disk is full")
    for _ in range(200):
        noted(recorder, clock, 0.1)
    faulty.error = None
    finish(recorder, clock)
    assert kinds(url).count("refusal") == 201
    assert "gap" not in kinds(url)
    assert sound(url)


def test_a_database_that_fails_for_long_leaves_a_gap(url, clock):
    faulty = Faulty()
    recorder = recorder_at(url, clock, opened=faulty, most_waiting=100)
    faulty.error = LedgerError("database is locked")
    for _ in range(250):
        noted(recorder, clock, 0.1)
    assert faulty.opens < 20  # it waits longer after each failure
    faulty.error = None
    clock.pass_by(60)
    recorder.step()
    recorder.noted(A_NOTE)
    recorder.finish()
    found = kinds(url)
    assert found.count("gap") == 1
    [message] = messages(url, "gap")
    assert int(message.split()[0]) + found.count("refusal") == 251
    assert sound(url)


def test_a_write_waits_for_another_process_that_holds_the_lock(url, clock, tmp_path):
    recorder = recorder_at(url, clock)
    noted(recorder)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    noted(recorder)
    other.execute("ROLLBACK")
    other.close()
    finish(recorder, clock)
    assert kinds(url) == ["start", "refusal", "refusal", "stop"]


def test_a_removed_file_is_noticed_and_a_new_ledger_says_what_is_missing(url, clock, tmp_path):
    recorder = recorder_at(url, clock)
    noted(recorder)
    for path in tmp_path.glob("ledger.db*"):
        path.unlink()
    noted(recorder, clock, 60)
    noted(recorder)
    recorder.finish()
    assert kinds(url) == ["start", "refusal", "gap", "stop"]
    assert sound(url)


def test_a_full_disk_stops_no_decision(url, clock, tmp_path):
    open_now = open_store
    recorder = recorder_at(url, clock, opened=lambda opened_url: open_now(opened_url, create=True))
    scheduling = Scheduling(recorder, clock)
    scheduling.clusters.update_cluster(cluster("m", cpu=1000))
    full = sqlite3.connect(tmp_path / "ledger.db")
    pages = full.execute("PRAGMA page_count").fetchone()[0]
    full.close()

    def limited(opened_url, *, create):
        store = open_store(opened_url, create=create)
        with store.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        return store

    open_now = limited
    for number in range(100):
        scheduling.put(wanted(f"w{number}"))
    recorder.step()
    assert all(binding.spec.clusters for binding in scheduling.bindings.values())
    open_now = open_store
    finish(recorder, clock)
    store = opened(url)
    assert all(each.same for each in replay(store, *all_times()))
    store.close()
    assert kinds(url).count("decision") == 100


def test_a_response_that_was_lost_is_no_lost_segment(url, clock):
    store = open_store(url, create=True)
    segment, _ = store.open_segment("controllers", "w", 0)
    recorder = recorder_at(url, clock, opened=lambda _url: store)
    recorder.noted(A_NOTE)
    batches = []
    store.append, append = lambda opened_segment, batch: batches.append((opened_segment, batch)), store.append
    recorder.step()
    opened_segment, batch = batches[0]
    before = opened_segment.digest
    append(opened_segment, batch)
    opened_segment.digest = before
    append(opened_segment, batch)
    with pytest.raises(SegmentLostError):
        append(segment, batch._replace(number=9)) or append(type(segment)(77, b""), batch)
    store.close()


def test_a_process_that_ends_without_a_stop_is_noted_by_the_next_one(url, clock):
    recorder = recorder_at(url, clock, writer="first", most_waiting=50)
    noted(recorder)
    for writer in ("second", "third"):
        later = recorder_at(url, clock, writer=writer, most_waiting=50)
        later.noted(A_NOTE)
        later.finish()
    [message] = messages(url, "gap")
    assert message.startswith("first ended without a stop: at most 50 records that waited are missing")


def test_a_segment_without_an_end_is_noted_once_even_if_its_finder_ends_without_a_stop(url, clock):
    for writer in ("first", "second", "third"):
        recorder = recorder_at(url, clock, writer=writer)
        noted(recorder)
    assert [message.split()[0] for message in messages(url, "gap")] == ["first", "second"]
    assert sound(url)


def test_several_processes_of_a_role_note_only_those_that_ended_long_ago(url, clock):
    def worker(writer):
        return recorder_at(url, clock, role="webhook", writer=writer, segment_s=60, alone=False)

    killed, living = worker("killed"), worker("living")
    for each in (killed, living, worker("another")):
        noted(each)
    assert "gap" not in kinds(url)
    for _ in range(4):
        clock.pass_by(40)
        noted(living)
    living.finish()
    assert sorted(message.split()[0] for message in messages(url, "gap")) == ["another", "killed"]
    assert sound(url)


def test_an_old_segment_ends_even_if_nothing_is_written(url, clock):
    recorder = recorder_at(url, clock, segment_s=60)
    noted(recorder)
    for _ in range(5):
        clock.pass_by(61)
        recorder.step()
    assert kinds(url) == ["start", "refusal", "stop"]


def test_a_file_with_the_url_is_read_again_after_a_failure(url, clock, tmp_path):
    file = tmp_path / "url"
    file.write_text("sqlite:////missing/folder/ledger.db\n")
    recorder = recorder_at(file, clock)
    noted(recorder)
    file.write_text(f"{url}\n")
    finish(recorder, clock)
    assert kinds(url) == ["start", "refusal", "stop"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"", "not a database URL"),
        (b"\xff", "not UTF-8"),
        (b"sqlite:///a\nsqlite:///b", "several lines"),
        (b"mysql://user:secret@host/db", "'mysql' is not accepted"),
    ],
)
def test_a_file_without_a_url_is_refused_by_its_name_and_without_its_content(tmp_path, content, problem):
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=problem) as refused:
        open_store(file)
    assert str(file) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_long_segment_is_continued_by_another_one(url, clock, monkeypatch):
    monkeypatch.setattr(recorder_module, "_SEGMENT_RECORDS", 10)
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    scheduling.clusters.update_cluster(cluster("m", cpu=1000))
    for number in range(24):
        scheduling.put(wanted(f"w{number}"))
        recorder.step()
    recorder.finish()
    assert "gap" not in kinds(url)
    assert kinds(url).count("start") > 2
    store = opened(url)
    assert [each.same for each in replay(store, *all_times())] == [True] * 24
    store.close()
    assert sound(url)


@cases("retention", {"by age": Retention(age=timedelta(hours=1)), "by size": Retention(size_bytes=1)})
def test_retention_removes_old_segments_and_the_audit_knows(url, clock, retention):
    filled(url, segments=3, decisions=4)
    clock.pass_by(timedelta(days=1).total_seconds())
    recorder = recorder_at(url, clock, retention=retention)
    for _ in range(12):
        noted(recorder, clock, 61)
        assert sound(url)
    recorder.finish()
    assert kinds(url).count("start") == 1
    assert kinds(url).count("retention") == 3


def test_a_thread_writes_without_help(url):
    recorder = recorder_at(url, FakeClock(), flush_s=0.01)
    recorder.start()
    recorder.noted(A_NOTE)
    wait_for(lambda: "refusal" in kinds(url))
    recorder.close(30)
    assert kinds(url) == ["start", "refusal", "stop"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://host/db", "'mysql' is not accepted"),
        ("sqlite://", "accepted are sqlite:///PATH"),
        ("nonsense", "not a database URL"),
        ("sqlite:////missing/ledger.db", "there is no file '/missing/ledger.db'"),
    ],
)
def test_a_url_that_is_no_ledger_is_refused(url, problem):
    with pytest.raises(InputError, match=problem):
        open_store(url)


@pytest.mark.parametrize(
    ("revision", "problem"),
    [
        ("9999", "a later version wrote this ledger"),
        ("0003", "a build before the first release wrote this ledger; name another database"),
    ],
)
@cases("create", {"to read": False, "to write": True})
def test_a_ledger_of_another_version_is_refused(url, tmp_path, create, revision, problem):
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()
    with pytest.raises(InputError, match=problem):
        open_store(url, create=create)


def test_a_database_without_a_ledger_is_refused(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(InputError, match="has no ledger"):
        open_store(f"sqlite:///{tmp_path / 'empty.db'}")
