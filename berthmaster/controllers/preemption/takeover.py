"""Give a resource to the policy that is entitled to it.

The question is which policy is the strongest of all that name the resource, and whether it is stronger than the holder.
A resource therefore changes hands at most once, however many policies may take it over.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.metrics import ControllerMetrics
from berthmaster.controllers.preemption.messages import PreemptionEvents, takeover_reason
from berthmaster.controllers.preemption.policy_index import ClaimStore, FoundResource, PolicyIndex
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
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import BurstFilter, fields

ORPHAN_WAIT_S: Final = 30.0
"""Seconds until a resource without an existing holder is examined again."""
_LOG: Final = logging.getLogger("berthmaster.preemption")
_LOG.addFilter(BurstFilter(per_s=100, burst=1000))
_STEPS: Final = logging.getLogger("berthmaster.preemption.steps")
_STEPS.addFilter(BurstFilter(per_s=1000, burst=5000))


class Contest(NamedTuple):
    """A resource's holder, and a policy that may take the resource over.

    Attributes:
        challenger: the strongest policy that names the resource.
        holder: the policy that claims the resource.
        held_by: the same policy as it was observed; None if it does not exist.
    """

    challenger: Policy
    holder: PolicyReference
    held_by: Policy | None

    @property
    def won(self) -> bool:
        """Whether the challenger may take the resource over.

        Karmada's detector releases the resources of a missing policy and gives them to the first policy that matches.
        Until then only one case is certain: a PropagationPolicy precedes every ClusterPropagationPolicy.
        """
        if self.challenger.reference == self.holder:
            return False
        if self.held_by is not None:
            return may_preempt(self.challenger, self.held_by)
        return self.holder.kind == "ClusterPropagationPolicy" and not self.challenger.cluster_scoped


class Takeover:
    """Decides and writes who holds a resource."""

    def __init__(
        self,
        store: ClaimStore,
        index: PolicyIndex,
        observed: Callable[[PolicyReference], Policy | None],
        events: PreemptionEvents,
        metrics: ControllerMetrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._index = index
        self._observed = observed
        self._events = events
        self._metrics = metrics
        self._clock = clock
        # Contests whose write failed. The write may have succeeded if only the response was lost.
        self._uncertain: dict[Resource, Contest] = {}

    def settle(self, resource: Resource) -> Requeue | None:
        """Give a resource to the strongest policy that names it, if a weaker policy holds it.

        Returns:
            When to examine a resource again whose holder does not exist. A policy with the holder's name may be created
            before Karmada's detector has released the resource.

        Raises:
            ApiError: a request failed. After a conflict nothing has changed.
        """
        started_s = self._clock.monotonic_s()
        candidates = self._index.naming(resource)
        found = self._store.resource(resource) if candidates else None
        uncertain = self._uncertain.pop(resource, None)
        if found is None or found.metadata.deletion_timestamp is not None or claimed_externally(found.metadata):
            _step("the resource cannot be taken over", resource, candidates=len(candidates), found=found is not None)
            return None
        present = holder(found.metadata)
        if present is None:
            _step("no policy holds the resource", resource, candidates=len(candidates))
            return None
        if uncertain is not None and uncertain.challenger.reference == present:
            self._report(resource, found, uncertain, started_s)
        held_by = self._observed(present) or self._store.policy(present)
        contest = self._contest(resource, candidates, present, held_by)
        if contest is None:
            _step("no policy may take the resource over", resource, candidates=len(candidates), holder=str(present))
            return Requeue(ORPHAN_WAIT_S) if held_by is None else None
        if (confirmed := self._confirmed(resource, contest)) is None:
            _step("a fresh read does not confirm the takeover", resource, challenger=str(contest.challenger))
        else:
            self._take(resource, found, confirmed, started_s)
        return None

    def _contest(
        self, resource: Resource, candidates: Iterable[Policy], present: PolicyReference, held_by: Policy | None
    ) -> Contest | None:
        """Return the contest that the strongest candidate wins by the observed policies, or None."""
        for candidate in candidates:
            contest = Contest(candidate, present, held_by)
            if not contest.won:
                return None  # the remaining candidates are not stronger
            if permanent_id(candidate):
                return contest
            self._events.no_permanent_id(candidate, resource)
        return None

    def _confirmed(self, resource: Resource, contest: Contest) -> Contest | None:
        """Repeat a contest with fresh reads of both policies. Return None if it is no longer won.

        A later change of a policy requeues the resource.
        """
        challenger = self._store.policy(contest.challenger.reference)
        if challenger is None or resource not in named_resources(challenger) or not permanent_id(challenger):
            return None
        confirmed = Contest(challenger, contest.holder, self._store.policy(contest.holder))
        return confirmed if confirmed.won else None

    def _take(self, resource: Resource, found: FoundResource, contest: Contest, started_s: float) -> None:
        try:
            self._store.patch_metadata(found, claim_patch(found.metadata, contest.challenger))
        except ApiError as error:
            if error.not_found:
                return  # the resource was deleted
            if not error.conflict:
                self._uncertain[resource] = contest
                self._metrics.preempted("error")
                self._events.failed(contest.challenger, resource, found, contest.holder, error)
                self._log("takeover not written", resource, contest, started_s, problem=str(error))
            raise
        self._report(resource, found, contest, started_s)

    def _report(self, resource: Resource, found: FoundResource, contest: Contest, started_s: float) -> None:
        """Count, record and log a takeover."""
        challenger, present, held_by = contest
        self._metrics.preempted("success")
        self._events.took_over(challenger, resource, found, present, held_by)
        self._log("takeover", resource, contest, started_s)

    def _log(self, message: str, resource: Resource, contest: Contest, started_s: float, **more: object) -> None:
        values = {
            "resource": str(resource),
            "api_version": resource.api_version,
            "before": str(contest.holder),
            "after": str(contest.challenger),
            "reason": takeover_reason(*contest),
            "duration_ms": round((self._clock.monotonic_s() - started_s) * 1000, 3),
        }
        _LOG.info(message, extra=fields(**values, **more))


def _step(message: str, resource: Resource, **values: object) -> None:
    if _STEPS.isEnabledFor(logging.DEBUG):
        _STEPS.debug(message, extra=fields(resource=str(resource), **values))
