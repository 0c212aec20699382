"""The pages of policies: the list, its filters, and one policy."""

from console_answers import HOSTILE, policy_list, policy_row, policy_view
from console_source import GivenSource, console_client
from tables import cases

from berthmaster.views.policy_rows import PolicyFinding, PriorityDropRow, TakeoverRow
from console.pages.policies import policy_address
from console.question import WhatIfQuestion, decoded


def test_a_line_counts_findings_by_severity_and_takeovers():
    findings = [PolicyFinding("a", "error", "spec", "x"), PolicyFinding("b", "warning", "", "y")]
    takeover = TakeoverRow("shop/Deployment/web", "PropagationPolicy shop/b", "PropagationPolicy shop/all", "")
    row = policy_row(findings=findings, takes=[takeover])
    text = console_client(GivenSource(policies=policy_list(row))).get("/policies").text
    for part in ("1 error<", "1 warning<", "may take 1", 'href="/policies/shop/all"'):
        assert part in text


def test_rules_that_did_not_run_find_nothing_and_say_so():
    unchecked, checked = policy_row(findings=None), policy_row(findings=[])
    for rows, said in (([unchecked], True), ([unchecked, checked], False), ([], False)):
        text = console_client(GivenSource(policies=policy_list(*rows))).get("/policies").text
        assert ("findings are not known" in text) is said


@cases(
    ("text", "expected"),
    {
        "namespaced": ("PropagationPolicy shop/web", ("shop", "web")),
        "cluster-scoped": ("ClusterPropagationPolicy web", ("-", "web")),
    },
)
def test_the_address_of_a_policy(text, expected):
    assert policy_address(text) == expected


@cases(
    ("claims", "claimed", "text"),
    {
        "the visitor sees some": (250, ["shop/Deployment/web"], "and 249 more"),
        "the visitor sees none": (250, [], "It holds 250, in namespaces that you may not see."),
        "there are none": (0, [], "It holds no workload."),
    },
)
def test_a_policy_whose_workloads_the_visitor_may_not_see_is_not_called_empty(claims, claimed, text):
    view = policy_view(policy_row("all", "", claims=claims, claimed=claimed), [("", ["a"])])
    assert text in console_client(GivenSource(policy=view)).get("/policies/-/all").text


def test_the_list_asks_the_extender_for_what_the_address_says():
    source = GivenSource(policies=policy_list(policy_row(), matched=120, total=400))
    client = console_client(source)
    page = client.get("/policies?q=web&kind=PropagationPolicy&only=findings&only=drops&sort=-claims&page=2").text
    (_, (asked,), _) = source.asked[-1]
    assert (asked.q, asked.kind, asked.only) == ("web", "PropagationPolicy", ("findings", "drops"))
    assert (asked.sort, 'aria-sort="descending"' in page) == ("-claims", True)
    assert asked.offset == asked.limit
    assert 'href="/policies/shop/all"' in page
    assert "page=1" in page
    assert "page=3" in page


def test_a_policy_has_a_page():
    row = policy_row(
        findings=[PolicyFinding("unreachable-group", "warning", "spec.placement", f"correct {HOSTILE}")],
        loses=[TakeoverRow("shop/Deployment/web", "PropagationPolicy shop/all", "ClusterPropagationPolicy x", "off")],
        drops=[PriorityDropRow("fell from 9 to 1", open=True)],
        claims=300,
    )
    groups = [{"affinityName": name, "clusterNames": [HOSTILE]} for name in ("home", HOSTILE)]
    view = policy_view(row, [("home", ["a", HOSTILE]), (HOSTILE, [])], clusterAffinities=groups)
    source = GivenSource(policy=view)
    page = console_client(source).get("/policies/shop/all").text
    assert source.asked[-1] == ("policy", ("all", "shop"), {"namespaces": None})
    assert 'href="/policies/-/x"' in page
    assert "unreachable-group" in page
    assert "fell from 9 to 1" in page
    assert 'href="/workloads?policy=PropagationPolicy%20shop/all"' in page
    assert "2 more with a taint that it does not tolerate" in page
    assert "none can be used" in page
    assert "affinityName: home" in page
    assert "<script>alert" not in page
    question = page.partition("/what-if?question=")[2].partition('"')[0]
    assert decoded(question) == WhatIfQuestion(deleted=("shop/PropagationPolicy/all",))
