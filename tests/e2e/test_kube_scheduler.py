"""A real kube-scheduler that asks the extender, with nodes that represent clusters."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.api import Api
from e2e.assets import binary
from e2e.conftest import needed
from e2e.control_plane import ControlPlane
from e2e.manifests import deployments, manifest, pod, propagation_policy, unique
from e2e.processes import Process, Processes, wait_for
from e2e.serving import Serving, clusters, start_extender

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0
ANNOTATION = "policy.berthmaster.io/placement"
JSON = dict[str, Any]
Nodes = Callable[..., JSON]
Known = Callable[[str, JSON], None]
Start = Callable[[JSON], Process]


@pytest.fixture(scope="module")
def extender(processes: Processes, control_plane: ControlPlane) -> Iterator[Serving]:
    running = start_extender(processes, control_plane, "nodes", "policies")
    yield running
    running.process.stop()


def configuration(scheduler: str, extender: Serving, *, cached: bool, **more: Any) -> JSON:
    """A KubeSchedulerConfiguration with this extender, for pods that name this scheduler."""
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt")}
    url = f"{extender.url}/kube-scheduler"
    asked = {"urlPrefix": url, **verbs, "weight": 50, "nodeCacheCapable": cached}
    return {"profiles": [{"schedulerName": scheduler}], "extenders": [asked], **more}


@pytest.fixture
def fleet() -> str:
    """The value of a label that only this test's nodes have."""
    return unique("fleet")


@pytest.fixture(scope="module", params=[True, False], ids=["nodeCacheCapable", "whole nodes"])
def asking(request: pytest.FixtureRequest, extender: Serving, control_plane: ControlPlane) -> Iterator[str]:
    needed(lambda: binary("kube-scheduler"))
    name = unique("asking")
    process = control_plane.start_scheduler(configuration(name, extender, cached=request.param))
    yield name
    process.stop()


@pytest.fixture
def known(api: Api, namespace: str, extender: Serving) -> Known:
    """A function that waits until a scheduler and the extender know a node. Each of them has a watch of its own."""

    def wait(asking: str, node: JSON) -> None:
        small = pod(namespace, asking, "0", nodeSelector={"kubernetes.io/hostname": name(node)})
        api.create(small)
        assert node_of(api, small) == name(node)
        wait_for("the extender to know it", lambda: clusters(extender).get(name(node), {}).get("resources"), LIMIT_S)

    return wait


def group(name: str, fleet: str, tier: str) -> JSON:
    return {"affinityName": name, "labelSelector": {"matchLabels": {"fleet": fleet, "tier": tier}}}


def gold_then_silver(fleet: str) -> JSON:
    return {"clusterAffinities": [group("primary", fleet, "gold"), group("backup", fleet, "silver")]}


def placed(waiting: JSON, placement: JSON | str) -> JSON:
    text = placement if isinstance(placement, str) else json.dumps(placement)
    waiting["metadata"]["annotations"] = {ANNOTATION: text}
    return waiting


def node_of(api: Api, waiting: JSON) -> str:
    what = f"{waiting['metadata']['name']} to be bound"
    return wait_for(what, lambda: api.get(waiting)["spec"].get("nodeName"), LIMIT_S)


def failure_of(api: Api, waiting: JSON) -> str:
    def message() -> str | None:
        events = api.list("v1", "Event", waiting["metadata"]["namespace"])
        about = (one for one in events if one["involvedObject"]["name"] == waiting["metadata"]["name"])
        return next((one["message"] for one in about if one["reason"] == "FailedScheduling"), None)

    return wait_for(f"{waiting['metadata']['name']} to fail", message, LIMIT_S)


def decisions(extender: Serving, trigger: str, result: str) -> float:
    labels = f'{{protocol="kube-scheduler",result="{result}",trigger="{trigger}"}}'
    counts = (line.split()[-1] for line in extender.metrics().splitlines() if labels in line and "_total" in line)
    return sum(map(float, counts))


def name(thing: JSON) -> str:
    return str(thing["metadata"]["name"])


