"""What each affinity group of a workload could hold now, as if the workload were scheduled from scratch into it.

A decision stops at the first group that fits, and starts with the group of the current assignment. So it does not say
why an earlier group was left, or what a later one would hold.
"""

from operator import itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from berthmaster.scheduling.columns import TooLargeError
from berthmaster.scheduling.diagnosis import AFFINITY, GroupDiagnosis, explain_groups
from berthmaster.scheduling.fleet import Group
from berthmaster.scheduling.request import Attempt, Decision, FailureKind, Mode, Request
from berthmaster.scheduling.resources import UNLIMITED
from berthmaster.scheduling.scheduler import Scheduler

MAX_GROUPS: Final = 64
_OTHER: Final = "other filters"


class GroupOutlook(msgspec.Struct, frozen=True, rename="camel"):
    """What one group could hold.

    Attributes:
        rejected: how many of them each filter was the first to reject, largest number first. A cluster that has the
            workload now and may keep it counts here, and in ``fitting`` as well.
        capacity: how many replicas fit on these in total, with the replicas that the workload has there now; None if
            nothing limits them, or if they were not estimated.
        clusters: the replicas by cluster that a decision from scratch gives; empty if the group fails.
    """

    group: str | None
    matched: int
    rejected: dict[str, int]
    fitting: int
    capacity: int | None
    clusters: dict[str, int]
    error: FailureKind | None = None
    message: str = ""


class Outlook(msgspec.Struct, frozen=True, rename="camel"):
    """What the groups of a workload could hold."""

    groups: list[GroupOutlook]
    diagnosis: GroupDiagnosis | None = None
    problem: str = ""


def outlook(scheduler: Scheduler, request: Request, explained: int | None = None, most: int | None = None) -> Outlook:
    """Try each group of a workload alone, as if the workload were scheduled from scratch.

    Args:
        scheduler: decides. It is not changed.
        request: the workload. Its replicas are counted where they are now, and may stay there.
    """
    asked = replace(request, fresh=True)
    try:
        attempts = scheduler.attempts(asked, MAX_GROUPS)
    except TooLargeError as error:
        return Outlook([], problem=str(error))
    groups = len(scheduler.compile(asked.placement).groups)
    diagnosis = None
    if explained is not None and explained < len(attempts):
        decision = Decision(None, {}, None, Mode.FRESH, [attempts[explained]])
        (diagnosis,) = explain_groups(scheduler, asked, decision, most)
    problem = f"only the first {MAX_GROUPS} of {groups} groups were tried" if groups > MAX_GROUPS else ""
    return Outlook([_outlook(scheduler, asked, attempt) for attempt in attempts], diagnosis, problem)


def _outlook(scheduler: Scheduler, request: Request, attempt: Attempt) -> GroupOutlook:
    counts = dict(scheduler.rejected(request, attempt))
    matched = len(scheduler.fleet) - counts.pop(AFFINITY, 0)
    deleting = scheduler.profile.stages.members.name
    if counts.get(deleting):
        # The scheduler leaves these clusters out before it looks at affinities.
        outside = _deleting_outside(scheduler, request, attempt.group)
        matched, counts[deleting] = matched - outside, counts[deleting] - outside
    fitting = len(attempt.rows)
    # Filters that look at the binding are not counted one by one.
    other = matched - sum(counts.values()) - fitting
    if other > 0:
        counts[_OTHER] = other
    failure = attempt.failure
    return GroupOutlook(
        group=attempt.group.name,
        matched=matched,
        rejected=dict(sorted(filter(itemgetter(1), counts.items()), key=lambda pair: (-pair[1], pair[0]))),
        fitting=fitting,
        capacity=_capacity(attempt, request),
        clusters=dict(attempt.assignment or {}),
        error=failure.kind if failure is not None else None,
        message=failure.message if failure is not None else "",
    )


def _deleting_outside(scheduler: Scheduler, request: Request, group: Group) -> int:
    """Return how many clusters are being deleted and in no affinity of the group."""
    if group.own is None:
        return 0
    columns = [group.own, *((group.overflow or ()) if request.is_workload else ())]
    clusters = (each for each in scheduler.fleet.clusters if each is not None and each.deleting)
    return sum(not any(column.term.matches(each) for column in columns) for each in clusters)


def _capacity(attempt: Attempt, request: Request) -> int | None:
    """Return how many replicas fit on the clusters of a group; None if they are not limited or not estimated."""
    candidates = attempt.candidates
    if candidates is None:
        return 0 if not len(attempt.rows) else None
    if not request.replicas or bool((candidates.allocatable >= UNLIMITED).any()):
        return None
    return int(candidates.available.sum())
