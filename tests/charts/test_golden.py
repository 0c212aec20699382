"""The rendered chart: golden files, notes, lint."""

import json
import re
from difflib import unified_diff
from pathlib import Path

import pytest
from charts.cases import CASES

from charts import helm

FOLDER = Path(__file__).parent / "golden"
REVIEWED = ("default", "console-behind-a-proxy", "impact-gate", "kubeadmiral", "monitoring", "single-with-everything")
"""They turn most switches. Tests of their own hold what the other cases are about."""
CONTEXT_LINES = 2


def golden(case: str) -> tuple[Path, str]:
    text = helm.text(CASES[case])
    if case == "default":
        return FOLDER / "default.yaml", text
    before, after = helm.text({}).splitlines(), text.splitlines()
    lines = unified_diff(before, after, "default", case, n=CONTEXT_LINES, lineterm="")
    return FOLDER / f"{case}.diff", "\n".join(line.rstrip() for line in lines) + "\n"


@pytest.mark.parametrize("case", REVIEWED)
def test_the_chart_renders_as_reviewed(case, request):
    path, text = golden(case)
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path}; if that is right, run make chart ARGS=--update-golden"


def test_no_golden_file_is_left_over():
    assert {path.stem for path in FOLDER.iterdir()} == set(REVIEWED)


def test_every_switch_changes_something():
    assert [case for case in CASES if case != "default" and helm.text(CASES[case]) == helm.text({})] == []


def test_every_object_appears_once(objects):
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(keys) == len(set(keys))


SCHEDULES = "schedulerName: berthmaster"
INSPECTS = "deployment/berthmaster-certs -- berthmaster certs inspect"
DELETES = "delete mutatingwebhookconfiguration,validatingwebhookconfiguration berthmaster"


def notes(values):
    words = ("install", "berthmaster", str(helm.CHART), "--namespace=karmada-system", "--dry-run=client", "--values=-")
    return helm.run(*words, stdin=json.dumps({"image": helm.IMAGE, **values})).partition("NOTES:\n")[2]


@pytest.mark.parametrize(
    ("values", "said", "unsaid"),
    [
        pytest.param({}, {SCHEDULES, INSPECTS, DELETES, "--kubeconfig <the target's>"}, set(), id="by default"),
        pytest.param({"mode": "single"}, {DELETES}, {"--kubeconfig"}, id="one cluster needs no other kubeconfig"),
        pytest.param(
            {"controllers": {"enable": ["workload-rebalancer"]}}, set(), {SCHEDULES},
            id="no scheduling without the binding scheduler",
        ),
        pytest.param({"webhook": {"enabled": False}}, {SCHEDULES}, {INSPECTS, DELETES}, id="without the webhook"),
        pytest.param(
            CASES["console"], {"service/berthmaster-console 9444:443"}, set(),
            id="how to open the console",
        ),
        pytest.param({"registration": {"enabled": False}}, {"is not registered"}, {DELETES}, id="not registered"),
    ],
)  # fmt: skip
def test_notes_contain(values, said, unsaid):
    output = notes(values)
    assert {each for each in said if each in output} == said
    assert not {each for each in unsaid if each in output}
    assert not re.search(r"\n\n\n| \n", output), "no blank gaps"


def test_deployments_that_are_named_are_rendered():
    [name] = re.findall(r"deployment/(\S+)", notes({}))
    assert helm.named(helm.render({}), "Deployment", name)


@pytest.mark.parametrize("case", ["default", "single-with-everything", "kubeadmiral", "monitoring", "placed"])
def test_helm_lint_passes(case):
    output = helm.run(
        "lint", "--strict", str(helm.CHART), "--values=-", stdin=json.dumps({"image": helm.IMAGE, **CASES[case]})
    )
    assert "0 chart(s) failed" in output
    assert "[WARNING]" not in output
