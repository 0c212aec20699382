"""Plans of the service: on what is observed now, and never "nothing moves" because something is not known."""

import threading

import msgspec
import pytest
from extender_services import TEMPLATES, WatchedPlane, refusing
from faults import only, refuse
from karmada_plane import binding, cluster, deployment, policy, resource, selector, shop, store
from kube_in_memory import KubeInMemory
from msgspec.structs import replace
from switched_on import ALL_ON
from tables import cases
from waiting import LIMIT_S, wait_for

from berthmaster.manifests import Document, manifests_of
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import Down
from berthmaster.simulation.planner import plan, simulated
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import world_of
from extender.protocols.native.plan import Planner
from extender.protocols.problem import Refusal
from extender.protocols.services import Call
from extender.state.workloads import BindingOptions

MOVED = {"clusterAffinity": {"clusterNames": ["member3"]}}
BROKEN = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}


class Plane(WatchedPlane):
    def __init__(self, before=lambda _: None, options=TEMPLATES):
        super().__init__(KubeInMemory(), options)
        self.api.before = before
        shop(self.api)
        store(self.api, resource("gateway", "Secret", data={}))
        self.planner = Planner()
        self.start()

    def ask(self, *, within_s=LIMIT_S, has_gone=lambda: False, **request):
        call = Call("1", self.clock.passed_s + within_s, has_gone=has_gone)
        return decode_json(PlanAnswer, self.planner.plan(self.services, call, convert(PlanRequest, request)))

    def stored(self):
        return [Document("stored", 0, "", each) for each in self.api.objects.values()]


@pytest.fixture
def plane():
    made = []

    def start(**options):
        made.append(Plane(**options))
        return made[-1]

    yield start
    for each in made:
        each.stop()


def web(placement, **spec):
    return policy(
        "web", selector(name="web"), selector("ConfigMap", "v1", name="settings"), placement=placement, **spec
    )


def resources(answer):
    return {each.resource: each.after for each in answer.plan.moves}


def test_the_plan_is_that_of_the_command(plane):
    running = plane()
    needed = [each for each in running.stored() if each.namespace != "other"]
    changes = ChangeSet(policies=(defaulted(convert(Policy, web(MOVED))),))
    world = world_of(manifests_of(needed, "the control plane"))
    expected = plan(PlanIndex(world, karmada_profile()), changes, running.clock.now())
    answer = running.ask(update=[web(MOVED)])
    assert answer.plan.id == expected.id
    assert resources(answer) == {each.resource: each.after for each in expected.moves}


def test_a_dependency_that_no_policy_selects_begins_to_follow(plane):
    running = plane()
    volumes = [{"name": "v", "configMap": {"name": "unrelated"}}]
    store(running.api, deployment("web", 4, by=web({}), volumes=volumes))
    running.wait(lambda: "volumes" in str(running.services.state.world().find(ResourceName.parse("Deployment/web"))))
    answer = running.ask(update=[web(MOVED, propagateDeps=True)])
    assert resources(answer)["shop/ConfigMap/unrelated"] == {"member3": 0}


def test_a_kind_that_is_not_watched_yet_is_listed_for_the_answer(plane):
    running = plane()
    assert not [each for each in running.api.requests if each.path.endswith("/secrets")]
    answer = running.ask(create=[policy("secrets", selector("Secret", "v1"), placement=MOVED)])
    assert resources(answer) == {"shop/Secret/gateway": {"member3": 0}}


def test_a_kind_that_is_not_served_has_no_resources(plane):
    answer = plane().ask(create=[policy("gone", selector("Gone", "example.com/v1"), placement=MOVED)])
    assert (answer.counts.concerned, answer.plan.complete) == (0, True)


def test_a_process_of_its_own_gives_the_same_plan(plane, monkeypatch):
    monkeypatch.setattr("berthmaster.simulation.planner._REPORTED", 1)
    running, progress = plane(), []
    call, request = Call("1", running.clock.passed_s + LIMIT_S), convert(PlanRequest, {"update": [web(MOVED)]})

    def plan_in(steps):
        monkeypatch.setattr("extender.protocols.native.plan._STEPS", steps)
        return bytes(running.planner.plan(running.services, call, request, lambda *done: progress.append(done)))

    assert plan_in(1000) == plan_in(1)
    assert progress == 2 * [(1, 2), (2, 2)]


