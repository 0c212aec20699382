"""SARIF, and the integrations of lint."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pytest
import yaml
from click.testing import CliRunner
from tables import DATA, cases

from berthmaster_cli.lint.command import command
from berthmaster_cli.lint.sarif import uri
from berthmaster_cli.main import main

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("file", ["action.yml", "actions/plan/action.yml", "actions/test/action.yml"])
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
echo "$PWD" "$@" >> "$LOG"
[ "$3" != venv ] || { mkdir -p "$4/bin" "$4/dist" && cp "$0" "$4/bin/python" && touch "$4/dist/made.whl"; }
"""
BASH = pytest.mark.skipif(shutil.which("bash") is None, reason="the action's scripts are for bash")
ACTIONS = pytest.mark.parametrize("file", ["action.yml", "actions/plan/action.yml", "actions/test/action.yml"])
PINNED = f"--require-hashes --only-binary=:all: --requirement {ROOT}/requirements"


@BASH
@ACTIONS
@cases(
    ("package", "variable", "installed"),
    {
        "a checkout": (
            "", "",
            [
                f"install {PINNED}/build.txt",
                f"wheel --no-deps --no-build-isolation --wheel-dir $VENV-build/dist {ROOT}",
                f"install {PINNED}/run.txt",
                "install --no-deps $VENV-build/dist/made.whl",
            ],
        ),
        "the URL of a wheel": ("https://example.org/b.whl", "", ["install https://example.org/b.whl"]),
        "an index, by the variable": ("", "berthmaster==0.1.0", ["install berthmaster==0.1.0"]),
        "the input counts": ("a.whl", "berthmaster", ["install a.whl"]),
    },
)  # fmt: skip
def test_an_action_installs_from_where_its_user_says(tmp_path, file, package, variable, installed):
    python, log, venv = tmp_path / "python", tmp_path / "log", tmp_path / "temp" / "venv"
    venv.parent.mkdir()
    python.write_text(RECORDER)
    python.chmod(0o755)
    environment = {
        "PYTHON": str(python), "LOG": str(log), "VENV": str(venv), "SOURCE": str(ROOT),
        "PACKAGE": package, "BERTHMASTER": variable,
    }  # fmt: skip
    ran = run(script_of(file, "Install"), environment, tmp_path)
    assert ran.returncode == 0, ran.stderr
    lines = log.read_text().splitlines()
    assert all(line.startswith(f"{venv.parent} -I -m ") for line in lines)
    found = [line.partition(" --quiet ")[2] for line in lines if " -m pip " in line]
    assert found == [each.replace("$VENV", str(venv)) for each in installed]


HOSTILE = """\
import os
with open(os.environ["MARK"], "a") as file:
    print(__name__, os.environ.get("GITHUB_TOKEN"), file=file)
"""


def hostile(checkout, *names):
    """Make modules with these names, and packages."""
    for name in names:
        (checkout / name).mkdir(parents=True)
        for part in ("__init__.py", "__main__.py"):
            (checkout / name / part).write_text(HOSTILE)
        (checkout / f"{name}.py").write_text(HOSTILE)
    return checkout


