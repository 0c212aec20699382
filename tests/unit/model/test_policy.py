"""Policies: placements and selectors."""

import pytest
from builders import cluster, placement, policy, selector
from tables import cases, data

from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import InputError
from berthmaster.model.failover_behavior import FailoverBehavior
from berthmaster.model.policy_defaults import defaulted, defaulted_placement
from berthmaster.model.selector import (
    LABEL_OPERATORS,
    NODE_OPERATORS,
    LabelSelector,
    Requirement,
    SelectorRequirement,
    is_label_key,
    is_label_value,
    parse_requirements,
    parse_selector,
    requirement_error,
)


@cases(("written", "stored"), data("model/placements"))
def test_placements(written, stored):
    assert builtins(defaulted_placement(placement(**written))) == stored
    assert defaulted_placement(placement(**stored)) == placement(**stored)


@cases(
    ("written", "namespace", "selected"),
    {
        "the namespace of the policy": (policy(namespace=""), "default", ["default"]),
        "a given namespace stays": (
            policy(namespace="team", selectors=[selector(namespace="other"), selector()]), "team", ["other", "team"],
        ),
        "none in a cluster policy": (policy(cluster_scoped=True), "", [""]),
    },
)  # fmt: skip
def test_the_default_namespace_of_selectors(written, namespace, selected):
    stored = defaulted(written)
    assert stored.metadata.namespace == namespace
    assert [each.namespace for each in stored.spec.resource_selectors] == selected


def test_scalars_have_the_values_of_the_crd():
    spec = defaulted(policy()).spec
    assert (spec.priority, spec.preemption, spec.scheduler_name) == (0, "Never", "default-scheduler")
    assert (spec.conflict_resolution, spec.propagate_deps) == ("Abort", False)


def test_service_imports_propagate_their_dependencies():
    chosen = [selector("ServiceImport", "multicluster.x-k8s.io/v1alpha1")]
    assert defaulted(policy(selectors=chosen)).spec.propagate_deps


def test_a_failover_gets_the_defaults_of_the_crd_and_of_the_webhook():
    written = defaulted(policy("p", failover=convert(FailoverBehavior, {"application": {}, "cluster": {}})))
    assert builtins(written.spec.failover) == {
        "application": {
            "decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600,
        },
        "cluster": {"purgeMode": "Gracefully"},
    }  # fmt: skip
    kept = {"application": {"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Never"}}
    assert builtins(defaulted(policy("p", failover=convert(FailoverBehavior, kept))).spec.failover) == kept


MEMBER = cluster("member1", region="north", provider="acme", zones=["n1", "n2"], labels={"env": "prod"})
BARE = cluster("bare")


def term(**fields):
    return AffinityTerm(convert(ClusterAffinity, fields))


