"""Policies: placements and selectors."""

import pytest
from builders import cluster, placement, policy, selector

from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import InputError
from berthmaster.model.policy import AffinityTerm, ClusterAffinity, FailoverBehavior, defaulted, defaulted_placement
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


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        pytest.param({}, {}, id="an empty placement"),
        pytest.param(
            {"replicaScheduling": {}},
            {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                }
            },
            id="replicas are divided by weight",
        ),
        pytest.param(
            {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
            {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
            id="duplicated replicas have no preference",
        ),
        pytest.param(
            {"replicaScheduling": {"replicaDivisionPreference": "Aggregated"}},
            {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Aggregated",
                }
            },
            id="a preference stays",
        ),
        pytest.param(
            {"spreadConstraints": [{}]},
            {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1}]},
            id="spread over at least one cluster, without a maximum",
        ),
        pytest.param(
            {"spreadConstraints": [{"spreadByLabel": "rack", "minGroups": 2, "maxGroups": 3}]},
            {"spreadConstraints": [{"spreadByLabel": "rack", "minGroups": 2, "maxGroups": 3}]},
            id="a label replaces the field",
        ),
    ],
)
def test_placements(written, stored):
    assert builtins(defaulted_placement(placement(**written))) == stored
    assert defaulted_placement(placement(**stored)) == placement(**stored)


def test_selectors_default_to_the_namespace_of_the_policy():
    stored = defaulted(policy(namespace=""))
    assert stored.metadata.namespace == "default"
    assert stored.spec.resource_selectors == (selector(namespace="default"),)


def test_a_given_namespace_stays():
    stored = defaulted(policy(namespace="team", selectors=[selector(namespace="other"), selector()]))
    assert [each.namespace for each in stored.spec.resource_selectors] == ["other", "team"]


def test_selectors_of_a_cluster_policy_keep_an_empty_namespace():
    stored = defaulted(policy(cluster_scoped=True))
    assert stored.metadata.namespace == ""
    assert stored.spec.resource_selectors == (selector(),)


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


