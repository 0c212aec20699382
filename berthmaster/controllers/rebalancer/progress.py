"""Decide the status of a WorkloadRebalancer, and when it must be deleted. Pure.

The rules are Karmada's (``pkg/controllers/workloadrebalancer``). A second decision without new outcomes changes
nothing. Karmada's controller may therefore run at the same time: the slower of the two finds nothing to write.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from berthmaster.kube.events import EventContent, Reference
from berthmaster.model.errors import ApiError, name_list
from berthmaster.model.rebalancer import (
    BINDING_NOT_FOUND,
    FAILED,
    SUCCESSFUL,
    ObservedWorkload,
    RebalancedWorkload,
    RebalancerStatus,
    WorkloadRebalancer,
)


@dataclass(frozen=True, slots=True)
class Marked:
    """A binding has the rebalancer's mark, or a later one.

    Attributes:
        stamped: the binding, if this attempt wrote the mark.
        scheduled_later_at: when the workload was last scheduled, if that is not before the mark: the mark has no
            effect then.
    """

    stamped: Reference | None = None
    scheduled_later_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BindingMissing:
    """The workload has no binding."""


@dataclass(frozen=True, slots=True)
class NotMarked:
    """The binding could not be read or written. A later attempt may succeed."""

    error: ApiError


MarkOutcome = Marked | BindingMissing | NotMarked
MarkOutcomes = Mapping[RebalancedWorkload, MarkOutcome]


@dataclass(frozen=True, slots=True)
class RebalanceProgress:
    """The progress of a rebalancer.

    Attributes:
        remaining_s: seconds until the rebalancer must be deleted; None for never or not yet known.
    """

    status: RebalancerStatus
    changed: bool
    open: tuple[RebalancedWorkload, ...]
    remaining_s: float | None


def working_list(rebalancer: WorkloadRebalancer) -> tuple[ObservedWorkload, ...]:
    """Return the workloads that the status must list, in its order, with their present results.

    These are the workloads of the spec, and those that succeeded before they were removed from the spec.
    """
    named = dict.fromkeys(rebalancer.spec.workloads)
    listed: dict[RebalancedWorkload, ObservedWorkload] = {}
    for item in rebalancer.status.observed_workloads:
        if item.result == SUCCESSFUL or (item.workload in named and item.workload not in listed):
            listed[item.workload] = item
    for workload in named:
        listed.setdefault(workload, ObservedWorkload(workload))
    return tuple(sorted(listed.values(), key=_order))


def decide_progress(rebalancer: WorkloadRebalancer, outcomes: MarkOutcomes, now: datetime) -> RebalanceProgress:
    """Decide the progress after attempts to mark some of the open workloads.

    The finish time moves with every change of the status. A workload that is added later, or any other change of the
    spec, therefore delays the deletion. A changed ``ttlSecondsAfterFinished`` also counts from the new finish time.
    """
    items = tuple(_with_outcome(item, outcomes.get(item.workload)) for item in working_list(rebalancer))
    still_open = tuple(item.workload for item in items if item.open)
    before = rebalancer.status
    status = RebalancerStatus(rebalancer.metadata.generation, items, before.finish_time)
    if not still_open and (status != before or before.finish_time is None):
        # Kubernetes stores whole seconds.
        status = RebalancerStatus(rebalancer.metadata.generation, items, now.replace(microsecond=0))
    remaining_s = None if still_open else _remaining_s(rebalancer.spec.ttl_seconds_after_finished, status, now)
    return RebalanceProgress(status, status != before, still_open, remaining_s)


def _with_outcome(item: ObservedWorkload, outcome: MarkOutcome | None) -> ObservedWorkload:
    """Return an item with its outcome. A stored result never changes: failures are not tried again."""
    if not item.open:
        return item
    match outcome:
        case Marked():
            return ObservedWorkload(item.workload, SUCCESSFUL)
        case BindingMissing():
            return ObservedWorkload(item.workload, FAILED, BINDING_NOT_FOUND)
        case _:
            return ObservedWorkload(item.workload)


def _remaining_s(ttl_s: int | None, status: RebalancerStatus, now: datetime) -> float | None:
    if ttl_s is None or status.finish_time is None:
        return None
    return ttl_s - (now - status.finish_time).total_seconds()


def _order(item: ObservedWorkload) -> str:
    workload = item.workload
    return f"{workload.api_version} {workload.kind} {workload.namespace} {workload.name}"


MAX_NAMED: Final = 5
"""How many workloads one event names. The status lists all."""
_ACTION: Final = "Rebalancing"


def reference(rebalancer: WorkloadRebalancer) -> Reference:
    """Return the reference to a rebalancer for events."""
    metadata = rebalancer.metadata
    return Reference(rebalancer.api_version, rebalancer.kind, metadata.namespace, metadata.name, metadata.uid)


def mark_event(rebalancer: WorkloadRebalancer, at: datetime, marked: Marked) -> EventContent | None:
    """Return the event of a binding, or None if the binding already had the mark."""
    if marked.stamped is None:
        return None
    origin = f"WorkloadRebalancer {rebalancer.metadata.name}, created at {_time(at)},"
    if marked.scheduled_later_at is None:
        note = f"{origin} triggered rescheduling"
        return EventContent(marked.stamped, "Normal", "RescheduleTriggered", _ACTION, note, reference(rebalancer))
    note = (
        f"{origin} has no effect: the last scheduling was later, at {_time(marked.scheduled_later_at)}. "
        "Create a new WorkloadRebalancer to reschedule"
    )
    return EventContent(marked.stamped, "Warning", "NothingRescheduled", _ACTION, note, reference(rebalancer))


def progress_events(
    rebalancer: WorkloadRebalancer, progress: RebalanceProgress, outcomes: MarkOutcomes
) -> Iterator[EventContent]:
    """Yield the events of a rebalancer after its status was written. There are none if no workload was tried."""
    about = reference(rebalancer)
    total = len(progress.status.observed_workloads)
    if progress.open:
        problem = next((outcome.error for outcome in outcomes.values() if isinstance(outcome, NotMarked)), None)
        if problem is not None:
            note = (
                f"{len(progress.open)} of {total} workloads are not marked yet: {_names(progress.open)}. "
                f"The controller retries: {problem}"
            )
            yield EventContent(about, "Warning", "RebalancePending", _ACTION, note)
    elif outcomes:
        yield _finished(about, progress)
    if without_effect := [
        each for each, found in outcomes.items() if isinstance(found, Marked) and found.scheduled_later_at
    ]:
        note = (
            f"not rescheduled because their last scheduling is later than this object: {_names(without_effect)}. "
            "Create a new WorkloadRebalancer to reschedule them"
        )
        yield EventContent(about, "Warning", "NothingRescheduled", _ACTION, note)


def _finished(about: Reference, progress: RebalanceProgress) -> EventContent:
    items = progress.status.observed_workloads
    failed = [item.workload for item in items if item.result == FAILED]
    if not failed:
        marked = "1 workload is" if len(items) == 1 else f"{len(items)} workloads are"
        note = f"{marked} marked for rescheduling: {_names([item.workload for item in items])}"
        return EventContent(about, "Normal", "RebalanceSucceed", _ACTION, note)
    note = (
        f"{len(failed)} of {len(items)} workloads are not marked because they have no binding: {_names(failed)}. "
        "Check their names, and whether a policy claims them. The controller does not retry: create a new "
        "WorkloadRebalancer"
    )
    return EventContent(about, "Warning", "RebalanceFailed", _ACTION, note)


def _names(workloads: Sequence[RebalancedWorkload]) -> str:
    return name_list([str(each) for each in workloads], MAX_NAMED)


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
