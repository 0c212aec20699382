"""Measure the extender over TCP: ``make bench-extender``.

The benchmark starts the extender with two workers and a generated fleet, and sends requests over kept-alive connections
without TLS. The client uses plain sockets, so that its own time is a small part of the figures.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

import carried
import click
import kube_scheduler
import msgspec
from served import measure, post, serving
from workloads import Scenario, generated

from berthmaster.model.decode import encode_json
from berthmaster.native_api.wire import ScheduleRequest


def native_requests(workload: Scenario) -> list[bytes]:
    """Return ``POST /v1/schedule`` with each binding of a workload."""
    return [post("/v1/schedule", encode_json(ScheduleRequest(binding))) for binding in workload.bindings]


KUBEADMIRAL_GROUPS = [
    {"affinityName": "primary", "labelSelector": {"matchLabels": {"env": "prod"}}},
    {"affinityName": "backup", "labelSelector": {"matchLabels": {"env": "stage"}}},
]
KUBEADMIRAL_UNIT: dict[str, Any] = {
    "apiVersion": "apps/v1", "kind": "Deployment", "resource": "deployments", "namespace": "shop", "name": "web",
    "annotations": {"policy.berthmaster.io/cluster-affinities": json.dumps(KUBEADMIRAL_GROUPS)},
    "schedulingMode": "Divide", "desiredReplicas": 6, "resourceRequest": {"cpu": "0", "memory": "0"},
    "currentClusters": [],
}  # fmt: skip


def federated(index: int) -> dict[str, Any]:
    """Return a FederatedCluster that serves 60 kinds."""
    amounts = {"cpu": "64", "memory": "256Gi"}
    served = {"group": "apps", "version": "v1", "scope": "Namespaced"}
    return {
        "metadata": {"name": f"member{index}", "labels": {"env": ("prod", "stage", "dev")[index % 3]}},
        "spec": {"apiEndpoint": "https://10.0.0.1:6443", "taints": []},
        "status": {
            "conditions": [{"type": kind, "status": "True"} for kind in ("Joined", "Ready")],
            "resources": {"schedulableNodes": 3, "allocatable": amounts, "available": amounts},
            "apiResourceTypes": [{**served, "kind": f"Kind{i}", "pluralName": f"kind{i}s"} for i in range(60)],
        },
    }


def kubeadmiral_requests(verb: str) -> list[bytes]:
    """Return ``filter`` or ``score`` requests for one cluster and an object with two groups."""
    bodies = [{"schedulingUnit": KUBEADMIRAL_UNIT, "cluster": federated(index)} for index in range(32)]
    return [post(f"/kubeadmiral/v1alpha1/{verb}", msgspec.json.encode(body)) for body in bodies]


def kube_scheduler_requests(verb: str, names: Sequence[str]) -> list[bytes]:
    """Return a ``filter`` or ``prioritize`` request with node names, for a pod with a placement of two groups."""
    body = msgspec.json.encode({"Pod": kube_scheduler.pod(), "Nodes": None, "NodeNames": names})
    return [post(f"/kube-scheduler/{verb}", body)]


@click.command()
@click.option("--size", default=1000, show_default=True, help="Clusters in the fleet: one of the generated sizes.")
@click.option("--count", default=3000, show_default=True, type=click.IntRange(10), help="Requests over one connection.")
@click.option("--connections", default=4, show_default=True, type=click.IntRange(1), help="Connections of the pool.")
@click.option("--seconds", default=5.0, show_default=True, help="The duration of the pool's load.")
def main(size: int, count: int, connections: int, seconds: float) -> None:
    """Print the times of requests."""
    workload = next(each for each in generated(7) if len(each.clusters) == size)
    print(f"{size} clusters, {os.cpu_count()} cores, 2 workers, plain HTTP, {connections} connections in the pool\n")
    print(f"{'':>36} {'p50 ms':>8} {'p99 ms':>8} {'per second':>10}")
    with serving(workload.clusters, "--workers=2") as server:
        names = [cluster.name for cluster in workload.clusters[:10]]
        asked = {
            "POST /v1/schedule": native_requests(workload),
            "KubeAdmiral filter, one cluster": kubeadmiral_requests("filter"),
            "KubeAdmiral score, one cluster": kubeadmiral_requests("score"),
            "kube-scheduler filter, 10 names": kube_scheduler_requests("filter", names),
            "kube-scheduler prioritize, 10 names": kube_scheduler_requests("prioritize", names),
        }
        for what, requests in asked.items():
            figures = measure(server, requests, count=count, connections=connections, seconds=seconds)
            print(f"{what:>36} {figures.p50:8.3f} {figures.p99:8.3f} {figures.rate:10,.0f}", flush=True)
        carrying = [
            carried.native(workload),
            carried.select(KUBEADMIRAL_UNIT, [federated(index) for index in range(size)]),
            carried.nodes("filter", size),
            carried.nodes("prioritize", size),
        ]
        print()
        for line in carried.figures(server, carrying):
            print(line, flush=True)


if __name__ == "__main__":
    main()
