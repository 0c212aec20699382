"""A resource in the hands of the policy that is entitled to it.

What is asked is never "may this policy take that?" but "who is the strongest of those that name this resource, and is
it stronger than who has it?". So a resource changes hands at most once, however many policies want it.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.metrics import ControllerMetrics
from berthmaster.controllers.preemption.challengers import Challengers
from berthmaster.controllers.preemption.store import Found, Store
from berthmaster.controllers.preemption.story import Story
from berthmaster.model.claims import (
    Resource,
    claim_patch,
    claimed_externally,
    holder,
    may_preempt,
    named_resources,
    permanent_id,
)
from berthmaster.model.errors import ApiError
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.runtime.logs import fields

ORPHAN_WAIT_S: Final = 30.0
_LOG: Final = logging.getLogger("berthmaster.controllers")


class Contest(NamedTuple):
    """A resource, who wants it, and who has it.

    Attributes:
        challenger: the strongest that wants it.
        loser: which policy has it.
        held: that policy; None if there is no such policy (any more).
    """

    challenger: Policy
    loser: PolicyReference
    held: Policy | None

    @property
    def won(self) -> bool:
        """Whether the challenger may take it.

        What a missing policy held, Karmada's detector sets free and gives to the first that matches; only that a
        PropagationPolicy goes before whatever ClusterPropagationPolicy it may have been is certain before that.
        """
        if self.challenger.reference == self.loser:
            return False
        if self.held is not None:
            return may_preempt(self.challenger, self.held)
        return self.loser.kind == "ClusterPropagationPolicy" and not self.challenger.cluster_scoped


class Takeover:
    """Settles who has a resource.

    Args:
        store: what the API server holds.
        challengers: the policies that preempt, as they were heard of.
        known: a policy as it was heard of; None for one nobody has heard of.
        story: tells people.
        metrics: counts.
    """

    def __init__(
        self,
        store: Store,
        challengers: Challengers,
        known: Callable[[PolicyReference], Policy | None],
        story: Story,
        metrics: ControllerMetrics,
    ) -> None:
        self._store = store
        self._challengers = challengers
        self._known = known
        self._story = story
        self._metrics = metrics
        # Contests whose write failed: it may have been carried out all the same, where just the answer is lost.
        self._doubtful: dict[Resource, Contest] = {}

    def settle(self, resource: Resource) -> Requeue | None:
        """Give a resource to the strongest policy that names it, if a weaker one has it.

        Returns:
            when to look again at a resource of a policy that is gone: until Karmada's detector has set it free, one by
            that name may come back.

        Raises:
            ApiError: something could not be read or written; in a conflict nothing has changed.
        """
        candidates = self._challengers.naming(resource)
        served = self._store.served(resource.api_version, resource.kind) if candidates else None
        found = self._store.resource(resource, served) if served is not None else None
        doubtful = self._doubtful.pop(resource, None)
        if found is None or found.metadata.deletion_timestamp is not None or claimed_externally(found.metadata):
            return None
        loser = holder(found.metadata)
        if loser is None:
            return None
        if doubtful is not None and doubtful.challenger.reference == loser:
            self._tell(resource, found, doubtful)
        held = self._known(loser) or self._store.policy(loser)
        contest = self._contest(resource, candidates, loser, held)
        if contest is None:
            return Requeue(ORPHAN_WAIT_S) if held is None else None
        if (confirmed := self._confirmed(resource, contest)) is not None:
            self._take(resource, found, confirmed)
        return None

    def _contest(
        self, resource: Resource, candidates: Iterable[Policy], loser: PolicyReference, held: Policy | None
    ) -> Contest | None:
        """The contest that the strongest candidate wins, as far as was heard; None if there is none."""
        for candidate in candidates:
            contest = Contest(candidate, loser, held)
            if not contest.won:
                return None  # those that follow are no stronger
            if permanent_id(candidate):
                return contest
            self._story.nameless(candidate, resource)
        return None

    def _confirmed(self, resource: Resource, contest: Contest) -> Contest | None:
        """The same contest as things are right now; None if it is not won any more.

        Whatever has changed since it was heard of will be heard of, and brings the resource up again.
        """
        challenger = self._store.policy(contest.challenger.reference)
        if challenger is None or resource not in named_resources(challenger) or not permanent_id(challenger):
            return None
        confirmed = Contest(challenger, contest.loser, self._store.policy(contest.loser))
        return confirmed if confirmed.won else None

    def _take(self, resource: Resource, found: Found, contest: Contest) -> None:
        try:
            self._store.change(found, claim_patch(found.metadata, contest.challenger))
        except ApiError as error:
            if error.not_found:
                return  # the resource is gone
            if not error.conflict:
                self._doubtful[resource] = contest
                self._metrics.preempted("error")
                self._story.failed(contest.challenger, resource, found, contest.loser, error)
            raise
        self._tell(resource, found, contest)

    def _tell(self, resource: Resource, found: Found, contest: Contest) -> None:
        """Count a takeover, and tell of it."""
        challenger, loser, held = contest
        self._metrics.preempted("success")
        self._story.took(challenger, resource, found, loser, held)
        _LOG.info("%s has taken over %s from %s", challenger, resource, loser, extra=fields(kind=resource.kind))
