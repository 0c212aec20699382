"""Policies that preempt, and resources with the claims of Karmada's detector."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from access_rules import role_rule
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import Controllers, start_controllers, wait_for_leader
from e2e.manifests import JSON, cluster_propagation_policy, propagation_policy, unique
from e2e.processes import Processes, wait_for

from berthmaster.controllers.rbac import rules_of

P: Final = "propagationpolicy.karmada.io/"
C: Final = "clusterpropagationpolicy.karmada.io/"
PP: Final = "PropagationPolicy"
CPP: Final = "ClusterPropagationPolicy"
GATE: Final = "--feature-gates=PolicyPreemption=true"
LIMIT_S: Final = 20.0
Run = Callable[..., Controllers]
DROP: Final = "policy.berthmaster.io/priority-drop"


def policy(
    kind: str, namespace: str, of: Mapping[str, Any], priority: int = 0, *, always: bool = True, drop: str = ""
) -> JSON:
    """Return a policy for one resource, with a permanent id as Karmada's webhook adds it."""
    metadata = of["metadata"]
    where = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    selector = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": metadata["name"], **where}
    spec = {"resourceSelectors": [selector], "priority": priority, "preemption": "Always" if always else "Never"}
    made = propagation_policy(namespace, **spec) if kind == "PropagationPolicy" else cluster_propagation_policy(**spec)
    prefix = P if kind == "PropagationPolicy" else C
    made["metadata"]["labels"] = {f"{prefix}permanent-id": unique("id")}
    if drop:
        made["metadata"]["annotations"] = {DROP: drop}
    return made


def deployment(namespace: str) -> JSON:
    """A Deployment without a claim."""
    name = unique("web")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.org/none:1"}]},
            },
        },
    }


def claim(api: Api, resource: JSON, by: JSON) -> JSON:
    """Write the claim of a policy as Karmada's detector does. It replaces any other claim."""
    metadata = by["metadata"]
    prefix = P if by["kind"] == "PropagationPolicy" else C
    identity = metadata["labels"][f"{prefix}permanent-id"]
    annotations: JSON = {f"{prefix}name": metadata["name"]}
    labels: JSON = {f"{prefix}permanent-id": identity}
    if prefix == P:
        annotations |= {f"{P}namespace": metadata["namespace"], f"{C}name": None}
        labels[f"{C}permanent-id"] = None
    return api.patch(resource, {"metadata": {"labels": labels, "annotations": annotations}}).object


def claims(stored: JSON) -> JSON:
    """Return the labels and annotations of a resource's claim."""
    found = {**stored["metadata"].get("labels", {}), **stored["metadata"].get("annotations", {})}
    return {key: value for key, value in found.items() if key.startswith((P, C))}


def claims_of(by: JSON) -> JSON:
    """The labels and annotations of a resource that exactly one policy claims."""
    metadata = by["metadata"]
    if by["kind"] == "ClusterPropagationPolicy":
        return {f"{C}permanent-id": metadata["labels"][f"{C}permanent-id"], f"{C}name": metadata["name"]}
    return {
        f"{P}permanent-id": metadata["labels"][f"{P}permanent-id"],
        f"{P}namespace": metadata["namespace"],
        f"{P}name": metadata["name"],
    }


def start(processes: Processes, plane: ControlPlane, *flags: str, user: str = "") -> Controllers:
    """Start a process that runs only the preemption controller, with only its rights. Wait until it leads."""
    namespace, name = plane.new_namespace(), user or unique("preemption")
    rules = [
        (role_rule(rule, "berthmaster-controllers"), namespace if rule.scope == "lease" else None)
        for rule in rules_of(["preemption"])
    ]
    kubeconfig = plane.user(name, rules)
    flags = ("--controllers=preemption", GATE, *flags)
    running = start_controllers(processes, plane, namespace, *flags, kubeconfig=kubeconfig)
    wait_for_leader([running], LIMIT_S)
    return running


def taken(api: Api, resource: JSON, by: JSON) -> None:
    """Wait until a policy has a resource and no other policy claims it."""
    wait_for(
        f"{by['metadata']['name']} to have it", lambda: claims(api.get(resource)) == claims_of(by) or None, LIMIT_S
    )


def cleared(api: Api, fallen: JSON) -> None:
    """Wait until the record of a priority drop is removed."""
    wait_for(
        "the record to be cleared",
        lambda: DROP not in api.get(fallen)["metadata"].get("annotations", {}) or None,
        LIMIT_S,
    )


def remove(api: Api, *policies: JSON) -> None:
    """Delete the cluster-scoped policies, which other tests would see."""
    for each in policies:
        if each["kind"] == CPP and api.exists(each):
            api.delete(each)