def field(key, operator, *values):
    return {"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


def label(key, operator, *values):
    return {"labelSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


@cases(
    ("affinity", "member", "matches"),
    {
        "an empty affinity matches every cluster": ({}, MEMBER, True),
        "a cluster by its name": ({"clusterNames": ["member1"]}, MEMBER, True),
        "another name": ({"clusterNames": ["member2"]}, MEMBER, False),
        "an empty list of names matches every cluster": ({"clusterNames": []}, MEMBER, True),
        "an excluded cluster": ({"exclude": ["member1"]}, MEMBER, False),
        "exclusion beats names": ({"clusterNames": ["member1"], "exclude": ["member1"]}, MEMBER, False),
        "a label": ({"labelSelector": {"matchLabels": {"env": "prod"}}}, MEMBER, True),
        "another label": ({"labelSelector": {"matchLabels": {"env": "dev"}}}, MEMBER, False),
        "an empty label selector": ({"labelSelector": {}}, MEMBER, True),
        "name and label must both match": (
            {"labelSelector": {"matchLabels": {"env": "dev"}}, "clusterNames": ["member1"]},
            MEMBER,
            False,
        ),
        "an invalid label selector matches nothing": (label("env", "Wrong"), MEMBER, False),
        "Gt is invalid for labels": (label("env", "Gt", "1"), MEMBER, False),
        "an empty field selector": ({"fieldSelector": {}}, MEMBER, True),
        "a region": (field("region", "In", "north"), MEMBER, True),
        "not this region": (field("region", "NotIn", "north"), MEMBER, False),
        "no region is not this region": (field("region", "NotIn", "north"), BARE, True),
        "no region does not exist": (field("region", "Exists"), BARE, False),
        "a provider": (field("provider", "In", "acme"), MEMBER, True),
        "no provider": (field("provider", "DoesNotExist"), BARE, True),
        "a field that clusters do not have": (field("continent", "In", "europe"), MEMBER, False),
        "NotIn holds for an unknown field": (field("continent", "NotIn", "europe"), MEMBER, True),
        "an invalid field selector matches nothing": (field("region", "Wrong"), MEMBER, False),
        "In: one zone is listed": (field("zone", "In", "n2", "n9"), MEMBER, True),
        "In: no zone is listed": (field("zone", "In", "n9"), MEMBER, False),
        "In: there are no zones": (field("zone", "In", "n1"), BARE, False),
        "NotIn: no zone is listed": (field("zone", "NotIn", "n9"), MEMBER, True),
        "NotIn: one zone is listed": (field("zone", "NotIn", "n2"), MEMBER, False),
        "NotIn: there are no zones": (field("zone", "NotIn", "n1"), BARE, True),
        "Exists: there are zones": (field("zone", "Exists"), MEMBER, True),
        "Exists: there are no zones": (field("zone", "Exists"), BARE, False),
        "DoesNotExist: there are no zones": (field("zone", "DoesNotExist"), BARE, True),
        "DoesNotExist: there are zones": (field("zone", "DoesNotExist"), MEMBER, False),
        "Gt is invalid for zones": (field("zone", "Gt", "1"), MEMBER, False),
        "a zone may be any text": (field("zone", "In", "a zone"), cluster(zones=["a zone"]), True),
    },
)
def test_affinity_matches(affinity, member, matches):
    assert term(**affinity).matches(member) is matches


@pytest.mark.parametrize(
    ("affinity", "reason"),
    [
        ({"exclude": ["member1"]}, "is excluded by name"),
        ({"clusterNames": ["other"]}, "is not among the named clusters"),
        ({"labelSelector": {"matchLabels": {"env": "dev"}}}, "label env=dev does not match (it is 'prod')"),
        ({"labelSelector": {"matchLabels": {"tier": "1"}}}, "label tier=1 does not match (it is not set)"),
        (field("region", "In", "south"), "field region=south does not match (it is 'north')"),
        (field("zone", "In", "n9"), "field zone=n9 does not match (zones are n1, n2)"),
        (label("env", "Wrong"), "the affinity has an invalid selector, which matches no cluster"),
    ],
)
def test_the_reason_why_a_cluster_does_not_match(affinity, reason):
    assert term(**affinity).mismatch(MEMBER) == reason


LABELS = {"env": "prod", "tier": "", "size": "10"}


def expression(key, operator, *values):
    return SelectorRequirement(key=key, operator=operator, values=values)


@cases(
    ("requirement", "holds"),
    {
        "In holds for a listed value": (expression("env", "In", "dev", "prod"), True),
        "In fails for another value": (expression("env", "In", "dev"), False),
        "In fails without the label": (expression("zone", "In", "a"), False),
        "In holds for an empty value": (expression("tier", "In", ""), True),
        "In fails for an absent label and the empty value": (expression("zone", "In", ""), False),
        "NotIn holds for another value": (expression("env", "NotIn", "dev"), True),
        "NotIn fails for a listed value": (expression("env", "NotIn", "prod"), False),
        "NotIn holds without the label": (expression("zone", "NotIn", "a"), True),
        "Exists holds for an empty value": (expression("tier", "Exists"), True),
        "Exists fails without the label": (expression("zone", "Exists"), False),
        "DoesNotExist holds without the label": (expression("zone", "DoesNotExist"), True),
        "DoesNotExist fails for an empty value": (expression("tier", "DoesNotExist"), False),
        "Gt compares numbers, not text": (expression("size", "Gt", "9"), True),
        "Gt is strict": (expression("size", "Gt", "10"), False),
        "Lt holds below": (expression("size", "Lt", "11"), True),
        "Lt is strict": (expression("size", "Lt", "10"), False),
        "Gt fails for text": (expression("env", "Gt", "1"), False),
        "Lt fails without the label": (expression("zone", "Lt", "1"), False),
    },
)
def test_each_operator(requirement, holds):
    (parsed,) = parse_requirements([requirement], NODE_OPERATORS)
    assert parsed.matches(LABELS) is holds


BROKEN = [
    pytest.param(expression("env", "in", "a"), "operator", "unknown operator 'in'", id="an operator in lower case"),
    pytest.param(expression("env", "", "a"), "operator", "unknown operator ''", id="no operator"),
    pytest.param(expression("env", "Gt", "1"), "operator", "unknown operator 'Gt'", id="Gt on labels"),
    pytest.param(expression("", "Exists"), "key", "is not a label key", id="an empty key"),
    pytest.param(expression("a b", "Exists"), "key", "is not a label key", id="a key with a space"),
    pytest.param(expression("UPPER.io/a", "Exists"), "key", "is not a label key", id="a prefix in capitals"),
    pytest.param(expression("/a", "Exists"), "key", "is not a label key", id="an empty prefix"),
    pytest.param(expression("env", "In"), "values", "needs at least one value", id="In without values"),
    pytest.param(expression("env", "NotIn"), "values", "needs at least one value", id="NotIn without values"),
    pytest.param(expression("env", "Exists", "a"), "values", "takes no values", id="Exists with a value"),
    pytest.param(expression("env", "DoesNotExist", "a"), "values", "takes no values", id="DoesNotExist with a value"),
    pytest.param(expression("env", "In", "a", "b c"), "values[1]", "not a label value", id="a bad value"),
    pytest.param(expression("env", "In", "a" * 64), "values[0]", "not a label value", id="a long value"),
]


@pytest.mark.parametrize(("requirement", "path", "problem"), BROKEN)
def test_an_invalid_requirement_is_an_error_and_its_selector_matches_nothing(requirement, path, problem):
    error = requirement_error(requirement, LABEL_OPERATORS)
    assert error.path == path
    assert problem in error.problem
    selector = LabelSelector(match_labels={"env": "prod"}, match_expressions=(requirement,))
    assert selector.requirements() is None
    assert not selector.matches(LABELS)
    assert not selector.matches({})


@pytest.mark.parametrize(
    "values", [(), ("1", "2"), ("x",), ("1.5",), ("",), ("9223372036854775808",), ("٣",)], ids=repr
)
@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_comparisons_need_exactly_one_int64(operator, values):
    error = requirement_error(expression("size", operator, *values), NODE_OPERATORS)
    assert (error.path, error.problem) == ("values", f"operator {operator} needs exactly one integer value")


@cases(
    ("selector", "matches"),
    {
        "an empty selector matches everything": (LabelSelector(), True),
        "an existing label": (LabelSelector(match_labels={"env": "prod"}), True),
        "all labels must hold": (LabelSelector(match_labels={"env": "prod", "tier": "x"}), False),
        "an invalid label value": (LabelSelector(match_labels={"env": "not valid"}), False),
        "labels and expressions must hold": (
            LabelSelector(match_labels={"env": "prod"}, match_expressions=(expression("tier", "DoesNotExist"),)),
            False,
        ),
    },
)
def test_whole_selectors(selector, matches):
    assert selector.matches(LABELS) is matches


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True), ("A_b-c.d", True), ("example.io/a", True), ("a" * 63, True), (f"{'a.' * 126}a/b", True),
        ("a" * 64, False), (f"{'a.' * 127}a/b", False), ("-a", False), ("a-", False), ("a/b/c", False),
        ("a/", False), ("example_io/a", False), ("a\n", False), ("ä", False),
    ],
)  # fmt: skip
def test_label_keys(key, valid):
    assert is_label_key(key) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("", True), ("a", True), ("1.5", True), ("a" * 63, True), ("a" * 64, False), ("a b", False),
        ("-", False), ("a\n", False),
    ],
)  # fmt: skip
def test_label_values(value, valid):
    assert is_label_value(value) is valid


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (expression("a", "In", "b"), "a=b"),
        (expression("a", "NotIn", "b"), "a!=b"),
        (expression("a", "In", "c", "b"), "a In (b, c)"),
        (expression("a", "Exists"), "a"),
        (expression("a", "DoesNotExist"), "!a"),
        (expression("a", "Gt", "3"), "a Gt (3)"),
    ],
)
def test_requirements_as_text(requirement, text):
    (parsed,) = parse_requirements([requirement], NODE_OPERATORS)
    assert str(parsed) == text


