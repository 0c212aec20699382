"""The extender follows an API server."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from e2e import karmada
from e2e.api import Api
from e2e.control_plane import HOST, ControlPlane
from e2e.forwarder import Forwarder
from e2e.manifests import JSON, KUBEADMIRAL, manifest, unique
from e2e.processes import Processes, wait_for
from e2e.serving import Serving, clusters, start_extender
from karmada_plane import binding, cluster, new_deployment, policy, selector

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def extender(processes: Processes, control_plane: ControlPlane) -> Iterator[Serving]:
    running = start_extender(processes, control_plane, "federatedclusters")
    yield running
    running.process.stop()


def tier_of(extender: Serving, name: str) -> str | None:
    """A label of a cluster; None while the cluster is not known to the process that answers."""
    found: str | None = clusters(extender).get(name, {}).get("labels", {}).get("tier")
    return found


def test_clusters_come_change_and_go(api: Api, extender: Serving):
    federated = manifest(KUBEADMIRAL, "FederatedCluster", None, {"apiEndpoint": "https://127.0.0.1:1"})
    name = federated["metadata"]["name"]
    federated["metadata"]["labels"] = {"tier": "gold"}
    federated["spec"]["secretRef"] = {"name": "none"}
    api.create(federated)
    wait_for("the cluster to be known", lambda: tier_of(extender, name) == "gold", LIMIT_S)

    api.patch(federated, {"metadata": {"labels": {"tier": "silver"}}})
    wait_for("its label to be known", lambda: tier_of(extender, name) == "silver", LIMIT_S)

    api.delete(federated)
    wait_for("it to be forgotten", lambda: name not in clusters(extender), LIMIT_S)


def test_a_connection_that_is_lost_in_silence_is_noticed_within_a_minute(
    api: Api, processes: Processes, control_plane: ControlPlane, tmp_path: Path
):
    """A balancer that forgets its connections ends none of them. The watch is silent, as if nothing changed."""
    joined = karmada.cluster()
    name = joined["metadata"]["name"]
    karmada.install_clusters(api)
    karmada.join(api, joined)
    content = json.loads(control_plane.kubeconfig.read_text())
    target = content["clusters"][0]["cluster"]
    with closing(Forwarder(processes.ports.free())) as balancer:
        balancer.add(int(target["server"].rpartition(":")[2]), lambda: True)
        kubeconfig = tmp_path / "config"
        target["server"] = f"https://{HOST}:{balancer.port}"
        kubeconfig.write_text(json.dumps(content))
        extender = start_extender(processes, control_plane, "clusters", kubeconfig=kubeconfig)
        try:
            wait_for("the cluster to be known", lambda: name in clusters(extender), LIMIT_S)
            balancer.lose()
            api.patch(joined, {"metadata": {"labels": {"tier": "silver"}}})
            wait_for("its label to be known", lambda: tier_of(extender, name) == "silver", LIMIT_S)
        finally:
            extender.process.stop()
    api.delete(joined)


def test_an_api_server_that_hangs_is_reported_within_a_minute(
    api: Api, processes: Processes, control_plane: ControlPlane
) -> None:
    karmada.install_clusters(api)
    extender = start_extender(processes, control_plane, "clusters")
    stale = "berthmaster_extender_state_stale"
    assert extender.measure(stale) == 0
    control_plane.apiserver.ask_to_stop(signal.SIGSTOP)
    try:
        wait_for("the state to be stale", lambda: extender.measure(stale) == 1, LIMIT_S)
    finally:
        control_plane.apiserver.ask_to_stop(signal.SIGCONT)
    wait_for("the state to be current", lambda: extender.measure(stale) == 0 and extender.ready(), LIMIT_S)
    extender.process.stop()


class Web(NamedTuple):
    """A bound Deployment on two of three clusters.

    Attributes:
        namespace: its namespace.
        members: the names of the clusters.
        binding: its binding.
    """

    namespace: str
    members: tuple[str, ...]
    binding: JSON


@pytest.fixture
def web(control_plane: ControlPlane, namespace: str) -> Iterator[Web]:
    members = [cluster(unique("member")) for _ in range(3)]
    names = tuple(str(each["metadata"]["name"]) for each in members)
    claimant = policy("web", selector(name="web"), namespace=namespace)
    template = new_deployment("web", 4, namespace=namespace, by=claimant)
    bound = binding(template, claimant, **dict.fromkeys(names[:2], 2))
    with karmada.present(control_plane.api, *members, claimant, template, bound):
        yield Web(namespace, names, bound)


@pytest.fixture
def start(processes: Processes, control_plane: ControlPlane) -> Iterator[Callable[..., Serving]]:
    running: list[Serving] = []

    def one(*watched: str, **options: Any) -> Serving:
        running.append(start_extender(processes, control_plane, *watched, **options))
        return running[-1]

    yield one
    for each in running:
        each.process.stop()


def ask(extender: Serving, path: str, body: JSON | None = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{extender.url}{path}", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def decision(extender: Serving, web: Web) -> JSON:
    status, answer = ask(extender, f"/v1/bindings/{web.namespace}/web-deployment/decision")
    assert status == 200, answer
    return dict(answer)


def moves(extender: Serving, web: Web, down: str) -> JSON:
    change = {"failover": "on", "changes": [{"type": "down", "cluster": down}]}
    status, answer = ask(extender, "/v1/plan", change)
    assert status == 200, answer
    rows = {each["resource"]: each["moves"] for each in answer["plan"]["moves"]}
    return dict(rows.get(f"{web.namespace}/Deployment/web", {}))


def test_a_changed_binding_changes_the_answers(control_plane: ControlPlane, start: Callable[..., Serving], web: Web):
    extender = start("bindings,workloads")
    first, second, third = web.members
    known = decision(extender, web)
    assert known["present"] == {first: 2, second: 2}
    assert known["policy"] == f"PropagationPolicy {web.namespace}/web"
    assert [each["holds"] for each in known["claims"]] == [True]
    assert known["staleness"]["staleSince"] is None
    status, stored = ask(extender, f"/v1/bindings/{web.namespace}/web-deployment")
    assert (status, stored["clusters"], stored["present"]) == (200, {first: 2, second: 2}, True)
    assert moves(extender, web, first)[first] == [2, None]

    control_plane.api.patch(web.binding, {"spec": {"clusters": [{"name": third, "replicas": 4}]}})
    wait_for(
        "the new assignment",
        lambda: decision(extender, web)["present"] == {third: 4} or None,
        LIMIT_S,
    )
    assert moves(extender, web, first) == {}
    assert moves(extender, web, third)[third] == [4, None]

    control_plane.restart_apiserver()
    control_plane.api.patch(web.binding, {"spec": {"clusters": [{"name": first, "replicas": 4}]}})
    wait_for(
        "the change after a restart",
        lambda: decision(extender, web)["present"] == {first: 4} or None,
        LIMIT_S,
    )