def test_a_plan_sees_what_changed_since_the_last_one(plane):
    running = plane()
    first = running.ask(update=[web(MOVED)])
    store(running.api, cluster("member4"), deployment("later", by=web({})))
    running.wait(lambda: "member4" in running.services.state.world().clusters)
    to_new = {"clusterAffinity": {"clusterNames": ["member4"]}}
    assert resources(running.ask(update=[web(to_new)]))["shop/Deployment/web"] == {"member4": 4}
    assert running.ask(update=[web(MOVED)]).plan.id == first.plan.id, "another cluster changes nothing about it"


def test_lists_are_limited_and_counts_and_id_are_not(plane):
    running = plane()
    whole, cut = running.ask(update=[web(MOVED)]), running.ask(update=[web(MOVED)], limit=0)
    assert (cut.counts, cut.plan.id, cut.truncated) == (whole.counts, whole.plan.id, True)
    assert (cut.plan.moves, cut.plan.clusters, cut.plan.staying) == ([], [], [])


def test_an_invalid_resource_makes_the_answer_incomplete(plane):
    running = plane()
    broken = deployment("broken")
    broken["spec"]["replicas"] = "many"
    store(running.api, broken)
    everything = policy("all", selector(), placement=MOVED)
    running.wait(lambda: not running.ask(create=[everything]).plan.complete)
    [gap] = running.ask(create=[everything]).plan.gaps
    assert "broken" in gap
    assert "replicas" in gap
    assert running.ask(create=[policy("m", selector("ConfigMap", "v1"), placement=MOVED)]).plan.complete, "another kind"


class Reporting(Planner):
    """Reports that 100 of 250 workloads are decided, and then waits."""

    def __init__(self):
        super().__init__()
        self.may_go_on, self.gone = threading.Event(), threading.Event()

    def plan(self, services, call, request, progress=lambda _done, _total: None):
        progress(100, 250)
        while not self.may_go_on.wait(0.01):
            if call.has_gone():
                self.gone.set()
                raise Refusal(503, "the client has gone")
        if request.limit == 7:
            raise RuntimeError("a test wants this error")
        return super().plan(services, call, request)


@pytest.fixture
def reported(plane, monkeypatch):
    """Ask with progress; the second result are the lines of the answer."""
    monkeypatch.setattr("extender.protocols.native.plan._REPORT_S", 0.01)

    def ask(**request):
        running, planner = plane(), Reporting()
        call = Call("1", running.clock.passed_s + LIMIT_S, msgspec.json.encode(request))
        return planner, map(msgspec.json.decode, planner.lines(running.services, call).body), running

    return ask


def test_a_plan_says_how_far_it_is_and_then_the_answer(reported):
    planner, lines, running = reported(update=[web(MOVED)])
    progress = next(each for each in lines if each["progress"].get("done"))["progress"]
    assert (progress["about"], progress["done"], progress["total"]) == ("the plan", 100, 250)
    planner.may_go_on.set()
    *_, last = lines
    assert last["plan"]["plan"]["id"] == running.ask(update=[web(MOVED)]).plan.id


@cases(
    ("request_fields", "status"),
    {
        "a policy that is not known": ({"update": [policy("unknown", selector(), placement=MOVED)]}, 409),
        "a crash": ({"update": [web(MOVED)], "limit": 7}, 500),
    },
)
def test_a_problem_is_the_last_line(reported, request_fields, status):
    planner, lines, _ = reported(**request_fields)
    planner.may_go_on.set()
    *_, last = lines
    assert last["problem"]["status"] == status


def test_a_plan_whose_client_leaves_ends(plane, monkeypatch):
    monkeypatch.setattr("extender.protocols.native.plan._REPORT_S", 0.01)
    running, planner = plane(), Reporting()
    body = msgspec.json.encode({"update": [web(MOVED)]})
    lines = planner.lines(running.services, Call("1", running.clock.passed_s + LIMIT_S, body)).body
    next(lines)
    lines.close()
    wait_for(planner.gone.is_set)


