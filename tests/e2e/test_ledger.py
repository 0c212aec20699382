"""The ledger for real: a binding scheduler that records, PostgreSQL, Parquet, and processes that are killed."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from e2e.postgresql import MISSING, binaries, postgresql
from e2e.processes import wait_for
from fake_clock import FakeClock
from hypothesis import Phase, given, settings
from ledger_histories import all_times, filled, opened, recorder_at, sqlite_url
from random_histories import FLEETS, HISTORIES, check_replay
from reviews import admission_review
from webhook_process import Server, running

from berthmaster.ledger.audit import audit
from berthmaster.ledger.history import page
from berthmaster.ledger.records import Query
from berthmaster.ledger.replay import replay
from berthmaster.ledger.retention import Retention
from berthmaster.ledger.schema import partitions
from berthmaster.ledger.store import open_store
from berthmaster.ledger.times import microseconds
from berthmaster.model.note import Note

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 60.0
COMMAND: Final = Path(sys.executable).with_name("berthmaster")
TESTS: Final = Path(__file__).parents[1]
WRITER: Final = """
import sys
import time
from fake_clock import FakeClock
from ledger_histories import recorder_at
from berthmaster.model.note import Note
from berthmaster.runtime.clock import SystemClock
recorder = recorder_at(sys.argv[1], SystemClock(), flush_s=0.01, writer=sys.argv[2])
recorder.start()
number = 0
while True:
    # A record that does not fit is another gap. A process that ends before its first write leaves none.
    while recorder._waiting() > (3000 if number > 1 else 0):
        time.sleep(0.001)
    recorder.noted(Note("refusal", f"{sys.argv[2]} {number}"))
    number += 1
    if number % 20 == 0:
        print(number, flush=True)
        time.sleep(0.002)  # the test reads all of them
