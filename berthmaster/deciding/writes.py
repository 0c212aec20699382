"""The writes that a decision needs, as values: pure functions from a binding and a decision to patches.

A decision needs two writes: one to the binding (its clusters and the placement that they result from), and one to its
status. The first write also records the group that won, so that a crash between the two loses nothing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec.structs
from msgspec.structs import asdict

from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.binding import (
    APPLIED_PLACEMENT,
    NO_CLUSTER_FIT,
    SCHEDULED,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    TargetComponent,
    short_assignment,
)
from berthmaster.model.cluster import Condition, condition_of
from berthmaster.model.decode import builtins, encode_json
from berthmaster.model.meta import Value, timestamp_text, with_status
from berthmaster.model.move import (
    APPLIED_AFFINITY,
    EVICTION_REASON,
    MOVE,
    MovePhase,
    MoveState,
    MoveStrategy,
    annotation_of,
    move_of,
)
from berthmaster.model.placement import Placement
from berthmaster.scheduling.decision import FailureKind

MOVING: Final = "Moving"
"""The condition of a binding that moves, waits for a move, or has moved recently."""
SUCCESS: Final = "Success"
SUCCESS_MESSAGE: Final = "Binding has been scheduled successfully."
"""How karmada-scheduler begins the condition and the event of a scheduled binding."""
SCHEDULER_ERROR: Final = "SchedulerError"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""The API server refused an assignment because it exceeds a FederatedResourceQuota."""
TOO_LARGE: Final = "PlacementTooLarge"
"""The placement exceeds a limit, or the decision takes too many steps. Only a change of the binding helps."""
UNSUPPORTED_PLACEMENT: Final = "UnsupportedPlacement"
"""The placement has a part that this version does not know. Only a newer version or another placement helps."""
REASONS: Final = {
    FailureKind.NO_FIT: NO_CLUSTER_FIT,
    FailureKind.INSUFFICIENT: "Unschedulable",
    FailureKind.SELECT_FAILED: SCHEDULER_ERROR,
    FailureKind.TOO_LARGE: TOO_LARGE,
}
"""The condition reason for each kind of failure: Karmada's, except for ``TOO_LARGE``."""

_MESSAGE_LENGTH: Final = 32768


