"""Find records in a ledger."""

import pytest
from fake_clock import FakeClock
from ledger_histories import filled, opened, recorder_at, sqlite_url

from berthmaster.ledger import history
from berthmaster.ledger.records import Query, RecordId
from berthmaster.model.note import Note


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    url = sqlite_url(tmp_path_factory.mktemp("ledger"))
    filled(url, segments=2, decisions=15)
    store = opened(url)
    yield store
    store.close()


@pytest.mark.parametrize("rare", [0, 500], ids=["in many batches", "in few batches"])
@pytest.mark.parametrize("cluster", ["m1", "m2", "none"])
def test_pages_of_a_cluster_hold_each_record_that_changes_it_once(store, monkeypatch, cluster, rare):
    monkeypatch.setattr(history, "_RARE_BATCHES", rare)
    everything = history.page(store, Query(), 1000).rows
    expected = [
        row.id for row in everything
        if row.after is not None and row.after.get(cluster) != (row.before or {}).get(cluster)
    ]  # fmt: skip
    found, after = [], None
    while True:
        page = history.page(store, Query(cluster=cluster), 3, after)
        found += [row.id for row in page.rows]
        if page.after is None:
            break
        after = RecordId.parse(found[-1])
    assert found == expected
    assert bool(expected) is (cluster != "none")


def test_pages_of_what_moved_go_on_after_many_records_that_moved_nothing(store, monkeypatch):
    monkeypatch.setattr(history, "_MOST_SKIPPED", 1)
    rows = history.page(store, Query(), 1000).rows
    expected = [row.id for row in rows if row.kind == "decision" and (row.before != row.after or row.evicted_from)]
    found, after, pages = [], None, 0
    while True:
        page = history.page(store, Query(moves_only=True), 4, after)
        found += [row.id for row in page.rows]
        pages += 1
        if page.after is None:
            break
        after = page.after
    assert found == expected
    assert 0 < len(expected) < len(rows)
    assert pages > len(expected) / 4


@pytest.mark.parametrize("namespaces", [frozenset({"shop"}), frozenset({"-"}), frozenset()])
def test_records_of_some_namespaces(store, namespaces):
    rows = history.page(store, Query(), 1000).rows
    expected = [row.id for row in rows if (row.namespace or "-") in namespaces]
    assert [row.id for row in history.page(store, Query(namespaces=namespaces), 1000).rows] == expected


def test_written_records_are_found_once_whatever_times_they_have(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "_MOST_WRITTEN", 2)
    clock, url = FakeClock(), sqlite_url(tmp_path)
    first, other = (recorder_at(url, clock, writer=writer, alone=False) for writer in ("first", "other"))
    store = opened(url)
    known = history.written(store)
    found = []

    def poll():
        nonlocal known
        rows, known = history.written_since(store, Query(trigger="gap"), known)
        found.append([row.message for row in rows])

    for recorder, names in ((first, ["a"]), (first, ["b", "before a"]), (other, ["of another process"])):
        for name in names:
            clock.skew_s = -60 if name.startswith("before") else 0
            recorder.noted(Note("gap", name))
        recorder.flush()
        poll()
    for _ in range(3):
        poll()
    store.close()
    assert sorted(message for rows in found for message in rows) == ["a", "b", "before a", "of another process"]
    assert found[-1] == []
