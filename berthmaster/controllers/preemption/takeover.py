"""Give a resource to the policy that is entitled to it.

Only the strongest of all policies that name the resource may take it over, and only from a weaker holder. The holder
of a resource therefore changes at most once, however many policies may take the resource over.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from prometheus_client import Counter

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.preemption.claim_store import ClaimStore, FoundResource
from berthmaster.controllers.preemption.policy_index import PolicyIndex
from berthmaster.deciding.decision_recorder import DecisionRecorder
from berthmaster.kube.events import EventContent, Recorder, Reference
from berthmaster.model import claims
from berthmaster.model.binding import holder
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import object_name
from berthmaster.model.note import Note
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource, may_preempt, named_resources
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION, PriorityDrop
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import BurstFilter, fields

SUCCEEDED: Final = "PreemptPolicySucceed"
FAILED: Final = "PreemptPolicyFailed"
NOT_CLEARED: Final = "PriorityDropNotCleared"
_API_VERSION: Final = "policy.karmada.io/v1alpha1"
PREEMPTIONS: Final = Counter(
    "policy_preemption", "Takeovers of resources by policies, by result (success, error).", ["result"]
)
ORPHAN_WAIT_S: Final = 30.0
"""Seconds until a resource without an existing holder is examined again."""
_LOG: Final = logging.getLogger("berthmaster.preemption")
_LOG.addFilter(BurstFilter(per_s=100, burst=1000))
_STEPS: Final = logging.getLogger("berthmaster.preemption.steps")
_STEPS.addFilter(BurstFilter(per_s=1000, burst=5000))


class Preemption(NamedTuple):
    """A policy that names a resource, and the holder of the resource: the policy that claims it now.

    Attributes:
        holder_policy: the holder as it was read; None if it does not exist.
    """

    preemptor: Policy
    holder: PolicyReference
    holder_policy: Policy | None

    @property
    def allowed(self) -> bool:
        """Whether the preemptor may take the resource over.

        Karmada's detector releases the resources of a missing policy and gives them to the first policy that matches.
        Until then only one case is certain: a PropagationPolicy precedes every ClusterPropagationPolicy.
        """
        if self.preemptor.reference == self.holder:
            return False
        if self.holder_policy is not None:
            return may_preempt(self.preemptor, self.holder_policy)
        return self.holder.kind == "ClusterPropagationPolicy" and not self.preemptor.cluster_scoped

    @property
    def why(self) -> str:
        """Why the preemptor takes the resource over."""
        if self.holder_policy is None or self.preemptor.kind != self.holder.kind:
            return f"a {self.preemptor.kind} precedes every {self.holder.kind}"
        return f"its priority {self.preemptor.explicit_priority} is higher than {self.holder_policy.explicit_priority}"


class PreemptionEvents:
    """Records the events of takeovers."""

    def __init__(self, recorder: Recorder, decisions: DecisionRecorder | None = None) -> None:
        """Record to events, and takeovers and priority drops to the ledger ``decisions`` too."""
        self._recorder = recorder
        self._decisions = decisions

    def took_over(self, preemption: Preemption, resource: Resource, found: FoundResource) -> None:
        preemptor, holder, holder_policy = preemption
        note = f"{_words(preemptor.reference)} preempted {_words(holder).lower()} successfully: "
        note += f"{preemption.why}; it took over {resource}"
        resource_reference, preemptor_reference = _resource(resource, found), _policy(preemptor)
        holder_reference = _reference(holder, holder_policy.metadata.uid if holder_policy is not None else "")
        self._record(resource_reference, SUCCEEDED, note, preemptor_reference)
        self._record(preemptor_reference, SUCCEEDED, note, resource_reference)
        self._record(holder_reference, SUCCEEDED, note, resource_reference)
        record = f"{preemptor} took over {resource} from {holder}: {preemption.why}"
        self._note("preemption", record, Reference(*resource), preemptor)

    def failed(self, preemption: Preemption, resource: Resource, found: FoundResource, error: ApiError) -> None:
        preemptor = preemption.preemptor
        note = f"{_words(preemptor.reference)} failed to preempt {_words(preemption.holder).lower()}: {error}; "
        note += f"the controller tries again to take over {resource}"
        resource_reference, preemptor_reference = _resource(resource, found), _policy(preemptor)
        self._record(resource_reference, FAILED, note, preemptor_reference, "Warning")
        self._record(preemptor_reference, FAILED, note, resource_reference, "Warning")

    def no_permanent_id(self, preemptor: Policy, resource: Resource) -> None:
        label = claims.PERMANENT_ID[preemptor.kind]
        note = (
            f"{preemptor} does not take over {resource} because it lacks the label {label}. Karmada's webhook adds "
            "the label to new policies. The takeover follows once the label is there"
        )
        self._record(_policy(preemptor), FAILED, note, None, "Warning")

    def not_cleared(self, dropped: Policy) -> None:
        note = (
            f"the priority drop in the annotation {PRIORITY_DROP_ANNOTATION} is handled, but admission restored "
            "the annotation. Start the webhook with --drop-handler and the name of this controller's user"
        )
        self._record(_policy(dropped), NOT_CLEARED, note, None, "Warning", "ClearingPriorityDrop")

    def drop_handled(self, dropped: Policy, drop: PriorityDrop) -> None:
        """Record that all takeovers after a priority drop are done. It has no event: the takeovers have theirs."""
        note = f"the priority of {dropped} fell from {drop.from_} to {drop.to}; preemption ran for its resources"
        self._note("priority-drop", note, _policy(dropped), dropped)

    def _note(
        self, kind: Literal["preemption", "priority-drop"], message: str, regarding: Reference, policy: Policy
    ) -> None:
        if self._decisions is not None:
            self._decisions.noted(
                Note(kind, message, regarding.namespace, regarding.name, regarding.kind, str(policy.reference))
            )

    def _record(
        self,
        regarding: Reference,
        reason: str,
        note: str,
        related: Reference | None,
        kind: Literal["Normal", "Warning"] = "Normal",
        action: str = "Preempting",
    ) -> None:
        self._recorder.record(EventContent(regarding, kind, reason, action, note, related))


def _words(policy: PolicyReference) -> str:
    """Return a policy as Karmada's detector writes it in events (``preemption.go``)."""
    kind = "Cluster propagation policy" if policy.kind == "ClusterPropagationPolicy" else "Propagation policy"
    return f"{kind}({object_name(*policy[1:])})"


