"""What a WorkloadRebalancer's status has to be, and when the object's time is over.

The rules are Karmada's (``pkg/controllers/workloadrebalancer``). Planning twice with nothing new changes nothing, so
that Karmada's controller may run at the same time: whoever comes second finds nothing to write.
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
    """A binding bears the rebalancer's mark, or that of a later one.

    Attributes:
        stamped: the binding, if it was marked just now and not before.
        overtaken_at: when the workload was scheduled last, if that is not before the mark: nothing follows from it.
    """

    stamped: Reference | None = None
    overtaken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no binding of the workload."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The binding could not be read or marked; it may work the next time."""

    error: ApiError


Outcome = Marked | Missing | Unsettled
Outcomes = Mapping[RebalancedWorkload, Outcome]


@dataclass(frozen=True, slots=True)
class Plan:
    """What has to be.

    Attributes:
        status: of the rebalancer.
        changed: whether that is not what it says now.
        open: the workloads that have to be tried again.
        remaining_s: when the object is to be deleted, in seconds from now; None for never, or not known yet.
    """

    status: RebalancerStatus
    changed: bool
    open: tuple[RebalancedWorkload, ...]
    remaining_s: float | None


def working_list(rebalancer: WorkloadRebalancer) -> tuple[ObservedWorkload, ...]:
    """What the status has to list, in its order, with the results so far.

    That is whatever the spec names, and what succeeded before it was taken out of the spec.
    """
    named = dict.fromkeys(rebalancer.spec.workloads)
    listed: dict[RebalancedWorkload, ObservedWorkload] = {}
    for item in rebalancer.status.observed_workloads:
        if item.result == SUCCESSFUL or (item.workload in named and item.workload not in listed):
            listed[item.workload] = item
    for workload in named:
        listed.setdefault(workload, ObservedWorkload(workload))
    return tuple(sorted(listed.values(), key=_order))


def plan(rebalancer: WorkloadRebalancer, outcomes: Outcomes, now: datetime) -> Plan:
    """What has to be after some of the open workloads were tried, with these outcomes.

    The finish time moves whenever the status changes, so that a workload that is added later, or any other change of
    the spec, puts the deletion off; a changed ``ttlSecondsAfterFinished`` counts from the new finish time as well.
    """
    items = tuple(_concluded(item, outcomes.get(item.workload)) for item in working_list(rebalancer))
    still_open = tuple(item.workload for item in items if item.open)
    before = rebalancer.status
    status = RebalancerStatus(rebalancer.metadata.generation, items, before.finish_time)
    if not still_open and (status != before or before.finish_time is None):
        # Whole seconds, as Kubernetes writes all times.
        status = RebalancerStatus(rebalancer.metadata.generation, items, now.replace(microsecond=0))
    remaining_s = None if still_open else _remaining_s(rebalancer.spec.ttl_seconds_after_finished, status, now)
    return Plan(status, status != before, still_open, remaining_s)


def _concluded(item: ObservedWorkload, outcome: Outcome | None) -> ObservedWorkload:
    """An item after it was tried. A result that stands is never another one: failures are not tried again."""
    if not item.open:
        return item
    match outcome:
        case Marked():
            return ObservedWorkload(item.workload, SUCCESSFUL)
        case Missing():
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
