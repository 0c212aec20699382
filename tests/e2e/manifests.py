"""Minimal manifests of every kind that the API server accepts; a test adds its subject."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

KARMADA: Final = "policy.karmada.io/v1alpha1"
KUBEADMIRAL: Final = "core.kubeadmiral.io/v1alpha1"

JSON = dict[str, Any]


def unique(prefix: str) -> str:
    """Return a unique name; cluster-scoped objects of all tests share one namespace of names."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def manifest(api_version: str, kind: str, namespace: str | None, spec: Mapping[str, Any]) -> JSON:
    """An object by a fresh name; ``namespace`` is None for a cluster-scoped kind."""
    metadata = {"name": unique(kind.lower())} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def deployments(**more: Any) -> JSON:
    """A resource selector for one Deployment, by default ``web``."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", **more}


def propagation_policy(namespace: str, **spec: Any) -> JSON:
    """A Karmada PropagationPolicy; by default it places on all clusters."""
    return manifest(KARMADA, "PropagationPolicy", namespace, {"resourceSelectors": [deployments()], **spec})


def cluster_propagation_policy(**spec: Any) -> JSON:
    selector = deployments(namespace="default")
    return manifest(KARMADA, "ClusterPropagationPolicy", None, {"resourceSelectors": [selector], **spec})


def workload_rebalancer(*workloads: Mapping[str, Any], **spec: Any) -> JSON:
    """A Karmada WorkloadRebalancer; by default of one Deployment."""
    listed = list(workloads) or [deployments(namespace="default")]
    return manifest("apps.karmada.io/v1alpha1", "WorkloadRebalancer", None, {"workloads": listed, **spec})


def admiral_policy(namespace: str, **spec: Any) -> JSON:
    return manifest(KUBEADMIRAL, "PropagationPolicy", namespace, {"schedulingMode": "Divide", **spec})


def admiral_cluster_policy(**spec: Any) -> JSON:
    return manifest(KUBEADMIRAL, "ClusterPropagationPolicy", None, {"schedulingMode": "Divide", **spec})


def policies_of_every_kind(namespace: str) -> dict[str, JSON]:
    """One acceptable object of each kind a user writes, by a short word for it."""
    return {
        "PropagationPolicy": propagation_policy(namespace),
        "ClusterPropagationPolicy": cluster_propagation_policy(),
        "WorkloadRebalancer": workload_rebalancer(),
        "KubeAdmiral PropagationPolicy": admiral_policy(namespace),
        "KubeAdmiral ClusterPropagationPolicy": admiral_cluster_policy(),
    }


EVERY_KIND: Final = tuple(policies_of_every_kind("any"))


def node(cpu: str = "4", memory: str = "8Gi", **labels: str) -> JSON:
    name = unique("node")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": node_status(cpu, memory),
    }


def node_status(cpu: str, memory: str) -> JSON:
    """The status that a healthy kubelet reports."""
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {"allocatable": room, "capacity": room, "conditions": [ready]}


def pod(namespace: str, scheduler: str, cpu: str = "1", **spec: Any) -> JSON:
    container = {"name": "main", "image": "example.org/none:1", "resources": {"requests": {"cpu": cpu}}}
    return manifest("v1", "Pod", namespace, {"schedulerName": scheduler, "containers": [container], **spec})
