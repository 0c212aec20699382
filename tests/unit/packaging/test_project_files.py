"""The files by which people judge a project: workflows that run parts of .ci/run, and templates that GitHub reads."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
CI = (ROOT / ".ci/run").read_text()
STEPS = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("step", STEPS)
def test_each_step_of_the_workflow_is_a_part_of_ci(step):
    assert step in CI


def test_the_workflow_may_only_read():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    checkouts = [
        each for job in WORKFLOW["jobs"].values() for each in job["steps"] if "checkout" in each.get("uses", "")
    ]
    assert all(each["with"] == {"persist-credentials": False} for each in checkouts)


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_needs(form):
    content = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= content.keys()
    fields = [each for each in content["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)


@pytest.mark.parametrize(
    "name", ["SECURITY", "CODE_OF_CONDUCT", "GOVERNANCE", "MAINTAINERS", "ROADMAP", "CONTRIBUTING"]
)
def test_each_link_of_a_project_file_leads_to_a_file(name):
    links = re.findall(r"\]\(([^)#:]+)", (ROOT / f"{name}.md").read_text())
    assert [each for each in links if not (ROOT / each).exists()] == []
