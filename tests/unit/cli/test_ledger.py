"""The commands that read the ledger: history, explain --at, why-not --at, replay, ledger."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from builders import cluster
from click.testing import CliRunner, Result
from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from karmada_plane import serve_karmada, store
from kube_over_http import KubeOverHTTP
from ledger_histories import Scheduling, of_shop, recorder_at, sqlite_url
from tables import cases

from berthmaster.model.binding import GracefulEvictionTask
from berthmaster.model.errors import InputError, LedgerError
from berthmaster_cli.main import main

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [m2]}, replicaScheduling: {replicaSchedulingType: Duplicated}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a ledger: web goes to m1, and to m2 once m1 is tainted and web grows."""
    folder = tmp_path_factory.mktemp("ledger")
    clock = FakeClock()
    recorder = recorder_at(sqlite_url(folder), clock)
    scheduling = Scheduling(recorder, clock)
    for number in range(1, 4):
        scheduling.clusters.update_cluster(cluster(f"m{number}", cpu=10 - number, pods=20))
    binding = of_shop("web", asked(requests={"cpu": 1}, replicas=4, scheduling=AGGREGATED))
    annotations = {"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "web"}
    binding = msgspec.structs.replace(
        binding, metadata=msgspec.structs.replace(binding.metadata, annotations=annotations)
    )
    scheduling.put(binding)
    clock.pass_by(3600)
    scheduling.clusters.update_cluster(cluster("m3", cpu=6, pods=20))
    scheduling.clusters.update_cluster(cluster("m1", cpu=9, pods=20, taints=["full:NoSchedule"]))
    known = scheduling.bindings["shop", "web-deployment"]
    scheduling.put(msgspec.structs.replace(known, spec=msgspec.structs.replace(known.spec, replicas=10)))
    recorder.finish()
    return folder


@pytest.fixture
def copied(folder, tmp_path):
    """The file of a copy of the ledger, and its URL."""
    path = tmp_path / "copy.db"
    path.write_bytes((folder / "ledger.db").read_bytes())
    return path, f"sqlite:///{path}"


@pytest.fixture
def run(folder):
    def run(*arguments: str, url: str | None = None) -> Result:
        ledger = url or f"sqlite:///{folder / 'ledger.db'}"
        at = 2 if arguments[0] == "ledger" else 1
        words = [*arguments[:at], "--ledger", ledger, *arguments[at:]]
        return CliRunner().invoke(main, words, standalone_mode=False)

    return run


def lines(result: Result) -> list[list[str]]:
    if result.exception is not None:
        raise result.exception
    return [line.split() for line in result.output.splitlines()]


def test_history_shows_what_moved_the_latest_first(run):
    rows = lines(run("history", "deploy/web", "-n", "shop"))
    assert rows[0] == ["TIME", "ID", "RESOURCE", "TRIGGER", "POLICY", "MOVES"]
    assert rows[1][1:] == ["1.2", "shop/Deployment/web", "Scale", "shop/web", "m1", "4→6,", "+m2=4"]
    assert rows[2][1:] == ["1.1", "shop/Deployment/web", "First", "shop/web", "+m1=4"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--cluster", "m2"], ["1.2"]),
        (["--policy", "web"], ["1.2", "1.1"]),
        (["--policy", "shop/web"], ["1.2", "1.1"]),
        (["--policy", "other"], []),
        (["--trigger", "Scale"], ["1.2"]),
        (["--trigger", "stop"], ["1.3"]),
        (["--since", "2026-01-01T01:00"], ["1.3", "1.2"]),
        (["--until", "2026-01-01T01:00"], ["1.1", "1.0"]),
        (["--limit", "1"], ["1.3"]),
        (["-n", "other"], []),
    ],
)
def test_history_finds(run, options, ids):
    assert [row["id"] for row in json.loads(run("history", *options, "-o", "json").stdout)["items"]] == ids