FORBIDDEN = only(refuse(403, "Forbidden", message="secrets is forbidden"), part="/secrets$")


@cases(
    ("options", "request_fields", "status", "detail"),
    {
        "a kind that may not be listed": (
            {"before": FORBIDDEN},
            {"create": [policy("secrets", selector("Secret", "v1"), placement=MOVED)]},
            503,
            r"Secret of v1 is not listed: .*secrets is forbidden",
        ),
        "no templates": ({"options": BindingOptions()}, {"update": [web(MOVED)]}, 409, "start it with --watch"),
        "an update of a policy that is not observed yet": (
            {},
            {"update": [policy("other", selector(), placement=MOVED)]},
            409,
            "PropagationPolicy shop/other is not known to the service",
        ),
        "a deletion of a policy that is not observed yet": (
            {},
            {"delete": [{"kind": "ClusterPropagationPolicy", "name": "other"}]},
            409,
            "ClusterPropagationPolicy other is not known",
        ),
        "an invalid policy": (
            {},
            {"create": [policy("a", selector(), placement={"clusterAffinity": BROKEN})]},
            400,
            r"create\[0\].spec.placement.clusterAffinity.labelSelector",
        ),
    },
)
def test_what_cannot_be_answered_is_refused(plane, options, request_fields, status, detail):
    with refusing(status, detail):
        plane(**options).ask(**request_fields)


def test_a_stale_state_is_refused(plane):
    running = plane()
    state = running.services.state
    state.mark_stale("the API server is gone", running.clock.now())
    with refusing(503, r"stale since .*: the API server is gone"):
        running.ask(update=[web(MOVED)])


def test_a_plan_ends_when_its_client_has_gone(plane):
    with pytest.raises(Refusal, match="the client has closed the connection"):
        plane().ask(update=[web(MOVED)], has_gone=lambda: True)


def test_a_plan_ends_at_its_deadline(plane):
    running = plane()
    running.clock.tick_s = 1.0
    with refusing(503, "not ready in time"):
        running.ask(update=[web(MOVED)], timeoutMs=3000)
    running.clock.tick_s = 0.0
    assert running.ask(update=[web(MOVED)]).counts.moved


def test_only_a_long_plan_waits_for_another_one_and_not_longer_than_its_time(plane, monkeypatch):
    running = plane()
    with running.planner._policies_turn:  # noqa: SLF001 - another plan would have to run for longer than the test
        assert running.ask(update=[web(MOVED)]).counts.moved
        monkeypatch.setattr("extender.protocols.native.plan._STEPS", 1)
        with pytest.raises(Refusal, match="other plans took all the time"):
            running.ask(update=[web(MOVED)], timeoutMs=300)


DOWN = {"type": "down", "cluster": "member1"}


def changed(**change):
    return {"changes": [change]}


@cases(
    ("request_fields", "path"),
    {
        "no change": ({}, "changes nothing"),
        "twice": ({"update": [web(MOVED)], "create": [web(MOVED)]}, r"update\[0\]: .* named twice"),
        "too many": ({"create": [web(MOVED)] * 101}, "create"),
        "a namespace that the kind does not have": (
            {"create": [{**web(MOVED), "kind": "ClusterPropagationPolicy"}]},
            r"create\[0\].metadata.namespace",
        ),
        "a name alone": ({"delete": [{"kind": "PropagationPolicy", "name": "x"}]}, r"delete\[0\]"),
        "a negative limit": ({"limit": -1}, "limit"),
        "no such cluster": (changed(**{**DOWN, "cluster": "x"}), r"changes\[0\]: there is no cluster 'x'"),
        "no such workload": (
            changed(type="scale", resource="shop/Deployment/none", replicas=1), r"changes\[0\].resource: .*no such"
        ),
        "an unknown effect": (
            changed(type="taint", cluster="member1", taint={"key": "a", "effect": "Never"}),
            r"changes\[0\].taint.effect",
        ),
        "no such taint": (changed(type="untaint", cluster="member1", key="gone"), "has no taint gone"),
        "a change that no plan knows": (changed(type="policy"), "changes"),
    },
)  # fmt: skip
def test_an_invalid_request_names_the_field(plane, request_fields, path):
    with pytest.raises((FieldError, Refusal), match=path):
        plane().ask(**request_fields)


