"""Questions about one binding: which policy holds it and why, and why it does not run on a cluster."""

import logging
from dataclasses import replace

import msgspec
import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from karmada_plane import binding, cluster, deployment, policy, selector

from berthmaster.manifests import Document, manifests_of
from berthmaster.native_api.why import ClaimsView, WhyNotView
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.world import world_of
from extender.protocols import native
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.state.state import State

HELD = policy("web", selector(name="web"), placement={"clusterAffinity": {"clusterNames": ["first"]}})
OTHER = policy("other", selector(), priority=5, placement={})
CLUSTER_WIDE = policy("all", selector(), namespace="", preemption="Always", priority=9)
WEB = {"namespace": "shop", "name": "web-deployment"}


def world(*policies, claimed=True, **spec):
    template = deployment("web", 4, by=HELD if claimed else None)
    stored = binding(template, HELD, first=4)
    stored["spec"] |= spec
    if not claimed:
        stored["metadata"] |= {"labels": {}, "annotations": {}}
    objects = [cluster("first"), cluster("second"), template, stored, *policies]
    return world_of(manifests_of([Document("test", 0, "", each) for each in objects], "test"))


@pytest.fixture
def ask():
    clock, state = FakeClock(), State(karmada_profile())
    services = Services(state, FakeMetrics(), logging.getLogger("test"), clock)
    routes = {each.path: each for each in native.routes()}

    def send(path, kind, *policies, within_s=60.0, values=WEB, served=None, **query):
        with state.updating(clock.now()) as cache:
            cache.replace(served or world(*(policies or (HELD, OTHER, CLUSTER_WIDE))))
        call = Call("1", clock.passed_s + within_s, query=query, path_values=values)
        reply = routes[f"/v1/bindings/{{namespace}}/{{name}}/{path}"].handler(services, call)
        return msgspec.json.decode(reply.body, type=kind)

    send.clock, send.state = clock, state
    return send


def test_a_claim_says_who_holds_and_why_the_others_do_not(ask):
    found = ask("claims", ClaimsView)
    assert (found.resource, found.holder) == ("shop/Deployment/web", "PropagationPolicy shop/web")
    assert "a claim lasts" in found.why
    assert [(each.policy, each.holds, each.matched_by, bool(each.why_not)) for each in found.claims] == [
        ("PropagationPolicy shop/web", True, "name", False),
        ("PropagationPolicy shop/other", False, "kind", True),
        ("ClusterPropagationPolicy all", False, "kind", True),
    ]
    assert "does not preempt" in found.claims[1].why_not


@pytest.mark.parametrize(
    ("served", "holder", "why"),
    [
        pytest.param(world(OTHER), "PropagationPolicy shop/web", "not among the known ones", id="an unknown holder"),
        pytest.param(world(OTHER, HELD, claimed=False), "PropagationPolicy shop/other", "ranks first", id="no record"),
        pytest.param(world(claimed=False), None, "no policy", id="no policy"),
    ],
)
def test_the_reason_of_a_claim_is_true_without_a_record_or_a_policy(ask, served, holder, why):
    found = ask("claims", ClaimsView, served=served)
    assert found.holder == holder
    assert why in found.why


def test_why_not_names_the_smallest_change(ask):
    found = ask("why-not", WhyNotView, cluster="second")
    assert (found.taken, found.record) == (False, None)
    assert "second" in found.clusters
    assert any("second" in each for each in found.reasons)
    assert found.changes
    assert ask("why-not", WhyNotView, cluster="first").taken


def test_why_not_sees_the_fleet_as_it_is_now(ask):
    ask("why-not", WhyNotView, cluster="second")
    before = world(HELD)
    smaller = replace(before, clusters={"first": before.clusters["first"]})
    with pytest.raises(Refusal, match="there is no cluster 'second'") as refused:
        ask("why-not", WhyNotView, cluster="second", served=smaller)
    assert refused.value.status == 404
    assert ask("why-not", WhyNotView, cluster="second").changes, "the cluster is back"


@pytest.mark.parametrize(
    ("values", "served", "query", "status", "problem"),
    [
        pytest.param(WEB, None, {}, 400, "the name of a cluster is required", id="no cluster"),
        pytest.param(WEB, None, {"cluster": "nowhere"}, 404, "there is no cluster 'nowhere'", id="an unknown cluster"),
        pytest.param(
            {**WEB, "name": "x-deployment"}, None, {"cluster": "first"}, 404, "no binding", id="an unknown binding"
        ),
        pytest.param(
            WEB, world(HELD, suspension={"scheduling": True}), {"cluster": "first"}, 409, "no scheduler places",
            id="a suspended workload",
        ),
        pytest.param(WEB, None, {"cluster": "first", "record": "1.1"}, 409, "has no ledger", id="no ledger"),
    ],
)  # fmt: skip
def test_a_question_that_has_no_answer_is_refused(ask, values, served, query, status, problem):
    with pytest.raises(Refusal, match=problem) as refused:
        ask("why-not", WhyNotView, values=values, served=served, **query)
    assert refused.value.status == status


def test_a_search_ends_at_its_deadline_and_leaves_the_fleet_as_it_was(ask):
    ask.clock.tick_s = 1.0
    with pytest.raises(Refusal, match="not ready in time"):
        ask("why-not", WhyNotView, cluster="second", within_s=6.0)
    ask.clock.tick_s = 0.0
    assert not ask("why-not", WhyNotView, cluster="second").taken


def test_a_question_does_not_change_the_fleet_of_other_requests(ask):
    ask("why-not", WhyNotView, cluster="second")
    with ask.state.reading() as cache:
        assert {name: cache.fleet.get(name) for name in cache.world.clusters} == cache.world.clusters
