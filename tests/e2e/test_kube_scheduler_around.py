"""What a real kube-scheduler does around the extender: another extender, an outage, preemption in a large fleet."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.api import Api
from e2e.control_plane import HOST, ControlPlane
from e2e.manifests import manifest, pod, propagation_policy, unique
from e2e.processes import Process, Processes, wait_for
from e2e.serving import COMMAND, Serving, clusters, serve, start_extender
from e2e.test_kube_scheduler import JSON, configuration, failure_of, gold_then_silver, name, node_of, placed

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 60.0
QUIET_S: Final = 8.0
"""Longer than kube-scheduler takes for a preemption and for the next attempt."""
PLACED: Final = "berthmaster.io/placed"
Start = Callable[[JSON], Process]
Nodes = Callable[..., JSON]


@pytest.fixture(scope="module")
def extender(processes: Processes, control_plane: ControlPlane) -> Iterator[Serving]:
    running = start_extender(processes, control_plane, "nodes", "policies")
    yield running
    running.process.stop()


@pytest.fixture
def fleet() -> str:
    return unique("fleet")


@pytest.fixture
def urgent(api: Api) -> Iterator[str]:
    made = manifest("scheduling.k8s.io/v1", "PriorityClass", None, {})
    del made["spec"]
    api.create({**made, "value": 1_000_000})
    yield name(made)
    api.delete(made)


@pytest.fixture
def second(processes: Processes) -> Iterator[str]:
    """The URL of an extender that rejects the nodes of the tier gold."""
    port = processes.ports.free()
    file = Path(__file__).with_name("second_extender.py")
    process = processes.start("second-extender", [sys.executable, file, str(port), "tier=gold"])
    yield f"http://{HOST}:{port}"
    process.stop()


def known_to(extender: Serving, *nodes: JSON) -> None:
    def all_known() -> bool:
        known = clusters(extender)
        return all(known.get(name(each), {}).get("resources") for each in nodes)

    wait_for("the extender to know the nodes", all_known, LIMIT_S)


def tenants(api: Api, namespace: str, homes: list[JSON], cpu: str) -> list[JSON]:
    """Bind a pod to each node, without a scheduler."""
    made = []
    for home in homes:
        each = pod(namespace, "no-scheduler", cpu, terminationGracePeriodSeconds=0, nodeName=name(home))
        api.create(each)
        made.append(each)
    return made


def two(scheduler: str, extender: Serving, second: str, *, last: bool, **more: Any) -> JSON:
    """A configuration with both extenders; ``last``: ours is the last one."""
    found = configuration(scheduler, extender, cached=True, **more)
    other = {"urlPrefix": second, "filterVerb": "filter", "nodeCacheCapable": False}
    found["extenders"] = [other, *found["extenders"]] if last else [*found["extenders"], other]
    return found


def test_as_the_last_extender_ours_sees_what_others_left(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, extender: Serving, second: str, fleet: str
) -> None:
    gold, silver = nodes("2", fleet=fleet, tier="gold"), nodes("2", fleet=fleet, tier="silver")
    known_to(extender, gold, silver)
    asking = unique("last")
    scheduler(two(asking, extender, second, last=True))
    waiting = placed(pod(namespace, asking), gold_then_silver(fleet))
    api.create(waiting)
    assert node_of(api, waiting) == name(silver)


def test_before_another_extender_a_pod_waits_and_no_pod_is_evicted_for_it(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, extender: Serving, second: str, fleet: str, urgent: str
) -> None:
    """Ours keeps group 1, the other one rejects it. To evict pods in group 2 cannot help."""
    gold, silver = nodes("2", fleet=fleet, tier="gold"), nodes("2", fleet=fleet, tier="silver")
    known_to(extender, gold, silver)
    lodgers = tenants(api, namespace, [gold, silver], "1")
    asking = unique("first")
    process = scheduler(two(asking, extender, second, last=False))
    waiting = placed(
        pod(namespace, asking, priorityClassName=urgent, nodeSelector={"fleet": fleet}), gold_then_silver(fleet)
    )
    api.create(waiting)
    message = failure_of(api, waiting)
    assert "node(s) are not wanted" in message
    assert "node(s) of cluster group backup, after primary" in message
    time.sleep(QUIET_S)
    assert not api.get(waiting)["spec"].get("nodeName")
    assert "deletionTimestamp" not in api.get(lodgers[1])["metadata"]
    refused = [line for line in process.log.read_text().splitlines() if "expected at least one victim pod" in line]
    assert not any(name(silver) in line for line in refused), "a node of a later group was a candidate"


def test_while_the_extender_is_down_only_pods_that_ask_for_it_wait(
    api: Api,
    namespace: str,
    nodes: Nodes,
    scheduler: Start,
    control_plane: ControlPlane,
    processes: Processes,
    fleet: str,
) -> None:
    gold = nodes("4", fleet=fleet, tier="gold")
    nodes("4", fleet=fleet, tier="silver")
    down = Serving(process=None, port=processes.ports.free(), probe_url="")  # type: ignore[arg-type] # not started
    asking = unique("managed")
    config = configuration(asking, down, cached=True)
    config["extenders"][0]["managedResources"] = [{"name": PLACED, "ignoredByScheduler": True}]
    scheduler(config)
    plain = pod(namespace, asking, nodeSelector={"fleet": fleet})
    api.create(plain)
    assert node_of(api, plain)
    waiting = placed(pod(namespace, asking), gold_then_silver(fleet))
    resources = waiting["spec"]["containers"][0]["resources"]
    resources["requests"][PLACED] = "1"
    resources["limits"] = {PLACED: "1"}
    api.create(waiting)
    assert "connection refused" in failure_of(api, waiting)
    running = serve(
        processes, "extender", (COMMAND, "extender"), f"--kubeconfig={control_plane.kubeconfig}", "--watch=nodes",
        port=down.port,
    )  # fmt: skip
    try:
        assert node_of(api, waiting) == name(gold)
    finally:
        running.process.stop()


def test_an_ignorable_extender_that_is_down_gives_up_the_order(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, processes: Processes, fleet: str
) -> None:
    nodes("4", fleet=fleet, tier="bronze")
    down = Serving(process=None, port=processes.ports.free(), probe_url="")  # type: ignore[arg-type] # not started
    asking = unique("ignorable")
    config = configuration(asking, down, cached=True)
    config["extenders"][0]["ignorable"] = True
    scheduler(config)
    waiting = placed(pod(namespace, asking, nodeSelector={"fleet": fleet}), gold_then_silver(fleet))
    api.create(waiting)
    assert node_of(api, waiting), "on a node of no group"


def test_pods_of_the_first_group_are_evicted_in_a_large_fleet(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, processes: Processes, control_plane: ControlPlane,
    fleet: str, urgent: str,
) -> None:  # fmt: skip
    """kube-scheduler's dry run samples max(10 %, 100) nodes. The stanza of the docs makes it look at all of them."""
    silver = [nodes("2", fleet=fleet, tier="silver") for _ in range(150)]
    gold = nodes("2", fleet=fleet, tier="gold")
    lodgers = tenants(api, namespace, [gold, *silver], "2")
    running = serve(
        processes, "extender", (COMMAND, "extender"), f"--kubeconfig={control_plane.kubeconfig}", "--watch=nodes",
        "--kube-scheduler-complete-lists",
    )  # fmt: skip
    try:
        known_to(running, gold)
        asking = unique("complete")
        arguments = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "DefaultPreemptionArgs"}
        plugin = {"name": "DefaultPreemption", "args": {**arguments, "minCandidateNodesPercentage": 100}}
        config = configuration(asking, running, cached=True, percentageOfNodesToScore=100)
        config["profiles"][0]["pluginConfig"] = [plugin]
        scheduler(config)
        waiting = placed(
            pod(namespace, asking, "2", priorityClassName=urgent, nodeSelector={"fleet": fleet}),
            gold_then_silver(fleet),
        )
        api.create(waiting)
        assert node_of(api, waiting) == name(gold)
        gone = [each for each in lodgers if not api.exists(each)]
        assert gone == lodgers[:1]
    finally:
        running.process.stop()


