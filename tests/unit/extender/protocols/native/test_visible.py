"""What readers of few namespaces see."""

import pytest
from builders import binding, cluster, policy
from console_answers import binding_explanation, binding_view
from extender_services import services_of
from tables import cases

from berthmaster.ledger.records import HistoryRow, PastExplanation
from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.model.decode import encode_json
from berthmaster.model.placement import Placement
from berthmaster.model.readers import ANY_READER, Reader
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.native_api.why import ImpactView
from berthmaster.native_api.wire import RequiringBinding
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation import plan_answer as plans
from berthmaster.simulation.changes import Down
from berthmaster.simulation.failures import FailureDomain
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from berthmaster.views.policy_rows import PolicyRow, TakeoverRow
from extender.protocols.native import routes
from extender.protocols.native import visible as answers
from extender.protocols.native.bindings import described, explained
from extender.protocols.native.plan import Planner
from extender.protocols.problem import Refusal
from extender.protocols.services import Call
from extender.state.state import NO_SOURCE

SHOP = Reader(frozenset({"shop"}))
BOTH = ["shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"]
TAKEOVERS = [TakeoverRow(each, "a", "b", "") for each in BOTH]
POLICY = PolicyRow(
    "PropagationPolicy", "shop", "web", 0, "Never", "s", [], [], False, 3, BOTH, [], TAKEOVERS, TAKEOVERS, []  # noqa: FBT003
)  # fmt: skip
IMPACT = ImpactView(
    FailureDomain.CLUSTER, "a", ("a",), BOTH, BOTH, BOTH, moved=3, replicas=3, arriving={}, overcommitted={}
)
ROW = HistoryRow("1", "t", "decision", "shop", "Deployment", "web")
EXPLANATION = binding_explanation(follows=BOTH, followed_by=BOTH, missing=BOTH)
BINDING = binding_view(required_by=[RequiringBinding(each, f"web-{each}", {}) for each in ("shop", "vault-secret")])


@cases(
    ("visible", "answer"),
    {
        "a policy": (answers.visible, POLICY),
        "a failure": (answers.visible, IMPACT),
        "a binding": (answers.visible_binding, BINDING),
        "a decision": (answers.visible_decision, EXPLANATION),
        "a record": (answers.visible_record, PastExplanation(ROW, EXPLANATION, reproduced=True)),
    },
)
def test_an_answer_names_nothing_of_other_namespaces(visible, answer):
    text = encode_json(visible(answer, SHOP)).decode()
    assert "secret" not in text
    assert "shop" in text
    assert visible(answer, ANY_READER) == answer


def changes():
    return [plans.ClaimChange(each, None, None) for each in BOTH]


def plan():
    moves = [plans.PlannedMove(each, *[None] * 4, {}, {}, {}, 1, [], [], [], Trigger.NONE, "why") for each in BOTH]
    effects = [
        plans.PolicyEffect(f"PropagationPolicy {namespace}", "created", 0, changes(), changes(), changes(), changes())
        for namespace in ("shop/web", "vault/secret")
    ]
    unplaced = [plans.UnplacedWorkload(each, None, True, True, "why") for each in BOTH]  # noqa: FBT003
    staying = [plans.StayingWorkload(each, None, plans.StayReason.LAZY, "why") for each in BOTH]
    return plans.Plan(
        "id", plans.PlanSummary(3, 3, 3, BOTH, BOTH, BOTH), 3, 0, complete=True, gaps=[], policies=effects,
        unplaced=unplaced, moves=moves, overcommitted=[], clusters=[], staying=staying,
    )  # fmt: skip


def test_only_rows_of_the_namespaces_of_the_reader_stay():
    text = encode_json(answers.visible_plan(plan(), SHOP)).decode()
    assert "secret" not in text
    assert "shop/Deployment/web" in text


def test_the_id_and_the_totals_are_about_all_workloads():
    seen = answers.visible_plan(plan(), SHOP)
    assert (seen.id, seen.summary.moved, seen.concerned, len(seen.moves)) == ("id", 3, 3, 1)


def test_a_reader_of_all_namespaces_gets_the_plan_as_it_is():
    made = plan()
    assert answers.visible_plan(made, ANY_READER) is made


@pytest.fixture
def services():
    placed = binding()
    return services_of(World({"a": cluster("a")}, [SimulatedWorkload(placed.spec.resource, (), placed)]))


def decision(services):
    return explained(services, ("default", "web-deployment"))


def known(services):
    return described(services, ("default", "web-deployment"))


def planned(**asked):
    def ask(services):
        call = Call("1", deadline_s=services.clock.passed_s + 60)
        return Planner().plan(services, call, PlanRequest(**asked))

    return ask


UNWATCHED_POLICY = planned(create=(policy(),))


@cases(
    ("watched", "ask", "advice"),
    {
        "a decision": (["clusters"], decision, "start it with --watch clusters,bindings"),
        "a binding": (["clusters"], known, "start it with --watch clusters,bindings"),
        "a change": (["clusters", "policies"], planned(changes=(Down("a"),)), "--watch clusters,bindings"),
        "a change of a policy": (
            ["clusters", "bindings"],
            UNWATCHED_POLICY,
            "--watch clusters,policies,bindings,workloads",
        ),
        "nodes": (["nodes"], decision, "--watch clusters,bindings on Karmada's API server instead of nodes"),
    },
)
def test_what_is_not_watched_is_refused(services, watched, ask, advice):
    services.state.watched = watched
    with pytest.raises(Refusal) as refused:
        ask(services)
    assert refused.value.status == 409
    assert advice in refused.value.detail
    assert f"the service watches {', '.join(watched)}" in refused.value.detail


@pytest.mark.parametrize(
    "route",
    [each for each in routes() if each.method == "GET" and each.path.startswith("/v1/")],
    ids=lambda each: each.path,
)
def test_without_a_source_every_answer_says_so(route):
    services = services_of()
    services.state.has_source = False
    values = {"namespace": "default", "name": "web-deployment", "record": "1"}
    with pytest.raises(Refusal) as refused:
        route.handler(services, Call("1", services.clock.passed_s + 60, query={"cluster": "a"}, path_values=values))
    assert refused.value.status == 409
    no_ledger = "the extender has no ledger; start it with --ledger (chart: ledger.secretName)"
    assert refused.value.detail in {NO_SOURCE, no_ledger}


def test_an_explanation_does_not_change_where_peers_are(services):
    groups = WorkloadAffinityGroups(affinity_group="app=shop")
    placed = binding("shop", replicas=1, placement=Placement(), clusters={}, workload_affinity_groups=groups)
    with services.state.updating(services.clock.now()) as cache:
        cache.replace(World({"a": cluster("a")}, [SimulatedWorkload(placed.spec.resource, (), placed)]))
    answer = explained(services, ("default", "shop-deployment"))
    assert answer.clusters, "the scheduler would place it"
    with services.state.reading() as cache:
        assert not cache.scheduler.peers.of("affinity", "default", "app=shop", except_for="")