@pytest.fixture
def kubeconfig(tmp_path):
    """A control plane with the Deployment web."""
    server = KubeOverHTTP()
    serve_karmada(server.api)
    metadata = {"name": "web", "namespace": "shop", "labels": {"team": "shop"}}
    store(server.api, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    yield path
    server.close()


@cases(
    ("options", "ids"),
    {
        "its label": (["-l", "team=shop"], ["1.2", "1.1"]),
        "its label and its namespace": (["-l", "team=shop", "-n", "shop"], ["1.2", "1.1"]),
        "another label": (["-l", "team=billing"], []),
        "the latest": (["-l", "team", "--limit", "1"], ["1.2"]),
    },
)
def test_history_finds_by_the_labels_of_now(run, kubeconfig, options, ids):
    found = run("history", "--kubeconfig", str(kubeconfig), *options, "-o", "json")
    assert [row["id"] for row in json.loads(found.stdout)["items"]] == ids


def test_history_reads_on_until_it_has_enough_records(run, kubeconfig, monkeypatch):
    monkeypatch.setattr("berthmaster.ledger.history._MOST_SKIPPED", 1)
    found = run("history", "--kubeconfig", str(kubeconfig), "-l", "team=shop", "-o", "json")
    assert [row["id"] for row in json.loads(found.stdout)["items"]] == ["1.2", "1.1"]


def test_history_asks_no_control_plane_without_labels(run):
    assert "add -l" in str(run("history", "--as", "jane").exception)


def test_explain_shows_the_fleet_as_it_was(run):
    first = run("explain", "deploy/web", "-n", "shop", "--at", "2026-01-01T00:30").output
    later = run("explain", "deploy/web", "-n", "shop", "--at", "2026-01-01T02:00").output
    assert "scheduled to m1=4" in first
    assert re.search(r"m3 .* 7 \(cpu\)", first)
    assert re.search(r"m3 .* 6 \(cpu\)", later)


def test_explain_shows_which_change_made_the_difference(run):
    found = json.loads(run("explain", "deploy/web", "-n", "shop", "--record", "1.2", "--diff", "-o", "json").stdout)
    difference = found["difference"]
    assert found["reproduced"] is True
    assert [(each["subject"], each["aspect"]) for each in difference["changes"] if each["decisive"]] == [
        ("binding", "replicas")
    ]
    assert difference["without"] == {"m1": 4}
    assert {(each["subject"], each["aspect"], each["after"]) for each in difference["changes"]} >= {
        ("m1", "taints", "full:NoSchedule"), ("m3", "capacity", "cpu 6 free"),
    }  # fmt: skip


def test_explain_prints_the_difference(run):
    text = run("explain", "deploy/web", "-n", "shop", "--diff").output
    assert "1 made the difference (the smallest set)" in text
    assert "without the changes marked *: m1=4" in text


def test_why_not_answers_for_the_past(run):
    words = lines(run("why-not", "deploy/web", "m3", "-n", "shop", "--at", "2026-01-01T02:00"))
    assert ["m3", "would", "be", "selected", "with:"] in words


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["explain", "deploy/other", "-n", "shop", "--at", "1h"], "no such decision"),
        (["explain", "deploy/web", "-n", "shop", "--record", "1.1", "--diff"], "no decision on this binding before"),
        (["explain", "deploy/web", "-n", "shop", "--record", "9.9"], "no record 9.9"),
        (["explain", "deploy/other", "-n", "shop", "--record", "1.1"], "is about shop/Deployment/web"),
        (["explain", "deploy/web", "--record", "x"], "is not the id of a record"),
        (["why-not", "deploy/web", "m9", "-n", "shop", "--at", "1s"], "there is no cluster"),
        (["history", "--since", "1h", "--until", "2h"], "is before"),
    ],
)
def test_a_question_without_an_answer_is_refused(run, arguments, problem):
    with pytest.raises(InputError, match=problem):
        lines(run(*arguments))


def test_a_replay_on_this_version_differs_nowhere(run):
    result = run("replay", "--check")
    assert (result.output, result.return_value) == ("2 decisions, 0 differ\n", 0)


