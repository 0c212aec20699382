"""A binding as the service shows it: what the control plane stores, without a decision."""

import logging

import pytest
from fake_clock import FakeClock
from karmada_plane import binding, cluster, deployment, policy, selector, serve_karmada, store
from kube_in_memory import KubeInMemory
from msgspec.structs import replace
from waiting import wait_for

from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES
from berthmaster.model.reader import ANY_READER, Reader
from berthmaster.native_api.outlook import FreeAmount, Room
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.native.bindings import described
from extender.protocols.native.outlook import binding_outlook, room_of
from extender.protocols.native.routes import binding_overview
from extender.protocols.problem import Refusal
from extender.protocols.services import Services
from extender.state.state import State
from extender.state.watch import BindingOptions, WatchSource

GROUPS = {"clusterAffinities": [{"affinityName": name, "clusterNames": [name]} for name in ("first", "second")]}


@pytest.fixture
def services():
    """A service that watches one binding, whose policy has changed since it was written."""
    api, clock, state = KubeInMemory(), FakeClock(), State(karmada_profile())
    serve_karmada(api)
    before = policy("web", selector(name="web"), placement=GROUPS)
    template = deployment("web", 4, by=before)
    stored = binding(template, before, second=4)
    stored["spec"] |= {
        "gracefulEvictionTasks": [{"fromCluster": "first", "producer": "x", "reason": "Drained"}],
        "requiredBy": [{"namespace": "shop", "name": "app-deployment", "clusters": [{"name": "second"}]}],
    }
    stored["status"] |= {
        "schedulerObservingAffinityName": "second",
        "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success"}],
    }
    after = policy("web", selector(name="web"), placement={}, schedulerName="other")
    members = [cluster("first"), cluster("second")]
    for number, each in enumerate(members):
        each["status"]["resourceSummary"]["allocated"] = {"cpu": f"{number + 1}", "pods": "1"}
    store(api, *members, after, template, stored)
    source = WatchSource(lambda: api, KARMADA_CLUSTERS, KARMADA_POLICIES, BindingOptions(templates=True), clock=clock)
    source.start(state)
    wait_for(lambda: state.freshness.synced, lambda: state.freshness)
    yield Services(state, metrics=None, log=logging.getLogger("test"), clock=clock)
    api.cut_watches()
    source.stop()


def test_a_stored_binding_is_shown_as_stored(services):
    known = described(services, "shop", "web-deployment")
    assert (known.policy, known.groups, known.observed_group) == (
        "PropagationPolicy shop/web",
        ["first", "second"],
        "second",
    )
    assert (known.clusters, known.replicas, known.present) == ({"second": 4}, 4, True)
    assert known.scheduler == "default-scheduler", "of the binding, not of the policy that will change it"
    assert [(each.from_cluster, each.reason) for each in known.eviction_tasks] == [("first", "Drained")]
    assert [(each.name, each.clusters) for each in known.required_by] == [("app-deployment", {"second": 0})]
    assert [(each.type, each.status) for each in known.conditions] == [("Scheduled", "True")]
    assert (known.gaps, known.staleness.stale_since) == ([], None)


def test_an_unknown_binding_is_refused(services):
    with pytest.raises(Refusal, match="there is no binding 'shop/other-deployment'") as refused:
        described(services, "shop", "other-deployment")
    assert refused.value.status == 404


def test_the_outlook_is_about_the_placement_that_is_written_next(services):
    found = binding_outlook(services, "shop", "web-deployment", "")
    assert [(each.group, each.matched) for each in found.groups] == [(None, 2)]
    assert [each.cluster for each in found.diagnosis.clusters] == ["first", "second"]
    assert (found.move, found.gaps, found.staleness.stale_since) == (None, [], None)


def test_the_outlook_refuses_an_unknown_group(services):
    with pytest.raises(Refusal, match="there is no group 'third'") as refused:
        binding_outlook(services, "shop", "web-deployment", "third")
    assert refused.value.status == 404


def test_an_overview_has_the_parts_and_why_one_is_missing(services, monkeypatch):
    def refused(*_arguments):
        raise Refusal(400, "too many groups")

    found = binding_overview(services, "shop", "web-deployment", None, Reader(frozenset({"pay"})))
    assert (found.binding.name, found.binding.required_by, found.missing) == ("web-deployment", [], {})
    assert found.decision is not None
    assert found.outlook is not None
    assert found.claims is not None
    monkeypatch.setitem(binding_overview.__globals__, "explained", refused)
    found = binding_overview(services, "shop", "web-deployment", None, ANY_READER)
    assert (found.decision, found.missing) == (None, {"decision": "too many groups"})
    with pytest.raises(Refusal, match="there is no group"):
        binding_overview(services, "shop", "web-deployment", "third", ANY_READER)


def test_a_shortened_overview_counts_clusters_and_says_what_is_free_for_what_has_no_place(services):
    found = binding_overview(services, "shop", "web-deployment", "", ANY_READER, 1)
    for group in (*found.decision.diagnosis.groups, found.outlook.diagnosis):
        assert [each.cluster for each in group.clusters] == ["second"]
        assert [(each.plugin, each.clusters) for each in group.totals.rejected] == [("ClusterEviction", ["first"])]
    assert found.room is None, "all replicas have a place"
    short = replace(found.binding, clusters={"second": 3})
    free = {each.name: each.status.resource_summary.allocatable["cpu"].milli_value() for each in members_of(services)}
    assert room_of(services, short, [None]) == Room(
        passing=True, free={"cpu": FreeAmount("second", free["second"] - 2000)}
    )
    assert room_of(services, short, []) == Room(passing=False, free={"cpu": FreeAmount("first", free["first"] - 1000)})
    assert room_of(services, replace(short, requests={}), [None]) is None


def members_of(services):
    with services.state.reading() as cache:
        return [each for each in cache.fleet.clusters if each is not None]
