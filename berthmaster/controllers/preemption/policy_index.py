"""The observed policies that preempt, indexed by what they name; and fresh reads and guarded writes of objects."""

import threading
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, MetadataOnlyClient, ask, ask_if_found
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.kube.requests import Collection, get, merge_patch
from berthmaster.kube.served_types import Discovery, ServedKind
from berthmaster.model.claims import (
    MetadataPatch,
    PriorityDrop,
    Resource,
    named_resources,
    newly_eligible,
    strongest_first,
)
from berthmaster.model.decode import decode_json
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference


class NamedKind(NamedTuple):
    """A kind of resources that selectors name."""

    api_version: str
    kind: str


class PolicyIndex:
    """The policies that preempt, by the resources that they name. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policies: dict[PolicyReference, Policy] = {}
        self._naming: dict[Resource, set[PolicyReference]] = {}
        self._policies_of_kind: dict[NamedKind, int] = {}

    def update(self, before: Policy | None, after: Policy | None) -> None:
        """Replace the entry of a policy. ``before`` is None for a new policy, ``after`` for a deleted one."""
        with self._lock:
            if before is not None:
                self._remove(before)
            if after is not None:
                self._add(after)

    def naming(self, resource: Resource) -> list[Policy]:
        """Return the policies that may take over a resource, the strongest first."""
        with self._lock:
            return strongest_first(self._policies[each] for each in self._naming.get(resource, ()))

    def names(self, resource: Resource) -> bool:
        """Return whether any policy may take over a resource."""
        with self._lock:
            return resource in self._naming

    def names_kind(self, kind: NamedKind) -> bool:
        """Return whether any policy may take over resources of a kind."""
        with self._lock:
            return kind in self._policies_of_kind

    def newly_eligible(self, drop: PriorityDrop, dropped: Policy) -> list[Policy]:
        """Return the policies that may preempt after a policy has dropped in priority, the strongest first."""
        with self._lock:
            return newly_eligible(drop, dropped, self._policies.values())

    def _add(self, policy: Policy) -> None:
        resources = named_resources(policy)
        if not resources:
            return
        self._policies[policy.reference] = policy
        for resource in resources:
            self._naming.setdefault(resource, set()).add(policy.reference)
        for kind in kinds_of(resources):
            self._policies_of_kind[kind] = self._policies_of_kind.get(kind, 0) + 1

    def _remove(self, policy: Policy) -> None:
        indexed = self._policies.pop(policy.reference, None)
        if indexed is None:
            return
        resources = named_resources(indexed)
        for resource in resources:
            self._naming[resource].discard(policy.reference)
            if not self._naming[resource]:
                del self._naming[resource]
        for kind in kinds_of(resources):
            self._policies_of_kind[kind] -= 1
            if not self._policies_of_kind[kind]:
                del self._policies_of_kind[kind]


def kinds_of(resources: Iterable[Resource]) -> set[NamedKind]:
    """Return the kinds of resources."""
    return {NamedKind(resource.api_version, resource.kind) for resource in resources}


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

    def served_kind(self, kind: NamedKind) -> ServedKind | None:
        return self._discovery.find(kind.api_version, kind.kind)

    def resource(self, resource: Resource) -> FoundResource | None:
        """Read the metadata of a resource. Return None if it does not exist."""
        served = self._discovery.find(resource.api_version, resource.kind)
        if served is None or served.namespaced != bool(resource.namespace):
            return None
        raw = ask_if_found(self.metadata_client, get(served.collection, (resource.namespace, resource.name)))
        return FoundResource(served.collection, metadata_of(raw)) if raw is not None else None

    def patch_metadata(self, found: FoundResource, patch: MetadataPatch) -> None:
        guarded = {**patch, "resourceVersion": found.metadata.resource_version}
        key = found.metadata.key
        ask(self.metadata_client, merge_patch(found.collection, key, {"metadata": guarded}))

    def policy(self, reference: PolicyReference) -> Policy | None:
        watched = POLICIES_BY_KIND[reference.kind]
        raw = ask_if_found(self._client, get(watched.collection, (reference.namespace, reference.name)))
        return watched.read(raw) if raw is not None else None

    def remove_annotation(self, policy: Policy, annotation: str) -> Policy | None:
        """Remove an annotation of a policy.

        Returns:
            The policy after the write, or None if it does not exist. Admission may have restored the annotation.
        """
        watched = POLICIES_BY_KIND[policy.kind]
        patch = {"metadata": {"resourceVersion": policy.metadata.resource_version, "annotations": {annotation: None}}}
        key = (policy.reference.namespace, policy.reference.name)
        raw = ask_if_found(self._client, merge_patch(watched.collection, key, patch))
        return watched.read(raw) if raw is not None else None