def test_a_replay_under_another_policy_shows_what_it_would_have_decided(run, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    result = run("replay", "--check", "--policy", str(tmp_path / "policy.yaml"), "-o", "json")
    assert result.exception is None, result.exception
    found = json.loads(result.stdout)
    assert [each["now"] for each in found["differences"]] == [{"m2": 4}, {"m2": 10}]
    assert result.return_value == 1


def test_verify_reports_a_changed_record(run, copied):
    path, url = copied
    assert run("ledger", "verify").return_value == 0
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE records SET name = 'other' WHERE sequence = 1")
    result = run("ledger", "verify", url=url)
    assert result.return_value == 1
    assert "were changed, removed or swapped" in result.output


@cases(
    ("statements", "problem"),
    {
        "no count of the segments": (["DELETE FROM ledger"], "the row of the table ledger"),
        "a payload of text": (["UPDATE batches SET payload = 'x'"], "column payload of the table batches"),
        "a payload that is a large number": (
            ["UPDATE batches SET payload = 1000000000000"],
            "column payload of the table batches",
        ),
        "a number of another type": (["UPDATE segments SET batches = 'many'"], "column batches of the table segments"),
        "a count of another type": (["UPDATE ledger SET opening = 7"], "column opening of the table ledger"),
        "a batch without a number": (["UPDATE batches SET number = 'x'"], "has no number"),
        "a cluster that is no text": (["UPDATE touched SET cluster = 7 WHERE cluster = 'm1'"], "clusters that it is"),
        "an endless view": (
            [
                "ALTER TABLE batches RENAME TO kept",
                (
                    "CREATE VIEW batches AS WITH RECURSIVE n(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM n) "
                    "SELECT kept.segment, n.number, start, first_record, records, first_us, last_us, first_document, "
                    "document_count, payload, documents, digest FROM kept, n"
                ),
            ],
            "batches is no table",
        ),
        "no table": (["DROP TABLE touched"], "touched is no table"),
    },
)
def test_verify_reports_what_no_writer_writes(run, copied, statements, problem):
    path, url = copied
    with closing(sqlite3.connect(path)) as database, database:
        for each in statements:
            database.execute(each)
    result = run("ledger", "verify", url=url)
    assert result.return_value == 1, result.exception
    assert problem in " ".join(result.output.split())


def test_verify_says_that_an_emptied_ledger_is_empty(run, copied):
    path, url = copied
    head = json.loads(run("ledger", "verify", "-o", "json", url=url).stdout)["head"]
    with closing(sqlite3.connect(path)) as database, database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in tables:
            if name not in {"alembic_version", "sqlite_sequence"}:
                database.execute(f'DELETE FROM "{name}"')  # noqa: S608 - the names of tables
    result = run("ledger", "verify", url=url)
    assert "the ledger is empty" in result.stdout
    assert run("ledger", "verify", "--head", head, url=url).return_value == 1


def test_verify_compares_the_digest_that_was_kept_elsewhere(run):
    head = json.loads(run("ledger", "verify", "-o", "json").stdout)["head"]
    assert run("ledger", "verify", "--head", head).return_value == 0
    assert run("ledger", "verify", "--head", "0" * 64).return_value == 1


def test_export_writes_what_decisions_read(run):
    rows = [json.loads(line) for line in run("ledger", "export", "--fleet").stdout.splitlines()]
    assert [row["kind"] for row in rows] == ["start", "decision", "decision", "stop"]
    assert rows[1]["binding"]["spec"]["replicas"] == 4
    assert [each["metadata"]["name"] for each in rows[2]["clusters"]] == ["m1", "m3"]
    assert rows[2]["clusters"][1]["status"]["resourceSummary"]["allocatable"] == {"pods": "20", "cpu": "6"}


def test_retention_removes_ended_segments(run, copied):
    _, url = copied
    output = run("ledger", "retention", "--gib", "0.000000001", url=url).output
    assert "removed 4 records; the ledger stores" in output
    rows = json.loads(run("history", "-o", "json", url=url).stdout)["items"]
    assert [row["kind"] for row in rows] == ["stop", "retention", "start"]
    assert run("ledger", "verify", url=url).return_value == 0


def test_a_file_can_hold_the_url(folder, tmp_path, monkeypatch):
    file = tmp_path / "url"
    file.write_text(f"sqlite:///{folder / 'ledger.db'}\n")
    runner = CliRunner()
    assert '"id": "1.2"' in runner.invoke(main, ["history", "--ledger-file", str(file), "-o", "json"]).stdout
    monkeypatch.setenv("BERTHMASTER_LEDGER_FILE", str(file))
    words = ["explain", "deploy/web", "-n", "shop", "--record", "1.1"]
    assert "scheduled to m1=4" in runner.invoke(main, words).stdout
    assert runner.invoke(main, ["ledger", "verify"]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["history"], "--ledger or --ledger-file is missing; BERTHMASTER_LEDGER can hold the URL"),
        (["ledger", "verify"], "--ledger or --ledger-file is missing"),
        (["replay", "--ledger", "sqlite:///x", "--ledger-file", "x"], "cannot be combined with --ledger-file"),
        (["explain", "deploy/web", "--at", "1h"], "need --ledger"),
    ],
)
def test_a_command_without_a_ledger_is_refused(words, problem):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert problem in result.output


