"""The commands of docs/adopt.md are those of ``doctor --adoption``, and the chart takes one after the other."""

import re
import shlex

import pytest

from berthmaster_cli.doctor.facts import Setup
from berthmaster_cli.doctor.judge.adoption import commands
from charts import helm

PAGE = (helm.CHART.parents[1] / "docs" / "adopt.md").read_text()
STEPS = range(1, 8)


@pytest.mark.parametrize("number", STEPS)
def test_the_page_has_the_commands_of_the_doctor(number):
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)[number]
    assert section.startswith(f"{number}. ")
    for line in (*commands(number, Setup())[0], *commands(number, Setup())[1]):
        assert line in section


def options(lines):
    """Return what the upgrades among some commands set."""
    for line in lines:
        words = shlex.split(line)
        if words[:2] == ["helm", "upgrade"]:
            yield from words[words.index("--reset-then-reuse-values") + 1 :]


def rendered(given):
    helm.run("template", "berthmaster", str(helm.CHART), "--namespace=karmada-system", *given)


def test_the_chart_takes_each_step_after_the_others_and_back():
    given = []
    for number in STEPS:
        do, back = commands(number, Setup())
        given += options(do)
        if number >= 3:
            rendered(given)
            rendered([*given, *options(back)])
    assert len(given) > 20
