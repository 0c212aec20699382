"""Tables name few clusters, a filter by namespace must find something, and a reader may leave early."""

import json
import os
import subprocess
import sys

import pytest
from builders import deployment
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from tables import cases

from berthmaster.model.errors import InputError
from berthmaster.views.texts import brief_assignment
from berthmaster_cli.main import main

MANY = [f"member{number:03}" for number in range(200)]


@pytest.fixture
def file(tmp_path):
    def write(name, *objects):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return str(path)

    return write


def run(*words):
    return CliRunner().invoke(main, list(words))


@cases(
    ("clusters", "text"),
    {
        "none": ({}, ""),
        "four": ({"a": 1, "b": 2, "c": 3, "d": 4}, "a=1 b=2 c=3 d=4"),
        "five with replicas": (dict.fromkeys("abcde", 300), "1,500 on 5 clusters"),
        "five without replicas": (dict.fromkeys("abcde"), "5 clusters"),
    },
)
def test_brief_assignments(clusters, text):
    assert brief_assignment(clusters) == text


def test_a_cell_names_few_clusters_and_wide_all(file):
    fleet = file("fleet", *members(*MANY), stored_policy(new=True), deployment("web", replicas=2))
    found = run("simulate", "-f", fleet)
    assert "400 on 200 clusters" in found.stdout
    assert max(map(len, found.stdout.splitlines())) < 120
    assert MANY[-1] in run("simulate", "-f", fleet, "-o", "wide").stdout


def test_changes_and_plans_name_few_clusters(file):
    policy = stored_policy(to=MANY)
    held = stored_template(deployment("web", replicas=2), held_by=policy)
    bound = stored_binding(held, dict.fromkeys(MANY, 2), policy=policy)
    fleet = file("fleet", RECORD, *members(*MANY, "other"), policy, held, bound)
    changed = file("changed", stored_policy(to=["other"]))
    lines = run("plan", "--against", fleet, "-f", changed).stdout.splitlines()
    moves = lines[lines.index("Moves") :]
    assert "200 clusters" in "".join(moves)
    assert max(map(len, moves)) < 200
    scaled = run("simulate", "-f", fleet, "--scale", "deploy/web=5").stdout
    assert "200 clusters" in scaled
    assert max(map(len, scaled.splitlines())) < 300


@cases(
    ("namespace", "printed"),
    {
        "a misspelled one": ("shpo", "there is nothing in the namespace 'shpo'; did you mean shop?"),
        "an unknown one": ("nope", "there is nothing in the namespace 'nope'; known are default, shop"),
    },
)
@pytest.mark.parametrize(
    "command", [["simulate"], ["resilience"], ["explain", "deploy/web"], ["why-not", "deploy/web", "a"]], ids=" ".join
)
def test_a_namespace_that_the_files_do_not_have(file, command, namespace, printed):
    there = deployment("web") | {"metadata": {"name": "web", "namespace": "shop"}}
    fleet = file("fleet", *members("a"), stored_policy(new=True), there)
    found = run(*command, "-f", fleet, "-n", namespace)
    assert isinstance(found.exception, InputError)
    assert str(found.exception) == printed


@pytest.mark.parametrize(
    "line",
    ["simulate -f F", "simulate -f F -o json", "resilience -f F", "lint F", "lint --rules", "--help", "plan --help"],
)
def test_a_reader_that_leaves_early_is_no_error(file, line):
    fleet = file("fleet", *members(*MANY[:20]), stored_policy(new=True), deployment("web"))
    words = [fleet if each == "F" else each for each in line.split()]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(  # noqa: S603 - the command itself
        [sys.executable, "-m", "berthmaster_cli.main", *words],
        stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
