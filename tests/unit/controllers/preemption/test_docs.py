"""The docs page lists the controller's rights, events and metrics."""

import re
from pathlib import Path

import pytest
import yaml
from access_rules import role_rule

from berthmaster.controllers.preemption.messages import FAILED, NOT_CLEARED, SUCCEEDED
from berthmaster.controllers.rbac import RULES
from berthmaster.model.claims import PERMANENT_ID, PRIORITY_DROP_ANNOTATION
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION

PAGE = (Path(__file__).parents[4] / "docs" / "preemption.md").read_text()


def test_the_page_lists_the_rights_of_the_end_to_end_tests():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert yaml.safe_load(block) == [role_rule(rule) for rule in RULES["preemption"]]


@pytest.mark.parametrize(
    "name",
    [
        SUCCEEDED, FAILED, NOT_CLEARED, PRIORITY_DROP_ANNOTATION, POLICY_PREEMPTION.name, "policy_preemption_total",
        *PERMANENT_ID.values(),
    ],
)  # fmt: skip
def test_the_page_names(name):
    assert name in PAGE
