"""Policies that preempt, and resources with the claims of Karmada's detector."""

from collections.abc import Mapping
from typing import Any, Final

from e2e.api import Api
from e2e.manifests import JSON, propagation_policy, unique
from e2e.processes import wait_for
from karmada_plane import new_deployment

P: Final = "propagationpolicy.karmada.io/"
LIMIT_S: Final = 20.0
DROP: Final = "policy.berthmaster.io/priority-drop"


def policy(namespace: str, of: Mapping[str, Any], priority: int, *, always: bool = True) -> JSON:
    """Return a policy for one resource, with a permanent id as Karmada's webhook adds it."""
    metadata = of["metadata"]
    selector = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": metadata["name"], "namespace": namespace}
    spec = {"resourceSelectors": [selector], "priority": priority, "preemption": "Always" if always else "Never"}
    made = propagation_policy(namespace, **spec)
    made["metadata"]["labels"] = {f"{P}permanent-id": unique("id")}
    return made


def deployment(namespace: str) -> JSON:
    return new_deployment(unique("web"), 0, namespace=namespace)


def claim_of(by: JSON) -> tuple[JSON, JSON]:
    metadata = by["metadata"]
    annotations = {f"{P}namespace": metadata["namespace"], f"{P}name": metadata["name"]}
    return {f"{P}permanent-id": metadata["labels"][f"{P}permanent-id"]}, annotations


def claim(api: Api, resource: JSON, by: JSON) -> None:
    """Write the claim of a policy as Karmada's detector does."""
    labels, annotations = claim_of(by)
    api.patch(resource, {"metadata": {"labels": labels, "annotations": annotations}})


def taken(api: Api, resource: JSON, by: JSON) -> None:
    labels, annotations = claim_of(by)

    def claimed() -> bool | None:
        found = api.get(resource)["metadata"]
        return (
            labels.items() <= found["labels"].items() and annotations.items() <= found["annotations"].items()
        ) or None

    wait_for(f"{by['metadata']['name']} to have it", claimed, LIMIT_S)


def cleared(api: Api, fallen: JSON) -> None:
    wait_for(
        "the record to be cleared",
        lambda: DROP not in api.get(fallen)["metadata"].get("annotations", {}) or None,
        LIMIT_S,
    )
