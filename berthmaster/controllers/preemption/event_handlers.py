"""The event handler of policies: what a change of a policy puts on the queue of the preemption controller."""

from collections.abc import Callable
from typing import Final

from berthmaster.controllers.preemption.policy_index import NamedKind, PolicyIndex
from berthmaster.model import claims
from berthmaster.model.meta import INT32_MIN, Key
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource, named_resources
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION, PriorityDrop

_BELOW_ALL_PRIORITIES: Final = INT32_MIN - 1
PreemptionKey = Resource | NamedKind | PolicyReference
"""What is reconciled: the holder of a resource, the watch of a kind, or the recorded priority drop of a policy."""


class PolicyHandler:
    """The event handler of policies; see ``Handler``."""

    def __init__(self, index: PolicyIndex, enqueue: Callable[[PreemptionKey], None]) -> None:
        self._index = index
        self._enqueue = enqueue

    def __call__(self, key: Key, before: Policy | None, after: Policy | None) -> None:  # noqa: ARG002 - see Handler
        self._index.update(before, after)
        if after is not None and PRIORITY_DROP_ANNOTATION in after.metadata.annotations:
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
        drop = PriorityDrop(from_=before.explicit_priority, to=priority)
        for policy in self._index.newly_eligible(drop, before):
            for resource in named_resources(policy):
                self._enqueue(resource)


def _named(policy: Policy | None) -> tuple[Resource, ...]:
    return named_resources(policy) if policy is not None else ()


def _relevant(policy: Policy) -> tuple[object, ...]:
    """Return the parts of a policy that decide which resources it may take over."""
    spec, meta = policy.spec, policy.metadata
    deleting = meta.deletion_timestamp is not None
    return spec.resource_selectors, spec.priority, spec.preemption, deleting, claims.permanent_id(policy), meta.uid
