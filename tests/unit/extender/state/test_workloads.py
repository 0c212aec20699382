"""The workloads of a watched control plane are those that the commands build from the same objects."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce

import pytest
from extender_services import TEMPLATES, WatchedPlane
from fake_clock import FakeClock
from faults import only, refuse
from karmada_plane import binding, deployment, policy, resource, selector, shop, store
from kube_in_memory import KubeInMemory
from msgspec.structs import replace
from switched_on import ALL_ON
from tables import cases
from waiting import wait_for

from berthmaster.kube.requests import APIRequest
from berthmaster.kube.watch_options import WatchOptions
from berthmaster.manifests import Document, manifests_of
from berthmaster.model.decode import convert, encode_json
from berthmaster.model.errors import InputError
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.model.readers import ANY_READER
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import Down
from berthmaster.simulation.planner import plan
from berthmaster.simulation.world import world_of
from extender.state.templates import KindName, read_template
from extender.state.watch import watch_source
from extender.state.workloads import BindingOptions, ObservedWorkloads


class Plane(WatchedPlane):
    def __init__(self, options: BindingOptions, before: Callable = lambda _: None) -> None:
        super().__init__(KubeInMemory(), options)
        self.api.before = before
        shop(self.api)

    def wait(self, check: Callable[[], object]) -> None:
        wait_for(check, lambda: (self.workloads(), self.state.staleness, self.state.gaps(ANY_READER)))

    def workloads(self) -> dict[str, dict[str, int]]:
        return {str(each): each.binding.assignment for each in self.state.world().workloads if each.binding is not None}

    def stored(self) -> list[Document]:
        return [Document("stored", 0, "", each) for each in self.api.objects.values()]


@pytest.fixture
def plane():
    made: list[Plane] = []

    def start(options: BindingOptions = TEMPLATES, before: Callable = lambda _: None) -> Plane:
        made.append(Plane(options, before))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()


def test_changes_move_the_same_workloads_as_in_the_command(plane):
    running = plane()
    needed = [each for each in running.stored() if each.name not in {"unclaimed", "unrelated", "cache"}]
    needed = [each for each in needed if each.namespace != "other"]
    profile, now = karmada_profile(), running.clock.now()

    def moved(world):
        found = plan(PlanIndex(world, profile), ChangeSet(edits=(Down("member1"),)), now)
        return sorted(found.moves, key=lambda move: move.resource)

    expected = moved(world_of(manifests_of(needed, "the control plane"), assumptions=ALL_ON))
    assert moved(replace(running.state.world(), assumptions=ALL_ON)) == expected
    assert [move.resource for move in expected] == [
        "ClusterRole/viewer", "shop/ConfigMap/settings", "shop/Deployment/web", "shop/StatefulSet/postgres",
    ]  # fmt: skip
    assert running.state.gaps(ANY_READER) == []


def test_bindings_alone_are_workloads_without_templates(plane):
    running = plane(BindingOptions())
    assert running.workloads() == {
        "shop/Deployment/web": {"member1": 2, "member2": 2},
        "ClusterRole/viewer": {"member1": 0, "member2": 0, "member3": 0},
    }
    assert "templates are not watched: workloads without a binding are missing" in running.state.gaps(ANY_READER)[0]
    assert not [each for each in running.api.requests if "deployments" in each.path]


def test_a_changed_binding_changes_the_world(plane):
    running = plane()
    web = policy("web", selector(name="web"), selector("ConfigMap", "v1", name="settings"))
    store(running.api, binding(deployment("web", 4, by=web), web, member3=4))
    running.wait(lambda: running.workloads()["shop/Deployment/web"] == {"member3": 4})


def test_a_new_kind_is_observed_and_what_is_deleted_goes(plane):
    running = plane()
    widgets = policy("widgets", selector("Widget", "example.org/v1"), namespace="", placement={})
    widget = resource("w", "Widget", "example.org/v1", namespace="")
    store(running.api, widgets, widget, binding(widget, widgets, member1=0))
    running.wait(lambda: "Widget/w" in running.workloads())
    running.wait(lambda: any(str(each) == "Widget/w" and each.template for each in running.state.world().workloads))
    running.api.send(APIRequest("/apis/work.karmada.io/v1alpha2/clusterresourcebindings/w-widget", method="DELETE"))
    running.wait(lambda: not any(each.present for each in running.state.world().workloads if str(each) == "Widget/w"))
    running.api.send(APIRequest("/apis/example.org/v1/widgets/w", method="DELETE"))
    running.wait(lambda: "Widget/w" not in running.workloads())


def test_only_what_changed_is_built_again(plane):
    running = plane()
    before = {str(each): each for each in running.state.world().workloads}
    web = policy("web", selector(name="web"), selector("ConfigMap", "v1", name="settings"))
    store(running.api, binding(deployment("web", 4, by=web), web, member3=4))
    running.wait(lambda: running.workloads()["shop/Deployment/web"] == {"member3": 4})
    after = {str(each): each for each in running.state.world().workloads}
    assert {name for name in after if after[name] is not before[name]} == {"shop/Deployment/web"}


def test_what_stays_after_a_change_of_policies_is_what_is_built_anew(plane):
    running, state = plane(), None
    before = {str(each): each for each in running.state.world().workloads}
    bindings, templates = running.state.observed._bindings, running.state.observed._templates  # noqa: SLF001 - the same observations, without what is kept
    edits = [
        policy("web", selector(name="web"), placement={}),
        policy("first", selector(labelSelector={"matchLabels": {"app": "unclaimed"}}), placement={}),
        policy("everything", selector(), selector("StatefulSet"), namespace="", placement={}, priority=5),
        policy("db", selector("StatefulSet", name="cache"), namespace=""),
        policy("first", selector(name="web"), placement={}, preemption="Always", priority=9),
    ]
    for number, each in enumerate(edits, start=1):
        with running.state.reading() as cache:
            version = cache.policies
        store(running.api, each)
        running.wait(lambda version=version: running.state.world().policies is not version)
        state = running.state.world()
        anew = ObservedWorkloads(bindings, templates).workloads(state.policies, lambda: None)
        assert list(state.workloads) == anew, f"after edit {number}"
    after = {str(each): each for each in state.workloads}
    assert after["ClusterRole/viewer"] is before["ClusterRole/viewer"], "no policy changed that concerns it"


def test_claimants_bring_what_only_they_select(plane):
    running = plane()
    claimant = defaulted(convert(Policy, policy("all", selector(), namespace="")))
    known = {str(each) for each in running.state.world().workloads}
    claimed = {str(each) for each in running.state.world(claimants=[claimant]).workloads}
    assert claimed - known == {"shop/Deployment/unclaimed", "other/Deployment/web"}
    assert {str(each) for each in running.state.world().workloads} == known


class CountedList(list):
    """A list that counts how often something goes over it."""

    rounds = 0

    def __iter__(self):
        self.rounds += 1
        return super().__iter__()


def test_a_plan_of_a_fleet_that_rests_does_not_go_over_all_workloads(plane):
    running, now = plane(), datetime(2026, 1, 1, tzinfo=UTC)
    nowhere = defaulted(convert(Policy, policy("nowhere", selector(name="gone"))))
    world = running.state.world()
    assert running.state.world(claimants=[nowhere]).workloads is world.workloads, "indexes compare nothing"
    counted = CountedList(world.workloads)
    for _ in range(3):
        running.state.assuming(replace(world, workloads=counted), now)
    assert counted.rounds == 1


def test_a_deadline_ends_the_building_and_the_next_call_continues(plane):
    running, calls = plane(), []

    def check():
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        running.state.world(check)
    first = len(calls)
    running.state.world(check)
    total = len(calls) - 1
    assert total > first, "the second call built the rest"
    calls.clear()
    running.state.world(check)
    assert calls == [], "everything is built"


@pytest.mark.parametrize("plural", ["deployments", "configmaps"])
def test_a_kind_that_may_not_be_listed_is_a_gap(plane, plural):
    running = plane(before=only(refuse(403, message=f"{plural} is forbidden"), part=f"/{plural}$"))
    assert len(running.state.gaps(ANY_READER)) == 1
    assert f"{plural} is forbidden" in running.state.gaps(ANY_READER)[0]
    assert "taken from their bindings" in running.state.gaps(ANY_READER)[0]
    assert running.workloads()["shop/Deployment/web"] == {"member1": 2, "member2": 2}


def test_a_kind_that_is_not_served_is_a_gap(plane):
    running = plane()
    gone = policy("gone", selector("Gone", "example.com/v1"), placement={})
    store(running.api, gone)
    running.wait(lambda: running.state.gaps(ANY_READER))
    assert running.state.gaps(ANY_READER)[0].startswith("Gone of example.com/v1 is not served")


def test_bindings_that_may_not_be_listed_keep_the_state_from_being_ready():
    forbidden = refuse(403, message="resourcebindings is forbidden")
    running = Plane(BindingOptions(), only(forbidden, part="/resourcebindings$"))
    running.source.start(running.state)
    try:
        running.wait(lambda: "resourcebindings is forbidden" in running.state.staleness.problem)
        assert not running.state.staleness.synced
    finally:
        running.source.stop()


def test_secrets_are_read_as_metadata(plane):
    running = plane()
    secrets = policy("secrets", selector("Secret", "v1"), placement={})
    store(running.api, secrets, resource("password", "Secret", data={"key": "c2VjcmV0"}))
    running.wait(lambda: "shop/Secret/password" in running.workloads())
    found = next(each for each in running.state.world().workloads if str(each) == "shop/Secret/password")
    assert set(found.template) == {"apiVersion", "kind", "metadata"}
    accepted = {each.accept for each in running.api.requests if each.path == "/api/v1/secrets"}
    assert all("PartialObjectMetadata" in each for each in accepted)


def test_templates_keep_what_decisions_read():
    raw = (
        b'{"metadata":{"name":"web","namespace":"shop","uid":"1","resourceVersion":"7","managedFields":[{}],'
        b'"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"replicas":2,"template":'
        b'{"spec":{"containers":[{"name":"web","image":"x","env":[{"name":"A","value":"b"}],'
        b'"resources":{"requests":{"cpu":"1"}}}]}}},"status":{"readyReplicas":2}}'
    )
    found = read_template(KindName("apps/v1", "Deployment"), raw)
    other = read_template(KindName("apps/v1", "Deployment"), raw.replace(b'"name":"web","n', b'"name":"api","n'))
    assert other.raw["spec"] is found.raw["spec"], "templates share what is equal"
    assert found.raw == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "annotations": {}},
        "spec": {
            "replicas": 2,
            "template": {"spec": {"containers": [{"name": "web", "env": [], "resources": {"requests": {"cpu": "1"}}}]}},
        },
    }


def test_a_template_keeps_who_owns_it():
    raw = b'{"metadata":{"name":"web","annotations":{"a8r.io/owner":"@shop","example.org/note":"secret"}}}'
    kept = read_template(KindName("apps/v1", "Deployment"), raw, owner="a8r.io/owner")
    assert kept.raw["metadata"]["annotations"] == {"a8r.io/owner": "@shop"}
    assert read_template(KindName("apps/v1", "Deployment"), raw).raw["metadata"]["annotations"] == {}


def test_a_template_of_any_depth_is_read_as_it_is():
    spec = reduce(lambda inner, _: {"a": [inner, 1, 1.0, True, None]}, range(50), "end")
    raw = encode_json({"metadata": {"name": "web"}, "spec": spec})
    assert encode_json(read_template(KindName("example.io/v1", "Web"), raw).raw["spec"]) == encode_json(spec)


@cases(
    ("kinds", "expected"),
    {
        "bindings need clusters": (("bindings",), ("clusters", "bindings")),
        "workloads need policies and bindings": (("workloads",), ("clusters", "policies", "bindings", "workloads")),
        "nothing else": (("nodes", "policies"), ("nodes", "policies")),
    },
)
def test_kinds_imply_what_they_need(kinds, expected):
    assert WatchOptions(kinds).all_kinds == expected


def test_bindings_are_not_those_of_another_control_plane():
    with pytest.raises(InputError, match="bindings and workloads are those of Karmada and need clusters"):
        watch_source(WatchOptions(("federatedclusters", "bindings")), FakeClock())