@pytest.mark.parametrize(
    ("affinity", "member", "matches"),
    [
        pytest.param({}, MEMBER, True, id="an empty affinity matches every cluster"),
        pytest.param({"clusterNames": ["member1"]}, MEMBER, True, id="a cluster by its name"),
        pytest.param({"clusterNames": ["member2"]}, MEMBER, False, id="another name"),
        pytest.param({"clusterNames": []}, MEMBER, True, id="an empty list of names matches every cluster"),
        pytest.param({"exclude": ["member1"]}, MEMBER, False, id="an excluded cluster"),
        pytest.param({"clusterNames": ["member1"], "exclude": ["member1"]}, MEMBER, False, id="exclusion beats names"),
        pytest.param({"labelSelector": {"matchLabels": {"env": "prod"}}}, MEMBER, True, id="a label"),
        pytest.param({"labelSelector": {"matchLabels": {"env": "dev"}}}, MEMBER, False, id="another label"),
        pytest.param({"labelSelector": {}}, MEMBER, True, id="an empty label selector"),
        pytest.param(
            {"labelSelector": {"matchLabels": {"env": "dev"}}, "clusterNames": ["member1"]},
            MEMBER,
            False,
            id="name and label must both match",
        ),
        pytest.param(label("env", "Wrong"), MEMBER, False, id="an invalid label selector matches nothing"),
        pytest.param(label("env", "Gt", "1"), MEMBER, False, id="Gt is invalid for labels"),
        pytest.param({"fieldSelector": {}}, MEMBER, True, id="an empty field selector"),
        pytest.param(field("region", "In", "north"), MEMBER, True, id="a region"),
        pytest.param(field("region", "NotIn", "north"), MEMBER, False, id="not this region"),
        pytest.param(field("region", "NotIn", "north"), BARE, True, id="no region is not this region"),
        pytest.param(field("region", "Exists"), BARE, False, id="no region does not exist"),
        pytest.param(field("provider", "In", "acme"), MEMBER, True, id="a provider"),
        pytest.param(field("provider", "DoesNotExist"), BARE, True, id="no provider"),
        pytest.param(field("continent", "In", "europe"), MEMBER, False, id="a field that clusters do not have"),
        pytest.param(field("continent", "NotIn", "europe"), MEMBER, True, id="NotIn holds for an unknown field"),
        pytest.param(field("region", "Wrong"), MEMBER, False, id="an invalid field selector matches nothing"),
        pytest.param(field("zone", "In", "n2", "n9"), MEMBER, True, id="In: one zone is listed"),
        pytest.param(field("zone", "In", "n9"), MEMBER, False, id="In: no zone is listed"),
        pytest.param(field("zone", "In", "n1"), BARE, False, id="In: there are no zones"),
        pytest.param(field("zone", "NotIn", "n9"), MEMBER, True, id="NotIn: no zone is listed"),
        pytest.param(field("zone", "NotIn", "n2"), MEMBER, False, id="NotIn: one zone is listed"),
        pytest.param(field("zone", "NotIn", "n1"), BARE, True, id="NotIn: there are no zones"),
        pytest.param(field("zone", "Exists"), MEMBER, True, id="Exists: there are zones"),
        pytest.param(field("zone", "Exists"), BARE, False, id="Exists: there are no zones"),
        pytest.param(field("zone", "DoesNotExist"), BARE, True, id="DoesNotExist: there are no zones"),
        pytest.param(field("zone", "DoesNotExist"), MEMBER, False, id="DoesNotExist: there are zones"),
        pytest.param(field("zone", "Gt", "1"), MEMBER, False, id="Gt is invalid for zones"),
        pytest.param(field("zone", "In", "a zone"), cluster(zones=["a zone"]), True, id="a zone may be any text"),
    ],
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


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        pytest.param(expression("env", "In", "dev", "prod"), True, id="In holds for a listed value"),
        pytest.param(expression("env", "In", "dev"), False, id="In fails for another value"),
        pytest.param(expression("zone", "In", "a"), False, id="In fails without the label"),
        pytest.param(expression("tier", "In", ""), True, id="In holds for an empty value"),
        pytest.param(expression("zone", "In", ""), False, id="In fails for an absent label and the empty value"),
        pytest.param(expression("env", "NotIn", "dev"), True, id="NotIn holds for another value"),
        pytest.param(expression("env", "NotIn", "prod"), False, id="NotIn fails for a listed value"),
        pytest.param(expression("zone", "NotIn", "a"), True, id="NotIn holds without the label"),
        pytest.param(expression("tier", "Exists"), True, id="Exists holds for an empty value"),
        pytest.param(expression("zone", "Exists"), False, id="Exists fails without the label"),
        pytest.param(expression("zone", "DoesNotExist"), True, id="DoesNotExist holds without the label"),
        pytest.param(expression("tier", "DoesNotExist"), False, id="DoesNotExist fails for an empty value"),
        pytest.param(expression("size", "Gt", "9"), True, id="Gt compares numbers, not text"),
        pytest.param(expression("size", "Gt", "10"), False, id="Gt is strict"),
        pytest.param(expression("size", "Lt", "11"), True, id="Lt holds below"),
        pytest.param(expression("size", "Lt", "10"), False, id="Lt is strict"),
        pytest.param(expression("env", "Gt", "1"), False, id="Gt fails for text"),
        pytest.param(expression("zone", "Lt", "1"), False, id="Lt fails without the label"),
    ],
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
def test_invalid_requirements_are_errors(requirement, path, problem):
    error = requirement_error(requirement, LABEL_OPERATORS)
    assert error.path == path
    assert problem in error.problem


@pytest.mark.parametrize(("requirement", "path", "problem"), BROKEN)
def test_an_invalid_selector_matches_nothing(requirement, path, problem):  # noqa: ARG001 - one table for both
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


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param(LabelSelector(), True, id="an empty selector matches everything"),
        pytest.param(LabelSelector(match_labels={"env": "prod"}), True, id="an existing label"),
        pytest.param(LabelSelector(match_labels={"env": "prod", "tier": "x"}), False, id="all labels must hold"),
        pytest.param(LabelSelector(match_labels={"env": "not valid"}), False, id="an invalid label value"),
        pytest.param(
            LabelSelector(match_labels={"env": "prod"}, match_expressions=(expression("tier", "DoesNotExist"),)),
            False,
            id="labels and expressions must hold",
        ),
    ],
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


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("", [GOLD, SILVER, SELECTOR_BARE], id="an empty selector selects everything"),
        pytest.param("tier=gold", [GOLD], id="equal"),
        pytest.param("tier == gold", [GOLD], id="a double equals sign and spaces"),
        pytest.param("tier!=gold", [SILVER, SELECTOR_BARE], id="unequal, including a missing label"),
        pytest.param("tier in (gold, silver)", [GOLD, SILVER], id="one of several"),
        pytest.param("tier notin (gold)", [SILVER, SELECTOR_BARE], id="none of several"),
        pytest.param("tier", [GOLD, SILVER], id="present"),
        pytest.param("!tier", [SELECTOR_BARE], id="absent"),
        pytest.param("tier in (gold,silver), type=virtual-node", [GOLD], id="all parts must hold"),
        pytest.param("in", [], id="a key that looks like an operator"),
        pytest.param("tier=", [], id="an empty value"),
    ],
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
