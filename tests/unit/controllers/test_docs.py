"""``docs/controllers.md`` says what the code says."""

import re
from pathlib import Path

import click
import pytest
from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from berthmaster.controllers import metrics
from berthmaster.controllers.rbac import ESTIMATORS, RULES, RUNTIME, Rule
from berthmaster.controllers.registry import REGISTRY
from berthmaster.controllers.settings import GATES
from berthmaster_cli.controllers import command

PAGE = (Path(__file__).parents[3] / "docs" / "controllers.md").read_text()
PLACES = {"cluster": "everywhere", "lease": "the lease's namespace", "estimators": "the estimators' namespace"}
ALL_RULES = [
    *(("everything", rule) for rule in RUNTIME),
    *((f"`{name}`", rule) for name, rules in RULES.items() for rule in rules),
    ("estimators", ESTIMATORS),
]
METRICS = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]


def row(who: str, rule: Rule) -> str:
    where = f"{PLACES[rule.scope]}{', that lease' if rule.named else ''}"
    resources = ", ".join(f"`{each}`" for each in rule.resources)
    return f"| {who} | {where} | {rule.group or 'core'} | {resources} | {', '.join(rule.verbs)} | {rule.why} |"


@pytest.mark.parametrize(("who", "rule"), ALL_RULES, ids=str)
def test_every_right_stands_there(who, rule):
    assert row(who, rule) in PAGE.splitlines()


def test_no_right_stands_there_that_is_not_given():
    section = PAGE.partition("## Rights")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert rows == [row(who, rule) for who, rule in ALL_RULES]


@pytest.mark.parametrize(
    "option", [each for each in command.params if each.name != "config"], ids=lambda each: each.name
)
def test_every_option_stands_there(option):
    assert isinstance(option, click.Option)
    assert re.search(rf"`{max(option.opts, key=len)}`", PAGE)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_every_gate_stands_there(gate):
    default = str(gate.default).lower()
    assert f"| `{gate.name}` | {gate.stage} | {default} | {gate.summary} |" in PAGE.splitlines()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric._name)
def test_every_metric_stands_there(metric):
    name = f"{metric._name}_total" if isinstance(metric, Counter) else metric._name
    [line] = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{name}`" in line]
    assert all(label in line for label in metric._labelnames)


@pytest.mark.parametrize("registration", REGISTRY, ids=lambda each: each.name)
def test_every_controller_stands_there(registration):
    assert f"| `{registration.name}` |" in PAGE
