"""Why a workload moves in a plan, and why it does not."""

from typing import Final

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.move import move_of
from berthmaster.model.placement import Placement
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.plan_answer import StayReason
from berthmaster.simulation.run import PlannedWorkload
from berthmaster.simulation.workload import NotScheduled

_PARTS: Final = {
    "cluster_affinity": "clusterAffinity",
    "cluster_affinities": "clusterAffinities",
    "cluster_tolerations": "clusterTolerations",
    "spread_constraints": "spreadConstraints",
    "replica_scheduling": "replicaScheduling",
    "workload_affinity": "workloadAffinity",
}


def why_moved(planned: PlannedWorkload) -> str:
    """Return why a workload moves: the trigger in words, and the cause as far as the change shows it."""
    result, workload = planned.after, planned.after.workload
    cause = _new_holder(planned)
    old = planned.before.workload.binding
    match result.trigger:
        case Trigger.FIRST:
            return cause or "it is scheduled for the first time"
        case Trigger.RECONCILE:
            parts = changed_parts(old, workload.binding)
            if parts:
                return _joined(cause, f"its placement changes ({', '.join(parts)})")
            return _joined(cause, "such bindings are scheduled at every event")
        case Trigger.SCALE:
            return _joined(cause, _scaled(old, workload.binding))
        case Trigger.RESCHEDULED:
            return _joined(cause, "a rescheduling was requested")
        case Trigger.FAILOVER:
            return _joined(cause, "a cluster of its assignment is being deleted or evicts it")
        case Trigger.NONE:
            if result.companions.follows:
                return f"it follows {', '.join(result.companions.follows)}"
            state = move_of(old) if old is not None else None
            if state is not None and state.under_way:
                return _joined(cause, f"its move ({state.reason.value}) is under way and ends")
            return cause or "no workload needs it any more"


def why_stays(planned: PlannedWorkload) -> tuple[StayReason, str]:
    """Return why a workload that the change concerns does not move."""
    before, result, workload = planned.before.workload, planned.after, planned.after.workload
    unscheduled = result.unscheduled
    if unscheduled is not None:
        lazy = unscheduled.reason is NotScheduled.DEFERRED
        return (StayReason.LAZY if lazy else StayReason.NOT_SCHEDULED), unscheduled.message
    if workload.deferred is not None and (planned.is_new or workload.deferred != before.deferred):
        return StayReason.LAZY, "its policy is Lazy: the change counts when its template changes"
    if result.decision is not None and result.decision.failure is not None:
        return StayReason.FAILED, "it cannot be scheduled, and keeps what it has"
    if result.trigger is not Trigger.NONE:
        return StayReason.SAME_RESULT, f"it is scheduled again ({result.trigger.value}), with the same result"
    if not planned.has_event:
        return StayReason.UNCHANGED, "its binding does not change"
    parts = changed_parts(before.binding, workload.binding)
    if "clusterAffinities" in parts and result.group:
        return StayReason.OTHER_GROUP, f"the change leaves its group {result.group} as it is"
    what = f"a change of {', '.join(parts)}" if parts else "the change"
    return StayReason.NOT_TRIGGERED, f"{what} does not trigger scheduling"


def changed_parts(before: Binding | None, after: Binding | None) -> list[str]:
    """Return the names of the parts of the placement that differ from the applied one, or else from the one before."""
    if before is None or after is None or after.spec.placement is None:
        return []
    then = _applied(before) or before.spec.placement
    if then is None:
        return []
    now = after.spec.placement
    return [name for field, name in _PARTS.items() if (getattr(then, field) or None) != (getattr(now, field) or None)]


def _applied(binding: Binding) -> Placement | None:
    applied = binding.metadata.annotations.get(APPLIED_PLACEMENT)
    if not applied:
        return None
    try:
        return decode_json(Placement, applied)
    except FieldError:
        return None


def _new_holder(planned: PlannedWorkload) -> str:
    before, after = planned.holder_before, planned.holder_after
    if after is None or before == after:
        return ""
    return f"{after} claims it" if before is None else f"{after} replaces {before}"


def _scaled(before: Binding | None, after: Binding | None) -> str:
    if before is None or after is None or before.spec.replicas == after.spec.replicas:
        return "its assigned replicas differ from the requested ones"
    return f"its replicas change from {before.spec.replicas} to {after.spec.replicas}"


def _joined(cause: str, reason: str) -> str:
    return f"{cause}, and {reason}" if cause else reason
