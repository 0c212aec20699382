"""The fleet in use, and its workloads, as the API answers."""

import pytest
from builders import binding as typed_binding
from builders import cluster as typed_cluster
from builders import quantities
from extender_services import WatchedPlane, services_of
from karmada_plane import binding, cluster, deployment, policy, selector, serve_karmada, store
from kube_in_memory import KubeInMemory
from tables import cases

from berthmaster.kube.kinds import NODES
from berthmaster.kube.requests import APIRequest
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.readers import Reader
from berthmaster.native_api.fleet import FleetAmount, Restriction, SortKey, WorkloadQuery
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.protocols.native.fleet import cluster_row, fleet_view, state_version
from extender.protocols.native.workload_page import query_of, workload_page
from extender.protocols.problem import Refusal
from extender.protocols.services import Call
from extender.state.workloads import BindingOptions

CALL = Call("1", 1e9)
GROUPS = {"clusterAffinities": [{"affinityName": name, "clusterNames": [name]} for name in ("own", "cloud")]}
WEB = policy("web", selector(), placement=GROUPS)
OTHER = policy("other", selector(), namespace="bank", placement={})


def placed(name, replicas, *, group="", by=WEB, **clusters):
    stored = binding(deployment(name, replicas, namespace=by["metadata"]["namespace"], by=by), by, **clusters)
    stored["status"] |= {"schedulerObservingAffinityName": group} if group else {}
    return stored


def refused(name):
    stored = placed(name, 2)
    stored["status"]["conditions"] = [{"type": "Scheduled", "status": "False", "message": "no cluster fits"}]
    return stored


class Watched(WatchedPlane):
    def __init__(self) -> None:
        super().__init__(KubeInMemory(), BindingOptions())
        serve_karmada(self.api)
        late = placed("late", 3, group="cloud", cloud=3)
        late["status"]["aggregatedStatus"] = [{"clusterName": "cloud"}]
        store(
            self.api, cluster("own"), cluster("cloud"), WEB, OTHER,
            placed("first", 2, group="own", own=2), late, refused("refused"), placed("ledger", 1, by=OTHER, own=1),
        )  # fmt: skip

    def page(self, **query):
        return workload_page(self.services, Call("1", 1e9, encode_json(WorkloadQuery(**query))))

    def names(self, **query):
        return [row.name for row in self.page(**query).items]


@pytest.fixture(scope="module")
def watched():
    running = Watched()
    running.start()
    yield running
    running.stop()


def test_clusters_say_what_is_assigned_to_them(watched):
    cloud, own = fleet_view(watched.services, CALL).clusters
    assert (own.workloads, own.replicas, own.by_group, own.without_groups) == (2, 3, [1], 1)
    assert (cloud.workloads, cloud.replicas, cloud.by_group, cloud.without_groups) == (1, 3, [0, 1], 0)
    assert (own.ready, own.ready_message, own.draining) == (True, "", False)


def test_what_a_cluster_does_not_run_yet_is_assumed_on_it(watched):
    cloud, own = fleet_view(watched.services, CALL).clusters
    assert cloud.resources["cpu"] == FleetAmount(allocatable=100_000, used=None, assumed=1500)
    assert (cloud.resources["pods"].assumed, own.resources["cpu"].assumed) == (3, 0)


def test_rows_say_where_workloads_are(watched):
    page = watched.page(sort=SortKey.NAME)
    first, late, _, refused = sorted(page.items, key=lambda row: row.name)
    assert (first.policy, first.group, first.preferred, first.clusters) == (
        "PropagationPolicy shop/web",
        "own",
        True,
        {"own": 2},
    )
    assert (late.state.value, late.group_index, late.preferred) == ("placed", 1, False)
    assert (refused.state.value, refused.message, refused.clusters) == ("nowhere", "no cluster fits", {})
    assert (page.matched, page.total) == (4, 4)
    assert page.version == state_version(watched.services, CALL).version == fleet_view(watched.services, CALL).version


@cases(
    ("query", "names"),
    {
        "all, by namespace and name": ({}, ["ledger", "first", "late", "refused"]),
        "words in any case and order": ({"q": "FIRST shop"}, ["first"]),
        "a part of kind and name": ({"q": "deployment/la"}, ["late"]),
        "a namespace": ({"namespace": "bank"}, ["ledger"]),
        "cluster-scoped workloads": ({"namespace": "-"}, []),
        "visible namespaces": ({"namespaces": frozenset({"bank", "-"})}, ["ledger"]),
        "no visible namespace": ({"namespaces": frozenset()}, []),
        "an empty name is no namespace": ({"namespaces": frozenset({""})}, []),
        "a hidden namespace": ({"namespaces": frozenset({"bank"}), "namespace": "shop"}, []),
        "a policy": ({"policy": "PropagationPolicy bank/other"}, ["ledger"]),
        "a cluster": ({"cluster": "own"}, ["ledger", "first"]),
        "a group": ({"group": "cloud"}, ["late"]),
        "a part of a cluster that is not asked for as a part": ({"cluster": "ow"}, []),
        "a part of a cluster": ({"cluster": "OW", "parts": True}, ["ledger", "first"]),
        "a part of a group": ({"group": "clou", "parts": True}, ["late"]),
        "parts": ({"policy": "shop/", "namespace": "ho", "parts": True}, ["first", "late", "refused"]),
        "cluster-scoped workloads, whose dash is no part": ({"namespace": "-", "parts": True}, []),
        "not in the first group": ({"only": frozenset({Restriction.NOT_PREFERRED})}, ["late"]),
        "one of two restrictions": (
            {"only": frozenset({Restriction.NOWHERE, Restriction.NOT_PREFERRED})},
            ["late", "refused"],
        ),
        "by replicas": ({"sort": SortKey.REPLICAS}, ["ledger", "first", "refused", "late"]),
        "descending": ({"sort": SortKey.REPLICAS, "descending": True}, ["late", "first", "refused", "ledger"]),
        "a page": ({"offset": 1, "limit": 2}, ["first", "late"]),
        "after the last page": ({"offset": 9}, []),
    },
)
def test_a_query_selects_sorts_and_pages(watched, query, names):
    assert watched.names(**query) == names


