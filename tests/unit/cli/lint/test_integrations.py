"""The pre-commit hook and the GitHub Action of this repository: they parse, and what they run runs."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from berthmaster_cli.main import main

ROOT = Path(__file__).parents[4]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
BAD = "apiVersion: policy.karmada.io/v1beta1\nkind: PropagationPolicy\nmetadata: {name: web}\n"


def test_the_hook_runs_lint_on_the_files_that_it_gets(tmp_path):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert (hook["language"], hook["types_or"], hook["require_serial"]) == ("python", ["yaml", "json"], True)
    program, *arguments = shlex.split(hook["entry"])
    assert program == "berthmaster"
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "values.yaml").write_text("a: 1\n")
    result = CliRunner().invoke(main, [*arguments, str(tmp_path / "bad.yaml"), str(tmp_path / "values.yaml")])
    assert result.exit_code == 1
    assert "[unknown-type]" in result.output


def test_the_action_passes_only_inputs_that_it_declares():
    assert ACTION["runs"]["using"] == "composite"
    text = (ROOT / "action.yml").read_text()
    named = {part.split("}")[0].strip() for part in text.split("${{ inputs.")[1:]}
    assert named == ACTION["inputs"].keys()
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in a script would be executed as shell"
    assert (ROOT / "requirements" / "run.txt").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action's scripts are for bash")
def test_the_script_of_the_action_annotates_and_writes_sarif(tmp_path):
    (script,) = [step["run"] for step in ACTION["runs"]["steps"] if step["name"] == "Lint"]
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "clusters.yaml").write_text("")
    environment = {
        **os.environ,
        "BERTHMASTER": str(Path(sys.executable).parent / "berthmaster"),
        "DOCS": "https://example.org/rules/{rule}.md",
        "PATHS": "bad.yaml",
        "FLEET": "clusters.yaml",
        "ARGS": "--strict",
        "SARIF": "out.sarif",
    }
    # As GitHub runs `shell: bash`.
    ran = subprocess.run(  # noqa: S603 - the script of the repository
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],  # noqa: S607 - the bash of the PATH
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("::error file=bad.yaml,line=1,title=unknown-type")
    (run,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    assert run["tool"]["driver"]["rules"][0]["helpUri"].startswith("https://example.org/rules/")
