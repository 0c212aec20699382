"""What a change of a policy gives reason to look at."""

from collections.abc import Callable
from typing import Final

from berthmaster.controllers.preemption.challengers import Challengers, Kind, kinds_of
from berthmaster.kube.requests import Key
from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION, PriorityDrop, Resource, named_resources, permanent_id
from berthmaster.model.meta import INT32_MIN
from berthmaster.model.policy import Policy, PolicyReference

_BELOW_ALL: Final = INT32_MIN - 1
Subject = Resource | Kind | PolicyReference
"""What is worked on: who has a resource, whether a kind is watched, the record of a policy's priority drop."""


class Triggers:
    """A handler of informers of policies; see ``Handler``.

    Args:
        challengers: are kept right.
        look: puts what is to be looked at on a queue.
    """

    def __init__(self, challengers: Challengers, look: Callable[[Subject], None]) -> None:
        self._challengers = challengers
        self._look = look

    def __call__(self, key: Key, before: Policy | None, after: Policy | None) -> None:  # noqa: ARG002 - see Handler
        """A policy is new, has changed, or is gone."""
        self._challengers.update(before, after)
        if after is not None and PRIORITY_DROP_ANNOTATION in after.metadata.annotations:
            self._look(after.reference)
        if before is not None and after is not None and _relevant(before) == _relevant(after):
            return
        if before is not None:
            self._look_after_drop(before, after)
        named = [*_named(after), *_named(before)]
        for kind in kinds_of(named):
            self._look(kind)
        for resource in dict.fromkeys(named):
            self._look(resource)

    def _look_after_drop(self, before: Policy, after: Policy | None) -> None:
        """A fall in priority opens the same range whether a webhook has put it on record or not.

        A policy that is gone has fallen below all others: one by its name may come back with another priority before
        what it claimed is set free.
        """
        drop = PriorityDrop(
            from_=before.explicit_priority, to=after.explicit_priority if after is not None else _BELOW_ALL
        )
        for policy in self._challengers.newly_eligible(drop, before):
            for resource in named_resources(policy):
                self._look(resource)


def _named(policy: Policy | None) -> tuple[Resource, ...]:
    return named_resources(policy) if policy is not None else ()


def _relevant(policy: Policy) -> tuple[object, ...]:
    """All of a policy that bears on who may take what."""
    spec, going = policy.spec, policy.metadata.deletion_timestamp is not None
    return spec.resource_selectors, spec.priority, spec.preemption, going, permanent_id(policy), policy.metadata.uid
