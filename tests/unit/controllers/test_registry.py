import pytest

from berthmaster.controllers.rbac import RULES, RUNTIME, Rule, rules_of
from berthmaster.controllers.registry import REGISTRY, Registration, gated, selected
from berthmaster.controllers.settings import GATES
from berthmaster.model.errors import InputError
from berthmaster.runtime.feature_gates import FeatureGates


def registration(name: str, *, by_default: bool = True) -> Registration:
    return Registration(name, lambda _parts, _settings: pytest.fail("nobody builds it here"), by_default)


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
def test_switches_choose(switches, names):
    assert [each.name for each in selected(switches, KNOWN)] == names


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        (["four"], "'four' is unknown; known are one, two, three"),
        (["*", "-four"], "'four' is unknown"),
        ([], "leaves none"),
        (["one", "-one"], "leaves none"),
        (["-one"], "leaves none"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(switches, words):
    with pytest.raises(InputError, match=words):
        selected(switches, KNOWN)


def test_every_controller_has_rules():
    assert {each.name for each in REGISTRY} <= set(RULES)


@pytest.mark.parametrize("rule", [*RUNTIME, *(rule for rules in RULES.values() for rule in rules)], ids=str)
def test_no_rule_gives_a_verb_for_everything(rule):
    assert "*" not in rule.verbs
    assert set(rule.verbs) <= {"get", "list", "watch", "create", "update", "patch", "delete"}


def test_rules_follow_what_runs():
    everything = list(rules_of(["binding-scheduler"], elects=True, estimators=True))
    assert {rule.scope for rule in everything} == {"cluster", "lease", "estimators"}
    least = list(rules_of(["workload-rebalancer"], elects=False, estimators=True))
    assert {rule.scope for rule in least} == {"cluster"}
    assert not any("preemption" in rule.why or rule.group == "*" for rule in least)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (Rule("g", ("things",), ("create",), "x"), False),
        (Rule("g", ("things",), ("get",), "x", named=True), True),
    ],
    ids=["what makes things", "what touches one"],
)
def test_a_rule_as_a_role_writes_it(rule, named):
    manifest = rule.as_manifest("it")
    assert manifest["apiGroups"] == ["g"]
    assert manifest.get("resourceNames") == (["it"] if named else None)


PREEMPTION = [each for each in REGISTRY if each.name == "preemption"]


@pytest.mark.parametrize(
    ("gates", "runs"),
    [
        pytest.param("", False, id="is off by default"),
        pytest.param("PolicyPreemption=true", True, id="runs with its gate"),
        pytest.param("PolicyPreemption=false,WorkloadAffinity=true", False, id="and with no other one"),
    ],
)
def test_preemption_runs_behind_its_gate(gates, runs):
    names = [each.name for each in gated(REGISTRY, FeatureGates.parse(gates, GATES))]
    assert ("preemption" in names) == runs
    assert "binding-scheduler" in names


def test_who_asks_for_preemption_alone_is_told_of_the_gate():
    with pytest.raises(InputError, match="PolicyPreemption=true"):
        gated(PREEMPTION, FeatureGates(GATES))
