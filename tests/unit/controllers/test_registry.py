import pytest
from access_rules import role_rule

from berthmaster.controllers.rbac import MOVES, RULES, RUNTIME, AccessRule, rules_of
from berthmaster.controllers.registry import REGISTRY, Registration, gated, selected
from berthmaster.controllers.settings import GATES
from berthmaster.model.errors import InputError
from berthmaster.runtime.feature_gates import FeatureGates


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
    assert MOVES not in everything
    assert MOVES in rules_of(["binding-scheduler"], moves=True)
    assert MOVES not in rules_of(["workload-rebalancer"], moves=True)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (AccessRule("g", ("things",), ("create",), "x"), False),
        (AccessRule("g", ("things",), ("get",), "x", named=True), True),
    ],
    ids=["create", "get by name"],
)
def test_a_rule_as_a_manifest(rule, named):
    manifest = role_rule(rule, "it")
    assert manifest["apiGroups"] == ["g"]
    assert manifest.get("resourceNames") == (["it"] if named else None)


PREEMPTION = [each for each in REGISTRY if each.name == "preemption"]


@pytest.mark.parametrize(
    ("gates", "runs"),
    [
        pytest.param("", False, id="is off by default"),
        pytest.param("PolicyPreemption=true", True, id="runs with its gate"),
        pytest.param("PolicyPreemption=false,WorkloadAffinity=true", False, id="does not run with another gate"),
    ],
)
def test_preemption_runs_behind_its_gate(gates, runs):
    names = [each.name for each in gated(REGISTRY, FeatureGates.parse(gates, GATES))]
    assert ("preemption" in names) == runs
    assert "binding-scheduler" in names


def test_preemption_alone_without_its_gate_is_an_error():
    with pytest.raises(InputError, match="PolicyPreemption=true"):
        gated(PREEMPTION, FeatureGates(GATES))
