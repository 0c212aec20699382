"""Nodes, pods and request bodies of kube-scheduler for tests, in Go's format.

A node is ready, with free resources and without taints. A pod has small requests and no owner.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fake_clock import START, FakeClock
from fake_metrics import FakeMetrics

from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.kube_scheduler import KubeSchedulerOptions, routes
from extender.protocols.services import Call, Services
from extender.state.state import State

ANNOTATION = "policy.berthmaster.io/placement"


def node(
    name: str,
    *,
    cpu: str = "4",
    pods: str = "110",
    taints: Iterable[Mapping[str, Any]] = (),
    unschedulable: bool = False,
    provider_id: str = "",
    deleting: bool = False,
    **labels: str,
) -> dict[str, Any]:
    """Return a node with fields that the extender ignores and with Go's nulls. Labels are keyword arguments."""
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": None, "labels": labels}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: dict[str, Any] = {"podCIDR": "10.0.0.0/24"}
    if taints:
        spec["taints"] = [dict(each) for each in taints]
    if unschedulable:
        spec["unschedulable"] = True
    if provider_id:
        spec["providerID"] = provider_id
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": None}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {"kubeletVersion": ""},
        },
    }


def pod(
    *groups: Mapping[str, Any],
    name: str = "web-1",
    namespace: str = "shop",
    placement: Mapping[str, Any] | str | None = None,
    nominated: str = "",
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
    cpu: str = "100m",
    tolerations: Sequence[Mapping[str, Any]] = (),
    node_selector: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod. Its annotation has these groups, or this placement."""
    if groups:
        placement = {"clusterAffinities": list(groups)}
    text = placement if isinstance(placement, str) else json.dumps(placement)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": dict(labels or {}),
        "annotations": {} if placement is None else {ANNOTATION: text},
    }
    if owner is not None:
        metadata["ownerReferences"] = [{"uid": "u", "controller": True, **owner}]
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], "tolerations": list(tolerations), "nodeSelector": node_selector},
        "status": {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})},
    }


def group(name: str, *nodes: str, **labels: str) -> dict[str, Any]:
    by_labels = {"labelSelector": {"matchLabels": labels}} if labels else {}
    return {"affinityName": name, **by_labels, **({"clusterNames": list(nodes)} if nodes else {})}


def with_names(asked: Mapping[str, Any], names: Iterable[str]) -> bytes:
    """Return the body of a scheduler with ``nodeCacheCapable: true``."""
    return json.dumps({"Pod": asked, "Nodes": None, "NodeNames": list(names)}).encode()


def with_nodes(asked: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the body of a scheduler with ``nodeCacheCapable: false``."""
    return json.dumps({"Pod": asked, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}).encode()


class Service:
    """The protocol with a fleet of known nodes. ``ask`` returns the decoded answer."""

    def __init__(
        self,
        nodes: Iterable[Mapping[str, Any]] | None = (),
        policies: Sequence[Policy] = (),
        options: KubeSchedulerOptions | None = None,
    ) -> None:
        self.state = State(karmada_profile())
        self.metrics, self.clock = FakeMetrics(), FakeClock.at(START)
        if nodes is not None:
            with self.state.updating(START) as cache:
                for each in nodes:
                    cache.apply_cluster(cluster_of_node(convert(Node, each)))
                cache.replace_policies(tuple(policies))
        self.services = Services(self.state, self.metrics, logging.getLogger("test"), self.clock)
        self._handlers = {route.path: route.handler for route in routes(options)}

    def ask(self, verb: str, body: bytes) -> Any:
        reply = self._handlers[f"/kube-scheduler/{verb}"](self.services, Call("request-1", 1e9, body))
        assert reply.status == 200
        return json.loads(reply.body)

    def filter(self, asked: Mapping[str, Any], names: Iterable[str]) -> Any:
        return self.ask("filter", with_names(asked, names))

    def filter_nodes(self, asked: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> Any:
        return self.ask("filter", with_nodes(asked, nodes))
