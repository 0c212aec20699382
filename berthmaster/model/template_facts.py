"""What the manifest of a resource says about its copies: whether they start, and what data they have."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berthmaster.model.decode import mapping_of
from berthmaster.model.dependencies import dependencies_of

CLAIM: Final = "PersistentVolumeClaim"
JOB: Final = "Job"
RETAINED: Final = "resourcetemplate.karmada.io/retain-replicas"
"""The label of a Deployment whose replicas each member decides, for example by a HorizontalPodAutoscaler."""
_PAUSED: Final[Mapping[str, str]] = {"Deployment": "paused", JOB: "suspend"}
"""The field of the spec of a kind that keeps new pods from being created."""
WITH_VOLUMES: Final = frozenset({
    ("apps/v1", "DaemonSet"), ("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"), ("batch/v1", JOB), ("v1", CLAIM), ("v1", "Pod"),
})  # fmt: skip
"""The kinds of Kubernetes whose copies can have volumes."""


class TemplateFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a manifest says about the copies of a resource.

    Attributes:
        paused: whether a new copy starts no pods.
        claims: the PersistentVolumeClaims that its pods use, or its own name if it is one.
        own_claims: the volumeClaimTemplates of a StatefulSet. Each member creates the claims, and keeps them.
        retained: whether each member decides the replicas.
        defines: the kind that a CustomResourceDefinition defines, as ``KIND.GROUP``; empty for other resources.
    """

    paused: bool = False
    claims: tuple[str, ...] = ()
    own_claims: tuple[str, ...] = ()
    retained: bool = False
    defines: str = ""


def facts_of(raw: Mapping[str, Any]) -> TemplateFacts:
    """Return what a manifest says. Fields of the wrong type count as absent: the API server rejects them."""
    kind, metadata, spec = str(raw.get("kind")), mapping_of(raw.get("metadata")), mapping_of(raw.get("spec"))
    needed = dependencies_of(raw) or ()
    claims = (
        (str(metadata.get("name")),) if kind == CLAIM else tuple(each.name for each in needed if each.kind == CLAIM)
    )
    return TemplateFacts(
        spec.get(_PAUSED.get(kind, "")) is True,
        claims,
        _own_claims(spec) if kind == "StatefulSet" else (),
        mapping_of(metadata.get("labels")).get(RETAINED) == "true",
        kind_of(str(mapping_of(spec.get("names")).get("kind")), str(spec.get("group")))
        if kind == "CustomResourceDefinition"
        else "",
    )


def kind_of(kind: str, group: str) -> str:
    """Return a kind of an API group as ``KIND.GROUP``."""
    return f"{kind}.{group}"


def _own_claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    found = spec.get("volumeClaimTemplates")
    listed = found if isinstance(found, list) else ()
    return tuple(str(mapping_of(mapping_of(each).get("metadata")).get("name")) for each in listed)
