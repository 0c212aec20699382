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
BAD = "apiVersion: policy.karmada.io/v1beta1\nkind: PropagationPolicy\nmetadata: {name: web}\n"


def script_of(file, name):
    (script,) = [
        step["run"] for step in yaml.safe_load((ROOT / file).read_text())["runs"]["steps"] if step["name"] == name
    ]
    return script


def run(script, environment, folder):
    """Run a script as GitHub runs `shell: bash`."""
    berthmaster = {"BERTHMASTER": str(Path(sys.executable).parent / "berthmaster")}
    return subprocess.run(  # noqa: S603 - the script of the repository
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],  # noqa: S607 - the bash of the PATH
        cwd=folder, env={**os.environ, **berthmaster, **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


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


@pytest.mark.parametrize("file", ["action.yml", "actions/plan/action.yml"])
def test_an_action_passes_only_inputs_that_it_declares(file):
    text = (ROOT / file).read_text()
    action = yaml.safe_load(text)
    assert action["runs"]["using"] == "composite"
    named = {part.split("}")[0].strip() for part in text.split("${{ inputs.")[1:]}
    assert named == action["inputs"].keys()
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in a script would be executed as shell"


RECORDER = """\
#!/bin/sh
echo "$@" >> "$LOG"
[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; }
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action's scripts are for bash")
@pytest.mark.parametrize("file", ["action.yml", "actions/plan/action.yml"])
@pytest.mark.parametrize(
    ("package", "variable", "installed"),
    [
        pytest.param("", "", [f"-r {ROOT}/requirements/command.txt", f"--no-deps {ROOT}"], id="a checkout"),
        pytest.param("https://example.org/b.whl", "", ["https://example.org/b.whl"], id="the URL of a wheel"),
        pytest.param("", "berthmaster==0.1.0", ["berthmaster==0.1.0"], id="an index, by the variable"),
        pytest.param("a.whl", "berthmaster", ["a.whl"], id="the input counts"),
    ],
)
def test_an_action_installs_from_where_its_user_says(tmp_path, file, package, variable, installed):
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(RECORDER)
    python.chmod(0o755)
    environment = {
        "PYTHON": str(python), "LOG": str(log), "VENV": str(tmp_path / "venv"), "SOURCE": str(ROOT),
        "PACKAGE": package, "BERTHMASTER": variable,
    }  # fmt: skip
    assert run(script_of(file, "Install"), environment, tmp_path).returncode == 0
    assert [line.partition(" install ")[2] for line in log.read_text().splitlines()[1:]] == installed
    assert (ROOT / "requirements" / "command.txt").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action's scripts are for bash")
def test_the_script_of_the_action_annotates_and_writes_sarif(tmp_path):
    script = script_of("action.yml", "Lint")
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "clusters.yaml").write_text("")
    environment = {
        "DOCS": "https://example.org/rules/{rule}.md",
        "PATHS": "bad.yaml",
        "FLEET": "clusters.yaml",
        "ARGS": "--strict",
        "SARIF": "out.sarif",
    }
    ran = run(script, environment, tmp_path)
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("::error file=bad.yaml,line=1,title=unknown-type")
    (log,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    assert log["tool"]["driver"]["rules"][0]["helpUri"].startswith("https://example.org/rules/")


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action's scripts are for bash")
def test_the_script_of_the_plan_action_comments_and_keeps_the_exit_code(tmp_path, httpserver):
    comments = "/repos/shop/fleet/issues/7/comments"
    httpserver.expect_ordered_request(comments, method="GET").respond_with_json([])
    httpserver.expect_ordered_request(comments, method="POST").respond_with_json({}, 201)
    environment = {
        "CONFIG": "kubeconfig", "CONTENT": "", "PATHS": str(ROOT / "examples-plan"), "AGAINST": str(ROOT / "examples"),
        "ARGS": "--max-moves=0", "GITHUB_TOKEN": "secret", "GITHUB_STEP_SUMMARY": "summary.md",
        "GITHUB_API_URL": httpserver.url_for("").rstrip("/"), "GITHUB_REPOSITORY": "shop/fleet",
        "GITHUB_REF": "refs/pull/7/merge",
    }  # fmt: skip
    ran = run(script_of("actions/plan/action.yml", "Plan"), environment, tmp_path)
    assert ran.returncode == 3, ran.stderr
    httpserver.check_assertions()
    assert "1 of 5 workloads moves" in (tmp_path / "summary.md").read_text()