@cases(
    ("query", "expected"),
    {
        "words count everywhere": ({"q": "late"}, {"namespaces": {"shop": 1}, "clusters": {"cloud": 1}}),
        "a namespace counts for the other facets": (
            {"namespace": "shop"},
            {"namespaces": {"bank": 1, "shop": 3}, "groups": {"cloud": 1, "own": 1}},
        ),
        "each facet counts what the others accept": (
            {"namespace": "shop", "cluster": "own"},
            {"namespaces": {"bank": 1, "shop": 1}, "clusters": {"cloud": 1, "own": 1}, "groups": {"own": 1}},
        ),
        "restrictions": (
            {"only": frozenset({Restriction.NOT_PREFERRED, Restriction.NOWHERE}), "namespace": "sho", "parts": True},
            {"only": {"not-preferred": 1, "nowhere": 1}, "states": {"nowhere": 1, "placed": 1}},
        ),
        "hidden namespaces count for nothing": (
            {"namespaces": frozenset({"bank"}), "cluster": "own"},
            {"clusters": {"own": 1}, "namespaces": {"bank": 1}},
        ),
    },
)
def test_counts_follow_the_other_filters(watched, query, expected):
    facets = watched.page(**query).facets
    assert {name: {key: n for key, n in getattr(facets, name).items() if n} for name in expected} == expected


def test_totals_and_facets_are_those_of_the_visible_namespaces(watched):
    page = watched.page(namespaces=frozenset({"shop"}), limit=1)
    assert (page.matched, page.total) == (3, 3)
    facets = page.facets
    assert facets.namespaces == {"shop": 3}
    assert facets.clusters == facets.groups == {"cloud": 1, "own": 1}
    assert (facets.states["nowhere"], facets.only["not-preferred"], facets.only["nowhere"]) == (1, 1, 1)
    assert facets.policies == {"PropagationPolicy shop/web": 3}


def test_a_change_is_in_the_next_answer_with_another_version(watched):
    before = watched.page()
    store(watched.api, placed("new", 1, group="own", own=1))
    watched.wait(lambda: state_version(watched.services, CALL).version != before.version)
    assert watched.names(q="new") == ["new"]
    watched.api.send(
        APIRequest("/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/new-deployment", method="DELETE")
    )
    watched.wait(lambda: state_version(watched.services, CALL).version == before.version)
    assert watched.page().items == before.items


def test_files_do_not_say_what_members_run():
    stored = typed_binding(clusters={"a": 1}, requests={"cpu": 1})
    workload = SimulatedWorkload(stored.spec.resource, (), stored, present=True)
    (row,) = fleet_view(services_of(World({"a": typed_cluster("a", cpu=4)}, [workload])), CALL).clusters
    assert (row.workloads, row.resources["cpu"]) == (1, FleetAmount(4000, None, None))


def test_without_bindings_nothing_is_said_about_workloads():
    services = services_of()
    services.state.watched = [NODES.collection.plural]
    with services.state.updating(services.clock.now()) as cache:
        taints = ["policy.berthmaster.io/draining:NoSchedule"]
        cache.apply_cluster(typed_cluster("a", cpu=4, ready=False, taints=taints))
    view = fleet_view(services, CALL)
    (row,) = view.clusters
    assert (row.workloads, row.replicas, row.by_group, row.arriving) == (None, None, None, None)
    assert (row.ready_message, row.draining) == ("its condition Ready is False", True)
    assert cluster_row(Cluster(ObjectMeta("b")), None).ready_message == "it reports no condition Ready"
    assert "bindings are not watched: what is assigned to clusters is not known" in view.gaps[-1]
    with pytest.raises(Refusal, match="start it with --watch clusters,bindings"):
        workload_page(services, CALL)


@cases(
    ("allocated", "used"),
    {
        "a cluster that reports nothing about its pods": ({}, None),
        "no pod requests the resource": ({"pods": 3}, 0),
        "pods request it": ({"pods": 3, "cpu": "1500m"}, 1500),
    },
)
def test_the_used_amount_is_what_the_cluster_reports(allocated, used):
    summary = ResourceSummary(allocatable=quantities({"cpu": 4}), allocated=quantities(allocated))
    assert cluster_row(typed_cluster(resource_summary=summary), None).resources["cpu"].used == used


def test_parameters_become_a_query():
    given = {"sort": "-replicas", "namespaces": "a,-", "only": "moving,short", "offset": "10", "parts": "true"}
    assert query_of(given, Reader(frozenset({"a", "-"}))) == WorkloadQuery(
        sort=SortKey.REPLICAS,
        descending=True,
        namespaces=frozenset({"a", "-"}),
        parts=True,
        only=frozenset({Restriction.MOVING, Restriction.SHORT}),
        offset=10,
    )
