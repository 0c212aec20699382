"""What people are told, as events: on the rebalancer what became of it, on a binding who wants it scheduled afresh."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from berthmaster.controllers.rebalancer.plan import Marked, Outcomes, Plan, Unsettled
from berthmaster.kube.events import Reference
from berthmaster.model.rebalancer import FAILED, RebalancedWorkload, WorkloadRebalancer

MAX_NAMED: Final = 5
"""How many workloads one event names; the status has them all."""
_ACTION: Final = "Rebalancing"


class Notice(NamedTuple):
    """An event, as ``Recorder.record`` takes it."""

    regarding: Reference
    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: Reference | None = None


def reference(rebalancer: WorkloadRebalancer) -> Reference:
    """What events call the rebalancer."""
    metadata = rebalancer.metadata
    return Reference(rebalancer.api_version, rebalancer.kind, metadata.namespace, metadata.name, metadata.uid)


def of_mark(rebalancer: WorkloadRebalancer, at: datetime, marked: Marked) -> Iterator[Notice]:
    """What the binding's own events say; nothing, if somebody else had marked it."""
    if marked.stamped is None:
        return
    name = rebalancer.metadata.name
    if marked.overtaken_at is None:
        note = f"WorkloadRebalancer {name}, created {_time(at)}, wants it scheduled afresh"
        yield Notice(marked.stamped, "Normal", "RescheduleTriggered", _ACTION, note, reference(rebalancer))
        return
    note = (
        f"WorkloadRebalancer {name} changes nothing: it was created {_time(at)}, and this was scheduled at "
        f"{_time(marked.overtaken_at)}; a new WorkloadRebalancer has it scheduled afresh"
    )
    yield Notice(marked.stamped, "Warning", "NothingRescheduled", _ACTION, note, reference(rebalancer))


def of_plan(rebalancer: WorkloadRebalancer, plan: Plan, outcomes: Outcomes) -> Iterator[Notice]:
    """What the rebalancer's events say once its status is written; nothing, if no workload was tried."""
    about = reference(rebalancer)
    total = len(plan.status.observed_workloads)
    if plan.open:
        problem = next((outcome.error for outcome in outcomes.values() if isinstance(outcome, Unsettled)), None)
        if problem is not None:
            note = f"{len(plan.open)} of {total} not marked yet, to be tried again: {_names(plan.open)}: {problem}"
            yield Notice(about, "Warning", "RebalancePending", _ACTION, note)
    elif outcomes:
        yield _finished(about, plan)
    if overtaken := [workload for workload, outcome in outcomes.items() if _overtaken(outcome)]:
        note = (
            f"nothing will be rescheduled of {_names(overtaken)}: scheduled after this object was created; "
            f"create a new WorkloadRebalancer for that"
        )
        yield Notice(about, "Warning", "NothingRescheduled", _ACTION, note)


def _finished(about: Reference, plan: Plan) -> Notice:
    items = plan.status.observed_workloads
    failed = [item.workload for item in items if item.result == FAILED]
    if not failed:
        note = f"{_counted(len(items))} marked to be scheduled afresh: {_names([item.workload for item in items])}"
        return Notice(about, "Normal", "RebalanceSucceed", _ACTION, note)
    note = (
        f"{len(failed)} of {len(items)} not marked, for they have no binding: {_names(failed)}; look at their names, "
        f"and whether a policy claims them. They are not tried again: create a new WorkloadRebalancer for that"
    )
    return Notice(about, "Warning", "RebalanceFailed", _ACTION, note)


def _overtaken(outcome: object) -> bool:
    return isinstance(outcome, Marked) and outcome.overtaken_at is not None


def _counted(workloads: int) -> str:
    return "1 workload is" if workloads == 1 else f"{workloads} workloads are"


def _names(workloads: Sequence[RebalancedWorkload]) -> str:
    named = ", ".join(map(str, workloads[:MAX_NAMED]))
    more = len(workloads) - MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
