"""`kubectl berthmaster`: its usage messages, and the completion that kubectl asks for."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from berthmaster_cli import entry
from berthmaster_cli.kubectl import completions

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize(
    ("words", "incomplete", "values", "directive"),
    [
        pytest.param([], "expl", ["explain"], ":4", id="a command"),
        pytest.param(["simulate"], "--red", ["--redact"], ":4", id="an option"),
        pytest.param(["explain", "-o"], "", ["table", "wide", "name", "json", "yaml"], ":4", id="a value"),
        pytest.param(["explain", "-f"], "", [], ":0", id="a file"),
        pytest.param(["explain"], "deploy", ["deployments"], ":4", id="a type"),
        pytest.param(["unknown"], "x", [], ":4", id="an unknown command"),
    ],
)
def test_kubectl_gets_values_and_a_directive(words, incomplete, values, directive):
    *lines, last = completions(words, incomplete)
    assert ([line.partition("\t")[0] for line in lines], last) == (values, directive)


@pytest.mark.parametrize(
    ("script", "function"),
    [("berthmaster", "berthmaster"), ("kubectl-berthmaster", "plugin"), ("kubectl_complete-berthmaster", "completion")],
)
def test_the_scripts_that_kubectl_looks_for_are_installed(script, function):
    scripts = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
    assert scripts[script] == f"berthmaster_cli.entry:{function}"
    assert callable(getattr(entry, function))


def test_usage_messages_name_the_plugin():
    code = "from berthmaster_cli.kubectl import run_plugin; run_plugin()"
    result = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", code, "explain", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.startswith("Usage: kubectl berthmaster explain [OPTIONS] TYPE/NAME")
