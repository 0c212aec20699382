"""Time the verbs of a kube-scheduler extender: ``python bench/kube_scheduler.py``, with ``--http`` over sockets.

*names*: the scheduler sends names and the fleet is known (``nodeCacheCapable: true``). *nodes*: it sends whole nodes,
with the size of real ones. *plain decoding* only decodes the same bytes into dicts with msgspec, which is a lower bound
for an extender in Python that decodes whole requests.
"""

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from served import measure, post, serving
from timing import median_ms

from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.decode import convert
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.kube_scheduler.handlers import Extender, KubeSchedulerOptions
from extender.protocols.services import Call, Services
from extender.state.state import State

_LARGE = 100_000  # bytes; larger requests take milliseconds, so fewer of them are sent
IMAGES_OF_A_KUBELET = 50  # nodeStatusMaxImages: the default limit of a kubelet
_PLACEMENT = {
    "clusterAffinities": [
        {"affinityName": "primary", "labelSelector": {"matchLabels": {"tier": "gold"}}},
        {"affinityName": "backup", "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
    ]
}


class Stages:
    """Metrics that sum up the time of decoding."""

    def __init__(self) -> None:
        self.decoding_s = 0.0

    def decided(self, protocol: str, trigger: str, result: str) -> None:
        """Ignored."""

    def took(self, protocol: str, stage: str, seconds: float) -> None:  # noqa: ARG002 - see ServiceMetrics
        """Add a stage. Both stages of the protocol decode: the request, and its nodes."""
        self.decoding_s += seconds

    def rejected(self, plugin: str, clusters: int) -> None:
        """Ignored."""

    def doubted(self, protocol: str, reason: str) -> None:
        """Ignored."""


def node(index: int, images: int) -> dict[str, Any]:
    """Return a node in the format of a kubelet."""
    name = f"node-{index:04}"
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.4xlarge",
        "tier": ("gold", "silver", "bronze")[index % 3],
        "topology.kubernetes.io/region": f"region-{index % 5}",
        "topology.kubernetes.io/zone": f"region-{index % 5}-{'abc'[index % 3]}",
    }
    amounts = {"cpu": "16", "ephemeral-storage": "95551679124", "hugepages-2Mi": "0", "memory": "64Gi", "pods": "110"}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": f"the kubelet reports its condition {kind}",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "metadata": {
            "name": name,
            "uid": f"6e2c8f3a-0000-4000-8000-{index:012}",
            "resourceVersion": str(100_000 + index),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "podCIDRs": ["10.0.0.0/24"],
            "providerID": f"aws:///region-{index % 5}/i-{index:017x}",
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Linux", "kernelVersion": "6.8.0"},
            "images": [
                {"names": [f"registry.example.org/team/image-{each}@sha256:{each:064x}"], "sizeBytes": 123_456_789}
                for each in range(images)
            ],
        },
    }  # fmt: skip


def pod() -> dict[str, Any]:
    """Return a pod of a Deployment with a placement in its annotation."""
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}
    return {
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "uid": "u1",
            "labels": {"app": "web"},
            "annotations": {"policy.berthmaster.io/placement": json.dumps(_PLACEMENT)},
        },
        "spec": {
            "containers": [container],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {"phase": "Pending"},
    }


def services(nodes: list[dict[str, Any]], metrics: Stages) -> Services:
    """Return services with a fleet of these nodes."""
    state = State(karmada_profile())
    with state.updating(datetime.now(UTC)) as cache:
        for each in nodes:
            cache.apply_cluster(cluster_of_node(convert(Node, each)))
    return Services(state, metrics, logging.getLogger("bench"), SystemClock())


def figures(count: int, images: int, rounds: int) -> None:
    """Print the figures for one size of the fleet."""
    nodes = [node(index, images) for index in range(count)]
    names = [each["metadata"]["name"] for each in nodes]
    with_names = msgspec.json.encode({"Pod": pod(), "Nodes": None, "NodeNames": names})
    with_nodes = msgspec.json.encode({"Pod": pod(), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})
    metrics = Stages()
    known, extender = services(nodes, metrics), Extender(KubeSchedulerOptions())
    for shape, body in (("names", with_names), ("nodes", with_nodes)):
        plain = median_ms(lambda body=body: msgspec.json.decode(body), rounds)
        for verb in (extender.filter, extender.prioritize):
            call = Call("bench", time.monotonic() + 3600, body)
            metrics.decoding_s = 0.0
            took = median_ms(lambda verb=verb, call=call: verb(known, call), rounds)
            decoding = metrics.decoding_s * 1e3 / (rounds + 1)
            print(
                f"{count:5} {shape}  {len(body) / 1e6:6.2f} MB  {verb.__name__:<10} {took:8.3f} ms"
                f"   decoding {decoding / took:4.0%} of it   plain decoding alone {plain:8.3f} ms"
            )


def figures_over_http(count: int, images: int) -> None:
    """Print the figures of a running service: the names of ten nodes, all names, and all nodes."""
    nodes = [node(index, images) for index in range(count)]
    names = [each["metadata"]["name"] for each in nodes]
    bodies = {
        "filter, 10 names": ("filter", {"Pod": pod(), "Nodes": None, "NodeNames": names[:10]}),
        "prioritize, 10 names": ("prioritize", {"Pod": pod(), "Nodes": None, "NodeNames": names[:10]}),
        "filter, all names": ("filter", {"Pod": pod(), "Nodes": None, "NodeNames": names}),
        "filter, all nodes": ("filter", {"Pod": pod(), "Nodes": {"items": nodes}, "NodeNames": None}),
    }
    print(f"{count} nodes, 2 workers, plain HTTP, 4 connections in the pool")
    with serving([cluster_of_node(convert(Node, each)) for each in nodes]) as server:
        for what, (verb, body) in bodies.items():
            request = post(f"/kube-scheduler/{verb}", msgspec.json.encode(body))
            asked = 30 if len(request) > _LARGE else 2000
            found = measure(server, [request], count=asked, connections=4, seconds=3.0)
            print(f"{what:>22}  p50 {found.p50:8.3f} ms  p99 {found.p99:8.3f} ms  {found.rate:8,.0f} a second")


@click.command()
@click.option("--nodes", default=(10, 100, 1000), multiple=True, help="Sizes of the fleet.")
@click.option("--images", default=IMAGES_OF_A_KUBELET, show_default=True, help="Images that each node reports.")
@click.option("--rounds", default=50, show_default=True, help="Calls for the median.")
@click.option("--http", is_flag=True, help="Use a service over sockets.")
def main(*, nodes: tuple[int, ...], images: int, rounds: int, http: bool) -> None:
    """Time filter and prioritize."""
    for count in nodes:
        if http:
            figures_over_http(count, images)
        else:
            figures(count, images, rounds)


if __name__ == "__main__":
    main()