def test_pods_land_in_the_first_group_and_in_the_next_once_it_is_full(
    api: Api, namespace: str, nodes: Nodes, known: Known, asking: str, fleet: str
):
    gold, silver = nodes("2", fleet=fleet, tier="gold"), nodes("8", fleet=fleet, tier="silver")
    known(asking, nodes("8", fleet=fleet, tier="bronze"))  # the last one, so they know all
    landed = []
    for _ in range(4):
        waiting = placed(pod(namespace, asking), gold_then_silver(fleet))
        api.create(waiting)
        landed.append(node_of(api, waiting))
    assert landed == [name(gold), name(gold), name(silver), name(silver)]


def test_the_event_of_a_pod_that_fits_nowhere_carries_the_reasons(
    api: Api, namespace: str, nodes: Nodes, known: Known, asking: str, fleet: str
):
    known(asking, nodes(fleet=fleet, tier="bronze"))
    waiting = placed(pod(namespace, asking, nodeSelector={"fleet": fleet}), gold_then_silver(fleet))
    api.create(waiting)
    message = failure_of(api, waiting)
    assert "1 node(s) rejected: is in none of the cluster groups primary, backup, for annotation" in message


def test_the_policy_of_its_deployment_places_a_pod(api: Api, namespace: str, nodes: Nodes, asking: str, fleet: str):
    silver = nodes("2", fleet=fleet, tier="silver")
    nodes("8", fleet=fleet, tier="gold")
    affinity = {"labelSelector": {"matchLabels": {"fleet": fleet, "tier": "silver"}}}
    policy = propagation_policy(
        namespace, resourceSelectors=[deployments(name="web")], placement={"clusterAffinity": affinity}
    )
    api.create(policy)
    owned = pod(namespace, asking, cpu="100m")
    owned["metadata"]["labels"] = {"pod-template-hash": "7d9f8c6b5d"}
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9f8c6b5d", "uid": "u", "controller": True}
    ]
    # The policy reaches the extender by its watch, a moment after it was stored.
    wait_for("the policy to be known", lambda: _rejected_elsewhere(api, owned, name(silver)), LIMIT_S)


def _rejected_elsewhere(api: Api, owned: JSON, wanted: str) -> bool:
    attempt = {**owned, "metadata": {**owned["metadata"], "name": unique("web")}}
    api.create(attempt)
    return node_of(api, attempt) == wanted


@pytest.fixture
def urgent(api: Api) -> Iterator[str]:
    made = manifest("scheduling.k8s.io/v1", "PriorityClass", None, {})
    del made["spec"]
    api.create({**made, "value": 1_000_000})
    yield name(made)
    api.delete(made)


def test_pods_are_evicted_from_the_first_group_only(
    api: Api, namespace: str, nodes: Nodes, known: Known, asking: str, fleet: str, urgent: str, extender: Serving
):
    gold, silver = nodes("2", fleet=fleet, tier="gold"), nodes("2", fleet=fleet, tier="silver")
    known(asking, silver)
    tenants = {}
    for home in (gold, silver):
        tenant = pod(namespace, asking, "2", nodeSelector=home["metadata"]["labels"], terminationGracePeriodSeconds=0)
        api.create(tenant)
        assert node_of(api, tenant) == name(home)
        tenants[name(home)] = tenant
    waiting = placed(
        pod(namespace, asking, "2", priorityClassName=urgent, nodeSelector={"fleet": fleet}), gold_then_silver(fleet)
    )
    api.create(waiting)
    assert node_of(api, waiting) == name(gold)
    assert not api.exists(tenants[name(gold)])
    assert "deletionTimestamp" not in api.get(tenants[name(silver)])["metadata"]
    assert decisions(extender, "preempt", "allowed") >= 1


def test_a_sample_of_a_large_fleet_does_not_let_a_pod_down_to_a_later_group(
    api: Api, namespace: str, nodes: Nodes, known: Known, scheduler: Start, extender: Serving, fleet: str
):
    asking = unique("sampling")
    scheduler(configuration(asking, extender, cached=True, percentageOfNodesToScore=1))
    for _ in range(140):
        nodes("8", fleet=fleet, tier="silver")
    gold = nodes("6", fleet=fleet, tier="gold")
    known(asking, gold)
    landed = []
    for _ in range(7):
        waiting = placed(pod(namespace, asking), gold_then_silver(fleet))
        api.create(waiting)
        landed.append(node_of(api, waiting))
    assert set(landed[:6]) == {name(gold)}
    assert landed[6] != name(gold), "once it is full, the next group has its turn"
    assert decisions(extender, "filter", "held") >= 1, "the last one was held back first"
