"""The binding that the detector makes from a template and a policy.

Source: karmada-semantics.md, section 2.4, steps 3 and 4.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from karmada_model.claiming import CLUSTER, RECORDS
from kube_store import JSON

from berthmaster.model.decode import encode_json
from berthmaster.model.replicas import replicas_of

WORK: Final = "work.karmada.io/v1alpha2"
PERMANENT_ID: Final = {
    "ResourceBinding": "resourcebinding.karmada.io/permanent-id",
    "ClusterResourceBinding": "clusterresourcebinding.karmada.io/permanent-id",
}
"""The label by which Works refer to their binding. Karmada's webhook sets it."""
FINALIZER: Final = {
    "ResourceBinding": "karmada.io/binding-controller",
    "ClusterResourceBinding": "karmada.io/cluster-resource-binding-controller",
}
_FROM_POLICY: Final = ("propagateDeps", "schedulerName", "placement", "failover", "conflictResolution")
_OVERWRITTEN: Final = (
    "resource", "replicaRequirements", "replicas", "schedulerName", "placement", "failover", "conflictResolution",
    "preserveResourcesOnDeletion",
)  # fmt: skip
_ONLY_NAMESPACED: Final = ("propagateDeps", "schedulePriority")
"""The detector overwrites these fields of a ResourceBinding, and only creates them in a ClusterResourceBinding."""


def binding_name(kind: str, name: str) -> str:
    return f"{name.replace(':', '.')}-{kind}".lower()


def build(template: JSON, policy: JSON, priority: int | None = None) -> JSON:
    """Return the binding that a policy wants for a template. ``priority`` is the value of its priority class."""
    metadata, spec = template["metadata"], policy["spec"]
    namespace = metadata.get("namespace", "")
    kind = "ResourceBinding" if namespace else "ClusterResourceBinding"
    name = binding_name(template["kind"], metadata["name"])
    where = {"namespace": namespace} if namespace else {}
    binding: JSON = {
        "apiVersion": WORK,
        "kind": kind,
        "metadata": {
            "name": name,
            **where,
            "labels": {PERMANENT_ID[kind]: f"of-{metadata['uid']}"},
            "finalizers": [FINALIZER[kind]],
            "ownerReferences": [_owner(template)],
        },
        "spec": {
            "resource": _reference(template),
            **{field: spec[field] for field in _FROM_POLICY if field in spec},
            **_replicas(template),
        },
    }
    binding["spec"].setdefault("placement", {})
    if spec.get("preserveResourcesOnDeletion") is not None:
        binding["spec"]["preserveResourcesOnDeletion"] = spec["preserveResourcesOnDeletion"]
    if priority is not None and namespace:
        binding["spec"]["schedulePriority"] = {"priority": priority}
    if spec.get("suspension") is not None:
        binding["spec"]["suspension"] = dict(spec["suspension"])
    RECORDS[policy["kind"]].write(binding, policy)
    return binding


def merge(found: JSON, wanted: JSON, policy: JSON) -> None:
    """Update an existing binding. The assignment, eviction tasks and what requires it stay."""
    metadata, new = found["metadata"], wanted["metadata"]
    labels = {**new["labels"], **metadata.get("labels", {})}
    policy_label = RECORDS[policy["kind"]].label
    metadata["labels"] = {**labels, policy_label: new["labels"][policy_label]}
    metadata["annotations"] = {**metadata.get("annotations", {}), **new["annotations"]}
    metadata["finalizers"] = sorted({*metadata.get("finalizers", ()), *new["finalizers"]})
    metadata["ownerReferences"] = new["ownerReferences"]
    namespaced = found["kind"] == "ResourceBinding"
    for field in (*_OVERWRITTEN, *(_ONLY_NAMESPACED if namespaced else ())):
        if field in wanted["spec"]:
            found["spec"][field] = wanted["spec"][field]
        else:
            found["spec"].pop(field, None)
    _merge_suspension(found["spec"], policy["spec"].get("suspension"))
    if policy["kind"] == "PropagationPolicy" and namespaced:
        CLUSTER.remove(found)


def _merge_suspension(spec: JSON, of_policy: Mapping[str, Any] | None) -> None:
    scheduling = {key: value for key, value in spec.get("suspension", {}).items() if key == "scheduling"}
    merged = {**scheduling, **(of_policy or {})}
    if merged:
        spec["suspension"] = merged
    else:
        spec.pop("suspension", None)


def _owner(template: JSON) -> JSON:
    return {
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "name": template["metadata"]["name"],
        "uid": template["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _reference(template: JSON) -> JSON:
    metadata = template["metadata"]
    fields = ("namespace", "name", "uid", "resourceVersion")
    named = {field: metadata[field] for field in fields if field in metadata}
    return {"apiVersion": template["apiVersion"], "kind": template["kind"], **named}


def _replicas(template: JSON) -> JSON:
    """Return the replicas and their requirements, without empty fields, as Go writes them."""
    found = replicas_of(template)
    spec: JSON = {"replicas": found.number} if found.number else {}
    if found.requirements is not None:
        given = json.loads(encode_json(found.requirements))
        given.pop("priorityClassName", None)  # only with the gate ResourceQuotaEstimate
        requirements = {field: value for field, value in given.items() if value not in (None, "", {}, [])}
        if requirements:
            spec["replicaRequirements"] = requirements
    return spec
