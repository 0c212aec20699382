"""The policies that preempt, by the resources that they name."""

import threading
from typing import NamedTuple

from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource, named_resources, strongest_first
from berthmaster.model.priority_drops import PriorityDrop, newly_eligible


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
            return strongest_first(self._policies[each] for each in self._naming.get(resource, ()))

    def names(self, resource: Resource) -> bool:
        with self._lock:
            return resource in self._naming

    def names_kind(self, kind: NamedKind) -> bool:
        with self._lock:
            return any(each[:2] == kind for each in self._naming)

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

    def _remove(self, policy: Policy) -> None:
        indexed = self._policies.pop(policy.reference, None)
        if indexed is None:
            return
        for resource in named_resources(indexed):
            self._naming[resource].discard(policy.reference)
            if not self._naming[resource]:
                del self._naming[resource]
