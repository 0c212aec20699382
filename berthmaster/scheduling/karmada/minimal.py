"""The minimal decision: the assignment that satisfies a policy and moves the fewest replicas from the present one.

``Goal`` is what a policy asks of the assignment of a workload, as a test that every fresh decision passes. A fresh
decision says which group can hold the workload, and which clusters fit. The assignment that it finds is one of many
that satisfy the policy. The goal says which others do:

- Replicas are only on clusters that pass the filters of the group, and on no more than fit there.
- The spread constraints hold for the clusters and regions that have replicas. A fresh decision may have fewer groups
  than ``minGroups``, because it divides by capacity. Then the number of groups that it has is enough, and likewise for
  ``maxGroups``.
- A workload that is divided by weights has on each cluster its share of the replicas, rounded down or up, or more or
  less by a tolerance. The seats that Webster's method gives are always allowed. With spread constraints the shares are
  those among the clusters that have replicas.
- Overflow clusters have as many replicas as a fresh decision gives them.

Without spread constraints the minimal decision has a closed form. Each cluster keeps what it has, as far as its share
allows; the replicas that are left go where shares have room. With spread constraints a branch and bound search
(``Keeping``) chooses the clusters that keep the workload, and the replicas are divided among them in the same way. It
decides for each cluster that has replicas whether it keeps them. A choice is completed with the fewest new clusters. A
table over the regions says how much the best new clusters hold, by the number of regions and of added clusters. The
result carries a lower bound, so that it says itself whether it is exact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.karmada.division import allocate, fewest_that_hold
from berthmaster.scheduling.karmada.goal import NOTHING, Counts, DriftKind, Goal, Part
from berthmaster.scheduling.karmada.keeping import Keeping
from berthmaster.scheduling.karmada.selection import KarmadaPlacement
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

DEFAULT_TOLERANCE: Final = 10.0
"""By how many percent a share may differ from its weight."""


@dataclass(frozen=True, slots=True)
class MinimalDecision:
    """The minimal decision on a workload, beside a fresh one.

    Attributes:
        fresh: what a scheduler decides if it starts from nothing.
        assignment: replicas by cluster with the fewest moves; the present one if no group can hold the workload.
        drift: in what way the present assignment does not satisfy the policy, and how many replicas that concerns.
        moved: the replicas that the minimal decision starts or stops, whichever are more.
        is_exact: whether it is proven that no assignment which satisfies the policy starts and stops fewer replicas.
    """

    fresh: Decision
    assignment: Mapping[str, int]
    drift: Mapping[DriftKind, int]
    moved: int = 0
    moved_fresh: int = 0
    is_exact: bool = True


def decide_minimal(
    scheduler: Scheduler,
    request: Request,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    stuck: Counts = NOTHING,
    leaving: Counts = NOTHING,
) -> MinimalDecision:
    """Return the minimal decision on a workload.

    Args:
        scheduler: has Karmada's profile. Its filters, scores, groups and capacities count.
        stuck: the replicas that do not run, by cluster. They leave if they are divided by capacity and other clusters
            hold them.
        leaving: how many more replicas each cluster will hold when others have left. The shares of a workload that is
            divided by available replicas count them, and nothing takes their place before.
    """
    fresh = scheduler.schedule(replace(request, fresh=True))
    if fresh.failure is not None or not fresh.attempts or (request.divides_replicas and not request.replicas):
        return MinimalDecision(fresh, request.current, {})
    compiled: KarmadaPlacement = scheduler.compile(request.placement)  # type: ignore[assignment]  # Karmada's profile
    goal = Goal(scheduler.fleet, request, compiled, fresh, tolerance, leaving)
    drift = _group_drift(scheduler, request, compiled, fresh, goal) or goal.faults(goal.current)
    if any(stuck.values()):
        drift[DriftKind.STUCK] = sum(stuck.values())
        without = Goal(scheduler.fleet, request, compiled, fresh, tolerance, leaving)
        found = _closest(without) if without.without_stuck(scheduler.fleet, stuck) else None
        if found is not None:
            return _result(request, without, drift, fresh, *found)
    if not drift:
        return _result(request, goal, drift, fresh, goal.current, 0)
    return _result(request, goal, drift, fresh, *(_closest(goal) or (goal.fresh, 0)))


def rescheduled(scheduler: Scheduler, request: Request) -> Decision:
    """Return a fresh decision; with the minimal assignment if the request asks for it."""
    if not request.minimal:
        return scheduler.schedule(request)
    found = decide_minimal(scheduler, request)
    return found.fresh if found.fresh.failure is not None else replace(found.fresh, assignment=dict(found.assignment))


def _group_drift(
    scheduler: Scheduler, request: Request, compiled: KarmadaPlacement, fresh: Decision, goal: Goal
) -> dict[DriftKind, int]:
    """Return the drift that does not depend on shares: replicas in a later group, and on clusters that do not match."""
    fleet, replicas = scheduler.fleet, max(1, request.replicas) if goal.copies else 0
    present = {name: replicas or count for name, count in request.current.items() if replicas or count}
    at, first = compiled.group_index(request.observed_group), compiled.group_index(fresh.group or "")
    if at <= first or not present:
        outside = goal.outside * goal.unit
        return {DriftKind.CLUSTERS: outside} | goal.faults(goal.current, goal.outside) if outside else {}
    fitting = set(fleet.names(scheduler.fitting(request, compiled.groups[at])))
    outside = sum(count for name, count in present.items() if name not in fitting)
    found = {DriftKind.GROUP: sum(present.values()), DriftKind.CLUSTERS: outside}
    return {kind: count for kind, count in found.items() if count}


def _result(
    request: Request, goal: Goal, drift: Mapping[DriftKind, int], fresh: Decision, replicas: IntArray, least: int
) -> MinimalDecision:
    """Return the decision for an assignment to the candidates. ``least`` is the least that any assignment changes."""
    changed, changed_fresh = goal.change(replicas), goal.change(goal.fresh)
    if changed_fresh < changed and not goal.stuck and not goal.leaving.any():
        replicas, changed = goal.fresh, changed_fresh
    positions = replicas.nonzero()[0]
    counts = [request.replicas] * len(positions) if goal.copies else replicas[positions].tolist()
    empty = {} if goal.copies else {name: 0 for name, count in request.current.items() if not count}
    assignment = empty | dict(zip(goal.candidates.names_at(positions), counts, strict=True))
    return MinimalDecision(
        fresh,
        assignment if drift else request.current,
        drift,
        _moved(goal, replicas) if drift else 0,
        _moved(goal, goal.fresh),
        changed <= least or not drift,
    )


def _moved(goal: Goal, replicas: IntArray) -> int:
    difference = replicas - goal.current
    started, stopped = difference.clip(0).sum(), (-difference).clip(0).sum() + goal.outside
    return int(max(started, stopped)) * goal.unit


def _closest(goal: Goal) -> tuple[IntArray, int] | None:
    """Return the assignment that changes least, and the least that any assignment changes; None if there is none."""
    if not goal.constrained:
        if goal.copies:
            return goal.fresh, goal.change(goal.fresh)
        divided = _divided(goal, goal.parts(np.arange(len(goal.current))), at_least=0)
        return None if divided is None else (divided, goal.change(divided))
    choice = Keeping(goal).search()
    if choice.positions is None:
        return None
    best: IntArray | None = None
    for each in _options(goal, choice.positions):
        if each is not None and not goal.faults(each) and (best is None or goal.change(each) < goal.change(best)):
            best = each
    return None if best is None else (best, choice.changed)


def _options(goal: Goal, chosen: IntArray) -> Iterator[IntArray | None]:
    """Yield assignments to the chosen clusters. The caller checks them against the goal."""
    if goal.copies:
        replicas = np.zeros_like(goal.current)
        replicas[chosen] = 1
        yield replicas
        return
    # A tier has as many replicas as the fresh decision gives it, on clusters that the decision selected.
    positions = chosen if goal.candidates.tiers is None else goal.fresh.nonzero()[0]
    yield _divided(goal, goal.parts(positions), at_least=1)
    yield _divided(goal, goal.parts(positions), at_least=0)


def _divided(goal: Goal, parts: Iterator[Part], *, at_least: int) -> IntArray | None:
    """Divide the replicas of each part. Every cluster keeps as many as its bounds allow. None if the bounds do not."""
    replicas = np.zeros_like(goal.current)
    for part in parts:
        low = np.maximum(part.low, at_least)
        high = np.maximum(part.high, low)
        if not low.sum() <= part.replicas <= high.sum():
            return None
        replicas[part.positions] = _within(goal, part, low, high)
    return replicas


def _within(goal: Goal, part: Part, low: IntArray, high: IntArray) -> IntArray:
    """Change as few replicas as possible so that each cluster is within its bounds and the sum is right."""
    clusters = goal.candidates.at(part.positions)
    rank = clusters.name_rank()
    kept: IntArray = goal.current[part.positions].clip(low, high)
    missing = part.replicas - int(kept.sum())
    if missing <= 0:
        return kept - allocate(-missing, kept - low, rank)
    room = high - kept
    if not goal.by_weight:
        fewest = fewest_that_hold(clusters, room, missing, kept)
        room[np.setdiff1d(np.arange(len(room)), fewest)] = 0
    return kept + allocate(missing, room, rank)