def after_loss(world, now):
    """Where workloads go if member1 fails, by the simulation."""
    compared = simulated(world, ChangeSet(edits=(Down("member1"),)), karmada_profile(), now)
    return {each.resource: each.after.assignment for each in compared.workloads if each.moves}


def test_a_lost_cluster_moves_what_the_simulation_moves(plane):
    running = plane()
    answer = running.ask(changes=[DOWN], failover="on")
    assert resources(answer)
    world = replace(running.services.state.world(), assumptions=ALL_ON)
    assert resources(answer) == after_loss(world, running.clock.now())
    by_default = running.ask(changes=[DOWN]).plan
    assert [each for each in by_default.moves if not each.due and "member1" in each.moves] == []
    assert by_default.loss.lost == ["member1"]
    again, other = running.ask(changes=[DOWN], failover="on"), running.ask(update=[web(MOVED)])
    assert answer.plan.id == again.plan.id != other.plan.id


def test_changes_take_effect_together_with_policies(plane):
    running = plane()
    both = running.ask(
        update=[web(MOVED)], changes=[{"type": "scale", "resource": "shop/Deployment/web", "replicas": 9}]
    )
    assert resources(both)["shop/Deployment/web"] == {"member3": 9}
    lost = running.ask(update=[web(MOVED)], changes=[{"type": "removeCluster", "cluster": "member3"}])
    assert lost.counts.lost + lost.counts.short > 0, "the place that the policy names is gone"


def test_a_scale_alone_concerns_only_its_workload(plane):
    running = plane()
    answer = running.ask(changes=[{"type": "scale", "resource": "shop/Deployment/web", "replicas": 7}])
    assert (answer.counts.concerned, [each.resource for each in answer.plan.moves]) == (1, ["shop/Deployment/web"])
    assert sum(resources(answer)["shop/Deployment/web"].values()) == 7
    assert "from 4 to 7" in answer.plan.moves[0].reason


def test_a_plan_of_clusters_does_not_delay_the_plans_of_reviews(plane):
    running = plane()
    with running.planner._clusters_turn:  # noqa: SLF001 - another plan would have to run for longer than the test
        assert running.ask(update=[web(MOVED)]).counts.moved
        with pytest.raises(Refusal, match="other plans took all the time"):
            running.ask(changes=[DOWN], timeoutMs=1)


def test_an_invalid_resource_of_any_kind_makes_a_plan_of_clusters_incomplete(plane):
    running = plane()
    broken = deployment("broken", by=web({}))
    broken["spec"]["replicas"] = "many"
    store(running.api, broken)
    running.wait(lambda: not running.ask(changes=[DOWN]).plan.complete)
    assert [each for each in running.ask(changes=[DOWN]).plan.gaps if "broken" in each]


def test_a_prepared_index_is_up_to_date_before_the_first_plan(plane, monkeypatch):
    indexed, index_of = [], Planner.index_of

    def recorded(plans, world, profile):
        indexed.append(index_of(plans, world, profile))
        return indexed[-1]

    monkeypatch.setattr(Planner, "index_of", recorded)
    running = plane()
    assert not running.planner.is_prepared
    running.planner.prepare(running.services)
    running.planner.prepare(running.services)
    assert (running.planner.is_prepared, len(indexed)) == (True, 1), "nothing has changed"
    version = running.services.state.version
    web = policy("web", selector(name="web"), selector("ConfigMap", "v1", name="settings"))
    store(running.api, binding(deployment("web", 4, by=web), web, member3=4))
    running.wait(lambda: running.services.state.version != version)
    running.planner.prepare(running.services)
    assert indexed[1] is indexed[0]
    assert dict(+indexed[1].pods) == {"member3": 4}


def test_without_workloads_no_index_is_prepared(plane):
    running = plane(options=BindingOptions())
    running.planner.prepare(running.services)
    assert not running.planner.is_prepared
