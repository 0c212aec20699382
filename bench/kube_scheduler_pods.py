"""Time pods on a real kube-scheduler with and without the extender: ``python bench/kube_scheduler_pods.py``.

It needs the binaries of ``make e2e-assets``. *alone*: kube-scheduler without an extender. *names*: with one that gets
names (``nodeCacheCapable: true``). *nodes*: with one that gets whole nodes. kube-scheduler always looks at all nodes.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
from e2e.control_plane import ControlPlane
from e2e.manifests import pod, unique
from e2e.processes import Processes, wait_for
from e2e.serving import COMMAND, Serving, clusters, serve

ANNOTATION = "policy.berthmaster.io/placement"
LIMIT_S = 600.0
WRITERS = 16
IMAGES_OF_A_KUBELET = 50
PLACEMENT = {
    "clusterAffinities": [
        {"affinityName": name, "labelSelector": {"matchLabels": {"tier": tier}}}
        for name, tier in (("primary", "gold"), ("backup", "silver"))
    ]
}
TOLERATIONS = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
ALL_NODES = {
    "percentageOfNodesToScore": 100,
    "clientConnection": {"qps": 2000, "burst": 4000},
}


def node(index: int, images: int) -> dict[str, Any]:
    """Return a node with room for many pods. A third of the nodes is in the first group."""
    name, room = f"bench-{index:05}", {"cpu": "64", "memory": "256Gi", "pods": "250"}
    listed = [
        {"names": [f"registry.example.org/team/image-{each}@sha256:{each:064x}"], "sizeBytes": 123_456_789}
        for each in range(images)
    ]
    labels = {"kubernetes.io/hostname": name, "tier": ("gold", "silver", "silver")[index % 3]}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"allocatable": room, "capacity": room, "conditions": [ready], "images": listed}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def add(plane: ControlPlane, made: Mapping[str, Any]) -> None:
    plane.api.create(made)
    plane.api.patch(made, {"status": made["status"]}, subresource="status")


def configuration(plane: ControlPlane, scheduler: str, extender: Serving | None, *, names: bool) -> dict[str, Any]:
    connection = {**ALL_NODES["clientConnection"], "kubeconfig": str(plane.kubeconfig)}
    found = {**ALL_NODES, "clientConnection": connection, "profiles": [{"schedulerName": scheduler}]}
    if extender is not None:
        found["extenders"] = [
            {"urlPrefix": f"{extender.url}/kube-scheduler", "filterVerb": "filter", "prioritizeVerb": "prioritize",
             "preemptVerb": "preempt", "weight": 10, "nodeCacheCapable": names, "httpTimeout": "10s"}
        ]  # fmt: skip
    return found


def timed(plane: ControlPlane, scheduler: str, count: int) -> tuple[float, float]:
    """Create pods. Return how many a second are bound, and the longest wait of one, in seconds."""
    namespace, created, waits = plane.new_namespace(), dict[str, float](), dict[str, float]()

    def create(_: int) -> None:
        wanted = pod(namespace, scheduler, "100m", tolerations=TOLERATIONS)
        wanted["metadata"]["annotations"] = {ANNOTATION: json.dumps(PLACEMENT)}
        created[wanted["metadata"]["name"]] = time.monotonic()
        plane.api.create(wanted)

    def all_bound() -> bool:
        now = time.monotonic()
        for each in plane.api.list("v1", "Pod", namespace):
            if each["spec"].get("nodeName"):
                waits.setdefault(each["metadata"]["name"], now - created[each["metadata"]["name"]])
        return len(waits) == count

    began = time.monotonic()
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(create, range(count)))
        wait_for("all pods to be bound", all_bound, LIMIT_S)
    return count / (time.monotonic() - began), max(waits.values())


def ways(plane: ControlPlane, processes: Processes) -> Iterator[tuple[str, Serving | None]]:
    access = (f"--kubeconfig={plane.kubeconfig}", "--watch=nodes", "--kube-scheduler-complete-lists")
    yield "alone", None
    for way in ("names", "nodes"):
        running = serve(processes, "extender", (COMMAND, "extender"), *access, f"--max-body-bytes={256 * 2**20}",
                        "--request-memory-mib=1024", "--request-timeout-s=30")  # fmt: skip
        yield way, running
        running.process.stop()


def figures(count: int, images: int, pods: int) -> None:
    processes = Processes(Path(tempfile.mkdtemp(prefix="bench-kube-scheduler-")))
    try:
        plane = ControlPlane(processes)
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(lambda index: add(plane, node(index, images)), range(count)))
        for way, extender in ways(plane, processes):
            if extender is not None:
                wait_for("the extender to know all nodes", lambda each=extender: knows(each, count), LIMIT_S)
            scheduler = unique(way)
            process = plane.start_scheduler(configuration(plane, scheduler, extender, names=way == "names"))
            timed(plane, scheduler, min(10, pods))  # warms both up
            rate, longest_s = timed(plane, scheduler, pods)
            process.stop()
            print(f"{count:6} nodes  {way:<6} {rate:7.1f} pods a second   longest wait {longest_s:6.1f} s", flush=True)
    finally:
        processes.stop_all()


def knows(extender: Serving, count: int) -> bool:
    return len(clusters(extender)) >= min(count, 1000)  # the most of one page


@click.command()
@click.option("--nodes", default=(100, 1000, 5000), multiple=True, help="Sizes of the fleet.")
@click.option("--images", default=IMAGES_OF_A_KUBELET, show_default=True, help="Images that each node reports.")
@click.option("--pods", default=200, show_default=True, help="Pods that are created together.")
def main(*, nodes: tuple[int, ...], images: int, pods: int) -> None:
    """Time pods by the size of the fleet."""
    for count in nodes:
        figures(count, images, pods)


if __name__ == "__main__":
    main()
