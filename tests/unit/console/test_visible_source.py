"""What a visitor with few namespaces gets: nothing of an answer names a workload or a policy of another one."""

from datetime import UTC, datetime

import pytest
from console_source import GivenSource

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.decode import encode_json
from berthmaster.native_api.fleet import WorkloadQuery
from berthmaster.native_api.what_if import PlanAnswer, PlanCounts, PlanRequest, ScaleChange
from berthmaster.native_api.why import ImpactView, PolicyList, PolicyQuery, ResilienceView
from berthmaster.native_api.wire import HistoryPage, Staleness
from berthmaster.simulation.failures import FailureDomain
from berthmaster.simulation.plan_answer import Plan, PlanSummary, PolicyEffect
from berthmaster.views.policy_rows import PolicyRow, TakeoverRow
from console.source import SourceError
from console.visible_source import VisibleSource
from console.visitor import Visitor

FRESH = Staleness(None, None, "")
MINE, THEIRS, WIDE = "shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"
BOTH = [MINE, THEIRS, WIDE]
SUMMARY = PlanSummary(3, 3, 3, BOTH, BOTH, BOTH)
SHOP = Visitor("ada", "token", (), frozenset({"shop"}))


def visible(visitor=SHOP, **answers):
    return VisibleSource(GivenSource(**answers), visitor)


def takeovers():
    return [TakeoverRow(each, "a", "b", "") for each in BOTH]


def policies():
    row = PolicyRow(
        "PropagationPolicy", "shop", "web", 0, "Never", "s", [], [], False, 3, BOTH, [], takeovers(), takeovers(), []  # noqa: FBT003
    )  # fmt: skip
    return PolicyList([row], 1, 1, [], "1", FRESH)


def resilience():
    impact = ImpactView(
        FailureDomain.CLUSTER, "a", ("a",), BOTH, BOTH, BOTH, moved=3, replicas=3, arriving={}, overcommitted={}
    )
    return ResilienceView([FailureDomain.CLUSTER], [impact], 1, 0, 3, ["a"], datetime.now(UTC), [], "1", FRESH)


def plan():
    effect = PolicyEffect("PropagationPolicy shop/web", "created")
    made = Plan("id", SUMMARY, 3, 0, True, [], [effect], [], [], [], [], [])  # noqa: FBT003
    return PlanAnswer(PlanCounts(3, 3, 3, 3, 0, 0, 0, 0, 0), made, False, FRESH)  # noqa: FBT003


def history():
    rows = [HistoryRow("1", "t", "decision", each, "Deployment", "web") for each in ("shop", "vault-secret")]
    return HistoryPage(rows, None)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: visible(policies=policies()).policies(PolicyQuery()), id="policies"),
        pytest.param(lambda: visible(resilience=resilience()).resilience(), id="resilience"),
        pytest.param(lambda: visible(history=history()).history("shop", "Deployment", "web"), id="history"),
    ],
)
def test_an_answer_names_nothing_of_other_namespaces(ask):
    text = encode_json(ask()).decode()
    assert "secret" not in text
    assert "shop" in text


@pytest.mark.parametrize("resource", [THEIRS, "Deployment/secret"])
def test_replicas_of_workloads_in_other_namespaces_are_not_asked_about(resource):
    source = GivenSource(plan=plan())
    with pytest.raises(SourceError, match="You may not list bindings"):
        VisibleSource(source, SHOP).plan(PlanRequest(changes=[ScaleChange(resource, 1)]))
    assert source.asked == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda source, namespace: source.binding("secret-deployment", namespace),
        lambda source, namespace: source.decision("secret-deployment", namespace),
        lambda source, namespace: source.outlook("secret-deployment", namespace),
        lambda source, namespace: source.claims("secret-deployment", namespace),
        lambda source, namespace: source.why_not("a", "secret-deployment", namespace),
        lambda source, namespace: source.recorded_decision("1", "secret-deployment", namespace),
        lambda source, namespace: source.history(namespace, "Deployment", "secret"),
    ],
)
@pytest.mark.parametrize("namespace", ["vault", ""])
def test_a_question_about_another_namespace_is_not_asked(ask, namespace):
    source = GivenSource()
    with pytest.raises(SourceError, match="You may not list bindings") as raised:
        ask(VisibleSource(source, SHOP), namespace)
    assert (raised.value.status, source.asked) == (403, [])


def test_questions_about_lists_carry_the_namespaces():
    source = GivenSource(workloads=None, moves=None, policies=policies(), plan=plan())
    of_shop = VisibleSource(source, SHOP)
    of_shop.workloads(WorkloadQuery(q="web", namespaces=frozenset({"vault"})))
    of_shop.policies(PolicyQuery("web", namespaces=frozenset({"vault"})))
    assert source.asked[0][1][0].namespaces == {"shop"}
    assert source.asked[1][1][0].namespaces == {"shop"}
    of_shop.plan(PlanRequest(namespaces=frozenset({"vault"})))
    assert source.asked[2][1][0].namespaces == {"shop"}
    of_shop.moves()
    assert source.asked[3][2]["namespaces"] == {"shop"}


def test_a_visitor_of_all_namespaces_gets_answers_as_they_are():
    answer = resilience()
    assert visible(Visitor(), resilience=answer).resilience() is answer
