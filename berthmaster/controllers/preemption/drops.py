"""Priority drops on record: everybody gets their turn, then the record is cleared."""

import logging
from typing import Final

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.preemption.challengers import Challengers
from berthmaster.controllers.preemption.store import Store
from berthmaster.controllers.preemption.story import Story
from berthmaster.controllers.preemption.takeover import Takeover
from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION, PriorityDrop, named_resources, parse_priority_drop
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.runtime.logs import fields

KEPT_WAIT_S: Final = 600.0
"""How long until a record is looked at again that admission does not let go."""
_LOG: Final = logging.getLogger("berthmaster.controllers")


class Drops:
    """Handles the records of priority drops."""

    def __init__(self, store: Store, challengers: Challengers, takeover: Takeover, story: Story) -> None:
        self._store = store
        self._challengers = challengers
        self._takeover = takeover
        self._story = story

    def handle(self, reference: PolicyReference) -> Requeue | None:
        """Let those preempt whose turn it is since a policy has dropped in priority, then clear the record of it.

        The record is cleared only if the policy is still as it was read: what has dropped since is not lost.

        Raises:
            BerthmasterError: somebody's turn failed, or the record could not be cleared: it stays.
        """
        dropped = self._store.policy(reference)
        drop = (
            parse_priority_drop(dropped.metadata.annotations.get(PRIORITY_DROP_ANNOTATION))
            if dropped is not None
            else None
        )
        if dropped is None or drop is None:
            return None
        self._settle(drop, dropped)
        try:
            after = self._store.without_annotation(dropped, PRIORITY_DROP_ANNOTATION)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        if PRIORITY_DROP_ANNOTATION in after.metadata.annotations:
            self._story.kept(dropped)
            return Requeue(KEPT_WAIT_S)
        done = "the fall of %s from %d to %d in priority is handled"
        _LOG.info(done, dropped, drop.from_, drop.to, extra=fields(kind=dropped.kind))
        return None

    def _settle(self, drop: PriorityDrop, dropped: Policy) -> None:
        """Settle what those name whose turn it is, the strongest first.

        A failure does not hold up the others, unless the server is lost.
        """
        turns = (named_resources(policy) for policy in self._challengers.newly_eligible(drop, dropped))
        failure: BerthmasterError | None = None
        for resource in dict.fromkeys(resource for resources in turns for resource in resources):
            try:
                self._takeover.settle(resource)
            except BerthmasterError as error:
                failure = failure or error
                if isinstance(error, ApiError) and error.unavailable:
                    break
        if failure is not None:
            raise failure
