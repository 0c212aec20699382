"""The policies that preempt, by what they name."""

import threading
from collections.abc import Iterable
from typing import NamedTuple

from berthmaster.model.claims import PriorityDrop, Resource, named_resources, newly_eligible, strongest_first
from berthmaster.model.policy import Policy, PolicyReference


class Kind(NamedTuple):
    """A kind of resources, as selectors name it."""

    api_version: str
    kind: str


class Challengers:
    """Safe for several threads: informers tell it of policies, workers ask it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policies: dict[PolicyReference, Policy] = {}
        self._naming: dict[Resource, set[PolicyReference]] = {}
        self._named_of: dict[Kind, int] = {}

    def update(self, before: Policy | None, after: Policy | None) -> None:
        """A policy is new (``before`` is None), has changed, or is gone (``after`` is None)."""
        with self._lock:
            if before is not None:
                self._remove(before)
            if after is not None:
                self._add(after)

    def naming(self, resource: Resource) -> list[Policy]:
        """The policies that may take over a resource, the strongest first."""
        with self._lock:
            return strongest_first(self._policies[each] for each in self._naming.get(resource, ()))

    def is_named(self, resource: Resource) -> bool:
        """Whether any policy may take over a resource."""
        with self._lock:
            return resource in self._naming

    def wants(self, kind: Kind) -> bool:
        """Whether any policy may take over resources of a kind."""
        with self._lock:
            return kind in self._named_of

    def newly_eligible(self, drop: PriorityDrop, dropped: Policy) -> list[Policy]:
        """Whose turn it may be now that a policy has dropped in priority, the strongest first."""
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
            self._named_of[kind] = self._named_of.get(kind, 0) + 1

    def _remove(self, policy: Policy) -> None:
        known = self._policies.pop(policy.reference, None)
        if known is None:
            return
        resources = named_resources(known)
        for resource in resources:
            self._naming[resource].discard(policy.reference)
            if not self._naming[resource]:
                del self._naming[resource]
        for kind in kinds_of(resources):
            self._named_of[kind] -= 1
            if not self._named_of[kind]:
                del self._named_of[kind]


def kinds_of(resources: Iterable[Resource]) -> set[Kind]:
    """The kinds of resources."""
    return {Kind(resource.api_version, resource.kind) for resource in resources}
