"""What people are told of a takeover: events on the resource and on both policies."""

from typing import Final, Literal

from berthmaster.controllers.preemption.store import Found
from berthmaster.kube.events import Recorder, Reference
from berthmaster.model.claims import PERMANENT_ID, PRIORITY_DROP_ANNOTATION, Resource
from berthmaster.model.errors import ApiError
from berthmaster.model.policy import Policy, PolicyReference

SUCCEEDED: Final = "PreemptPolicySucceed"
FAILED: Final = "PreemptPolicyFailed"
NOT_CLEARED: Final = "PriorityDropNotCleared"
_API_VERSION: Final = "policy.karmada.io/v1alpha1"


class Story:
    """Tells of takeovers through a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def took(
        self, challenger: Policy, resource: Resource, found: Found, loser: PolicyReference, held: Policy | None
    ) -> None:
        """A policy has taken over a resource; ``held`` is the loser as it was read, None if it was not there."""
        note = f"{challenger} has taken over {resource} from {loser}: {_because(challenger, loser, held)}"
        taken, winner = _resource(resource, found), _policy(challenger)
        robbed = _reference(loser, held.metadata.uid if held is not None else "")
        self._tell(taken, SUCCEEDED, note, winner)
        self._tell(winner, SUCCEEDED, note, taken)
        self._tell(robbed, SUCCEEDED, note, taken)

    def failed(
        self, challenger: Policy, resource: Resource, found: Found, loser: PolicyReference, why: ApiError
    ) -> None:
        """A policy should have taken over a resource, and could not."""
        note = f"{challenger} could not take over {resource} from {loser}, and will try again: {why}"
        taken, winner = _resource(resource, found), _policy(challenger)
        self._tell(taken, FAILED, note, winner, "Warning")
        self._tell(winner, FAILED, note, taken, "Warning")

    def nameless(self, challenger: Policy, resource: Resource) -> None:
        """A policy could take over a resource, but has no permanent id to claim it with."""
        label = PERMANENT_ID[challenger.kind]
        note = (
            f"{challenger} does not take over {resource}, since it has no label {label}, which Karmada's webhook gives "
            "to new policies; it will once it has one"
        )
        self._tell(_policy(challenger), FAILED, note, None, "Warning")

    def kept(self, dropped: Policy) -> None:
        """The record of a priority drop has been handled, but could not be cleared."""
        note = (
            f"the annotation {PRIORITY_DROP_ANNOTATION} has been handled, but admission does not let it go: "
            "name this controller's user with --drop-handler of the webhook"
        )
        self._tell(_policy(dropped), NOT_CLEARED, note, None, "Warning", "ClearingPriorityDrop")

    def _tell(
        self,
        regarding: Reference,
        reason: str,
        note: str,
        related: Reference | None,
        kind: Literal["Normal", "Warning"] = "Normal",
        action: str = "Preempting",
    ) -> None:
        self._recorder.record(regarding, kind, reason, action, note, related)


def _because(challenger: Policy, loser: PolicyReference, held: Policy | None) -> str:
    if held is None or challenger.kind != loser.kind:
        return f"a {challenger.kind} goes before every {loser.kind}"
    return f"its priority is {challenger.explicit_priority}, that of the other {held.explicit_priority}"


def _resource(resource: Resource, found: Found) -> Reference:
    return Reference(*resource, uid=found.metadata.uid)


def _policy(policy: Policy) -> Reference:
    return _reference(policy.reference, policy.metadata.uid)


def _reference(policy: PolicyReference, uid: str = "") -> Reference:
    return Reference(_API_VERSION, policy.kind, policy.namespace, policy.name, uid)
