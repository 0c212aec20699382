"""Karmada's objects on a control plane: Clusters, and the bindings that its detector would create."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import karmada_plane
from e2e.api import Api
from e2e.control_plane import START_LIMIT_S, served
from e2e.manifests import JSON, unique
from e2e.processes import wait_for

CLUSTERS: Final = "cluster.karmada.io/v1alpha1"
BINDINGS: Final = "work.karmada.io/v1alpha2"
SCHEDULER: Final = "berthmaster"
LABEL: Final = "propagationpolicy.karmada.io/permanent-id"

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(group: str, version: str, kind: str, scope: str, plural: str = "") -> JSON:
    """A definition that takes whatever is given, and keeps spec and status apart."""
    schema = {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
    plural = plural or f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


# In a Karmada install an aggregated API server serves this kind, and no definition of it is published.
CLUSTER_DEFINITION: Final = _definition("cluster.karmada.io", "v1alpha1", "Cluster", "Cluster")
QUOTA_DEFINITION: Final = _definition("policy.karmada.io", "v1alpha1", "FederatedResourceQuota", "Namespaced")
OVERRIDE_DEFINITIONS: Final = (
    _definition("policy.karmada.io", "v1alpha1", "OverridePolicy", "Namespaced", "overridepolicies"),
    _definition("policy.karmada.io", "v1alpha1", "ClusterOverridePolicy", "Cluster", "clusteroverridepolicies"),
)


def install_clusters(api: Api) -> None:
    _install(api, CLUSTER_DEFINITION)


def install_quotas(api: Api) -> None:
    _install(api, QUOTA_DEFINITION)


def install_overrides(api: Api) -> None:
    for each in OVERRIDE_DEFINITIONS:
        _install(api, each)


def _install(api: Api, definition: JSON) -> None:
    if not api.exists(definition):
        api.create(definition)
    name = definition["metadata"]["name"]
    wait_for(f"{name} to be served", lambda: served(api, definition), START_LIMIT_S)


def cluster(name: str = "", cpu: str = "100", pods: str = "1000", *, ready: bool = True, **spec: Any) -> JSON:
    """A member cluster as Karmada's agent would report it; ``labels`` are its own."""
    made = karmada_plane.cluster(name or unique("member"), **spec.pop("labels", {}))
    return {**made, "spec": {"syncMode": "Push", **spec}, "status": cluster_status(cpu, pods, ready=ready)}


def cluster_status(cpu: str = "100", pods: str = "1000", *, ready: bool = True) -> JSON:
    """A cluster's status: its resources, its API enablements and its Ready condition."""
    status: JSON = karmada_plane.cluster("")["status"]
    status["conditions"][0]["status"] = str(ready)
    status["resourceSummary"]["allocatable"] |= {"cpu": cpu, "pods": pods}
    return status


def join(api: Api, member: JSON) -> JSON:
    api.create(member)
    return api.patch(member, {"status": member["status"]}, subresource="status").object


@contextmanager
def present(api: Api, *objects: JSON) -> Iterator[None]:
    """Objects, with their statuses, that are there until the end of the block."""
    install_clusters(api)
    for each in objects:
        api.create(each)
        if "status" in each:
            api.patch(each, {"status": each["status"]}, subresource="status")
    yield
    for each in reversed(objects):
        api.delete(each)


def divided(*groups: tuple[str, list[str]]) -> JSON:
    """A placement that divides replicas by available replicas over the first group that holds them."""
    return {
        "clusterAffinities": [{"affinityName": name, "clusterNames": clusters} for name, clusters in groups],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    }


def binding(namespace: str, placement: JSON, replicas: int = 2, cpu: str = "1", **spec: Any) -> JSON:
    """The binding of a Deployment that a policy claims."""
    name = unique("web")
    return {
        "apiVersion": BINDINGS,
        "kind": "ResourceBinding",
        "metadata": {
            "name": f"{name}-deployment",
            "namespace": namespace,
            "labels": {LABEL: "0b1c"},
        },
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": namespace,
                "name": name,
                "uid": f"uid-{name}",
            },
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": cpu}},
            "placement": placement,
            "schedulerName": SCHEDULER,
            **spec,
        },
    }


def assigned(binding: JSON) -> dict[str, int]:
    return {each["name"]: each.get("replicas", 0) for each in binding["spec"].get("clusters") or []}


def condition(binding: JSON) -> JSON:
    """The ``Scheduled`` condition; empty if there is none."""
    conditions = binding.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Scheduled"), {})
