"""Objects as an API server of Karmada stores them: with UIDs, claims and the record of the last scheduling."""

from collections.abc import Iterable, Mapping
from typing import Any

from builders import cluster, deployment

from berthmaster.manifests import Document, Manifests, overlaid
from berthmaster.manifests.loader import manifests_of
from berthmaster.model.binding import APPLIED_PLACEMENT, binding_name
from berthmaster.model.decode import builtins, convert, encode_json
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted

SCHEDULED_AT = "2026-01-01T00:00:00Z"
DIVIDED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
RECORD = {
    "apiVersion": "berthmaster.io/v1alpha1",
    "kind": "FleetSnapshot",
    "metadata": {"name": "test"},
    "readAt": "2026-05-01T00:00:00Z",
}
"""The record of a read, which makes a file a dump."""
CLUSTER = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
_PREFIX = {"PropagationPolicy": "propagationpolicy", "ClusterPropagationPolicy": "clusterpropagationpolicy"}


def members(*names: str, **fields: Any) -> list[dict[str, Any]]:
    """Clusters with 8 CPUs each."""
    return [{**builtins(cluster(name, cpu="8", memory="8Gi", **fields)), **CLUSTER} for name in names]


def stored_policy(
    name: str = "web",
    *,
    to: Iterable[str] = (),
    kind: str = "PropagationPolicy",
    target: Mapping[str, Any] | None = None,
    selects: str = "apps/v1/Deployment",
    new: bool = False,
    placement: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A policy that selects a kind, or the resource that ``target`` names. ``new``: no API server has stored it."""
    api_version, _, selected = selects.rpartition("/")
    affinity = {"clusterAffinity": {"clusterNames": list(to)}} if to else {}
    stored = {"uid": f"uid-{name}", "labels": {f"{_PREFIX[kind]}.karmada.io/permanent-id": f"id-{name}"}}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            **({"namespace": "default"} if kind == "PropagationPolicy" else {}),
            **({} if new else stored),
        },
        "spec": {
            "resourceSelectors": [{"apiVersion": api_version, "kind": selected, **(target or {})}],
            "placement": {**affinity, **(placement or {})},
            **spec,
        },
    }


def claim_of(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The labels and annotations by which a resource and its binding record the policy that holds them."""
    prefix, metadata = f"{_PREFIX[policy['kind']]}.karmada.io", policy["metadata"]
    namespace = {f"{prefix}/namespace": metadata["namespace"]} if "namespace" in metadata else {}
    return {
        "labels": {f"{prefix}/permanent-id": f"id-{metadata['name']}"},
        "annotations": {f"{prefix}/name": metadata["name"], **namespace},
    }


def stored_template(
    raw: Mapping[str, Any] | None = None,
    *,
    held_by: Mapping[str, Any] | None = None,
    name: str = "web",
    replicas: int = 2,
) -> dict[str, Any]:
    """A resource, by default a Deployment, that a policy holds."""
    raw = raw if raw is not None else deployment(name, replicas=replicas, requests={"cpu": "100m"})
    claim = claim_of(held_by) if held_by is not None else {}
    metadata = {**raw["metadata"], **claim, "uid": f"uid-{raw['metadata']['name']}", "resourceVersion": "5"}
    return {**raw, "metadata": metadata}


def stored_binding(
    template: Mapping[str, Any],
    clusters: Mapping[str, int],
    *,
    policy: Mapping[str, Any] | None = None,
    replicas: int | None = 2,
    applied: bool = True,
    observed: str = "",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """The binding of a resource: scheduled to ``clusters`` by the placement of its policy.

    Without a policy it is attached: it has no placement and no label of a policy. ``replicas`` of None have no
    requirements either. Further fields of the spec have their JSON names.
    """
    metadata = template["metadata"]
    resource = {"apiVersion": template["apiVersion"], "kind": template["kind"], "name": metadata["name"]}
    own: dict[str, Any] = {}
    claim: dict[str, Any] = {"labels": {}, "annotations": {}}
    if policy is not None:
        decoded = defaulted(convert(Policy, policy))
        placement = builtins(decoded.spec.placement)
        own = {
            "placement": placement,
            "schedulerName": "default-scheduler",
            "propagateDeps": decoded.spec.propagate_deps,
        }
        claim = claim_of(policy)
        if applied:
            claim["annotations"][APPLIED_PLACEMENT] = encode_json(decoded.spec.placement).decode()
    wanted = (
        {} if replicas is None else {"replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "100m"}}}
    )
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": binding_name(template["kind"], metadata["name"]),
            "namespace": metadata["namespace"],
            "uid": f"uid-rb-{metadata['name']}",
            "resourceVersion": "6",
            "labels": claim["labels"],
            "annotations": {**claim["annotations"], **(annotations or {})},
        },
        "spec": {
            "resource": {**resource, "namespace": metadata["namespace"], "uid": metadata.get("uid", "")},
            **wanted,
            "clusters": [{"name": name, **({"replicas": n} if n else {})} for name, n in clusters.items()],
            **own,
            **spec,
        },
        "status": {"lastScheduledTime": SCHEDULED_AT, "schedulerObservingAffinityName": observed},
    }


def load(*objects: Mapping[str, Any], over: Iterable[Mapping[str, Any]] = ()) -> Manifests:
    """The manifests of stored objects, with objects of files that would be applied over them."""
    documents = [Document("dump", number, "", dict(each)) for number, each in enumerate(objects, 1)]
    files = [Document("file", number, "", dict(each)) for number, each in enumerate(over, 1)]
    return manifests_of(overlaid(documents, [each.with_namespace() for each in files]), "dump")