GOLD, SILVER, SELECTOR_BARE = {"tier": "gold", "type": "virtual-node"}, {"tier": "silver"}, {}


@cases(
    ("text", "selected"),
    {
        "an empty selector selects everything": ("", [GOLD, SILVER, SELECTOR_BARE]),
        "equal": ("tier=gold", [GOLD]),
        "a double equals sign and spaces": ("tier == gold", [GOLD]),
        "unequal, including a missing label": ("tier!=gold", [SILVER, SELECTOR_BARE]),
        "one of several": ("tier in (gold, silver)", [GOLD, SILVER]),
        "none of several": ("tier notin (gold)", [SILVER, SELECTOR_BARE]),
        "present": ("tier", [GOLD, SILVER]),
        "absent": ("!tier", [SELECTOR_BARE]),
        "all parts must hold": ("tier in (gold,silver), type=virtual-node", [GOLD]),
        "a key that looks like an operator": ("in", []),
        "an empty value": ("tier=", []),
    },
)
def test_parsed_selectors_select(text, selected):
    selector = parse_selector(text)
    assert [each for each in (GOLD, SILVER, SELECTOR_BARE) if selector.matches(each)] == selected


@pytest.mark.parametrize(
    "text",
    [
        "tier=gold,", ",tier", "tier in gold", "tier in (gold", "tier in ()x", "=gold", "a b", "tier=g old", "ti!er",
        "-bad=x", "tier=-bad", "x" * 5000,
    ],
)  # fmt: skip
def test_invalid_selectors_are_errors(text):
    with pytest.raises(InputError) as caught:
        parse_selector(text)
    assert "\n" not in str(caught.value)


def test_the_text_of_a_requirement_has_its_first_values_only():
    values = frozenset(f"v{index:03}" for index in range(100))
    text = str(Requirement("k", "In", values))
    assert text.startswith("k In (v000, v001, ")
    assert text.endswith("v031, and 68 more)")