def _resource(resource: Resource, found: FoundResource) -> Reference:
    return Reference(*resource, uid=found.metadata.uid)


def _policy(policy: Policy) -> Reference:
    return _reference(policy.reference, policy.metadata.uid)


def _reference(policy: PolicyReference, uid: str) -> Reference:
    return Reference(_API_VERSION, policy.kind, policy.namespace, policy.name, uid)


class Takeover:
    """Decides which policy claims a resource, and writes the claim."""

    def __init__(
        self,
        store: ClaimStore,
        index: PolicyIndex,
        observed: Callable[[PolicyReference], Policy | None],
        events: PreemptionEvents,
        clock: Clock,
    ) -> None:
        self._store = store
        self._index = index
        self._observed = observed
        self._events = events
        self._clock = clock
        # Preemptions whose write failed. The write may have succeeded if only the response was lost.
        self._unconfirmed: dict[Resource, Preemption] = {}

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
        unconfirmed = self._unconfirmed.pop(resource, None)
        if found is None or found.metadata.deletion_timestamp is not None or claims.claimed_externally(found.metadata):
            _step("the resource cannot be taken over", resource, candidates=len(candidates), found=found is not None)
            return None
        present = holder(found.metadata)
        if present is None:
            _step("no policy holds the resource", resource, candidates=len(candidates))
            return None
        if unconfirmed is not None and unconfirmed.preemptor.reference == present:
            self._report(resource, found, unconfirmed, started_s)
        holder_policy = self._observed(present) or self._store.policy(present)
        preemption = self._preemption(resource, candidates, present, holder_policy)
        if preemption is None:
            _step("no policy may take the resource over", resource, candidates=len(candidates), holder=str(present))
            return Requeue(ORPHAN_WAIT_S) if holder_policy is None else None
        if (confirmed := self._confirmed(resource, preemption)) is None:
            _step("a fresh read does not confirm the takeover", resource, preemptor=str(preemption.preemptor))
        else:
            self._take(resource, found, confirmed, started_s)
        return None

    def _preemption(
        self, resource: Resource, candidates: Iterable[Policy], present: PolicyReference, holder_policy: Policy | None
    ) -> Preemption | None:
        """Return the preemption by the strongest candidate, or None if the observed policies do not allow one."""
        for candidate in candidates:
            preemption = Preemption(candidate, present, holder_policy)
            if not preemption.allowed:
                return None  # the remaining candidates are not stronger
            if claims.permanent_id(candidate):
                return preemption
            self._events.no_permanent_id(candidate, resource)
        return None

    def _confirmed(self, resource: Resource, preemption: Preemption) -> Preemption | None:
        """Repeat the check with fresh reads of both policies. Return None if the preemption is no longer allowed.

        A later change of a policy requeues the resource.
        """
        preemptor = self._store.policy(preemption.preemptor.reference)
        if preemptor is None or resource not in named_resources(preemptor) or not claims.permanent_id(preemptor):
            return None
        confirmed = Preemption(preemptor, preemption.holder, self._store.policy(preemption.holder))
        return confirmed if confirmed.allowed else None

    def _take(self, resource: Resource, found: FoundResource, preemption: Preemption, started_s: float) -> None:
        try:
            self._store.patch_metadata(found, claims.claim_patch(found.metadata, preemption.preemptor))
        except ApiError as error:
            if error.not_found:
                return  # the resource was deleted
            if not error.conflict:
                self._unconfirmed[resource] = preemption
                PREEMPTIONS.labels("error").inc()
                self._events.failed(preemption, resource, found, error)
                self._log("takeover not written", resource, preemption, started_s, problem=str(error))
            raise
        self._report(resource, found, preemption, started_s)

    def _report(self, resource: Resource, found: FoundResource, preemption: Preemption, started_s: float) -> None:
        PREEMPTIONS.labels("success").inc()
        self._events.took_over(preemption, resource, found)
        self._log("takeover", resource, preemption, started_s)

    def _log(self, message: str, resource: Resource, preemption: Preemption, started_s: float, **more: object) -> None:
        values = {
            "resource": str(resource),
            "api_version": resource.api_version,
            "before": str(preemption.holder),
            "after": str(preemption.preemptor),
            "reason": preemption.why,
            "duration_ms": round((self._clock.monotonic_s() - started_s) * 1000, 3),
        }
        _LOG.info(message, extra=fields(**values, **more))


def _step(message: str, resource: Resource, **values: object) -> None:
    if _STEPS.isEnabledFor(logging.DEBUG):
        _STEPS.debug(message, extra=fields(resource=str(resource), **values))
