"""Plans that end early: the plan of one change of a policy, as far as a review needs it.

A review asks whether a change exceeds limits. A large change exceeds them after a few decisions, so the plan ends then.
If the time ends first, the answer is what has been counted until then: a lower bound.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple, Protocol

import msgspec

from berthmaster.deciding.running import Hosts
from berthmaster.model.gaps import Gap
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.meta import with_spec
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.steps import TooLargeError, Work
from berthmaster.simulation.change_set import (
    ChangedWorkloads,
    ChangeSet,
    PlanIndex,
    WorkloadKey,
    edited_workloads,
    policy_edits,
)
from berthmaster.simulation.detector import PolicyEdit, preemptors
from berthmaster.simulation.losses import is_left, runs_nowhere
from berthmaster.simulation.plan_answer import Plan, PlannedMove, UnplacedWorkload
from berthmaster.simulation.plan_decider import STEP, DueWorkloads, PlanDecider
from berthmaster.simulation.plan_rows import deleted_copies, move_of, moved_replicas, unplaced_of
from berthmaster.simulation.planner import plan_of
from berthmaster.simulation.results import PlannedWorkload

ALWAYS_EXACT: Final = 100
"""A plan with at most so many workloads is never ended because of limits, so that a refusal has the id of the plan."""
_MAX_GROUPS: Final = 8
_MAX_SHOWN: Final = 3
_MAX_LIKELY: Final = 1000
_REACH_STEPS: Final = 2_000_000


class OutOfTimeError(Exception):
    """The time of a review is over."""


def at_most(steps: int, check: Callable[[], None]) -> Callable[[], None]:
    """Return a check that raises ``OutOfTimeError`` once it was called more often than this."""
    left = steps

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfTimeError
        check()

    return step


class Counted(Protocol):
    """What has been counted of a change."""

    @property
    def workloads(self) -> int: ...
    @property
    def moved(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def deleted_copies(self) -> int: ...


class ReviewLimits(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The most that a change may do. Null is no limit."""

    moved: float | None = None
    percent: float | None = None
    lost: float | None = None
    deleted: float | None = None

    def are_exceeded_by(self, counts: Counted) -> bool:
        pairs = (
            (self.moved, counts.moved),
            (self.percent, 100 * counts.moved / counts.workloads if counts.workloads else 0),
            (self.lost, counts.lost),
            (self.deleted, counts.deleted_copies),
        )
        return any(limit is not None and found > limit for limit, found in pairs)


class WorstWorkload(NamedTuple):
    """One of the workloads that a review names: its move, and that it has no place or too few replicas."""

    move: PlannedMove | None
    unplaced: UnplacedWorkload | None


@dataclass(slots=True)
class MoveCounts:
    """What has been counted of a change: a lower bound until all workloads are examined."""

    workloads: int
    concerned: int = 0
    moved: int = 0
    replicas: int = 0
    lost: int = 0
    short: int = 0
    deleted_copies: int = 0
    preempts: bool = False
    worst: list[WorstWorkload] = field(default_factory=list)

    def add(self, planned: PlannedWorkload, hosts: Hosts) -> None:
        """Count what the change does to a workload. What happens without it, too, does not count."""
        left, caused = is_left(planned, hosts), bool(planned.moves) and not planned.is_due
        if caused:
            self.moved += 1
            self.replicas += moved_replicas(planned.moves)
            self.deleted_copies += deleted_copies(planned)
        if left:
            nowhere = runs_nowhere(planned, hosts)
            self.short += not nowhere
            self.lost += nowhere
        if (caused or left) and len(self.worst) < _MAX_SHOWN:
            moved = move_of(planned, hosts) if caused else None
            self.worst.append(WorstWorkload(moved, unplaced_of(planned, hosts) if left else None))


@dataclass(frozen=True, slots=True)
class PlanReview:
    """The result of a review.

    ``plan``: the whole plan, without the list of workloads that stay; None if the review ended early.
    """

    counts: MoveCounts
    plan: Plan | None = None