@BASH
@ACTIONS
def test_a_checkout_with_python_of_its_own_changes_no_installation(tmp_path, file):
    """The modules of the checkout shadow those that an installation imports, if the working folder is on the path."""
    mark, wheel = tmp_path / "mark", tmp_path / "made-1-py3-none-any.whl"
    checkout = hostile(tmp_path / "checkout", "venv", "pip", "ensurepip", "sitecustomize", "json", "zipfile")
    (tmp_path / "temp").mkdir()
    with ZipFile(wheel, "w") as archive:
        archive.writestr("made.py", "")
        archive.writestr("made-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: made\nVersion: 1\n")
        archive.writestr("made-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("made-1.dist-info/RECORD", "")
    environment = {
        "PYTHON": sys.executable, "VENV": str(tmp_path / "temp" / "venv"), "SOURCE": str(ROOT), "PACKAGE": str(wheel),
        "PIP_NO_INDEX": "1", "MARK": str(mark), "GITHUB_TOKEN": "secret", "PYTHONPATH": str(checkout),
    }  # fmt: skip
    ran = run(script_of(file, "Install"), environment, checkout)
    assert ran.returncode == 0, ran.stderr
    assert not mark.exists(), mark.read_text()
    assert [*(tmp_path / "temp").glob("venv/lib/*/site-packages/made.py")]


@BASH
@pytest.mark.parametrize(("file", "step"), [("action.yml", "Lint"), ("actions/plan/action.yml", "Plan")])
def test_a_checkout_with_python_of_its_own_changes_no_answer(tmp_path, httpserver, file, step):
    names = ("sitecustomize", "usercustomize", "json", "click", "msgspec", "yaml", "berthmaster", "berthmaster_cli")
    checkout, mark = hostile(tmp_path / "checkout", *names), tmp_path / "mark"
    httpserver.expect_request("/user").respond_with_json({}, 403)
    httpserver.expect_request("/repos/shop/fleet/issues/7/comments", method="GET").respond_with_json([])
    httpserver.expect_request("/repos/shop/fleet/issues/7/comments", method="POST").respond_with_json({}, 201)
    environment = {
        "PATHS": str(ROOT / "examples/plan"), "FLEET": "", "SARIF": "", "DOCS": "", "REPOSITORY": "", "ARGS": "",
        "CONFIG": "kubeconfig", "CONTENT": "", "AGAINST": str(ROOT / "examples/karmada"), "MARK": str(mark),
        "GITHUB_TOKEN": "secret", "GITHUB_STEP_SUMMARY": "summary.md",
        "GITHUB_API_URL": httpserver.url_for("").rstrip("/"), "GITHUB_REPOSITORY": "shop/fleet",
        "GITHUB_REF": "refs/pull/7/merge",
    }  # fmt: skip
    ran = run(script_of(file, step), environment, checkout)
    assert ran.returncode == 0, ran.stderr
    assert not mark.exists(), mark.read_text()


@BASH
def test_an_action_writes_through_no_link_of_the_checkout(tmp_path):
    """The file for SARIF could be a link to the file of variables for later steps."""
    checkout, variables = tmp_path / "checkout", tmp_path / "variables"
    checkout.mkdir()
    variables.write_text("")
    (checkout / "bad.yaml").write_text(BAD)
    (checkout / "out.sarif").symlink_to(variables)
    environment = {"REPOSITORY": "", "DOCS": "", "PATHS": "bad.yaml", "FLEET": "", "ARGS": "", "SARIF": "out.sarif"}
    ran = run(script_of("action.yml", "Lint"), environment, checkout)
    assert ran.returncode == 2
    assert "out.sarif is a link" in ran.stdout
    assert variables.read_text() == ""


@BASH
@cases(
    ("linked", "target"),
    {
        "a file": ("policies/leak.yaml", "../../secret"),
        "a folder": ("policies", "../elsewhere"),
        "a file of git": ("policies/leak.yaml", "../.git/config"),
    },
)
def test_an_action_reads_no_file_that_a_link_of_the_checkout_names(tmp_path, linked, target):
    checkout = tmp_path / "checkout"
    (tmp_path / "secret").write_text("hunter2\n")
    for folder in (tmp_path / "elsewhere", checkout / ".git"):
        folder.mkdir(parents=True)
        (folder / "config").write_text("hunter2\n")
        (folder / "config.yaml").write_text("hunter2\n")
    path = checkout / linked
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    plan = {
        "CONFIG": "kubeconfig",
        "CONTENT": "",
        "AGAINST": str(ROOT / "examples/karmada"),
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    lint = {"REPOSITORY": "", "DOCS": "", "FLEET": "", "SARIF": ""}
    test = {"CONFIG": "kubeconfig", "CONTENT": "", "FLEET": str(ROOT / "examples/karmada")}
    actions = (
        ("action.yml", "Lint", lint),
        ("actions/plan/action.yml", "Plan", plan),
        ("actions/test/action.yml", "Test", test),
    )
    for file, name, more in actions:
        for paths in (linked, str(checkout / linked), "policies"):
            ran = run(script_of(file, name), {"PATHS": paths, "ARGS": "", **more}, checkout)
            assert ran.returncode, (name, paths)
            assert "hunter2" not in ran.stdout + ran.stderr


@BASH
@cases(
    ("repository", "page"),
    {
        "from a repository": ("shop/berthmaster", "https://example.org/rules/unknown-type.md"),
        "from a checkout": ("", None),
    },
)
def test_the_script_of_the_action_annotates_and_writes_sarif(tmp_path, repository, page):
    script = script_of("action.yml", "Lint")
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "clusters.yaml").write_text("")
    environment = {
        "REPOSITORY": repository,
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
    assert log["tool"]["driver"]["rules"][0].get("helpUri") == page


@BASH
def test_the_script_of_the_plan_action_comments_and_keeps_the_exit_code(tmp_path, httpserver):
    comments = "/repos/shop/fleet/issues/7/comments"
    httpserver.expect_ordered_request("/user", method="GET").respond_with_json({}, 403)
    forged = {"id": 1, "body": "<!-- berthmaster plan -->\nnothing moves", "user": {"login": "mallory"}}
    httpserver.expect_ordered_request(comments, method="GET").respond_with_json([forged])
    httpserver.expect_ordered_request(comments, method="POST").respond_with_json({}, 201)
    environment = {
        "CONFIG": "kubeconfig", "CONTENT": "", "PATHS": str(ROOT / "examples/plan"),
        "AGAINST": str(ROOT / "examples/karmada"),
        "ARGS": "--max-moves=0", "GITHUB_TOKEN": "secret", "GITHUB_STEP_SUMMARY": "summary.md",
        "GITHUB_API_URL": httpserver.url_for("").rstrip("/"), "GITHUB_REPOSITORY": "shop/fleet",
        "GITHUB_REF": "refs/pull/7/merge",
    }  # fmt: skip
    ran = run(script_of("actions/plan/action.yml", "Plan"), environment, tmp_path)
    assert ran.returncode == 3, ran.stderr
    httpserver.check_assertions()
    assert "1 of 5 workloads moves" in (tmp_path / "summary.md").read_text()


@BASH
def test_the_script_of_the_test_action_annotates_and_reads_only_the_checkout(tmp_path):
    folder = tmp_path / "checkout"
    (folder / "tests").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("hunter2\n")
    head = "apiVersion: test.berthmaster.io/v1alpha1\nkind: PlacementTest\nmetadata: {name: a}\n"
    (folder / "tests" / "a.yaml").write_text(f"{head}fleet: ../../secret.yaml\nexpect: [{{moves: 0}}]\n")
    environment = {"CONFIG": "kubeconfig", "CONTENT": "", "PATHS": "tests", "FLEET": "", "ARGS": ""}
    ran = run(script_of("actions/test/action.yml", "Test"), environment, folder)
    assert ran.returncode == 2
    assert ran.stdout.startswith("::error file=tests/a.yaml,line=4,title=invalid-test (a)::fleet: ")
    assert "hunter2" not in ran.stdout + ran.stderr


SARIF_BAD = (DATA / "lint" / "bad_twice.yaml.txt").read_text()


@pytest.fixture
def sarif(tmp_path, monkeypatch):
    def call(text, *arguments, name="p.yaml"):
        monkeypatch.chdir(tmp_path)
        (tmp_path / name).write_text(text)
        return json.loads(CliRunner().invoke(command, [name, "-o", "sarif", *arguments]).stdout)

    return call


def test_the_log_has_the_properties_that_the_schema_requires(sarif):
    log = sarif(SARIF_BAD, "--docs-url", "https://example.org/rules/{rule}.md")
    assert log["version"] == "2.1.0"
    assert log.keys() == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
    assert all(type(each["executionSuccessful"]) is bool for each in run["invocations"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["helpUri"] == f"https://example.org/rules/{rule['id']}.md"
    assert len(run["results"]) >= 3
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        assert place["artifactLocation"]["uri"] == "p.yaml"
        assert all(isinstance(each, str) and each for each in result["partialFingerprints"].values())


def fingerprints(log):
    return [each["partialFingerprints"]["berthmasterFinding/v1"] for each in log["runs"][0]["results"]]


def test_fingerprints_are_unique_and_survive_lines_that_move(sarif):
    before = fingerprints(sarif(SARIF_BAD))
    assert len(set(before)) == len(before)
    assert fingerprints(sarif(f"# a comment\n\n{SARIF_BAD}")) == before


def test_skipped_documents_are_notifications(sarif):
    (run,) = sarif("a: 1\n")["runs"]
    ((note,),) = [each["toolExecutionNotifications"] for each in run["invocations"]]
    assert (note["level"], run["results"]) == ("note", [])
    assert note["message"]["text"].startswith("skipped: ")


@cases(
    ("source", "expected"),
    {
        "a relative path": ("a/b.yaml", "a/b.yaml"),
        "an absolute path": ("/a/b.yaml", "file:///a/b.yaml"),
        "characters with a meaning in URIs": ("a b/ü#?.yaml", "a%20b/%C3%BC%23%3F.yaml"),
        "a colon in the first part": ("my:file.yaml", "my%3Afile.yaml"),
        "standard input": ("<stdin>", "%3Cstdin%3E"),
        "a parent folder": ("../x.yaml", "../x.yaml"),
    },
)
def test_uris_of_files(source, expected):
    given = uri(source)
    assert given == expected
    assert re.fullmatch(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", given)
    assert unquote(urlsplit(given).path).endswith(source)


def test_an_address_without_the_place_of_the_rule_is_an_error():
    result = CliRunner().invoke(command, ["p.yaml", "--docs-url", "https://example.org/rules"])
    assert (result.exit_code, "has no {rule}" in result.output) == (2, True)
