"""Event handlers: what a change of a policy or of a resource puts on the queue; and what they read and write.

Karmada examines a resource only when the policy that preempts changes. The watches of named kinds also show when a
weaker policy claims a resource later.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, MetadataOnlyClient, ask, ask_if_found
from berthmaster.kube.informer import Handler, Informer
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.kube.requests import Collection, get, merge_patch
from berthmaster.kube.served_types import Discovery, ServedType
from berthmaster.model import claims
from berthmaster.model.binding import holder
from berthmaster.model.claims import Resource
from berthmaster.model.decode import decode_json
from berthmaster.model.meta import INT32_MIN, Key, ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields


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
            return claims.strongest_first(self._policies[each] for each in self._naming.get(resource, ()))

    def names(self, resource: Resource) -> bool:
        with self._lock:
            return resource in self._naming

    def names_kind(self, kind: NamedKind) -> bool:
        with self._lock:
            return any(each[:2] == kind for each in self._naming)

    def newly_eligible(self, drop: claims.PriorityDrop, dropped: Policy) -> list[Policy]:
        """Return the policies that may preempt after a policy has dropped in priority, the strongest first."""
        with self._lock:
            return claims.newly_eligible(drop, dropped, self._policies.values())

    def _add(self, policy: Policy) -> None:
        resources = claims.named_resources(policy)
        if not resources:
            return
        self._policies[policy.reference] = policy
        for resource in resources:
            self._naming.setdefault(resource, set()).add(policy.reference)

    def _remove(self, policy: Policy) -> None:
        indexed = self._policies.pop(policy.reference, None)
        if indexed is None:
            return
        for resource in claims.named_resources(indexed):
            self._naming[resource].discard(policy.reference)
            if not self._naming[resource]:
                del self._naming[resource]


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


MAX_WATCHES: Final = 64
"""How many kinds are watched at once. Resources of further kinds are examined when a policy changes."""
_BELOW_ALL_PRIORITIES: Final = INT32_MIN - 1
_LOG: Final = logging.getLogger("berthmaster.preemption")
PreemptionKey = Resource | NamedKind | PolicyReference
"""What is reconciled: the holder of a resource, the watch of a kind, or the recorded priority drop of a policy."""


class PolicyHandler:
    """The event handler of policies; see ``Handler``."""

    def __init__(self, index: PolicyIndex, enqueue: Callable[[PreemptionKey], None]) -> None:
        self._index = index
        self._enqueue = enqueue

    def __call__(self, key: Key, before: Policy | None, after: Policy | None) -> None:  # noqa: ARG002 - see Handler
        self._index.update(before, after)
        if after is not None and claims.PRIORITY_DROP_ANNOTATION in after.metadata.annotations:
            self._enqueue(after.reference)
        if before is not None and after is not None and _relevant(before) == _relevant(after):
            return
        if before is not None:
            self._enqueue_newly_eligible(before, after)
        named = [*_named(after), *_named(before)]
        for kind in {NamedKind(each.api_version, each.kind) for each in named}:
            self._enqueue(kind)
        for resource in dict.fromkeys(named):
            self._enqueue(resource)

    def _enqueue_newly_eligible(self, before: Policy, after: Policy | None) -> None:
        """Enqueue what other policies may take over after a priority drop, whether a webhook has recorded it or not.

        A deleted policy counts as dropped below all priorities: a policy with the same name and another priority may be
        created before the deleted one's resources are released.
        """
        priority = after.explicit_priority if after is not None else _BELOW_ALL_PRIORITIES
        drop = claims.PriorityDrop(from_=before.explicit_priority, to=priority)
        for policy in self._index.newly_eligible(drop, before):
            for resource in claims.named_resources(policy):
                self._enqueue(resource)


def _named(policy: Policy | None) -> tuple[Resource, ...]:
    return claims.named_resources(policy) if policy is not None else ()


def _relevant(policy: Policy) -> tuple[object, ...]:
    """Return the parts of a policy that decide which resources it may take over."""
    spec, meta = policy.spec, policy.metadata
    deleting = meta.deletion_timestamp is not None
    return spec.resource_selectors, spec.priority, spec.preemption, deleting, claims.permanent_id(policy), meta.uid


class ClaimState(NamedTuple):
    """The part of a resource that decides whether it can be taken over."""

    holder: PolicyReference | None = None
    claimed_externally: bool = False
    deleting: bool = False


_UNCLAIMED: Final = ClaimState()


class _Watch(NamedTuple):
    served: ServedType
    informer: Informer[ClaimState]


class ResourceWatches:
    """The watches of resources: one for each kind that a policy names, for as long as one does.

    Args:
        enqueue: puts a named resource on the queue when its holder may have changed.
    """

    def __init__(
        self, store: ClaimStore, clock: Clock, index: PolicyIndex, enqueue: Callable[[Resource], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._index = index
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._running: dict[NamedKind, _Watch] = {}
        self._closed = False

    def sync(self, kind: NamedKind) -> bool:
        """Start or stop the watch of a kind: it runs if a policy names the kind and the API server serves it.

        Two threads must not call this for the same kind at the same time.

        Returns:
            False if the kind is named, but is not served or exceeds the limit of watches.
        """
        wanted = self._index.names_kind(kind)
        served = self._store.served_kind(kind) if wanted else None
        with self._lock:
            running = self._running.get(kind)
        if running is not None and running.served != served:
            self._end(kind)
            running = None
        if served is None or running is not None:
            return served is not None or not wanted
        return self._begin(kind, served)

    def running(self) -> dict[NamedKind, ServedType]:
        """Return the kinds that are watched, and what serves them."""
        with self._lock:
            return {kind: each.served for kind, each in self._running.items()}

    def stop(self) -> None:
        """Stop all watches. No watch starts afterwards."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, {}
        for watch in running.values():
            watch.informer.stop()

    def _begin(self, kind: NamedKind, served: ServedType) -> bool:
        informer = Informer(served.collection, claim_state_of, self._clock)
        informer.subscribe(self._handler(kind))
        with self._lock:
            if self._closed:
                return True
            if len(self._running) >= MAX_WATCHES:
                message = (
                    "%s are not watched, because policies with preemption Always name more than %d kinds: a resource "
                    "that a weaker policy claims is taken over when one of these policies changes, and not at once; "
                    "name fewer kinds in these policies"
                )
                _LOG.warning(message, served.collection.plural, MAX_WATCHES, extra=fields(kind=kind.kind))
                return False
            self._running[kind] = _Watch(served, informer)
            informer.start(self._store.metadata_client)
        return True

    def _end(self, kind: NamedKind) -> None:
        with self._lock:
            watch = self._running.pop(kind, None)
        if watch is not None:
            watch.informer.stop()

    def _handler(self, kind: NamedKind) -> Handler[ClaimState]:
        def handle(key: Key, before: ClaimState | None, after: ClaimState | None) -> None:  # noqa: ARG001 - see Handler
            resource = Resource(*kind, *key)
            if after is not None and self._index.names(resource):
                self._enqueue(resource)

        return handle


def claim_state_of(raw: bytes) -> ClaimState:
    """Decode the claim state of a resource. All unclaimed resources share one value, which saves memory."""
    metadata = metadata_of(raw)
    state = ClaimState(holder(metadata), claims.claimed_externally(metadata), metadata.deletion_timestamp is not None)
    return state if state != _UNCLAIMED else _UNCLAIMED
