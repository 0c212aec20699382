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

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, BindingStatus, GracefulEvictionTask, TargetCluster
from berthmaster.model.cluster import Condition
from berthmaster.model.decode import builtins, encode_json
from berthmaster.model.placement import Placement
from berthmaster.scheduling.decision import FailureKind

APPLIED_AFFINITY: Final = "policy.berthmaster.io/applied-affinity"
"""The annotation that holds the group an assignment came from, and a digest of that assignment: ``NAME@DIGEST``."""

SCHEDULED: Final = "Scheduled"
SUCCESS: Final = "Success"
NO_FIT: Final = "NoClusterFit"
SCHEDULER_ERROR: Final = "SchedulerError"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""An assignment was refused: it would exceed a quota of the federation."""
REASONS: Final = {
    FailureKind.NO_FIT: NO_FIT,
    FailureKind.INSUFFICIENT: "Unschedulable",
    FailureKind.SELECT_FAILED: SCHEDULER_ERROR,
}
"""Karmada's reason in the condition for each kind of failure."""

_MESSAGE_LENGTH: Final = 32768
_ESCAPED: Final = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


class Version(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ``metadata`` that every write moves."""

    resource_version: str
    generation: int


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
    """A placement as the annotation of Karmada holds it: compact JSON, ordered and escaped as Go does."""
    content: Placement | dict[str, Any] = placement
    if placement.cluster_affinities is not None:
        content = _with_groups(builtins(placement), "clusterAffinities")
    return encode_json(content).decode().translate(_ESCAPED)


def _with_groups(content: dict[str, Any], field: str) -> dict[str, Any]:
    """The same with the groups in a field as Go writes them: their name comes first, and no list is empty."""
    if field not in content:
        return content
    groups = [
        _with_groups({"affinityName": each["affinityName"], **each}, "overflowAffinities") for each in content[field]
    ]
    return {name: groups if name == field else value for name, value in content.items() if name != field or groups}


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


@dataclass(frozen=True, slots=True)
class AssignmentWrite:
    """A write to a binding: where it goes, and what that came of.

    Attributes:
        annotations: those that change; None takes one away.
        clusters: where it goes from now on; None if that does not change.
        evictions: all tasks of gracefully leaving a cluster; None if they do not change.
    """

    annotations: Mapping[str, str | None]
    clusters: tuple[TargetCluster, ...] | None = None
    evictions: tuple[GracefulEvictionTask, ...] | None = None

    def patch(self, binding: Binding) -> dict[str, Any]:
        """The merge patch, only for the version of the binding that it was made for."""
        spec: dict[str, Any] = {}
        if self.clusters is not None:
            spec["clusters"] = [builtins(each) for each in self.clusters] or None
        if self.evictions is not None:
            spec["gracefulEvictionTasks"] = [builtins(each) for each in self.evictions]
        metadata: dict[str, Any] = {"resourceVersion": binding.metadata.resource_version}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {"metadata": metadata, **({"spec": spec} if spec else {})}

    def applied(self, binding: Binding, version: Version) -> Binding:
        """The binding as it is afterwards."""
        annotations = {**binding.metadata.annotations, **self.annotations}
        metadata = msgspec.structs.replace(
            binding.metadata,
            annotations={key: value for key, value in annotations.items() if value is not None},
            resource_version=version.resource_version,
            generation=version.generation,
        )
        spec = binding.spec
        if self.clusters is not None:
            spec = msgspec.structs.replace(spec, clusters=self.clusters)
        if self.evictions is not None:
            spec = msgspec.structs.replace(spec, graceful_eviction_tasks=self.evictions)
        return msgspec.structs.replace(binding, metadata=metadata, spec=spec)


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A write to a binding's status: the fields that change, None for those that do not."""

    conditions: tuple[Condition, ...] | None = None
    scheduler_observed_generation: int | None = None
    scheduler_observing_affinity_name: str | None = None
    last_scheduled_time: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self._changed())

    def patch(self, binding: Binding) -> dict[str, Any]:
        """The merge patch, only for the version of the binding that it was made for."""
        names = {
            "scheduler_observed_generation": "schedulerObservedGeneration",
            "scheduler_observing_affinity_name": "schedulerObservingAffinityName",
        }
        changed = self._changed()
        status = {outside: changed[name] for name, outside in names.items() if name in changed}
        if self.conditions is not None:
            status["conditions"] = [_condition(each) for each in self.conditions]
        if self.last_scheduled_time is not None:
            status["lastScheduledTime"] = _rfc3339(self.last_scheduled_time)
        return {"metadata": {"resourceVersion": binding.metadata.resource_version}, "status": status}

    def applied(self, binding: Binding, version: Version) -> Binding:
        """The binding as it is afterwards."""
        metadata = msgspec.structs.replace(binding.metadata, resource_version=version.resource_version)
        status = msgspec.structs.replace(binding.status, **self._changed())
        return msgspec.structs.replace(binding, metadata=metadata, status=status)

    def _changed(self) -> dict[str, Any]:
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


def assignment_write(
    binding: Binding,
    placement: Placement,
    clusters: Mapping[str, int],
    group: str,
    evictions: tuple[GracefulEvictionTask, ...] = (),
) -> AssignmentWrite | None:
    """What has to be written to assign a binding; None if it is assigned so already.

    Args:
        binding: as it is.
        placement: what the assignment came of.
        clusters: replicas by cluster; none takes all away.
        group: the group that won; empty for none.
        evictions: the clusters that it leaves for a reason of ours; added to its tasks.
    """
    annotations: dict[str, str | None] = {APPLIED_PLACEMENT: applied_placement(placement)}
    annotations[APPLIED_AFFINITY] = applied_affinity(group, clusters) if group else None
    known = binding.metadata.annotations
    changed = {key: value for key, value in annotations.items() if known.get(key) != value}
    listed = tuple(TargetCluster(name, replicas) for name, replicas in sorted(clusters.items()))
    write = AssignmentWrite(
        changed,
        listed if dict(clusters) != targets(binding) else None,
        (*binding.spec.graceful_eviction_tasks, *evictions) if evictions else None,
    )
    return write if changed or write.clusters is not None or write.evictions is not None else None


def status_write(
    binding: Binding, verdict: Verdict, now: datetime, *, refresh: bool, of: Binding | None = None
) -> StatusWrite:
    """What has to be written to a binding's status for a verdict; it is false if there is nothing.

    Args:
        binding: as it is.
        verdict: what came of scheduling it.
        now: the time; it is written in whole seconds, as the API server keeps it.
        refresh: it was really scheduled, so that the time of the last scheduling has to move.
        of: the binding after the assignment was written, if it has changed since.
    """
    of = of or binding
    status, now = binding.status, now.replace(microsecond=0)
    conditions = _with_condition(status, verdict, now)
    changed = conditions if conditions != status.conditions else None
    if not verdict.ok:
        return StatusWrite(changed)
    generation, group = of.metadata.generation, verdict.group
    last = _not_before_its_trigger(of, now) if refresh or status.last_scheduled_time is None else None
    return StatusWrite(
        changed,
        generation if generation != status.scheduler_observed_generation else None,
        group if group and group != status.scheduler_observing_affinity_name else None,
        last if last != status.last_scheduled_time else None,
    )


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