def test_history_of_a_cluster_finds_evictions_from_it(tmp_path):
    clock = FakeClock()
    recorder = recorder_at(sqlite_url(tmp_path), clock)
    scheduling = Scheduling(recorder, clock)
    scheduling.clusters.update_cluster(cluster("m2", pods=20))
    binding = of_shop("web", asked(replicas=2, scheduling=AGGREGATED))
    task = GracefulEvictionTask(from_cluster="m1", reason="TaintUntolerated", producer="TaintManager")
    spec = msgspec.structs.replace(binding.spec, graceful_eviction_tasks=(task,))
    scheduling.put(msgspec.structs.replace(binding, spec=spec))
    recorder.finish()
    words = ["history", "--ledger", f"sqlite:///{tmp_path / 'ledger.db'}", "--cluster", "m1"]
    assert "+m2=2 evicted from m1" in " ".join(CliRunner().invoke(main, words).output.split())
    assert CliRunner().invoke(main, ["ledger", "verify", *words[1:3]]).exit_code == 0


@pytest.mark.parametrize(
    ("kept", "end", "message"),
    [
        (4096, b"x" * 8192, "database disk image is malformed; restore it from a backup, or name a new file"),
        (0, b"hello", "file is not a database; restore it from a backup"),
    ],
)
def test_a_ledger_that_cannot_be_read_is_named_with_a_remedy(run, copied, kept, end, message):
    path, url = copied
    path.write_bytes(path.read_bytes()[:kept] + end)
    refused = run("history", url=url).exception
    assert isinstance(refused, LedgerError)
    assert f"{path}: {message}" in str(refused)


def test_the_password_of_a_database_is_never_shown(run):
    url = "postgresql+psycopg://user:secret@127.0.0.1:1/ledger?password=secret"
    refused = run("history", url=url).exception
    assert isinstance(refused, LedgerError)
    assert "postgresql+psycopg://user:***@127.0.0.1:1/ledger: " in str(refused)
    assert "check that the database runs" in str(refused)
    assert "secret" not in str(refused)


def test_an_export_that_fails_leaves_no_file(run, copied, tmp_path):
    out, (path, url) = tmp_path / "out.jsonl", copied
    assert run("ledger", "export", "--file", str(out)).exception is None
    before = out.read_bytes()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE batches SET payload = x'00'")
    assert isinstance(run("ledger", "export", "--file", str(out), url=url).exception, InputError)
    assert (out.read_bytes(), sorted(each.name for each in tmp_path.glob("out*"))) == (before, ["out.jsonl"])
