"""The events of the preemption controller: on the resource and on both policies."""

from typing import Final, Literal

from berthmaster.controllers.preemption.policy_index import FoundResource
from berthmaster.kube.events import EventContent, Recorder, Reference
from berthmaster.model.claims import PERMANENT_ID, PRIORITY_DROP_ANNOTATION, Resource
from berthmaster.model.errors import ApiError
from berthmaster.model.policy import Policy, PolicyReference

SUCCEEDED: Final = "PreemptPolicySucceed"
FAILED: Final = "PreemptPolicyFailed"
NOT_CLEARED: Final = "PriorityDropNotCleared"
_API_VERSION: Final = "policy.karmada.io/v1alpha1"


class PreemptionEvents:
    """Records the events of takeovers.

    In all methods, ``holder`` is the policy that claims the resource before the takeover.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def took_over(
        self,
        challenger: Policy,
        resource: Resource,
        found: FoundResource,
        holder: PolicyReference,
        held_by: Policy | None,
    ) -> None:
        """Record a takeover. ``held_by`` is the holder as it was read; None if it does not exist."""
        note = f"{challenger} took over {resource} from {holder}: {takeover_reason(challenger, holder, held_by)}"
        taken, winner = _resource(resource, found), _policy(challenger)
        loser = _reference(holder, held_by.metadata.uid if held_by is not None else "")
        self._record(taken, SUCCEEDED, note, winner)
        self._record(winner, SUCCEEDED, note, taken)
        self._record(loser, SUCCEEDED, note, taken)

    def failed(
        self, challenger: Policy, resource: Resource, found: FoundResource, holder: PolicyReference, error: ApiError
    ) -> None:
        note = f"{challenger} could not take over {resource} from {holder}; the controller retries: {error}"
        taken, winner = _resource(resource, found), _policy(challenger)
        self._record(taken, FAILED, note, winner, "Warning")
        self._record(winner, FAILED, note, taken, "Warning")

    def no_permanent_id(self, challenger: Policy, resource: Resource) -> None:
        label = PERMANENT_ID[challenger.kind]
        note = (
            f"{challenger} does not take over {resource} because it lacks the label {label}. Karmada's webhook adds "
            "the label to new policies. The takeover follows once the label is there"
        )
        self._record(_policy(challenger), FAILED, note, None, "Warning")

    def not_cleared(self, dropped: Policy) -> None:
        note = (
            f"the priority drop in the annotation {PRIORITY_DROP_ANNOTATION} is handled, but admission restored the "
            "annotation. Start the webhook with --drop-handler and the name of this controller's user"
        )
        self._record(_policy(dropped), NOT_CLEARED, note, None, "Warning", "ClearingPriorityDrop")

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


def takeover_reason(challenger: Policy, holder: PolicyReference, held_by: Policy | None) -> str:
    """Return why a policy takes over a resource.

    Args:
        challenger: the policy that takes over.
        holder: the policy that claims the resource.
        held_by: the same policy as it was read; None if it does not exist.
    """
    if held_by is None or challenger.kind != holder.kind:
        return f"a {challenger.kind} precedes every {holder.kind}"
    return f"its priority is {challenger.explicit_priority}, the other's is {held_by.explicit_priority}"


def _resource(resource: Resource, found: FoundResource) -> Reference:
    return Reference(*resource, uid=found.metadata.uid)


def _policy(policy: Policy) -> Reference:
    return _reference(policy.reference, policy.metadata.uid)


def _reference(policy: PolicyReference, uid: str) -> Reference:
    return Reference(_API_VERSION, policy.kind, policy.namespace, policy.name, uid)
