"""The registry: switches, rights, the page, and the target."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import click
import pytest
from access_rules import role_rule
from kube_in_memory import ScriptedClient
from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase
from tables import cases

from berthmaster.controllers import metrics
from berthmaster.controllers.metrics import TARGET, TARGET_UNKNOWN_FIELDS
from berthmaster.controllers.rbac import ESTIMATORS, MOVES, RULES, RUNTIME, SHADOW, AccessRule, rules_of
from berthmaster.controllers.registry import REGISTRY, Registration, gated, selected
from berthmaster.controllers.settings import GATES
from berthmaster.controllers.target import KarmadaTarget, read_target, release_of, releases_served, report_target
from berthmaster.model.errors import InputError
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster_cli.controllers import command


def registration(name: str, *, by_default: bool = True) -> Registration:
    return Registration(name, lambda _parts, _settings: pytest.fail("it must not be built"), by_default)


KNOWN = (registration("one"), registration("two"), registration("three", by_default=False))


@pytest.mark.parametrize(
    ("switches", "names"),
    [
        (["*"], ["one", "two"]),
        (["*", "three"], ["one", "two", "three"]),
        (["*", "-one"], ["two"]),
        (["-one", "*"], ["two"]),
        (["three"], ["three"]),
        (["two", "one"], ["one", "two"]),
        (["one", "one"], ["one"]),
        (["one", "two", "-two"], ["one"]),
    ],
    ids=str,
)
def test_switches_select_controllers(switches, names):
    assert [each.name for each in selected(switches, KNOWN)] == names


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        (["four"], "'four' is unknown; known are one, two, three"),
        (["*", "-four"], "'four' is unknown"),
        ([], "enables no controller"),
        (["one", "-one"], "enables no controller"),
        (["-one"], "enables no controller"),
    ],
    ids=str,
)
def test_invalid_switches_are_an_error(switches, words):
    with pytest.raises(InputError, match=words):
        selected(switches, KNOWN)


def test_every_controller_has_rules():
    assert {each.name for each in REGISTRY} <= set(RULES)


@pytest.mark.parametrize("rule", [*RUNTIME, *(rule for rules in RULES.values() for rule in rules)], ids=str)
def test_no_rule_allows_all_verbs(rule):
    assert "*" not in rule.verbs
    assert set(rule.verbs) <= {"get", "list", "watch", "create", "update", "patch", "delete"}


def test_rules_depend_on_the_controllers():
    everything = list(rules_of(["binding-scheduler"], elects=True, estimators=True))
    assert {rule.scope for rule in everything} == {"cluster", "lease", "estimators"}
    least = list(rules_of(["workload-rebalancer"], elects=False, estimators=True))
    assert {rule.scope for rule in least} == {"cluster"}
    assert not any("preemption" in rule.why or rule.group == "*" for rule in least)
    assert not {*MOVES} & {*everything}
    assert {*MOVES} <= {*rules_of(["binding-scheduler"], moves=True)}
    assert not {*MOVES} & {*rules_of(["workload-rebalancer"], moves=True)}


@cases(
    ("rule", "named"),
    {
        "create": (AccessRule("g", ("things",), ("create",), "x"), False),
        "get by name": (AccessRule("g", ("things",), ("get",), "x", named=True), True),
    },
)
def test_a_rule_as_a_manifest(rule, named):
    manifest = role_rule(rule, "it")
    assert manifest["apiGroups"] == ["g"]
    assert manifest.get("resourceNames") == (["it"] if named else None)


PREEMPTION = [each for each in REGISTRY if each.name == "preemption"]


@cases(
    ("gates", "runs"),
    {
        "is off by default": ("", False),
        "runs with its gate": ("PolicyPreemption=true", True),
        "does not run with another gate": ("PolicyPreemption=false,WorkloadAffinity=true", False),
    },
)
def test_preemption_runs_behind_its_gate(gates, runs):
    names = [each.name for each in gated(REGISTRY, FeatureGates.parse(gates, GATES))]
    assert ("preemption" in names) == runs
    assert "binding-scheduler" in names


def test_preemption_alone_without_its_gate_is_an_error():
    with pytest.raises(InputError, match="PolicyPreemption=true"):
        gated(PREEMPTION, FeatureGates(GATES))


DOCS = Path(__file__).parents[3] / "docs"
PAGE = "\n".join(each.read_text() for each in sorted(DOCS.glob("controllers*.md")))
METRIC_PAGES = PAGE + (DOCS / "binding-scheduler.md").read_text() + (DOCS / "moves-config.md").read_text()
PLACES = {"cluster": "everywhere", "lease": "the lease's namespace", "estimators": "the estimators' namespace"}
ALL_RULES = [
    *(("everything", rule) for rule in RUNTIME),
    *((f"`{name}`", rule) for name, rules in RULES.items() for rule in rules),
    ("estimators", ESTIMATORS),
    *(("moves", rule) for rule in MOVES),
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
    page = (DOCS / "controllers-rights.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")][2:]
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
    [line] = [line for line in METRIC_PAGES.splitlines() if re.search(rf"^\| `.*`?{name}[`{{]", line)]
    assert all(label in line for label in metric._labelnames)  # noqa: SLF001 - prometheus_client has no other way to the labels of a metric


@pytest.mark.parametrize("registration", REGISTRY, ids=lambda each: each.name)
def test_every_controller_is_documented(registration):
    assert f"| `{registration.name}` |" in PAGE


V1_15 = ("spec.components", "spec.placement.clusterAffinity", "spec.placement.clusterAffinities.affinityName")
V1_17 = (*V1_15, "spec.workloadAffinityGroups", "spec.placement.workloadAffinity.affinity.groupByLabelKey")
V1_18 = (*V1_17, "spec.placement.clusterAffinities.overflowAffinities.affinityName")
NEWEST = (*V1_18, "spec.clusters.components")


def schema(*paths: str) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for name in path.split("."):
            node = node.setdefault("properties", {}).setdefault(name, {})
            if name in {"clusterAffinities", "overflowAffinities", "clusters"}:
                node = node.setdefault("items", {})
    return root


def answers(*paths: str) -> dict[str, Any]:
    kind = {"group": "work.karmada.io", "version": "v1alpha2", "kind": "ResourceBinding"}
    binding = {**schema(*paths), "x-kubernetes-group-version-kind": [kind]}
    return {
        "GET /version": {"gitVersion": "v1.36.3"},
        "GET /openapi/v3/apis/work.karmada.io/v1alpha2": {"components": {"schemas": {"b": binding}}},
    }


@cases(
    ("paths", "release"),
    {
        "before components": (("spec.placement",), "older than 1.15"),
        "components": (V1_15, "1.15 or 1.16"),
        "workload affinity": (V1_17, "1.17"),
        "overflow affinities": (V1_18, "1.18 or 1.19.0-rc.0"),
        "components of assignments": (NEWEST, "newer than 1.19.0-rc.0"),
    },
)
def test_fields_of_bindings_show_the_release(paths, release):
    assert release_of(schema(*paths)) == release


@cases(
    ("paths", "releases"),
    {
        "before components": (("spec.placement",), None),
        "components": (V1_15, ((1, 15), (1, 16))),
        "workload affinity": (V1_17, ((1, 17), (1, 17))),
        "overflow affinities": (V1_18, ((1, 18), (1, 19))),
    },
)
def test_definitions_show_which_releases_a_control_plane_may_have(paths, releases):
    assert releases_served(ScriptedClient(answers(*paths))) == releases


def test_the_release_of_a_control_plane_that_does_not_answer_is_not_known():
    assert releases_served(ScriptedClient({})) is None


def test_the_target_of_a_newer_karmada():
    found = read_target(
        ScriptedClient(
            answers(*NEWEST, "spec.placement.racks", "spec.placement.clusterAffinities.overflowAffinities.racks")
        )
    )
    assert found == KarmadaTarget(
        "v1.36.3",
        "newer than 1.19.0-rc.0",
        ("spec.placement.racks", "spec.placement.clusterAffinities.overflowAffinities.racks"),
    )


def test_a_schema_that_is_not_published():
    found = read_target(ScriptedClient({**answers(), "GET /openapi/v3/apis/work.karmada.io/v1alpha2": {}}))
    assert found == KarmadaTarget("v1.36.3", "unknown")


def test_the_report_sets_metrics_and_warns_about_unknown_fields(caplog):
    with caplog.at_level(logging.INFO, "berthmaster.controllers"):
        report_target(ScriptedClient(answers(*V1_18, "spec.placement.racks")))
    [shown], [unknown] = (metric.collect()[0].samples for metric in (TARGET, TARGET_UNKNOWN_FIELDS))
    assert (shown.labels["karmada"], shown.value, unknown.value) == ("1.18 or 1.19.0-rc.0", 1, 1)
    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING"]


def test_a_server_that_does_not_answer_is_logged(caplog):
    report_target(ScriptedClient({}))
    [record] = caplog.records
    assert "cannot be read" in record.getMessage()


def test_the_derived_fields_agree_with_the_releases_of_the_marks():
    """The marks tell releases apart as the fields of the matrix do."""
    from field_page import KARMADA  # noqa: PLC0415 - only this test needs the data

    for release, expected in (("1.16", "1.15 or 1.16"), ("1.17", "1.17"), ("1.18", "1.18 or 1.19.0-rc.0"),
                              ("1.19-rc.0", "1.18 or 1.19.0-rc.0"), ("master", "newer than 1.19.0-rc.0")):  # fmt: skip
        fields = [each for each, releases in KARMADA["fields"].items() if release in releases]
        paths = [each.replace("[]", "").replace("{}", "") for each in fields]
        paths = [f"spec.{each}" for each in paths if each.startswith("placement.")] + [
            each.removeprefix("binding.") for each in paths if each.startswith("binding.spec.")
        ]
        assert release_of(json.loads(json.dumps(schema(*paths)))) == expected
