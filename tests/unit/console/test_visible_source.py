"""Questions of a visitor with few namespaces: each carries the namespaces, and names no workload of another one."""

import pytest
from console_source import GivenSource
from tables import cases

from berthmaster.native_api.fleet import WorkloadQuery
from berthmaster.native_api.what_if import PlanRequest, ScaleChange
from berthmaster.native_api.why import DriftQuery, PolicyQuery
from berthmaster.native_api.wire import HistoryQuery
from berthmaster.views.move_rows import MoveQuery
from console.authentication import Visitor
from console.source import SourceError, VisibleSource

THEIRS = "vault/Deployment/secret"
VAULT = frozenset({"vault"})
SHOP = Visitor("ada", "token", (), frozenset({"shop"}))


@pytest.mark.parametrize("resource", [THEIRS, "Deployment/secret"])
def test_replicas_of_workloads_in_other_namespaces_are_not_asked_about(resource):
    source = GivenSource()
    with pytest.raises(SourceError, match="You may not list bindings"):
        VisibleSource(source, SHOP).plan(PlanRequest(changes=[ScaleChange(resource, 1)]))
    assert source.asked == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda source, namespace: source.binding("secret-deployment", namespace),
        lambda source, namespace: source.overview("secret-deployment", namespace),
        lambda source, namespace: source.why_not("a", "secret-deployment", namespace),
        lambda source, namespace: source.recorded_decision("1", "secret-deployment", namespace),
        lambda source, namespace: source.history(HistoryQuery(namespace, "Deployment", "secret")),
    ],
)
@pytest.mark.parametrize("namespace", ["vault", ""])
def test_a_question_about_another_namespace_is_not_asked(ask, namespace):
    source = GivenSource()
    with pytest.raises(SourceError, match="You may not list bindings") as raised:
        ask(VisibleSource(source, SHOP), namespace)
    assert (raised.value.status, source.asked) == (403, [])


@cases(
    "ask",
    {
        "workloads": lambda source: source.workloads(WorkloadQuery(q="web", namespaces=VAULT)),
        "policies": lambda source: source.policies(PolicyQuery("web", namespaces=VAULT)),
        "a plan": lambda source: source.plan(PlanRequest(namespaces=VAULT)),
        "moves": lambda source: source.moves(MoveQuery(namespaces=VAULT)),
        "resilience": lambda source: source.resilience(),
        "drift": lambda source: source.drift(DriftQuery("web", namespaces=VAULT)),
        "a binding": lambda source: source.binding("web-deployment", "shop"),
        "an overview": lambda source: source.overview("web-deployment", "shop"),
        "a record": lambda source: source.recorded_decision("1", "web-deployment", "shop"),
        "history": lambda source: source.history(HistoryQuery("shop", "Deployment", "web")),
    },
)
def test_a_question_carries_the_namespaces_of_the_visitor(ask):
    answers = "workloads policies plan moves resilience drift binding overview recorded_decision history"
    source = GivenSource(**dict.fromkeys(answers.split()))
    ask(VisibleSource(source, SHOP))
    ((_, arguments, named),) = source.asked
    carried = [named["namespaces"]] if "namespaces" in named else [each.namespaces for each in arguments]
    assert carried == [SHOP.namespaces]
