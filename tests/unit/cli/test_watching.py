"""``-w``: an answer is printed again when it changes, and only then."""

import json
import shutil
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from tables import cases

from berthmaster_cli import watching
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.main import COMMANDS, main

ANSWERS_A_QUESTION = {
    "simulate", "explain", "why-not", "plan", "resilience", "drift", "test", "lint", "version", "doctor",
    "moves", "history", "certs inspect", "shadow report",
}  # fmt: skip
"""What the others do not: serve, write, or read records that do not change."""


@pytest.fixture
def fleet(tmp_path):
    """A copy of the example."""
    return shutil.copytree("examples/karmada", tmp_path / "fleet")


@pytest.fixture
def watch(monkeypatch):
    """Run a command with -w. Each wait calls the next function; after the last one the user interrupts."""

    def run(*words, between=()):
        left = list(between)

        def wait(_):
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(watching.time, "sleep", wait)
        return CliRunner().invoke(main, [*map(str, words), "-w"])

    return run


def nothing():
    """Change nothing."""


def edited(path, old, new):
    def edit():
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit


def scaled(fleet, replicas):
    """Scale nginx."""
    path = next(
        each for each in fleet.rglob("*.yaml") if "name: nginx" in each.read_text() and "replicas:" in each.read_text()
    )
    documents = list(yaml.safe_load_all(path.read_text()))

    def edit():
        for each in documents:
            if each["kind"] == "Deployment" and each["metadata"]["name"] == "nginx":
                each["spec"]["replicas"] = replicas
        path.write_text(yaml.safe_dump_all(documents))

    return edit


def test_each_command_that_answers_a_question_has_the_option():
    found = set()
    for name in COMMANDS:
        command = main.get_command(None, name)
        each = {name: command}
        if isinstance(command, click.Group):
            each |= {f"{name} {sub}": command.get_command(None, sub) for sub in command.list_commands(None)}
        found |= {full for full, one in each.items() if any("--watch" in option.opts for option in one.params)}
    assert found - {"extender"} == ANSWERS_A_QUESTION


def test_an_answer_is_printed_again_when_it_has_changed(fleet, watch):
    found = watch("explain", "-f", fleet, "deploy/nginx", "-o", "json", between=[nothing, scaled(fleet, 9), nothing])
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(answers) == 2
    assert sum(answers[1]["clusters"].values()) == 9
    assert found.exit_code == 1, "interrupted"


@cases(
    ("words", "mark"),
    {
        "a table": ((), "Z\n"),
        "yaml": (("-o", "yaml"), "---\n"),
    },
)
def test_answers_are_separated(fleet, watch, words, mark):
    once = CliRunner().invoke(main, ["simulate", "-f", str(fleet), *words]).stdout
    found = watch("simulate", "-f", fleet, *words, between=[scaled(fleet, 9)]).stdout
    assert found.count(mark) == once.count(mark) + (2 if mark == "---\n" else 1)


def test_what_passes_is_no_change():
    kind = AnswerKind("Any", Any, frozenset({"now"}))
    assert kind.compared({"now": 1, "items": [{"now": 2, "name": "a"}]}) == {"items": [{"name": "a"}]}


def test_names_alone_are_repeated_without_a_time(fleet, watch):
    found = watch("simulate", "-f", fleet, "-o", "name", between=[(fleet / "more.yaml").touch]).stdout
    assert found == CliRunner().invoke(main, ["simulate", "-f", str(fleet), "-o", "name"]).stdout


def test_a_later_error_is_reported_and_the_watch_goes_on(fleet, watch):
    path = fleet / "broken.yaml"
    broken = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: x}\nspec: {x: 1}\n"
    found = watch(
        "simulate", "-f", fleet, "-o", "json",
        between=[lambda: path.write_text(broken), nothing, path.unlink, scaled(fleet, 9)],
    )  # fmt: skip
    assert len(found.stdout.splitlines()) == 2
    assert found.stderr.count("spec.resourceSelectors: is missing") == 1


def test_the_first_error_ends_the_command(watch):
    assert "no-such-file" in str(watch("simulate", "-f", "no-such-file").exception)


@pytest.mark.usefixtures("fleet")
def test_a_failing_test_is_run_again_after_an_edit(tmp_path, watch):
    path = tmp_path / "test.yaml"
    path.write_text(
        "apiVersion: test.berthmaster.io/v1alpha1\nkind: PlacementTest\nmetadata: {name: nginx}\nfleet: fleet\n"
        "expect: [{workload: default/Deployment/nginx, replicas: {atLeast: 99}}]\n"
    )
    found = watch("test", path, between=[nothing, edited(path, "99", "1")]).stdout
    assert found.count("1 failed") == 1
    assert found.count("1 passed") == 1


@cases(
    ("words", "says"),
    {
        "standard input": (["simulate", "-f", "-"], "-w cannot read standard input again; name a file"),
        "a dump": (["simulate", "--dump", "x"], "-w cannot be combined with --dump"),
        "a decision of the past": (["explain", "deploy/x", "--at", "3h"], "-w cannot be combined with --at"),
        "a comment": (["plan", "-f", "x", "--comment", "github"], "-w cannot be combined with --comment"),
        "a first file": (["test", "--generate", "x"], "-w cannot be combined with --generate"),
    },
)
def test_what_cannot_be_repeated_is_refused(watch, words, says):
    assert says in watch(*words).output