def review_plan(
    index: PlanIndex,
    changes: ChangeSet,
    now: datetime,
    limits: ReviewLimits | None,
    *,
    gaps: Sequence[Gap] = (),
    check: Callable[[], None] = lambda: None,
) -> PlanReview:
    """Plan one change of a policy until it exceeds a limit, until all workloads are decided, or until the time is over.

    The workloads whose present clusters the policy does not accept any more come first: most of them move.

    Args:
        index: the world before the change. The caller holds its lock.
        changes: creates, replaces or deletes one policy.
        check: called before each workload. It raises ``OutOfTimeError`` when the time is over.
    """
    edits = list(policy_edits(index, changes))
    counts = MoveCounts(len(index))
    if not edits:  # such as the deletion of a policy that does not exist
        changed, due = ChangedWorkloads(), DueWorkloads(index, now)
        decider = PlanDecider(index, changed, due, now, check)
        return PlanReview(counts, plan_of(index, changes, changed, due, decider, {}, gaps=gaps, lists_staying=False))
    (edit,) = edits
    reviewer, counted = _Reviewer(index, edit, now, check), counts
    counts.preempts = reviewer.preempts
    try:
        keys = reviewer.keys()
        counts.concerned = sum(index.get(key) is not None for key in keys)
        early = limits if len(keys) > ALWAYS_EXACT else None
        likely = reviewer.likely(keys) if early is not None else []
        if likely:
            counted = MoveCounts(len(index), counts.concerned, preempts=counts.preempts)
            if reviewer.decide(counted, early, likely) is None:
                return PlanReview(counted)
        decided = reviewer.decide(counts, early, keys)
        if decided is None:
            return PlanReview(counts)
        check()
        return PlanReview(counts, reviewer.plan(changes, decided, gaps))
    except OutOfTimeError:
        return PlanReview(max(counts, counted, key=lambda each: each.moved))


_Decided = tuple[ChangedWorkloads, PlanDecider, dict[WorkloadKey, PlannedWorkload]]


class _Reviewer:
    """Decides the workloads of one edit of a policy, as far as limits allow."""

    def __init__(self, index: PlanIndex, edit: PolicyEdit, now: datetime, check: Callable[[], None]) -> None:
        self._index = index
        self._edit = edit
        self._due, self._later = DueWorkloads(index, now, check=check), now + STEP
        self._check = check
        self._catalog = PolicyCatalog(edit.applied(index.world.policies))
        self._held = index.held_by(edit.reference)
        self.preempts = any(True for _ in preemptors(edit, self._catalog))

    def keys(self) -> frozenset[WorkloadKey]:
        detector = self._index.world.detector(self._edit, self._catalog)
        return frozenset(self._index.concerned(self._edit, detector))

    def likely(self, keys: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """Return some of the workloads that run nowhere, or on clusters that the policy does not accept any more."""
        reach = self._reach(keys)
        if reach is None:
            return []
        bindings = ((key, each.binding) for key in keys if (each := self._index.get(key)) is not None)
        found = (
            key
            for key, binding in bindings
            if binding is None
            or not binding.spec.clusters
            or not all(target.name in reach for target in binding.spec.clusters)
        )
        return list(islice(found, _MAX_LIKELY))

    def decide(self, counts: MoveCounts, limits: ReviewLimits | None, keys: Collection[WorkloadKey]) -> _Decided | None:
        """Decide workloads in the order of the world, and count them. Return None as soon as a limit is exceeded."""
        changed, rows = ChangedWorkloads(edits=[self._edit]), {}
        self._due.decide(keys)
        decider = PlanDecider(self._index, changed, self._due, self._later, self._check)
        with closing(decider.deciding(self._concerned(changed, keys))) as decided:
            for key, planned in decided:
                rows[key] = planned
                counts.add(planned, decider.hosts)
                if limits is not None and limits.are_exceeded_by(counts):
                    return None
        return changed, decider, rows

    def plan(self, changes: ChangeSet, decided: _Decided, gaps: Sequence[Gap]) -> Plan:
        changed, decider, rows = decided
        return plan_of(self._index, changes, changed, self._due, decider, rows, gaps=gaps, lists_staying=False)

    def _concerned(self, changed: ChangedWorkloads, keys: Collection[WorkloadKey]) -> Iterator[WorkloadKey]:
        """Yield the workloads that the edit concerns, each after the edit took effect on it."""
        for key in edited_workloads(
            self._index, self._edit, self._catalog, changed, self._due.workload, self._check, keys
        ):
            if key in changed.after or key in self._held:
                yield key

    def _reach(self, keys: Iterable[WorkloadKey]) -> frozenset[str] | None:
        """Return the clusters that the policy accepts for the first of the workloads; None if that is not known."""
        workloads = (self._index.get(key) for key in keys)
        binding = next((each.binding for each in workloads if each is not None and each.binding is not None), None)
        if self._edit.after is None or binding is None:
            return None
        request = Request.of(with_spec(binding, placement=self._edit.after.spec.placement))
        scheduler, work = self._index.scheduler, Work(_REACH_STEPS)
        try:
            groups = scheduler.compile(request.placement).groups[:_MAX_GROUPS]
            rows = [scheduler.fitting(request, group, work) for group in groups]
        except TooLargeError:
            return None
        return frozenset(name for each in rows for name in scheduler.fleet.names(each))
