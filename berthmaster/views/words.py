"""What each value of an enumeration is called in texts for people.

Each function matches all values, so that mypy finds one without words.
"""

from typing import assert_never

from berthmaster.model.move import MovePhase, MoveReason
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.scheduling.karmada.trigger import Trigger


def trigger_words(trigger: Trigger) -> str:
    """Return the clause after "because" that says why a workload is scheduled."""
    match trigger:
        case Trigger.FIRST:
            return "it was never scheduled"
        case Trigger.RECONCILE:
            return "its placement changed, or Karmada schedules such workloads at every event"
        case Trigger.SCALE:
            return "the requested replicas differ from the assigned ones"
        case Trigger.RESCHEDULED:
            return "a rescheduling was requested"
        case Trigger.FAILOVER:
            return "a cluster of its assignment is lost, or evicts it"
        case Trigger.NONE:
            return "nothing triggers scheduling"
        case _:
            assert_never(trigger)


def move_reason_words(reason: MoveReason) -> str:
    """Return the clause after "because" that says why a workload moves."""
    match reason:
        case MoveReason.FAILBACK:
            return "an earlier group can hold it again"
        case MoveReason.DRAIN:
            return "a cluster of its assignment is being drained"
        case MoveReason.FAILOVER:
            return "a cluster of its assignment is lost"
        case MoveReason.RESCHEDULED:
            return "a rescheduling was requested"
        case MoveReason.REBALANCE:
            return "it has drifted from its policy"
        case _:
            assert_never(reason)


def move_phase_words(phase: MovePhase) -> str:
    """Return what happens to a workload in a phase of its move."""
    match phase:
        case MovePhase.ELIGIBLE:
            return "should move, and cannot yet"
        case MovePhase.STABILISING:
            return "a place exists and must last for some time"
        case MovePhase.ADMITTED:
            return "the old copies are being removed"
        case MovePhase.SURGING:
            return "the new copies start beside the old ones"
        case MovePhase.SOAKING:
            return "the new copies are healthy and must stay so"
        case MovePhase.RELEASED:
            return "ended well"
        case MovePhase.ROLLED_BACK:
            return "failed; the old assignment is restored"
        case MovePhase.HELD_DOWN:
            return "no move starts for some time"
        case _:
            assert_never(phase)


def drift_words(kind: DriftKind) -> str:
    """Return how a workload differs from what its policy asks for."""
    match kind:
        case DriftKind.GROUP:
            return "an earlier group can hold it"
        case DriftKind.CLUSTERS:
            return "on clusters that its group does not allow"
        case DriftKind.SPREAD:
            return "a spread constraint is not met"
        case DriftKind.WEIGHTS:
            return "shares differ from the weights"
        case DriftKind.OVERFLOW:
            return "on overflow clusters without need"
        case DriftKind.COPIES:
            return "copies are missing"
        case DriftKind.REPLICAS:
            return "the replicas do not add up"
        case DriftKind.STUCK:
            return "replicas do not run"
        case _:
            assert_never(kind)