def test_whole_nodes_and_a_fresh_extender_leave_the_choice_of_unknown_nodes(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, processes: Processes, fleet: str, urgent: str
) -> None:
    """Full nodes are in no request to filter, so an extender that watches nothing cannot know them."""
    gold = nodes("2", fleet=fleet, tier="gold")
    [lodger] = tenants(api, namespace, [gold], "2")
    running = serve(processes, "extender", (COMMAND, "extender"))
    try:
        asking = unique("fresh")
        scheduler(configuration(asking, running, cached=False))
        waiting = placed(
            pod(namespace, asking, "2", priorityClassName=urgent, nodeSelector={"fleet": fleet}),
            gold_then_silver(fleet),
        )
        api.create(waiting)
        assert node_of(api, waiting) == name(gold)
        assert not api.exists(lodger)
    finally:
        running.process.stop()


@pytest.mark.parametrize("cached", [True, False], ids=["names", "whole nodes"])
def test_whole_nodes_are_scored_as_if_no_pod_ran_there(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, extender: Serving, fleet: str, *, cached: bool
) -> None:
    """The remedy is to send names."""
    busy, idle = (nodes("32", fleet=fleet, tier="gold") for _ in range(2))
    known_to(extender, busy, idle)
    tenants(api, namespace, [busy], "24")
    asking = unique("scoring")
    scheduler(configuration(asking, extender, cached=cached))
    landed = []
    for _ in range(12):
        waiting = placed(pod(namespace, asking, "100m"), gold_then_silver(fleet))
        api.create(waiting)
        landed.append(node_of(api, waiting))
    assert (landed.count(name(busy)) == 0) is cached, landed


