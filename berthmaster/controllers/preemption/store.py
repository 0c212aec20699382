"""Policies and resources as they are right now: fresh reads, and the one guarded write to each."""

from typing import Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.client_wrappers import MetadataOnlyClient
from berthmaster.kube.discovery import Discovery, ServedKind
from berthmaster.kube.kinds import KARMADA_POLICIES
from berthmaster.kube.requests import Collection, get, merge_patch
from berthmaster.model.claims import MetadataPatch, Resource
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference

POLICIES: Final = dict(zip(("PropagationPolicy", "ClusterPropagationPolicy"), KARMADA_POLICIES, strict=True))
"""Where the policies of a kind are, and how they are read."""


class Found(NamedTuple):
    """A resource that is there.

    Attributes:
        collection: where it is.
        metadata: what is known of it.
    """

    collection: Collection
    metadata: ObjectMeta


class _Object(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def metadata_of(raw: bytes) -> ObjectMeta:
    """The metadata of an object of any kind.

    Raises:
        FieldError: it cannot be read.
    """
    return decode_json(_Object, raw).metadata


class Store:
    """What the API server holds. Whatever it raises is an ``ApiError``, or an ``InputError`` for what is not readable.

    Attributes:
        client: over which resources come without anything but their metadata.
    """

    def __init__(self, client: APIClient, discovery: Discovery) -> None:
        self.client = MetadataOnlyClient(client)
        self._whole = client
        self._discovery = discovery

    def served(self, api_version: str, kind: str) -> ServedKind | None:
        """Where a kind is served; None if it is not."""
        return self._discovery.find(api_version, kind)

    def resource(self, resource: Resource, served: ServedKind) -> Found | None:
        """A resource as it is now; None if there is none."""
        if served.namespaced != bool(resource.namespace):
            return None
        try:
            raw = ask(self.client, get(served.collection, (resource.namespace, resource.name)))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return Found(served.collection, metadata_of(raw))

    def change(self, found: Found, change: MetadataPatch) -> None:
        """Change the metadata of a resource, if it is still as it was found (else it raises a conflict)."""
        guarded = {**change, "resourceVersion": found.metadata.resource_version}
        key = (found.metadata.namespace, found.metadata.name)
        ask(self.client, merge_patch(found.collection, key, {"metadata": guarded}))

    def policy(self, reference: PolicyReference) -> Policy | None:
        """A policy as it is now; None if there is none."""
        watched = POLICIES[reference.kind]
        try:
            raw = ask(self._whole, get(watched.collection, (reference.namespace, reference.name)))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return watched.read(raw)

    def without_annotation(self, policy: Policy, key: str) -> Policy:
        """Take an annotation off a policy, if that is still as it was read (else it raises a conflict).

        Returns:
            the policy as the API server has it now, which is with the annotation where admission does not let it go.
        """
        watched = POLICIES[policy.kind]
        change = {"metadata": {"resourceVersion": policy.metadata.resource_version, "annotations": {key: None}}}
        where = (policy.reference.namespace, policy.reference.name)
        return watched.read(ask(self._whole, merge_patch(watched.collection, where, change)))
