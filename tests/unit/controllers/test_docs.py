"""``docs/controllers.md`` agrees with the code."""

import re
from pathlib import Path

import click
import pytest
from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from berthmaster.controllers import metrics
from berthmaster.controllers.rbac import ESTIMATORS, MOVES, RULES, RUNTIME, SHADOW, AccessRule
from berthmaster.controllers.registry import REGISTRY
from berthmaster.controllers.settings import GATES
from berthmaster_cli.controllers import command

PAGE = (Path(__file__).parents[3] / "docs" / "controllers.md").read_text()
PLACES = {"cluster": "everywhere", "lease": "the lease's namespace", "estimators": "the estimators' namespace"}
ALL_RULES = [
    *(("everything", rule) for rule in RUNTIME),
    *((f"`{name}`", rule) for name, rules in RULES.items() for rule in rules),
    ("estimators", ESTIMATORS),
    ("moves", MOVES),
    *(("shadow mode", rule) for rule in SHADOW),
]
METRICS = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]


def row(who: str, rule: AccessRule) -> str:
    where = f"{PLACES[rule.scope]}{', that lease' if rule.named else ''}"
    resources = ", ".join(f"`{each}`" for each in rule.resources)
    return f"| {who} | {where} | {rule.group or 'core'} | {resources} | {', '.join(rule.verbs)} | {rule.why} |"


@pytest.mark.parametrize(("who", "rule"), ALL_RULES, ids=str)
def test_every_access_rule_is_documented(who, rule):
    assert row(who, rule) in PAGE.splitlines()


def test_the_page_has_no_other_access_rules():
    section = PAGE.partition("## Rights")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert rows == [row(who, rule) for who, rule in ALL_RULES]


@pytest.mark.parametrize(
    "option", [each for each in command.params if each.name != "config"], ids=lambda each: each.name
)
def test_every_option_is_documented(option):
    assert isinstance(option, click.Option)
    assert re.search(rf"`{max(option.opts, key=len)}`", PAGE)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_every_gate_is_documented(gate):
    default = str(gate.default).lower()
    assert f"| `{gate.name}` | {gate.stage} | {default} | {gate.summary} |" in PAGE.splitlines()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.describe()[0].name)
def test_every_metric_is_documented(metric):
    name = f"{metric.describe()[0].name}_total" if isinstance(metric, Counter) else metric.describe()[0].name
    [line] = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{name}`" in line]
    assert all(label in line for label in metric._labelnames)  # noqa: SLF001 - prometheus_client has no other way to the labels of a metric


@pytest.mark.parametrize("registration", REGISTRY, ids=lambda each: each.name)
def test_every_controller_is_documented(registration):
    assert f"| `{registration.name}` |" in PAGE
