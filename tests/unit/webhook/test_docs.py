from pathlib import Path

import pytest

from webhook.admission.reviews import ROUTES
from webhook.admission.rule_catalog import ALL_RULES

PAGE = (Path(__file__).parents[3] / "docs" / "webhook.md").read_text()


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_the_page_has_every_rule_with_its_level(rule):
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{rule.id}` |")]
    assert rule.summary in row
    assert f"| {rule.default.value}" in row


def test_the_page_has_every_path():
    assert [path for path in ROUTES if f"`{path}`" not in PAGE] == []
