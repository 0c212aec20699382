"""The events of the preemption controller: on the resource and on both policies."""

from typing import Final, Literal

from berthmaster.controllers.preemption.policy_index import FoundResource
from berthmaster.deciding.decision_recorder import DecisionRecorder
from berthmaster.kube.events import EventContent, Recorder, Reference
from berthmaster.model.claims import PERMANENT_ID, PRIORITY_DROP_ANNOTATION, PriorityDrop, Resource
from berthmaster.model.errors import ApiError
from berthmaster.model.note import Note
from berthmaster.model.policy import Policy, PolicyReference

SUCCEEDED: Final = "PreemptPolicySucceed"
FAILED: Final = "PreemptPolicyFailed"
NOT_CLEARED: Final = "PriorityDropNotCleared"
_API_VERSION: Final = "policy.karmada.io/v1alpha1"


class PreemptionEvents:
    """Records the events of takeovers.

    In all methods, ``holder`` is the policy that claims the resource before the takeover.
    """

    def __init__(self, recorder: Recorder, decisions: DecisionRecorder | None = None) -> None:
        """Record to events, and takeovers and priority drops to the ledger ``decisions`` too."""
        self._recorder = recorder
        self._decisions = decisions

    def took_over(
        self,
        preemptor: Policy,
        resource: Resource,
        found: FoundResource,
        holder: PolicyReference,
        holder_policy: Policy | None,
    ) -> None:
        """Record a takeover. ``holder_policy`` is the holder as it was read; None if it does not exist."""
        note = f"{preemptor} took over {resource} from {holder}: {takeover_reason(preemptor, holder, holder_policy)}"
        resource_reference, preemptor_reference = _resource(resource, found), _policy(preemptor)
        holder_reference = _reference(holder, holder_policy.metadata.uid if holder_policy is not None else "")
        self._record(resource_reference, SUCCEEDED, note, preemptor_reference)
        self._record(preemptor_reference, SUCCEEDED, note, resource_reference)
        self._record(holder_reference, SUCCEEDED, note, resource_reference)
        self._note("preemption", note, Reference(*resource), preemptor)

    def failed(
        self, preemptor: Policy, resource: Resource, found: FoundResource, holder: PolicyReference, error: ApiError
    ) -> None:
        note = f"{preemptor} could not take over {resource} from {holder}; the controller retries: {error}"
        resource_reference, preemptor_reference = _resource(resource, found), _policy(preemptor)
        self._record(resource_reference, FAILED, note, preemptor_reference, "Warning")
        self._record(preemptor_reference, FAILED, note, resource_reference, "Warning")

    def no_permanent_id(self, preemptor: Policy, resource: Resource) -> None:
        label = PERMANENT_ID[preemptor.kind]
        note = (
            f"{preemptor} does not take over {resource} because it lacks the label {label}. Karmada's webhook adds "
            "the label to new policies. The takeover follows once the label is there"
        )
        self._record(_policy(preemptor), FAILED, note, None, "Warning")

    def not_cleared(self, dropped: Policy) -> None:
        note = (
            f"the priority drop in the annotation {PRIORITY_DROP_ANNOTATION} is handled, but admission restored the "
            "annotation. Start the webhook with --drop-handler and the name of this controller's user"
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


def takeover_reason(preemptor: Policy, holder: PolicyReference, holder_policy: Policy | None) -> str:
    """Return why a policy takes over a resource.

    Args:
        holder_policy: the same policy as it was read; None if it does not exist.
    """
    if holder_policy is None or preemptor.kind != holder.kind:
        return f"a {preemptor.kind} precedes every {holder.kind}"
    return f"its priority {preemptor.explicit_priority} is higher than {holder_policy.explicit_priority}"


def _resource(resource: Resource, found: FoundResource) -> Reference:
    return Reference(*resource, uid=found.metadata.uid)


def _policy(policy: Policy) -> Reference:
    return _reference(policy.reference, policy.metadata.uid)


def _reference(policy: PolicyReference, uid: str) -> Reference:
    return Reference(_API_VERSION, policy.kind, policy.namespace, policy.name, uid)
