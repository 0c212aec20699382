"""The events of a WorkloadRebalancer, and of the bindings that it marks."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from berthmaster.controllers.rebalancer.progress import Marked, MarkOutcomes, NotMarked, RebalanceProgress
from berthmaster.kube.events import EventContent, Reference
from berthmaster.model.errors import name_list
from berthmaster.model.meta import timestamp_text
from berthmaster.model.rebalancer import FAILED, RebalancedWorkload, WorkloadRebalancer

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
    origin = f"WorkloadRebalancer {rebalancer.metadata.name}, created at {timestamp_text(at)},"
    if marked.scheduled_later_at is None:
        note = f"{origin} triggered rescheduling"
        return EventContent(marked.stamped, "Normal", "RescheduleTriggered", _ACTION, note, reference(rebalancer))
    note = (
        f"{origin} has no effect: the last scheduling was later, at {timestamp_text(marked.scheduled_later_at)}. "
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
