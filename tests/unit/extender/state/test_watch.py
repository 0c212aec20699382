"""A state that is updated from an API server."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from fake_clock import FakeClock
from karmada_plane import cluster, policy, selector
from kube_in_memory import KubeInMemory
from kube_scheduler_builders import node
from scripted_server import CUT, HOLD, ScriptedServer, bookmark, event, page
from tables import cases
from waiting import wait_for

from berthmaster.kube import listing, reflector
from berthmaster.kube.connection_settings import ConnectionSettings
from berthmaster.kube.http_client import HTTPClient
from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES, NODES, Watched
from berthmaster.kube.requests import APIRequest
from berthmaster.kube.source_check import UNCONFIRMED_S
from berthmaster.kube.watch_options import CLUSTER_KINDS, WatchOptions
from berthmaster.model.errors import ApiError, InputError
from berthmaster.model.readers import ANY_READER
from berthmaster.native_api.wire import Staleness
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling import fleet as columns
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.state.state import FleetCache, State
from extender.state.watch import WatchSource, watch_source
from extender.state.workloads import BindingOptions


def versioned(thing: dict, version: int) -> dict:
    return {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(version)}}


def karmada_cluster(name: str, version: int = 1, region: str = "eu") -> dict:
    made = versioned(cluster(name), version)
    return {**made, "spec": {**made["spec"], "region": region}}


def federated_cluster(name: str) -> dict:
    return {
        "apiVersion": "core.kubeadmiral.io/v1alpha1",
        "kind": "FederatedCluster",
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"apiEndpoint": "https://x", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"resources": {"allocatable": {"cpu": "4"}, "available": {"cpu": "1"}}},
    }


class Watching:
    """A state, its source and the API server behind it."""

    def __init__(self, server: ScriptedServer, clusters: Watched, policies=()) -> None:
        self.server = server
        self.state = State(karmada_profile())
        self.source = WatchSource(
            lambda: HTTPClient(ConnectionSettings(server.url)), clusters, policies, clock=SystemClock()
        )

    def names(self) -> set[str]:
        with self.state.reading() as cache:
            return set(cache.fleet.row_of)

    def policies(self) -> set[str]:
        with self.state.reading() as cache:
            return {policy.metadata.name for policy in cache.policies}

    def wait(self, check: Callable[[], bool]) -> None:
        wait_for(check, lambda: (self.names(), self.state.staleness))


@pytest.fixture
def watching() -> Iterator[Callable[..., Watching]]:
    made: list[Watching] = []

    def start(first_list, clusters=NODES, policies=(), watches=()) -> Watching:
        server = ScriptedServer(lists=[first_list], watches=list(watches))
        made.append(Watching(server, clusters, policies))
        made[-1].source.start(made[-1].state)
        return made[-1]

    yield start
    for each in made:
        each.source.stop()
        each.server.close()


@cases(
    ("kind", "thing", "path"),
    {
        "nodes": (NODES, versioned(node("n1"), 1), "/api/v1/nodes"),
        "Karmada": (KARMADA_CLUSTERS, karmada_cluster("n1"), "/apis/cluster.karmada.io/v1alpha1/clusters"),
        "KubeAdmiral": (
            CLUSTER_KINDS["federatedclusters"],
            federated_cluster("n1"),
            "/apis/core.kubeadmiral.io/v1alpha1/federatedclusters",
        ),
    },
)
def test_every_kind_of_cluster_is_watched(watching, kind, thing, path):
    running = watching(page([thing], 5), kind)
    running.wait(lambda: running.names() == {"n1"})
    assert running.server.asked[0]["path"] == path
    assert running.state.staleness.synced
    assert running.state.staleness.stale_since is None


def test_changes_update_the_state(watching):
    running = watching(
        page([karmada_cluster("a"), karmada_cluster("b")], 5),
        KARMADA_CLUSTERS,
        watches=[[event("MODIFIED", karmada_cluster("a", 6, "us")), event("DELETED", karmada_cluster("b", 7)), HOLD]],
    )
    running.wait(lambda: running.names() == {"a"})
    with running.state.reading() as cache:
        assert cache.fleet.get("a").spec.region == "us"
        assert set(cache.world.clusters) == {"a"}


def test_a_list_is_one_update_of_the_fleet(watching, monkeypatch):
    names, updates, updating = "abcdefgh", [], State.updating

    @contextmanager
    def counted(state: State, now, **options):
        with updating(state, now, **options) as cache:
            yield cache
            updates.append(set(cache.fleet.row_of))

    monkeypatch.setattr(State, "updating", counted)
    running = watching(page(map(karmada_cluster, names), 5), KARMADA_CLUSTERS, watches=[[HOLD]])
    running.wait(lambda: running.names() == set(names))
    running.server.lists = [page([karmada_cluster(name, 9, "us") for name in "cdefghij"], 10)]
    running.server.watches = [410, [HOLD]]
    running.server.more.put(CUT)
    running.wait(lambda: running.names() == set("cdefghij"))
    assert updates == [set(names), set("cdefghij")]


def test_the_state_is_stale_while_the_server_is_lost(watching):
    running = watching(page([karmada_cluster("a")], 5), KARMADA_CLUSTERS)
    running.wait(lambda: running.names() == {"a"})
    loaded = running.state.staleness.loaded_at
    running.server.close()
    running.wait(lambda: running.state.staleness.stale_since is not None)
    stale = running.state.staleness
    assert running.names() == {"a"}
    assert stale.loaded_at >= loaded
    assert stale.problem.startswith("clusters: GET /apis/cluster.karmada.io")
    time.sleep(0.6)
    assert running.state.staleness.stale_since == stale.stale_since, "the time of the loss, not of the last retry"
    running.server.reopen()
    running.wait(lambda: running.state.staleness.stale_since is None)


def test_the_state_is_stale_while_watches_work_but_etcd_does_not_respond():
    api, clock, etcd_responds = KubeInMemory(), FakeClock(), True
    bindings = BindingOptions()
    source = WatchSource(lambda: api, KARMADA_CLUSTERS, KARMADA_POLICIES, bindings, clock=clock)
    state = State(karmada_profile())

    def respond(request: APIRequest) -> None:
        if not etcd_responds and ("limit", "1") in request.query:
            raise ApiError(0, "", "the server sent nothing before the read timeout")

    api.before = respond
    source.start(state)
    try:
        wait_for(lambda: state.staleness.synced, lambda: state.staleness)
        etcd_responds, lost_at, source_check = False, clock.now(), source._check  # noqa: SLF001 - the thread would need the real time
        clock.pass_by(UNCONFIRMED_S)
        source_check.check(api)
        assert (state.staleness.stale_since, state.staleness.loaded_at) == (lost_at, lost_at)
        assert "the server sent nothing" in state.staleness.problem
        source._follow(source._feeds[0])  # noqa: SLF001 - a bookmark, out of the memory of the API server
        assert (state.staleness.stale_since, state.staleness.loaded_at) == (lost_at, lost_at)
        etcd_responds = True
        source_check.check(api)
        assert state.staleness == Staleness(clock.now(), None, "")
    finally:
        api.cut_watches()
        source.stop()


def test_there_is_no_fleet_before_the_first_list(watching):
    running = watching(503, KARMADA_CLUSTERS)
    running.wait(lambda: running.state.staleness.stale_since is not None)
    assert not running.state.staleness.synced
    assert "503" in running.state.staleness.problem


def test_clusters_beyond_the_limit_make_the_state_stale_and_do_not_block_others(watching, monkeypatch):
    running = watching(page([karmada_cluster("a")], 5), KARMADA_CLUSTERS)
    running.wait(lambda: running.names() == {"a"})
    monkeypatch.setattr(columns, "MAX_CLUSTERS", 1)
    running.server.more.put(event("ADDED", karmada_cluster("b", 6)))
    running.wait(lambda: "at most 1 clusters" in running.state.staleness.problem)
    since = running.state.staleness.stale_since
    running.server.more.put(event("MODIFIED", karmada_cluster("a", 7, "us")))
    running.server.more.put(bookmark(8))

    def region() -> str:
        with running.state.reading() as cache:
            return cache.fleet.get("a").spec.region

    running.wait(lambda: region() == "us")
    assert running.state.staleness.stale_since == since
    running.server.more.put(event("DELETED", karmada_cluster("a", 9)))
    running.wait(lambda: running.names() == {"b"})
    running.wait(lambda: not running.state.staleness.problem)


def test_there_is_no_fleet_while_the_first_list_exceeds_the_limit(watching, monkeypatch):
    monkeypatch.setattr(columns, "MAX_CLUSTERS", 1)
    running = watching(page([karmada_cluster("a"), karmada_cluster("b")], 5), KARMADA_CLUSTERS)
    running.wait(lambda: "at most 1 clusters" in running.state.staleness.problem)
    assert not running.state.staleness.synced
    running.server.more.put(event("DELETED", karmada_cluster("a", 6)))
    running.wait(lambda: running.state.staleness.synced and not running.state.staleness.problem)
    assert running.names() == {"b"}


def test_a_cluster_that_crashes_the_fleet_makes_the_state_stale_and_is_retried_after_the_others(
    watching, monkeypatch, caplog
):
    broken, take = ["a"], FleetCache.apply_cluster

    def fragile(cache: FleetCache, cluster) -> None:
        if cluster.name in broken:
            raise ZeroDivisionError
        take(cache, cluster)

    running = watching(page([], 5), KARMADA_CLUSTERS)
    running.wait(lambda: running.state.staleness.synced)
    monkeypatch.setattr(FleetCache, "apply_cluster", fragile)
    running.server.lists = [page([karmada_cluster("a", 6), karmada_cluster("b", 7)], 8)]
    running.server.more.put(event("ADDED", karmada_cluster("a", 6)))
    running.wait(lambda: "the log says why" in running.state.staleness.problem)
    assert "ZeroDivisionError" in caplog.text
    running.wait(lambda: running.names() == {"b"})
    assert running.state.staleness.stale_since is not None
    broken.clear()
    running.wait(lambda: running.names() == {"a", "b"} and running.state.staleness.stale_since is None)


def test_an_object_that_is_not_read_is_a_gap_and_hides_no_other(watching):
    large = karmada_cluster("large") | {"spec": {"region": "x" * 5_000_000}}
    running = watching(page([karmada_cluster("a"), large], 5), KARMADA_CLUSTERS)
    running.wait(lambda: running.names() == {"a"})
    [gap] = running.state.gaps(ANY_READER)
    assert gap.startswith("clusters large has 50")
    before = running.state.version
    running.server.more.put(event("MODIFIED", karmada_cluster("large", 6)))
    running.wait(lambda: running.names() == {"a", "large"})
    assert (running.state.gaps(ANY_READER), running.state.version == before) == ([], False)


def test_more_objects_than_are_listed_make_the_state_stale_by_its_objects(watching, monkeypatch):
    monkeypatch.setattr(reflector, "pages", partial(listing.pages, most=1000))
    running = watching(page([karmada_cluster("a")], 5, "again"), KARMADA_CLUSTERS)
    running.wait(lambda: bool(running.state.staleness.problem))
    assert (running.state.stale_by_objects, running.state.staleness.synced) == (True, False)
    assert "more than 1000 clusters" in running.state.staleness.problem


class ByPath(ScriptedServer):
    """A server with a list for each path."""

    by_path: dict[str, bytes | int]

    def _next_list(self) -> bytes | int:
        return self.by_path[self.asked[-1]["path"].rpartition("/")[2]]


def test_the_first_update_has_all_policies_and_clusters():
    server = ByPath(lists=[b""])
    server.by_path = {
        "clusters": page([karmada_cluster("a")], 5),
        "propagationpolicies": page([versioned(policy("p", selector()), 1)], 5),
        "clusterpropagationpolicies": 500,
    }
    running = Watching(server, KARMADA_CLUSTERS, KARMADA_POLICIES)
    try:
        running.source.start(running.state)
        running.wait(lambda: "clusterpropagationpolicies" in running.state.staleness.problem)
        running.wait(lambda: len(server.watched_from()) == 2)
        assert not running.state.staleness.synced
        assert running.names() == running.policies() == set()
        server.by_path["clusterpropagationpolicies"] = page([], 6)
        running.wait(lambda: running.policies() == {"p"})
        assert running.names() == {"a"}
    finally:
        running.source.stop()
        server.close()


def kubeconfig(server: ScriptedServer) -> str:
    named = {"name": "test"}
    return json.dumps({
        "current-context": "test", "contexts": [{**named, "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{**named, "cluster": {"server": server.url}}], "users": [{**named, "user": {}}],
    })  # fmt: skip


@cases(
    ("kinds", "paths"),
    {
        "nodes": (["nodes"], {"nodes"}),
        "and policies": (["clusters", "policies"], {"clusters", "propagationpolicies", "clusterpropagationpolicies"}),
    },
)
def test_the_options_select_the_watched_collections(tmp_path, kinds, paths):
    server, state = ScriptedServer(lists=[page([], 5)]), State(karmada_profile())
    (tmp_path / "kubeconfig").write_text(kubeconfig(server))
    source = watch_source(WatchOptions(kinds, tmp_path / "kubeconfig"), SystemClock())
    try:
        source.prepare()
        assert not server.asked, "no request before the start"
        source.start(state)
        wait_for(lambda: state.staleness.synced and len(server.watched_from()) == len(paths))
        assert {asked["path"].rpartition("/")[2] for asked in server.asked} == paths
    finally:
        source.stop()
        server.close()


@pytest.mark.parametrize("kinds", [["policies"], [], ["nodes", "clusters"]], ids=str)
def test_exactly_one_kind_of_cluster_is_required(kinds):
    with pytest.raises(InputError, match="needs one kind of cluster"):
        watch_source(WatchOptions(kinds), SystemClock())


@pytest.mark.parametrize(
    "content",
    [None, "{", "[]", "3", "", "{contexts: 3}", "{current-context: a, contexts: [{name: a, context: {}}]}", "\x00"],
    ids=repr,
)
def test_an_invalid_kubeconfig_is_an_error_before_the_start(tmp_path, content):
    if content is not None:
        (tmp_path / "kubeconfig").write_text(content)
    source = watch_source(WatchOptions(["nodes"], tmp_path / "kubeconfig"), SystemClock())
    with pytest.raises(InputError, match=r"specify a kubeconfig file|use a file that has one") as caught:
        source.prepare()
    assert "\n" not in str(caught.value)
