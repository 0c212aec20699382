"""The rendered chart: the defaults in full, five large cases as their difference from them."""

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


@pytest.mark.parametrize("case", CASES)
def test_every_object_appears_once(case):
    objects = helm.render(CASES[case])
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(keys) == len(set(keys))