"""


ENDLESS: Final = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT real.* FROM real, n"
REFUSED: Final = json.dumps(
    admission_review(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"resourceSelectors": [], "placement": {"clusterAffinity": {}, "clusterAffinities": []}},
        },
        name="web",
    )
)


def ask(url: str, *arguments: str) -> Any:
    """The JSON output of a command that reads the ledger."""
    words = [str(COMMAND), *arguments, "--ledger", url, "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found.get("items", found)


def empty(url: str) -> None:
    """Create the tables of a ledger anew."""
    store = open_store(url, create=True)
    with store.transaction() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    store.close()
    open_store(url, create=True).close()


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if binaries() is None:
        pytest.skip(MISSING)
    with tempfile.TemporaryDirectory(prefix="berthmaster-pg-") as folder:
        Path(folder).chmod(0o755)
        with postgresql(Path(folder) / "server") as url:
            yield url


def partitions_of(url: str) -> dict[str, int]:
    """The partitions of a ledger, and how many records each has."""
    store = open_store(url)
    with store.transaction() as connection:
        counted = "SELECT tableoid::regclass::text, count(*) FROM records GROUP BY 1"
        found = dict.fromkeys((f"records_{first}" for first in partitions(connection)), 0)
        found |= {str(name): int(count) for name, count in connection.exec_driver_sql(counted)}
    store.close()
    return found


def test_partitions_hold_the_segments_of_a_week_and_retention_drops_them(database: str):
    empty(database)
    filled(database, segments=2, decisions=4)  # in the hour of the clock's start
    clock, retention = FakeClock(), Retention(age=timedelta(days=21))
    recorder = recorder_at(database, clock, retention=retention, segment_s=3600)
    for _ in range(5):
        clock.pass_by(timedelta(days=7).total_seconds())
        for _ in range(3):
            recorder.noted(Note("refusal", "refused"))
            recorder.step()
            clock.pass_by(61)
    found = partitions_of(database)
    assert next(iter(found)) != "records_0", "the first partition is too old"
    assert len(found) in range(3, 6)
    assert all(found.values())
    recorder.finish()
    store = open_store(database)
    audited = audit(store)
    assert not audited.problems
    notes = [row.message for row in page(store, Query(trigger="retention"), 10).rows]
    assert notes[-1].startswith("16 records of segments 1 to 2 are removed: older than 21 days")
    every = page(store, Query(), 1000).rows
    for row in every:
        at_us = microseconds(datetime.fromisoformat(row.time))
        found = page(store, Query(since_us=at_us, until_us=at_us), 1000).rows
        assert found == [each for each in every if each.time == row.time]
    store.close()


def test_postgresql_keeps_the_same_ledger(database: str):
    empty(database)
    filled(database)
    store = opened(database)
    assert [each.same for each in replay(store, *all_times())] == [True] * 60
    assert audit(store).problems == []
    assert len(page(store, Query(cluster="m1"), 1000).rows) > 5
    rows = page(store, Query(), 10)
    assert len(page(store, Query(), 1000, rows.after).rows) == len(page(store, Query(), 1000).rows) - 10
    assert store.size_bytes() > 0
    store.close()
    assert ask(database, "ledger", "verify")["problems"] == []


def as_user(database: str, name: str, *rights: str) -> str:
    """Create a user with some rights, and return the URL of the database with it."""
    store = open_store(database, create=True)
    with store.transaction() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {name} LOGIN")
        for each in ("USAGE ON SCHEMA public", *rights):
            connection.exec_driver_sql(f"GRANT {each} TO {name}")
    store.close()
    return database.replace("ledger@", f"{name}@")


def test_a_writer_with_few_rights_adds_records_and_its_owner_removes_them(database: str, caplog: Any):
    """The rights of docs/ledger.md. Partitions begin after a week, and only their owner may begin one."""
    empty(database)
    tables = "ON ALL TABLES IN SCHEMA public"
    writer = as_user(database, "writer", f"SELECT, INSERT {tables}", "UPDATE ON ledger, segments")
    reader = as_user(database, "reader", f"SELECT {tables}")
    clock = FakeClock()
    for week in range(3):
        recorder = recorder_at(writer, clock, retention=Retention(age=timedelta(days=1)), writer=f"week {week}")
        for _ in range(2):
            recorder.noted(Note("refusal", "refused"))
            recorder.step()
            clock.pass_by(61)
        assert not recorder._waiting()  # noqa: SLF001 - what waits is not written
        recorder.finish()
        clock.pass_by(timedelta(days=8).total_seconds())
    assert "does not own its tables" in caplog.text
    assert "cannot be written" not in caplog.text
    assert (ask(reader, "ledger", "verify")["problems"], list(partitions_of(reader))) == ([], ["records_0"])
    for url, message in ((writer, "only their owner may remove records"), (reader, "only their owner")):
        refused = subprocess.run([COMMAND, "ledger", "retention", "--ledger", url], capture_output=True, check=False)
        assert refused.returncode == 2
        assert message in refused.stderr.decode()
    for days in ("30", "1"):  # the first begins a partition, the second drops the one before
        recorder_at(writer, clock).finish()
        clock.pass_by(timedelta(days=8).total_seconds())
        done = subprocess.run(
            [COMMAND, "ledger", "retention", "--ledger", database, "--days", days], capture_output=True, check=True
        )
    assert b"removed" in done.stdout
    assert ask(reader, "ledger", "verify")["problems"] == []


def test_a_user_without_rights_gets_a_message_and_decides_on(database: str, caplog: Any):
    empty(database)
    powerless = as_user(database, "nothing")
    for words in (["history"], ["ledger", "verify"]):
        refused = subprocess.run([COMMAND, *words, "--ledger", powerless], capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "permission denied" in refused.stderr
        assert "the rights of its user" in refused.stderr
        assert "Traceback" not in refused.stderr
    recorder = recorder_at(powerless, FakeClock())
    recorder.noted(Note("refusal", "refused"))
    recorder.step()
    assert "the ledger cannot be written; decisions go on" in caplog.text


@settings(max_examples=int(os.environ.get("LEDGER_HISTORIES", "12")), phases=[Phase.explicit, Phase.generate])
@given(FLEETS, HISTORIES)
def test_a_replay_from_postgresql_gives_every_decision_of_random_histories(database: str, fleet: Any, history: Any):
    empty(database)
    check_replay(database, fleet, history)


def test_two_processes_write_to_postgresql_at_once(database: str):
    empty(database)
    clock = FakeClock()
    recorders = [recorder_at(database, clock, writer=f"w{number}", role="webhook") for number in range(3)]
    for number in range(30):
        for each in recorders:
            each.noted(Note("refusal", f"at once {number}"))
            each.step()
    for each in recorders:
        each.flush(last=True)
    store = opened(database)
    assert audit(store).problems == []
    assert sum(row.message.startswith("at once") for row in page(store, Query(trigger="refusal"), 1000).rows) == 90
    store.close()


def test_workers_of_the_webhook_record_refusals_and_a_killed_one_is_replaced(tmp_path: Path):
    url = sqlite_url(tmp_path)

    def refuse(server: Server, count: int) -> None:
        for _ in range(count):  # a connection each, so that both workers get some
            connection = server.connection()
            connection.request("POST", "/validate-propagationpolicy", REFUSED, {"Content-Type": "application/json"})
            assert json.loads(connection.getresponse().read())["response"]["allowed"] is False
            connection.close()

    def recorded(expected: int) -> bool:
        rows = ask(url, "history", "--trigger", "refusal", "--limit", "1000")
        return len(rows) == expected

    with running(tmp_path, "--ledger", url, "--workers", "2", "--peer-checks") as server:
        refuse(server, 40)
        wait_for("the records of both workers", lambda: recorded(40), LIMIT_S)
        assert server.metric("berthmaster_ledger_records_total", result="lost") == 0
        writers = {row["details"]["writer"] for row in ask(url, "history", "--trigger", "start")}
        os.kill(int(writers.pop().rpartition("/")[2]), signal.SIGKILL)
        refuse(server, 20)
        wait_for("the records after the kill", lambda: recorded(60), LIMIT_S)
    starts, stops = (len(ask(url, "history", "--trigger", kind)) for kind in ("start", "stop"))
    assert stops == starts - 1  # the killed worker wrote none
    assert ask(url, "ledger", "verify")["problems"] == []


def test_a_parquet_file_holds_every_record(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    filled(url, segments=1)
    path = tmp_path / "ledger.parquet"
    subprocess.run(
        [str(COMMAND), "ledger", "export", "--ledger", url, "--format", "parquet", "--file", str(path)],
        check=True, timeout=LIMIT_S,
    )  # fmt: skip
    table = pq.read_table(path)
    assert table.num_rows == len(ask(url, "history", "--limit", "1000"))
    assert json.loads(table.column("binding")[1].as_py())["spec"]["replicas"] == 1


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_process_loses_at_most_what_waits(tmp_path: Path, seed: int):
    url = sqlite_url(tmp_path)
    chance = random.Random(seed)
    for life in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, url, f"life-{life}"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(TESTS)},
        ) as writer:  # fmt: skip
            said = int(writer.stdout.readline())
            until_s = time.monotonic() + chance.uniform(0.2, 1.5)
            while time.monotonic() < until_s:
                said = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            said = max([said, *(int(line) for line in writer.stdout.read().split("\n")[:-1] if line.isdigit())])
        store = opened(url)
        assert audit(store).problems == []
        rows = page(store, Query(trigger="refusal"), 1_000_000).rows
        store.close()
        own = [row.message.split()[1] for row in rows if row.message.startswith(f"life-{life} ")]
        written = max(map(int, own), default=-1) + 1
        assert said - 4096 <= written
    last = recorder_at(url, FakeClock(), writer="last")
    last.noted(Note("refusal", "0"))
    last.flush(last=True)
    store = opened(url)
    gaps = [row.message for row in page(store, Query(trigger="gap"), 1_000_000).rows]
    store.close()
    lives = sorted(message.split()[0] for message in gaps if "without a stop" in message)
    assert lives == ["life-0", "life-1", "life-2"]


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["DELETE FROM records WHERE sequence = 3"], id="a missing row"),
        pytest.param(["UPDATE batches SET payload = 'text'"], id="payloads of another type"),
        pytest.param(["UPDATE batches SET payload = zeroblob(200000000) WHERE number = 1"], id="a very large payload"),
        pytest.param(
            ["ALTER TABLE batches RENAME TO real", f"CREATE VIEW batches AS {ENDLESS}"],
            id="a view without an end",
        ),
        pytest.param(["DELETE FROM segments WHERE segment = 2"], id="a missing segment"),
        pytest.param(["UPDATE ledger SET segments = 10"], id="more segments than there are"),
    ],
)  # fmt: skip
def test_a_process_that_verifies_a_ledger_finds_what_was_changed_and_ends(tmp_path: Path, statements: list[str]):
    url = sqlite_url(tmp_path)
    filled(url)
    assert ask(url, "ledger", "verify")["problems"] == []
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        for each in statements:
            connection.execute(each)
    begun_s = time.monotonic()
    words = [str(COMMAND), "ledger", "verify", "--ledger", url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in {1, 2}, done
    assert done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begun_s < LIMIT_S
