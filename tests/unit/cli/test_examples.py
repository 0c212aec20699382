"""The exact output of the examples of `make run`."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from ledger_histories import sqlite_url
from tables import cases

from berthmaster_cli.main import main

ROOT = Path(__file__).resolve().parents[3]
FLEET = "-f examples/karmada/clusters.yaml"
BASE = "--against examples/karmada/clusters.yaml --against examples/karmada/groups"
SEVERAL = f"{FLEET} -f examples/karmada/groups -f examples/karmada/regions -f examples/karmada/nowhere"

STORIES = {
    "groups in order": f"simulate {FLEET} -f examples/karmada/groups",
    "a lost cluster": f"simulate {FLEET} -f examples/karmada/groups --down member1 --failover=on",
    "static weights": f"simulate {FLEET} -f examples/karmada/weights",
    "two policies claim one workload": f"explain {FLEET} -f examples/karmada/priorities Deployment/checkout",
    "a spread over regions": f"explain {FLEET} -f examples/karmada/regions Deployment/catalog",
    "a workload that fits no cluster": f"explain {FLEET} -f examples/karmada/nowhere Deployment/trainer",
    "a plan": f"plan {BASE} -f examples/plan/nginx.yaml",
    "a KubeAdmiral federation": "simulate -f examples/kubeadmiral",
    "a KubeAdmiral federation loses a cluster": "simulate -f examples/kubeadmiral --down kubeadmiral-member-1",
    "a KubeAdmiral federation explained": "explain -f examples/kubeadmiral Deployment/shop",
    "several examples together": f"simulate {SEVERAL}",
}


def run(line: str, stdin: bytes | None = None):
    return CliRunner().invoke(main, shlex.split(line), input=stdin, prog_name="berthmaster")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(("title", "line"), STORIES.items(), ids=STORIES)
def test_the_output_of_an_example(title, line, golden):
    result = run(line)
    assert result.exit_code == 0, result.output
    lines = [f"$ berthmaster {line}", *(text.rstrip() for text in result.stdout.splitlines())]
    golden(f"{title.replace(' ', '-')}.txt", "\n".join(lines) + "\n")


def test_json_and_yaml_are_equal():
    line = f"explain {FLEET} -f examples/karmada/nowhere Deployment/trainer -o"
    assert json.loads(run(f"{line} json").stdout) == yaml.safe_load(run(f"{line} yaml").stdout)


def test_the_diagnosis_names_every_cluster_of_every_tried_group():
    explained = json.loads(run(f"explain {FLEET} -f examples/karmada/nowhere Deployment/trainer -o json").stdout)
    groups = {group["group"]: group for group in explained["diagnosis"]["groups"]}
    assert list(groups) == ["accelerated", "any-production"]
    assert all(len(group["clusters"]) == 5 for group in groups.values())
    assert groups["accelerated"]["failure"]["kind"] == "NoFit"
    assert groups["any-production"]["failure"]["kind"] == "Insufficient"
    capacity = {each["cluster"]: (each["capacity"], each["boundBy"]) for each in groups["any-production"]["clusters"]}
    assert capacity["member1"] == (2, "cpu")
    assert capacity["member2"] == (1, "memory")


@cases(
    ("line", "names"),
    {
        "simulate": (f"simulate {FLEET} -f examples/karmada/priorities", "PropagationPolicy default/production-first"),
        "what if": (
            f"simulate {FLEET} -f examples/karmada/groups --down member1 --failover=on",
            "member1=2   member2=2",
        ),
        "explain": (
            f"explain {FLEET} -f examples/karmada/nowhere Deployment/trainer",
            "ClusterAffinity: label accelerator=gpu does not match (it is not set)",
        ),
    },
)
@pytest.mark.parametrize("columns", ["20", "200"])
def test_no_name_is_broken_in_a_narrow_terminal(monkeypatch, line, names, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert any(names in text for text in run(line).stdout.splitlines())


def _assigned(row):
    return row["after"] if "after" in row else row["clusters"]


@cases(
    "line",
    {
        "a lost cluster": f"{FLEET} -f examples/karmada/groups --down member1 --failover=on",
        "several examples": SEVERAL,
    },
)
def test_a_simulation_is_recorded_as_it_is_printed(line, tmp_path):
    url = sqlite_url(tmp_path)
    printed = json.loads(run(f"simulate {line} --ledger {url} -o json").stdout)
    records = json.loads(run(f"history --ledger {url} -o json").stdout)["items"]
    latest = {}
    for record in records[::-1]:
        if record["kind"] == "decision":
            latest[record["namespace"], record["name"]] = record["trigger"], record["after"]
    rows = printed["moves"] if printed["kind"] == "Plan" else printed["items"]
    shown = {tuple(each["resource"].split("/")[::2]): (each["trigger"], _assigned(each)) for each in rows}
    assert shown
    assert {name: latest[name] for name in shown} == shown
    assert run(f"replay --ledger {url} --check").exit_code == 0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{FLEET} -f examples/karmada/groups --shared-capacity", "cannot be combined with --jsonl, --shared-capacity"),
        ("-f examples/kubeadmiral", "for Karmada only"),
        (f"{FLEET} -f examples/karmada/groups --ledger-file README.md", "cannot be combined with --ledger-file"),
    ],
)
def test_a_simulation_that_cannot_be_recorded_is_refused(line, problem, tmp_path):
    result = run(f"simulate {line} --ledger {sqlite_url(tmp_path)}")
    assert result.exit_code != 0
    assert problem in f"{result.output} {result.exception}"