def test_a_pod_that_a_mended_policy_allows_is_bound_once_it_changes(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, extender: Serving, fleet: str
) -> None:
    """kube-scheduler has no event for policies: it looks at the pod again after five minutes, or after its change."""
    gold = nodes("4", fleet=fleet, tier="gold")
    known_to(extender, gold)
    selectors = [{"apiVersion": "v1", "kind": "Pod"}]
    wrong = propagation_policy(
        namespace, resourceSelectors=selectors, placement={"clusterAffinity": {"clusterNames": ["none"]}}
    )
    api.create(wrong)
    asking = unique("mended")
    scheduler(configuration(asking, extender, cached=True))

    def rejected() -> JSON | None:
        attempt = pod(namespace, asking, "100m", nodeSelector={"fleet": fleet})
        api.create(attempt)
        failed = "" if api.get(attempt)["spec"].get("nodeName") else failure_of(api, attempt)
        return attempt if "cluster" in failed or "rejected" in failed else None

    waiting = wait_for("the policy to be known", rejected, LIMIT_S)
    api.patch(wrong, {"spec": {"placement": {"clusterAffinity": {"clusterNames": [name(gold)]}}}})
    time.sleep(QUIET_S)
    api.patch(waiting, {"metadata": {"labels": {"looked": "again"}}})
    assert node_of(api, waiting) == name(gold)


def test_a_pod_whose_annotation_is_mended_is_bound(
    api: Api, namespace: str, nodes: Nodes, scheduler: Start, extender: Serving, fleet: str
) -> None:
    gold = nodes("4", fleet=fleet, tier="gold")
    known_to(extender, gold)
    asking = unique("annotated")
    scheduler(configuration(asking, extender, cached=True))
    waiting = placed(pod(namespace, asking, "100m"), '{"clusterAffinity": {"clusterNamez": []}}')
    api.create(waiting)
    assert "clusterNamez" in failure_of(api, waiting)
    api.patch(
        waiting, {"metadata": {"annotations": placed(waiting, gold_then_silver(fleet))["metadata"]["annotations"]}}
    )
    assert node_of(api, waiting) == name(gold)
