"""Bindings and moves."""

import json

import pytest
from extender_services import WatchedPlane, asked, refusing, route_of, services_of
from karmada_plane import binding, cluster, deployment, policy, selector, serve_karmada, store
from kube_in_memory import KubeInMemory
from msgspec.structs import replace

from berthmaster.deciding.lease_record import SOURCES, SourcesRecord, text_of
from berthmaster.model.move import MOVE
from berthmaster.native_api.why import FreeAmount, MovesView, Room
from extender.protocols.native.bindings import binding_outlook, binding_overview, described, room_of
from extender.protocols.problem import Refusal
from extender.protocols.services import Call
from extender.state.folder import FolderSource

GROUPS = {"clusterAffinities": [{"affinityName": name, "clusterNames": [name]} for name in ("first", "second")]}


@pytest.fixture
def services():
    """A service that watches one binding, whose policy has changed since it was written."""
    plane = WatchedPlane(KubeInMemory())
    serve_karmada(plane.api)
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
    store(plane.api, *members, after, template, stored)
    plane.start()
    yield plane.services
    plane.stop()


def test_a_stored_binding_is_shown_as_stored(services):
    known = described(services, ("shop", "web-deployment"))
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
    with refusing(404, "there is no binding 'shop/other-deployment'"):
        described(services, ("shop", "other-deployment"))


def test_the_outlook_is_about_the_placement_that_is_written_next(services):
    found = binding_outlook(services, ("shop", "web-deployment"), "")
    assert [(each.group, each.matched) for each in found.groups] == [(None, 2)]
    assert [each.cluster for each in found.diagnosis.clusters] == ["first", "second"]
    assert (found.move, found.gaps, found.staleness.stale_since) == (None, [], None)


def test_the_outlook_refuses_an_unknown_group(services):
    with refusing(404, "there is no group 'third'"):
        binding_outlook(services, ("shop", "web-deployment"), "third")


def overview(services, **query):
    path = {"namespace": "shop", "name": "web-deployment"}
    return binding_overview(services, Call("1", 1e9, query=query, path_values=path))


def test_an_overview_has_the_parts_and_why_one_is_missing(services, monkeypatch):
    def refused(*_arguments):
        raise Refusal(400, "too many groups")

    found = overview(services, namespaces="pay")
    assert (found.binding.name, found.binding.required_by, found.missing) == ("web-deployment", [], {})
    assert found.decision is not None
    assert found.outlook is not None
    assert found.claims is not None
    monkeypatch.setitem(binding_overview.__globals__, "explained", refused)
    found = overview(services)
    assert (found.decision, found.missing) == (None, {"decision": "too many groups"})
    with pytest.raises(Refusal, match="there is no group"):
        overview(services, group="third")


def test_a_shortened_overview_counts_clusters_and_says_what_is_free_for_what_has_no_place(services):
    found = overview(services, group="", clusters="1")
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


HELD = policy("web", selector(), placement={})
WEB, API = deployment("web", 4, by=HELD), deployment("api", 4, by=HELD)
SURGING = {"reason": "Failback", "phase": "Surging", "source": {"a": 4}, "target": {"b": 4}}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"namespace": "karmada-system", "name": "berthmaster-controllers"},
}


def moved(template, move):
    found = binding(template, HELD, a=4, b=4)
    found["metadata"]["annotations"][MOVE] = json.dumps(move)
    return found


@pytest.fixture
def ask(tmp_path):
    def send(*objects, watched=None, **query):
        for number, each in enumerate([cluster("a"), cluster("b"), HELD, *objects]):
            (tmp_path / f"{number}.json").write_text(json.dumps(each))
        services = services_of()
        FolderSource([tmp_path], services.clock, pytest.fail).look(services.state)
        services.state.watched = watched
        return asked(services, route_of("/v1/moves"), MovesView, **query)

    return send


def test_moves_budgets_and_brake_come_from_bindings_and_lease(ask):
    found = ask(WEB, moved(WEB, SURGING), LEASE)
    (row,) = found.moves
    assert (row.workload, row.namespace, row.binding) == ("shop/Deployment/web", "shop", "web-deployment")
    assert (found.counts, found.brake.engaged, found.gaps) == ({"moving": 1}, False, [])
    assert [(each.name, each.moves) for each in found.budgets] == [("default", 1)]
    assert found.version


def test_a_percentage_of_a_budget_is_of_the_replicas_of_all_bindings_of_the_scheduler(ask):
    sources = SourcesRecord(budgets=({"name": "share", "replicasPercent": 50},), scheduler="default-scheduler")
    recorded = {**LEASE, "metadata": {**LEASE["metadata"], "annotations": {SOURCES: text_of(sources)}}}
    (budget,) = ask(WEB, moved(WEB, SURGING), API, binding(API, HELD, a=6), recorded).budgets
    assert (budget.moves, budget.replicas, budget.replicas_moving) == (1, 10, 4)


def test_without_a_lease_brake_and_budgets_are_unknown(ask):
    found = ask(WEB, moved(WEB, SURGING))
    assert (found.brake.engaged, found.budgets) == (None, None)
    assert [each for each in found.gaps if "the manifests have no Lease" in each]


def test_namespaces_and_a_limit_select_rows(ask):
    both = [WEB, moved(WEB, SURGING), API, moved(API, SURGING), LEASE]
    assert len(ask(*both, limit="1").moves) == 1
    assert ask(*both, namespaces="other,-").moves == ask(*both, namespaces="").moves == []
    assert len(ask(*both, namespaces="other,shop").moves) == 2


def test_unknown_policies_are_a_gap_and_unknown_bindings_a_refusal(ask):
    found = ask(WEB, moved(WEB, SURGING), LEASE, watched=["clusters", "bindings"])
    assert [each for each in found.gaps if "policies are not watched" in each]
    with pytest.raises(Refusal, match="--watch clusters,bindings"):
        ask(LEASE, watched=["clusters"])
