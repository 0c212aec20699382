"""What the demo asks the extender."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from berthmaster_cli.demo.service import Service

_CLUSTER = """
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {{name: {name}, labels: {{site: {site}}}}}
spec: {{region: {region}}}
status:
  conditions: [{{type: Ready, status: "True"}}]
  apiEnablements:
    - groupVersion: apps/v1
      resources: [{{kind: Deployment, name: deployments}}]
  resourceSummary:
    allocatable: {{cpu: "{cpu}", memory: 64Gi, pods: "220"}}
---
"""
_BINDING: dict[str, Any] = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {"name": "web-deployment", "namespace": "shop"},
    "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
        "replicas": 12,
        "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {
            "clusterAffinities": [
                {"affinityName": "on-premises", "labelSelector": {"matchLabels": {"site": "dc"}}},
                {"affinityName": "cloud", "labelSelector": {"matchLabels": {"site": "cloud"}}},
            ],
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
        },
    },
}


def write_fleet(folder: Path) -> Path:
    """A folder of manifests for the extender to serve: one small cluster on premises, two in a cloud."""
    fleet = folder / "fleet"
    fleet.mkdir()
    clusters = (("dc-1", "dc", "eu-west", 8), ("cloud-1", "cloud", "eu-west", 32), ("cloud-2", "cloud", "eu-north", 32))
    text = "".join(
        _CLUSTER.format(name=name, site=site, region=region, cpu=cpu) for name, site, region, cpu in clusters
    )
    (fleet / "clusters.yaml").write_text(text)
    return fleet


def show_extender(console: Console, service: Service) -> None:
    """The same question in the words of three control planes."""
    console.print("\n[bold]Its own API: 12 replicas do not fit on premises, so the cloud takes them:[/]")
    answer = service.ask("POST", "/v1/schedule?explain=true", {"binding": _BINDING})
    console.print(f"  group {answer['group']}, clusters {json.dumps(answer['clusters'])}", markup=False)
    for group in answer["diagnosis"]["groups"]:
        failure = group["failure"]
        console.print(f"  {group['group']}: {failure['message'] if failure else 'taken'}", markup=False)

    console.print("\n[bold]KubeAdmiral's scheduler webhook: may this cluster take the object, and how good is it?[/]")
    asked = {"schedulingUnit": _unit(), "cluster": _federated("cloud-1")}
    for verb in ("filter", "score"):
        told = service.ask("POST", f"/kubeadmiral/v1alpha1/{verb}", asked)
        console.print(f"  {verb}: {json.dumps(told)}", markup=False)

    console.print("\n[bold]kube-scheduler's extender protocol: which nodes, each standing for a cluster?[/]")
    told = service.ask(
        "POST", "/kube-scheduler/filter", {"Pod": _pod(), "Nodes": {"items": _nodes()}, "NodeNames": None}
    )
    kept = [node["metadata"]["name"] for node in (told.get("Nodes") or {}).get("items") or []]
    console.print(f"  kept: {', '.join(kept)}", markup=False)
    for kind in ("FailedNodes", "FailedAndUnresolvableNodes"):
        for node, reason in (told.get(kind) or {}).items():
            console.print(f"  {node}: {reason}", markup=False)


def _groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = _BINDING["spec"]["placement"]["clusterAffinities"]
    return groups


def _unit() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "resource": "deployments",
        "namespace": "shop",
        "name": "web",
        "schedulingMode": "Divide",
        "desiredReplicas": 12,
        "resourceRequest": {"cpu": "0", "memory": "0", "ephemeral-storage": "0"},
        "currentClusters": [],
        "annotations": {"policy.berthmaster.io/cluster-affinities": json.dumps(_groups())},
    }


def _federated(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"site": "cloud"}}, "spec": {}, "status": {"resources": {}}}


def _pod() -> dict[str, Any]:
    placement = json.dumps({"clusterAffinities": _groups()})
    return {
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "annotations": {"policy.berthmaster.io/placement": placement},
        },
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]},
    }


def _nodes() -> list[dict[str, Any]]:
    """The cluster on premises is cordoned."""
    return [
        {
            "metadata": {"name": name, "labels": {"site": site}},
            "spec": {"unschedulable": True} if site == "dc" else {},
            "status": {
                "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "220"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for name, site in (("dc-1", "dc"), ("cloud-1", "cloud"), ("cloud-2", "cloud"))
    ]
