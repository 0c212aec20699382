"""Why a workload is where it is, and what it waits for."""

from datetime import UTC, datetime

import pytest
from extender_in_process import ExtenderInProcess
from extender_services import asked, refusing, serve, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, resource, selector, shop, store
from kube_in_memory import KubeInMemory
from msgspec.structs import replace
from tables import cases

from berthmaster.deciding.running import hosts_of
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster.model.readers import ANY_READER
from berthmaster.native_api.policies import ClaimsView
from berthmaster.native_api.problems import Damage
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.native_api.why import WhyNotView
from berthmaster.simulation import planner
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.changes import Down
from berthmaster.simulation.plan_answer import StayReason
from berthmaster.simulation.report import row
from berthmaster.simulation.workload import NotScheduled
from extender.protocols import native
from extender.protocols.problem import Refusal
from extender.state.problems import outages

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
    return world_with(cluster("first"), cluster("second"), template, stored, *policies)


@pytest.fixture
def ask():
    services = services_of()
    routes = {each.path.rpartition("/")[2]: each for each in native.routes() if each.path.startswith("/v1/bindings")}

    def send(path, kind, within_s=60.0, values=WEB, served=None, **query):
        serve(services, served or world(HELD, OTHER, CLUSTER_WIDE))
        return asked(services, routes[path], kind, within_s=within_s, values=values, **query)

    send.clock, send.state = services.clock, services.state
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


@cases(
    ("served", "holder", "why"),
    {
        "an unknown holder": (world(OTHER), "PropagationPolicy shop/web", "not among the known ones"),
        "no record": (world(OTHER, HELD, claimed=False), "PropagationPolicy shop/other", "ranks first"),
        "no policy": (world(claimed=False), None, "no policy"),
    },
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
    with refusing(404, "there is no cluster 'second'"):
        ask("why-not", WhyNotView, cluster="second", served=smaller)
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
    with refusing(status, problem):
        ask("why-not", WhyNotView, values=values, served=served, **query)


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


POLICY_API, SCHEDULING_API = "policy.karmada.io/v1alpha1", "scheduling.k8s.io/v1"
KINDS = (
    (POLICY_API, "OverridePolicy", "overridepolicies", True),
    (POLICY_API, "ClusterOverridePolicy", "clusteroverridepolicies", False),
    (SCHEDULING_API, "PriorityClass", "priorityclasses", False),
)
UNCLAIMED = "shop/Deployment/unclaimed"
AWAY = {"clusterAffinity": {"clusterNames": ["member3"]}}
IMAGES = resource("images", "OverridePolicy", POLICY_API, spec={"overrideRules": []})
EVERYWHERE = resource("images", "ClusterOverridePolicy", POLICY_API, namespace="", spec={"overrideRules": []})
HIGH = resource("high", "PriorityClass", SCHEDULING_API, namespace="", value=7)
OVERRIDES = {"dependentOverrides": ["images"]}
PRIORITY = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}


def waiting(namespace="shop", **spec):
    return policy("first", selector(name="unclaimed", namespace="shop"), namespace=namespace, placement=AWAY, **spec)


@pytest.fixture
def extender():
    made = []

    def start(*objects, forbidden=()):
        def refuse(request: APIRequest) -> None:
            plural = request.path.rsplit("/", 1)[-1]
            if plural in forbidden:
                raise ApiError(403, "Forbidden", f"{plural} is forbidden")

        api = KubeInMemory()
        shop(api)
        for *kind, namespaced in (*KINDS, (POLICY_API, "ClusterTaintPolicy", "clustertaintpolicies", False)):
            api.served.add(*kind, namespaced=namespaced)
        store(api, *objects)
        api.before = refuse
        made.append(ExtenderInProcess(api))
        return made[-1], api

    yield start
    for each in made:
        each.stop()


def simulated(running):
    world, state = running.state.world(), running.state
    found = planner.simulated(world, ChangeSet(), state.profile, datetime.now(UTC)).workloads
    return next(row(each.after) for each in found if each.resource == UNCLAIMED), state.gaps(ANY_READER)


