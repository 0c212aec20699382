"""Changes of clusters that a pattern, a region or labels choose."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from tables import cases

from berthmaster_cli.main import main

POLICY = stored_policy("p")
WEB = stored_template(held_by=POLICY)
NAMES = ("eu-1", "eu-2", "us-1")


@pytest.fixture
def simulated(tmp_path):
    fleet = [{**each, "spec": {**each["spec"], "region": each["metadata"]["name"][:2]}} for each in members(*NAMES)]
    for each in fleet:
        each["metadata"] = {**each["metadata"], "labels": {"continent": each["metadata"]["name"][:2]}}
    bound = stored_binding(WEB, dict.fromkeys(NAMES, 2), policy=POLICY)
    listed = {"apiVersion": "v1", "kind": "List", "items": [RECORD, *fleet, POLICY, WEB, bound]}
    (tmp_path / "dump.json").write_text(json.dumps(listed))

    def simulate(*words, command="simulate", output="json"):
        resource = ["deploy/web"] if command == "explain" else []
        given = [command, "-f", str(tmp_path / "dump.json"), *resource, *words]
        return CliRunner().invoke(main, [*given, "-o", output])

    return simulate


@cases(
    ("words", "lost"),
    {
        "a pattern": (["--down", "eu-*"], ["eu-1", "eu-2"]),
        "a name and a pattern that matches it": (["--down", "eu-1", "--down", "*-1"], ["eu-1", "us-1"]),
        "a region": (["--down-region", "eu"], ["eu-1", "eu-2"]),
        "labels": (["--down-selector", "continent in (us)"], ["us-1"]),
        "a region and a name": (["--down-region", "eu", "--down", "us-1"], ["eu-1", "eu-2", "us-1"]),
    },
)
def test_all_clusters_that_an_option_chooses_are_lost(simulated, words, lost):
    found = json.loads(simulated(*words).output)
    assert found["loss"]["lost"] == lost
    explained = json.loads(simulated(*words, command="explain").output)
    assert explained["loss"]["lost"] == lost


def test_labels_of_clusters_do_not_select_workloads(simulated):
    found = simulated("-l", "continent=eu")
    assert "-l selects workloads, and only clusters have such labels; --down-selector chooses clusters" in found.output


@cases(
    ("words", "clusters"),
    {
        "a deletion": (["--remove", "eu-?"], {"us-1"}),
        "a taint": (["--taint", "eu-*=gpu=no:NoExecute", "--failover", "on"], {"us-1"}),
    },
)
def test_a_pattern_chooses_clusters_in_each_change(simulated, words, clusters):
    (move,) = json.loads(simulated(*words).output)["moves"]
    assert move["after"].keys() == clusters


@cases(
    ("words", "problem"),
    {
        "a pattern": (["--down", "ap-*"], "--down ap-*: no cluster has such a name; known are eu-1, eu-2, us-1"),
        "a region": (["--down-region", "ap"], "--down-region ap: no cluster is in this region; known are eu, us"),
        "labels": (
            ["--down-selector", "continent=ap"],
            "--down-selector continent=ap: no cluster has such labels; known are continent=eu, continent=us",
        ),
        "an invalid selector": (["--down-selector", "continent in us"], "--down-selector: "),
        "a contradiction": (["--down-region", "eu", "--up", "eu-1"], "--down eu-1 and --up eu-1 contradict each other"),
    },
)
def test_an_option_that_chooses_no_cluster_says_what_is_known(simulated, words, problem):
    found = simulated(*words)
    assert (found.exit_code, problem in found.output) == (2, True), found.output


@cases(
    ("words", "sentence"),
    {
        "a name": (["deploy/web"], "The totals are about all workloads; only selected ones are listed."),
        "labels": (["-l", "app=x"], "The totals are about all workloads; only selected ones are listed."),
        "a namespace": (["-n", "default"], "The totals are about namespace default only."),
        "both": (
            ["-n", "default", "deploy/web"],
            "The totals are about all workloads in namespace default; only selected ones are listed.",
        ),
    },
)
def test_the_totals_of_a_filtered_answer_say_what_they_count(simulated, words, sentence):
    found = simulated(*words, "--down", "us-1", output="table").output
    assert sentence in found
    assert "totals" not in simulated("--down", "us-1", output="table").output
