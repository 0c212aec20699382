"""The question of the page What if: in an address, and as the extender gets it."""

import base64
import re
import zlib

import pytest
from console_source import refused_question
from tables import DATA, cases, data
from werkzeug.datastructures import MultiDict

from berthmaster.model.decode import convert
from berthmaster.native_api.what_if import PolicyName
from berthmaster.simulation.changes import AddTaint, Down, RemoveTaint, Scale
from berthmaster.simulation.workload import ResourceName
from console.query import QueryError
from console.question import MAX_ADDRESS, WhatIfQuestion, decoded, encoded, question_of
from console.read_question import FormProblem, question_words, read, refusals

POLICY = (DATA / "edited_policy.yaml").read_text()
SECOND = POLICY.replace("name: web", "name: api")


def everything(_namespace):
    return True


def asked(question, clusters=("a", "b"), may_see=everything):
    return read(question, clusters, may_see)


def test_a_question_is_the_same_after_the_address():
    question = WhatIfQuestion(
        lose=("a", "\u202e<b>"), taints=("a=k:NoExecute",), policies=POLICY * 3, deleted=("ns/pp/x",)
    )
    text = encoded(question)
    assert decoded(text) == question
    assert text.isascii()
    assert not set(text) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def packed(content):
    return base64.urlsafe_b64encode(zlib.compress(content)).decode().rstrip("=")


@cases(
    "text",
    {
        "one character": "x",
        "other letters": "ä" * 8,
        "not compressed": "AAAA",
        "cut off": encoded(WhatIfQuestion(lose=("a",)))[:-6],
        "more behind it": packed(b"{}") + "AAAA",
        "not JSON": packed(b"[1"),
        "another type": packed(b'{"lose": 3}'),
        "an unknown field": packed(b'{"loose": []}'),
        "a small text that becomes large": packed(b" " * 10_000_000),
        "too long": "A" * (MAX_ADDRESS + 1),
    },
)
def test_another_text_is_an_error_that_says_what_to_do(text):
    with pytest.raises(QueryError, match=r"^question: .*ask again with the form$"):
        decoded(text)


def test_words_of_a_form_are_separated_by_spaces_commas_and_lines():
    form = MultiDict([("lose", "a"), ("lose", "b, c\r\na"), ("policies", "x: 1\r\ny: 2\r\n"), ("form_token", "t")])
    assert question_of(form) == WhatIfQuestion(lose=("a", "b", "c"), policies="x: 1\ny: 2")
    assert question_of(MultiDict()).empty


def test_a_question_becomes_changes():
    question = WhatIfQuestion(
        lose=("a",),
        taints=("b=k=v:NoSchedule", "b=k-"),
        scales=("shop/deploy/web=3",),
        policies=f"{POLICY}---\n{SECOND}",
        deleted=("shop/PropagationPolicy/old", "clusterpropagationpolicy/all"),
    )
    found = asked(question)
    assert found.problems == []
    assert [type(each) for each in found.changes] == [AddTaint, RemoveTaint, Down, Scale]
    assert found.origins[2] == ("lose", "a")
    assert found.changes[3] == Scale(ResourceName("shop", "Deployment", "web"), 3)
    assert [each.metadata.name for each in found.create] == ["web", "api"]
    assert found.delete == [
        PolicyName("PropagationPolicy", "old", "shop"),
        PolicyName("ClusterPropagationPolicy", "all"),
    ]


@cases(("question", "field", "message"), data("console_words")["problems"])
def test_what_is_wrong_is_said_at_its_field(question, field, message):
    found = asked(convert(WhatIfQuestion, question))
    assert [each.field for each in found.problems] == [field]
    assert message in found.problems[0].message


def test_an_unknown_field_of_a_policy_is_wrong():
    found = asked(WhatIfQuestion(policies=POLICY.replace("clusterNames", "clusterName")))
    [unknown] = (each.message for each in found.problems)
    assert re.search("document 1.*clusterName", unknown, re.DOTALL)