@cases(
    ("spec", "namespace", "awaited", "reason"),
    {
        "an OverridePolicy": (OVERRIDES, "shop", IMAGES, NotScheduled.MISSING_OVERRIDES),
        "a ClusterOverridePolicy": (OVERRIDES, "", EVERYWHERE, NotScheduled.MISSING_OVERRIDES),
        "a PriorityClass": (PRIORITY, "shop", HIGH, NotScheduled.NO_PRIORITY),
    },
)
class TestWatched:
    def test_a_stored_policy_waits_until_the_object_exists(self, extender, spec, namespace, awaited, reason):
        running, api = extender(waiting(namespace, **spec))
        after, gaps = simulated(running)
        assert (after.not_scheduled, after.clusters, list(gaps)) == (reason, {}, [])
        before = running.state.version
        store(api, awaited)
        running.wait(lambda: running.state.version != before)
        assert simulated(running)[0].clusters == {"member3": 2}

    def test_a_plan_of_a_new_policy_waits_too(self, extender, spec, namespace, awaited, reason):
        del reason
        (without, _), (with_it, _) = extender(), extender(awaited)
        plans = [
            each.client().plan(PlanRequest(create=(waiting(namespace, **spec),))).plan for each in (without, with_it)
        ]
        assert [each.complete for each in plans] == [True, True]
        assert [[move.resource for move in each.moves] for each in plans] == [[], [UNCLAIMED]]
        assert [each.reason for each in plans[0].staying] == [StayReason.WAITS]

    def test_what_may_not_be_listed_is_named_and_counts_as_existing(self, extender, spec, namespace, awaited, reason):
        del reason
        forbidden = {plural for _, kind, plural, _ in KINDS if kind == awaited["kind"]}
        running, _ = extender(waiting(namespace, **spec), forbidden=forbidden)
        after, (gap,) = simulated(running)
        assert after.clusters == {"member3": 2}
        assert "policies that wait for such an object count as if it existed" in gap
        edited = waiting(namespace, **spec, priority=1)
        found = running.client().plan(PlanRequest(update=(edited,))).plan
        assert (found.complete, len(found.gaps)) == (False, 1)
        assert "it is not known whether they exist" in found.gaps[0]


def test_overrides_are_watched_in_full_and_priority_classes_as_metadata_if_a_policy_waits_for_one(extender):
    _, api = extender(waiting(**PRIORITY))
    asked = {each.path: each for each in api.requests if each.path.rsplit("/", 1)[-1] in {kind[2] for kind in KINDS}}
    assert {path.rsplit("/", 1)[-1]: "PartialObjectMetadata" in each.accept for path, each in asked.items()} == {
        "overridepolicies": False, "clusteroverridepolicies": False, "priorityclasses": True,
    }  # fmt: skip


def test_an_override_that_sets_replicas_counts_in_each_answer_of_the_service(extender):
    rule = {
        "targetCluster": {"clusterNames": ["member2"]},
        "overriders": {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 0}]},
    }
    web = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}
    running, api = extender()
    before = running.state.version
    store(api, resource("none", "OverridePolicy", POLICY_API, spec={**web, "overrideRules": [rule]}))
    running.wait(lambda: running.state.version != before)
    client = running.client()
    answers = [client.plan(PlanRequest(changes=(Down(each),))) for each in ("member1", "member2")]
    assert [(each.plan.loss.replicas, each.counts.lost) for each in answers] == [(2, 1), (0, 0)]
    shown = client.decision("web-deployment", "shop")
    assert "overrides set its replicas: member2=0" in shown.notes
    with running.state.reading() as cache:
        hosts = hosts_of(cache.world.clusters, frozenset({"member1"}))
    with running.state.placed() as index:
        found = list(
            outages(index.by_name(), hosts._replace(ready=hosts.ready - {"member1"}), running.state.copy_counts())
        )
    assert [(each.placed.text, each.damage, each.replicas) for each in found] == [
        ("shop/deployment/web", Damage.NO_COPY, 2)
    ]


def test_cluster_taint_policies_taint_a_lost_cluster(extender):
    condition = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
    spec = {"addOnConditions": [condition], "taints": [{"key": "lost", "effect": "NoExecute"}]}
    lost = resource("lost", "ClusterTaintPolicy", POLICY_API, namespace="", spec=spec)
    running, api = extender()
    assert running.client().plan(PlanRequest(changes=(Down("member1"),))).plan.assumptions.tainted_by == ()
    before = running.state.version
    store(api, lost)
    running.wait(lambda: running.state.version != before)
    assert running.client().plan(PlanRequest(changes=(Down("member1"),))).plan.assumptions.tainted_by == ("lost",)
