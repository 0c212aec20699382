"""Decide the status of a WorkloadRebalancer, and when it must be deleted. Pure.

The rules are Karmada's (``pkg/controllers/workloadrebalancer``). A second decision without new outcomes changes
nothing. Karmada's controller may therefore run at the same time: the slower of the two finds nothing to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from berthmaster.kube.events import Reference
from berthmaster.model.errors import ApiError
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