@cases(
    ("question", "problem"),
    {
        "many words": (WhatIfQuestion(lose=tuple(map(str, range(101)))), "Clusters to lose: 101 words; at most 100"),
        "a long word": (WhatIfQuestion(taints=("x" * 513,)), "longer than 512 characters"),
        "long policies": (WhatIfQuestion(policies=f"#{'x' * 50_000}"), ""),
        "very long policies": (WhatIfQuestion(policies="x" * 300_000), "incomplete or too large"),
    },
)
def test_a_question_that_is_too_large_is_refused_before_it_is_read(question, problem):
    """An address of some hundred characters can carry a thousand times as much."""
    if not problem:
        assert decoded(encoded(question)) == question
        return
    with pytest.raises(QueryError, match=problem):
        decoded(encoded(question))


def test_the_first_unknown_clusters_have_hints():
    found = read(WhatIfQuestion(lose=tuple(f"c{number}x" for number in range(50))), {"c1", "c2"}, lambda _: True)
    assert len(found.problems) == 50
    assert sum("did you mean" in each.message or "the fleet has" in each.message for each in found.problems) == 10


def test_a_domain_fails_as_a_whole_and_each_cluster_once():
    domains = {"region=north": ["a", "b"], "zone=n1": ["b", "c"]}
    question = WhatIfQuestion(lose=("zone=n1", "c", "region=north"))
    found = read(question, {"a", "b", "c"}, lambda _: True, domains)
    assert not found.problems
    assert [each.cluster for each in found.changes] == ["c", "b", "a"]
    assert question_words(question) == ["2 domains fail: zone=n1, region=north", "1 cluster fails: c"]


def test_everything_that_is_wrong_is_said_at_once():
    found = asked(WhatIfQuestion(lose=("x",), taints=("y",), policies="z: [", deleted=("q",)))
    assert [each.field for each in found.problems] == ["taints", "lose", "policies", "deleted"]


def test_a_visitor_asks_about_the_own_namespaces_only():
    question = WhatIfQuestion(
        scales=("shop/Deployment/web=1", "bank/Deployment/web=1", "Deployment/web=1"),
        policies=POLICY.replace("shop", "bank"),
        deleted=("ClusterPropagationPolicy/x", "shop/PropagationPolicy/x"),
    )
    found = asked(question, may_see=lambda namespace: namespace == "shop")
    assert [each.field for each in found.problems] == ["scales", "scales", "policies", "deleted"]
    assert all("you may not see" in each.message for each in found.problems)


@cases(
    ("path", "reason", "expected"),
    {
        "a change": ("changes[1].resource", "there is no such workload",
            FormProblem("scales", "'shop/Deployment/web=3': there is no such workload")),
        "a policy": ("create[0].spec.placement", "too large",
            FormProblem("policies", "PropagationPolicy shop/web: spec.placement: too large")),
        "a deletion": ("delete[0]", "is not known", FormProblem("deleted", "is not known")),
        "everything": ("", "no bindings are watched", FormProblem("", "no bindings are watched")),
        "a field of the request": ("limit", "is too large", FormProblem("", "limit: is too large")),
        "a change that was not sent": ("changes[9]", "x", FormProblem("", "x")),
    },
)  # fmt: skip
def test_what_the_extender_refuses_is_said_at_its_field(path, reason, expected):
    question = WhatIfQuestion(
        lose=("a",), scales=("shop/Deployment/web=3",), policies=POLICY, deleted=("shop/PropagationPolicy/x",)
    )
    assert [*refusals(refused_question(reason, 400, path), asked(question))] == [expected]


def test_a_question_in_words():
    question = WhatIfQuestion(lose=("a", "b"), taints=("a=k-",), policies=POLICY)
    assert question_words(question) == [
        "1 taint changes: a=k-",
        "2 clusters fail: a, b",
        "the pasted policies are applied",
    ]