class Version(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ``metadata`` that every write changes."""

    resource_version: str
    generation: int


@dataclass(frozen=True, slots=True)
class SchedulingResult:
    """The content of the ``Scheduled`` condition.

    Attributes:
        reason: Karmada's reason; ``Success`` or one of ``REASONS``.
        group: the group of the assignment; empty without groups and for failures.
    """

    reason: str
    message: str
    group: str = ""

    @property
    def ok(self) -> bool:
        return self.reason == SUCCESS


def applied_affinity(group: str, clusters: Mapping[str, int]) -> str:
    """Return the value of the annotation ``APPLIED_AFFINITY``."""
    content = encode_json(sorted(clusters.items()))
    return f"{group}@{hashlib.sha256(content).hexdigest()[:16]}"


def effective(binding: Binding) -> Binding:
    """Return a binding whose status names the group of its assignment, even if the stored status is stale.

    The annotation counts only for the assignment that it was written with: another scheduler may have changed it.
    """
    group, _, _ = binding.metadata.annotations.get(APPLIED_AFFINITY, "").rpartition("@")
    observed = binding.status.scheduler_observing_affinity_name
    if not group or group == observed:
        return binding
    if binding.metadata.annotations[APPLIED_AFFINITY] != applied_affinity(group, binding.assignment):
        return binding
    return with_status(binding, scheduler_observing_affinity_name=group)


def assigned_group(binding: Binding) -> str:
    """Return the group of an assignment; empty without one. A placement without groups leaves the old name behind."""
    placement = binding.spec.placement
    if not binding.spec.clusters or (placement is not None and not placement.cluster_affinities):
        return ""
    return effective(binding).status.scheduler_observing_affinity_name


@dataclass(frozen=True, slots=True)
class AssignmentWrite:
    """A write to a binding's metadata and spec.

    Attributes:
        annotations: the annotations that change; None removes one.
        clusters: the new assignment; None if it does not change.
    """

    annotations: Mapping[str, str | None]
    clusters: tuple[TargetCluster, ...] | None = None
    evictions: tuple[GracefulEvictionTask, ...] | None = None

    def patch(self, binding: Binding) -> dict[str, Any]:
        """Return the merge patch. It applies only to the resource version of ``binding``."""
        spec: dict[str, Any] = {}
        if self.clusters is not None:
            spec["clusters"] = [builtins(each) for each in self.clusters] or None
        if self.evictions is not None:
            spec["gracefulEvictionTasks"] = [builtins(each) for each in self.evictions]
        metadata: dict[str, Any] = {"resourceVersion": binding.metadata.resource_version}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {"metadata": metadata, **({"spec": spec} if spec else {})}

    def annotated(self, binding: Binding) -> Binding:
        """Return a binding as this write leaves it, in its present version."""
        meta = binding.metadata
        return self.applied(binding, Version(meta.resource_version, meta.generation))

    def applied(self, binding: Binding, version: Version) -> Binding:
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


class StatusWrite(Value, frozen=True):
    """A write to a binding's status: the fields that change; None for the others."""

    conditions: tuple[Condition, ...] | None = None
    scheduler_observed_generation: int | None = None
    scheduler_observing_affinity_name: str | None = None
    last_scheduled_time: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self._changed())

    def patch(self, binding: Binding) -> dict[str, Any]:
        """Return the merge patch. It applies only to the resource version of ``binding``."""
        status = builtins(self)
        if self.conditions is not None:
            # The API server requires message and reason, even if they are empty.
            status["conditions"] = [{"message": "", "reason": "", **each} for each in status["conditions"]]
        return {"metadata": {"resourceVersion": binding.metadata.resource_version}, "status": status}

    def applied(self, binding: Binding, version: Version) -> Binding:
        metadata = msgspec.structs.replace(binding.metadata, resource_version=version.resource_version)
        status = msgspec.structs.replace(binding.status, **self._changed())
        return msgspec.structs.replace(binding, metadata=metadata, status=status)

    def _changed(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def assignment_write(
    binding: Binding,
    placement: Placement,
    clusters: Mapping[str, int],
    group: str,
    evictions: tuple[GracefulEvictionTask, ...] = (),
    components: tuple[TargetComponent, ...] = (),
) -> AssignmentWrite | None:
    """Return the write that assigns a binding; None if it has this assignment already.

    Args:
        clusters: replicas by cluster; empty removes the assignment.
        components: the pods of each template on each cluster, for a workload of several templates; empty for others.
            A stored list without components is completed only with another assignment: an older API has no such field.
    """
    tasks = (*binding.spec.graceful_eviction_tasks, *evictions)
    outdated = any(each.components not in {(), components} for each in binding.spec.clusters)
    annotations = {APPLIED_PLACEMENT: encoded_placement(placement)}
    return _write(binding, annotations, clusters, group, tasks, components, outdated=outdated)


def move_write(
    binding: Binding,
    record: MoveState | None,
    clusters: Mapping[str, int] | None = None,
    group: str = "",
    evictions: tuple[GracefulEvictionTask, ...] | None = None,
    annotations: Mapping[str, str | None] | None = None,
    components: tuple[TargetComponent, ...] = (),
) -> AssignmentWrite | None:
    """Return the write of a step of a move; None if it changes nothing. Without a record, the stored one is removed."""
    wanted = {**(annotations or {}), MOVE: annotation_of(record) if record is not None else None}
    return _write(binding, wanted, clusters, group, evictions, components)


def _write(
    binding: Binding,
    annotations: Mapping[str, str | None],
    clusters: Mapping[str, int] | None,
    group: str,
    evictions: tuple[GracefulEvictionTask, ...] | None,
    components: tuple[TargetComponent, ...],
    *,
    outdated: bool = False,
) -> AssignmentWrite | None:
    """Return the write of what differs from a binding; None if nothing does. An ``outdated`` list always differs."""
    wanted, listed, known = dict(annotations), None, binding.metadata.annotations
    if clusters is not None:
        wanted[APPLIED_AFFINITY] = applied_affinity(group, clusters) if group else None
        if outdated or dict(clusters) != binding.assignment:
            listed = tuple(TargetCluster(name, replicas, components) for name, replicas in sorted(clusters.items()))
    changed = {key: value for key, value in wanted.items() if known.get(key) != value}
    tasks = evictions if evictions != binding.spec.graceful_eviction_tasks else None
    return AssignmentWrite(changed, listed, tasks) if changed or listed is not None or tasks is not None else None


def status_write(
    binding: Binding, result: SchedulingResult, now: datetime, *, refresh: bool, of: Binding | None = None
) -> StatusWrite:
    """Return the write to a binding's status; it is falsy if nothing changes.

    Args:
        now: the time; it is written in whole seconds, as the API server stores it.
        of: the binding directly after the assignment was written, if it has changed since.
    """
    of = of or binding
    status, now = binding.status, now.replace(microsecond=0)
    message = result.message[:_MESSAGE_LENGTH]
    scheduled = _with_condition(status.conditions, SCHEDULED, result.reason, message, now, holds=result.ok)
    conditions = _with_moving(scheduled, move_of(binding), now)
    changed = conditions if conditions != status.conditions else None
    if not result.ok:
        return StatusWrite(changed)
    generation, group = of.metadata.generation, result.group
    if _differs_from_template(of):
        generation = status.scheduler_observed_generation
    last = _not_before_its_trigger(of, now) if refresh or status.last_scheduled_time is None else None
    return StatusWrite(
        changed,
        generation if generation != status.scheduler_observed_generation else None,
        group if group and group != status.scheduler_observing_affinity_name else None,
        last if last != status.last_scheduled_time else None,
    )


def _differs_from_template(binding: Binding) -> bool:
    """Whether the copies of a move are not those that its template wants: both old and new ones, or not all.

    Karmada's deployment-replicas-syncer would copy their number to the template. It waits while the scheduler has not
    observed the generation. A graceful eviction waits for the same, so the purge mode Gracefully is left out.
    """
    move = move_of(binding)
    if move is None or not move.under_way:
        return False
    if move.strategy is MoveStrategy.MAKE_BEFORE_BREAK:
        return True
    own = [each for each in binding.spec.graceful_eviction_tasks if each.reason == EVICTION_REASON]
    return move.phase is MovePhase.ADMITTED and all(each.suppress_deletion for each in own)


def _not_before_its_trigger(binding: Binding, now: datetime) -> datetime:
    """Return the time of scheduling. A slow clock must not set it before the trigger: that would reschedule forever."""
    triggered = binding.spec.reschedule_triggered_at
    return now if triggered is None else max(now, triggered).astimezone(UTC)


def _with_moving(conditions: tuple[Condition, ...], move: MoveState | None, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with an updated ``Moving``. A binding that never moved does not have it."""
    if move is None:
        return tuple(each for each in conditions if each.type != MOVING)
    reason = move.reason.value if move.under_way else move.phase.value
    return _with_condition(conditions, MOVING, reason, moving_message(move), now, holds=move.under_way)


def says_moving(binding: Binding) -> bool:
    """Return whether the condition ``Moving`` says that a move is under way. It stays if another client edits."""
    return any(each.type == MOVING and each.status == "True" for each in binding.status.conditions)


def _with_condition(
    conditions: tuple[Condition, ...], kind: str, reason: str, message: str, now: datetime, *, holds: bool
) -> tuple[Condition, ...]:
    """Return the conditions with one of them updated or added. Its transition time changes only with its status."""
    before = condition_of(conditions, kind)
    status = "True" if holds else "False"
    time = before.last_transition_time if before is not None and before.status == status else timestamp_text(now)
    after = Condition(kind, status, reason, message, time)
    return (*conditions, after) if before is None else tuple(after if each is before else each for each in conditions)


def moving_message(move: MoveState) -> str:
    """Return the message of the condition ``Moving``."""
    way = f"{move.reason.value} {move.phase.value}: {short_assignment(move.source)} -> {short_assignment(move.target)}"
    return "; ".join(filter(None, (way if move.target else f"{move.reason.value} {move.phase.value}", move.message)))
