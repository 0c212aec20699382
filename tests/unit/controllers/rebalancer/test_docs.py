"""The docs page lists the controller's rights."""

from pathlib import Path

import pytest

from berthmaster.controllers.rbac import RULES
from berthmaster.controllers.registry import REGISTRY

PAGE = (Path(__file__).parents[4] / "docs" / "rebalancer.md").read_text()


@pytest.mark.parametrize("rule", RULES["workload-rebalancer"], ids=lambda rule: ", ".join(rule.resources))
def test_the_page_lists_every_right(rule):
    resources = ", ".join(f"`{each}`" for each in rule.resources)
    assert f"| `{rule.group}` | {resources} | {', '.join(rule.verbs)} |" in PAGE


def test_the_page_lists_no_other_right():
    rows = PAGE.partition("## Rights")[2].partition("\n\n| API group")[2].splitlines()
    assert len([row for row in rows if row.startswith("| `")]) == len(RULES["workload-rebalancer"])


def test_the_controller_is_off_by_default():
    [found] = [each for each in REGISTRY if each.name == "workload-rebalancer"]
    assert not found.by_default
    assert "--controllers '*,workload-rebalancer'" in PAGE
