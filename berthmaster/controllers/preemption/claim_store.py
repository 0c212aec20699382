"""Reads and writes the policies and resources of takeovers."""

from typing import NamedTuple

import msgspec

from berthmaster.controllers.preemption.policy_index import NamedKind
from berthmaster.kube.client import APIClient, MetadataOnlyClient, ask, ask_if_found
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.kube.requests import Collection, get, merge_patch
from berthmaster.kube.served_types import Discovery, ServedType
from berthmaster.model import claims
from berthmaster.model.decode import decode_json
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource


class FoundResource(NamedTuple):
    """A resource that exists: its collection and its metadata."""

    collection: Collection
    metadata: ObjectMeta


class _ClaimedObject(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def metadata_of(raw: bytes) -> ObjectMeta:
    """Decode the metadata of an object of any kind."""
    return decode_json(_ClaimedObject, raw).metadata


class ClaimStore:
    """Reads and writes policies and resources.

    Every method raises an ``ApiError`` for a failed request and an ``InputError`` for an unreadable object. A write is
    valid only for the version that was read; otherwise the ``ApiError`` is a conflict.
    """

    def __init__(self, client: APIClient, discovery: Discovery) -> None:
        self.metadata_client = MetadataOnlyClient(client)
        self._client = client
        self._discovery = discovery

    def served_kind(self, kind: NamedKind) -> ServedType | None:
        return self._discovery.find(kind.api_version, kind.kind)

    def resource(self, resource: Resource) -> FoundResource | None:
        """Read the metadata of a resource. Return None if it does not exist."""
        served = self._discovery.find(resource.api_version, resource.kind)
        if served is None or served.namespaced != bool(resource.namespace):
            return None
        raw = ask_if_found(self.metadata_client, get(served.collection, (resource.namespace, resource.name)))
        return FoundResource(served.collection, metadata_of(raw)) if raw is not None else None

    def patch_metadata(self, found: FoundResource, patch: claims.MetadataPatch) -> None:
        guarded = {**patch, "resourceVersion": found.metadata.resource_version}
        key = found.metadata.key
        ask(self.metadata_client, merge_patch(found.collection, key, {"metadata": guarded}))

    def policy(self, reference: PolicyReference) -> Policy | None:
        watched = POLICIES_BY_KIND[reference.kind]
        raw = ask_if_found(self._client, get(watched.collection, (reference.namespace, reference.name)))
        return watched.read(raw) if raw is not None else None

    def remove_annotation(self, policy: Policy, annotation: str) -> Policy | None:
        """Remove an annotation, and return the policy; None if it is gone. Admission may have restored it."""
        watched = POLICIES_BY_KIND[policy.kind]
        patch = {"metadata": {"resourceVersion": policy.metadata.resource_version, "annotations": {annotation: None}}}
        key = (policy.reference.namespace, policy.reference.name)
        raw = ask_if_found(self._client, merge_patch(watched.collection, key, patch))
        return watched.read(raw) if raw is not None else None
