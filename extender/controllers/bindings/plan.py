"""What has to be written for a decision: pure, from a binding and a decision to patches.

Two writes bring a decision about: one to the binding itself (where it goes, and what placement that came of), one to
its status. A crash between the two must not lose which group won, so that the first one records it as well.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec.structs

from extender.scheduling.decision import FailureKind
from fleet.model.binding import APPLIED_PLACEMENT, Binding, BindingStatus, GracefulEvictionTask, TargetCluster
from fleet.model.cluster import Condition
from fleet.model.decode import builtins, encode_json
from fleet.model.placement import Placement

APPLIED_AFFINITY: Final = "policy.berthmaster.io/applied-affinity"
"""The annotation that holds the group an assignment came from, and a digest of that assignment: ``NAME@DIGEST``."""

SCHEDULED: Final = "Scheduled"
SUCCESS: Final = "Success"
REASONS: Final = {
    FailureKind.NO_FIT: "NoClusterFit",
    FailureKind.INSUFFICIENT: "Unschedulable",
    FailureKind.SELECT_FAILED: "SchedulerError",
}
"""Karmada's reason in the condition for each kind of failure."""

_MESSAGE_LENGTH: Final = 32768
_ESCAPED: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the ``Scheduled`` condition is to say.

    Attributes:
        reason: Karmada's word; ``Success`` or one of ``REASONS``.
        message: the same for people.
        group: the group that the assignment came from; empty for none, or if it failed.
    """

    reason: str
    message: str
    group: str = ""

    @property
    def ok(self) -> bool:
        """Whether the binding is scheduled."""
        return self.reason == SUCCESS


def applied_placement(placement: Placement) -> str:
    """A placement as the annotation of Karmada holds it: compact JSON, escaped as Go does."""
    return encode_json(placement).decode().translate(_ESCAPED)


def applied_affinity(group: str, clusters: Mapping[str, int]) -> str:
    """What the annotation ``APPLIED_AFFINITY`` says."""
    content = encode_json(sorted(clusters.items()))
    return f"{group}@{hashlib.sha256(content).hexdigest()[:16]}"


def targets(binding: Binding) -> dict[str, int]:
    """Replicas by cluster as they are assigned."""
    return {target.name: target.replicas for target in binding.spec.clusters}


def effective(binding: Binding) -> Binding:
    """A binding with the group that its assignment really came from, although its status may not say so yet.

    The annotation counts only for the very assignment it was written with: somebody else may have scheduled since.
    """
    group, _, _ = binding.metadata.annotations.get(APPLIED_AFFINITY, "").rpartition("@")
    observed = binding.status.scheduler_observing_affinity_name
    if not group or group == observed:
        return binding
    if binding.metadata.annotations[APPLIED_AFFINITY] != applied_affinity(group, targets(binding)):
        return binding
    status = msgspec.structs.replace(binding.status, scheduler_observing_affinity_name=group)
    return msgspec.structs.replace(binding, status=status)


def assignment_patch(
    binding: Binding,
    placement: Placement,
    clusters: Mapping[str, int],
    group: str,
    evictions: tuple[GracefulEvictionTask, ...] = (),
) -> dict[str, Any] | None:
    """The merge patch that assigns a binding; None if it is assigned so already.

    Args:
        binding: as it is.
        placement: what the assignment came of.
        clusters: replicas by cluster; none takes all away.
        group: the group that won; empty for none.
        evictions: clusters that it leaves for a reason of ours; added to its tasks.
    """
    annotations: dict[str, str | None] = {APPLIED_PLACEMENT: applied_placement(placement)}
    if group:
        annotations[APPLIED_AFFINITY] = applied_affinity(group, clusters)
    elif APPLIED_AFFINITY in binding.metadata.annotations:
        annotations[APPLIED_AFFINITY] = None
    known = binding.metadata.annotations
    changed = {key: value for key, value in annotations.items() if known.get(key) != value}
    spec: dict[str, Any] = {}
    if dict(clusters) != targets(binding):
        listed = tuple(TargetCluster(name, replicas) for name, replicas in sorted(clusters.items()))
        spec["clusters"] = [builtins(each) for each in listed] or None
    if evictions:
        spec["gracefulEvictionTasks"] = [builtins(each) for each in (*binding.spec.graceful_eviction_tasks, *evictions)]
    if not changed and not spec:
        return None
    return {
        "metadata": {
            "resourceVersion": binding.metadata.resource_version,
            **({"annotations": changed} if changed else {}),
        },
        **({"spec": spec} if spec else {}),
    }


def status_patch(binding: Binding, verdict: Verdict, now: datetime, *, refresh: bool) -> dict[str, Any] | None:
    """The merge patch of a binding's status for a verdict; None if it says so already.

    Args:
        binding: after the assignment was written.
        verdict: what came of scheduling it.
        now: the time.
        refresh: it was really scheduled, so that the time of the last scheduling has to move.
    """
    status = binding.status
    fields: dict[str, Any] = {}
    conditions = _with_condition(status, verdict, now)
    if conditions != status.conditions:
        fields["conditions"] = [_condition(each) for each in conditions]
    if verdict.ok:
        if status.scheduler_observed_generation != binding.metadata.generation:
            fields["schedulerObservedGeneration"] = binding.metadata.generation
        if verdict.group and status.scheduler_observing_affinity_name != verdict.group:
            fields["schedulerObservingAffinityName"] = verdict.group
        if refresh or status.last_scheduled_time is None:
            fields["lastScheduledTime"] = _rfc3339(_not_before_its_trigger(binding, now))
    if not fields:
        return None
    return {"metadata": {"resourceVersion": binding.metadata.resource_version}, "status": fields}


def _not_before_its_trigger(binding: Binding, now: datetime) -> datetime:
    """The time of scheduling: never before what asked for it, or a clock that is slow would ask forever."""
    triggered = binding.spec.reschedule_triggered_at
    return now if triggered is None else max(now, triggered)


def _with_condition(status: BindingStatus, verdict: Verdict, now: datetime) -> tuple[Condition, ...]:
    """The conditions with ours as it is to be; its time moves only when it turns."""
    state = "True" if verdict.ok else "False"
    before = next((each for each in status.conditions if each.type == SCHEDULED), None)
    turned = before is None or before.status != state
    ours = Condition(
        SCHEDULED,
        state,
        verdict.reason,
        verdict.message[:_MESSAGE_LENGTH],
        _rfc3339(now) if turned or before is None else before.last_transition_time,
    )
    if before is None:
        return (*status.conditions, ours)
    return tuple(ours if each is before else each for each in status.conditions)


def _condition(condition: Condition) -> dict[str, Any]:
    """A condition with all that the API server requires, be it empty."""
    return {"message": "", "reason": "", **builtins(condition)}


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
