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

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from berthmaster.model.cached import cached_property
from berthmaster.model.placement import SpreadConstraint
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.fleet import Fleet, Strategy
from berthmaster.scheduling.karmada.division import allocate, divide_by_votes, fewest_that_hold, static_weights
from berthmaster.scheduling.karmada.selection import KarmadaPlacement, places_whole_sets
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED
from berthmaster.scheduling.scheduler import Scheduler

_ROUNDING: Final = 1e-6
_UNCONSTRAINED: Final = SpreadConstraint()
Counts = Mapping[str, int]
NOTHING: Final[Counts] = {}


class DriftKind(Enum):
    """In what way an assignment does not satisfy its policy."""

    GROUP = "NotFirstGroup"
    """An earlier group can hold the workload."""
    CLUSTERS = "NotMatching"
    """It is on a cluster that the group does not allow any more, or that does not exist."""
    SPREAD = "Spread"
    """A spread constraint is not met."""
    WEIGHTS = "Weights"
    """Shares of clusters differ from the weights by more than the tolerance."""
    OVERFLOW = "Overflow"
    """Replicas are on overflow clusters, and clusters before them have room."""
    COPIES = "MissingCopies"
    """A cluster that the policy selects has no copy."""
    REPLICAS = "Replicas"
    """The assigned replicas do not add up to the requested ones."""
    STUCK = "NotRunning"


class GroupLimits(NamedTuple):
    """The smallest and the largest number of groups that have replicas."""

    low: int = 0
    high: int = UNLIMITED

    def excess(self, count: int) -> bool:
        return not self.low <= count <= self.high


class Part(NamedTuple):
    """Some clusters, by their positions among the candidates, that get a number of replicas together."""

    positions: IntArray
    replicas: int
    low: IntArray
    high: IntArray


class Goal:
    """What the policy of a workload asks in the group that a fresh decision chose.

    All arrays have one entry for each candidate: for each cluster that passes the filters of the group.

    Attributes:
        candidates: the clusters, in ascending order of their rows.
        copies: whether every cluster gets a whole copy. A copy then counts as 1 in all arrays.
        needed: how much the selected clusters must hold together; 0 if that does not matter.
        region_codes: the region of each candidate; all 0 if regions do not count.
        leaving: how many more replicas each cluster will hold when others have left. Weights count them.
        stuck: the replicas that do not run, by cluster. They must leave.
    """

    def __init__(
        self,
        fleet: Fleet,
        request: Request,
        compiled: KarmadaPlacement,
        decision: Decision,
        tolerance: float,
        leaving: Counts = NOTHING,
    ) -> None:
        candidates, selected = decision.attempts[-1].candidates, decision.attempts[-1].selected
        if candidates is None or selected is None:
            raise ValueError("the decision failed, so that there is no goal")
        self._request, self._compiled, self._tolerance = request, compiled, tolerance / 100
        self.replicas = request.replicas
        self.candidates: Candidates = candidates
        self.copies = compiled.strategy is Strategy.DUPLICATED or not request.divides_replicas
        self.unit = max(1, request.replicas) if self.copies else 1
        self.by_weight = not self.copies and compiled.strategy in {Strategy.STATIC_WEIGHT, Strategy.DYNAMIC_WEIGHT}
        self.by_capacity = not self.copies and compiled.strategy is not Strategy.STATIC_WEIGHT
        current = dict.fromkeys(request.current, 1) if self.copies else request.current
        fresh = dict.fromkeys(decision.assignment, 1) if self.copies else decision.assignment
        self.current, self.fresh = (column_of(fleet, each, candidates.rows) for each in (current, fresh))
        self.outside = sum(current.values()) - int(self.current.sum())
        self.capacity = candidates.available
        self.leaving = column_of(fleet, leaving, candidates.rows)
        self.constrained = compiled.constrained
        self.stuck: Counts = NOTHING
        by_region = "region" in compiled.spread
        self.region_codes = (
            fleet.region_code[candidates.rows] if by_region else np.zeros(len(candidates), dtype=np.int64)
        )
        self.clusters, self.regions = GroupLimits(), GroupLimits()
        if self.constrained:
            self.clusters = self._limits("cluster", int(np.count_nonzero(self.fresh)), len(selected))
            if by_region:
                chosen = len(set(selected.regions()))
                self.regions = self._limits("region", self._region_count(self.fresh), chosen)
        self.needed = self._needed(by_region=by_region)

    def _limits(self, field: str, used: int, selected: int) -> GroupLimits:
        constraint = self._compiled.spread.get(field, _UNCONSTRAINED)
        return GroupLimits(min(constraint.min_groups, used), max(constraint.max_groups, selected))

    def _needed(self, *, by_region: bool) -> int:
        """Return what the selected clusters must hold together, as Karmada's selection and division check it."""
        if self.by_capacity:
            return self.replicas
        if by_region or not self.constrained or not self.copies or self._compiled.strategy is Strategy.DUPLICATED:
            return 0
        if places_whole_sets(self._request, self._compiled):
            # A cluster that has a set has no room for another one, and still holds the set.
            self.capacity = np.maximum(self.capacity, self.current)
            return 1
        return self.replicas

    def without_stuck(self, fleet: Fleet, stuck: Counts) -> bool:
        """Require that replicas that do not run leave their clusters, and return whether other clusters hold them.

        Only replicas that are divided by capacity can leave.
        """
        leaving = column_of(fleet, stuck, self.candidates.rows)
        if not self.by_capacity or not leaving.any():
            return False
        self.capacity = np.where(leaving > 0, np.maximum(0, self.current - leaving), self.capacity)
        self.stuck = stuck
        return int(self.capacity.sum()) >= self.replicas

    def parts(self, positions: IntArray) -> Iterator[Part]:
        """Yield what some clusters get together: all replicas, or with overflow the replicas of each tier."""
        tiers = self.candidates.tiers
        if tiers is None:
            yield self._part(positions, self.replicas)
            return
        for tier in sorted(set(tiers.tolist())):
            yield self._part(positions[tiers[positions] == tier], int(self.fresh[tiers == tier].sum()))

    def _part(self, positions: IntArray, replicas: int) -> Part:
        capacity = self.capacity[positions]
        if not self.by_weight or not len(positions):
            return Part(positions, replicas, np.zeros_like(capacity), capacity)
        clusters = self.candidates.at(positions)
        static = not self.by_capacity
        weights = static_weights(self._compiled, clusters) if static else capacity + self.leaving[positions]
        shares = replicas * (weights / max(1, int(weights.sum())))
        seats = divide_by_votes(self._request, clusters, weights, replicas)
        low = np.floor(shares * (1 - self._tolerance) + _ROUNDING).astype(np.int64)
        high = np.ceil(shares * (1 + self._tolerance) - _ROUNDING).astype(np.int64)
        low, high = np.minimum(low, seats), np.maximum(high, seats)
        if self.by_capacity:
            high = np.minimum(high, capacity)
            low = np.minimum(low, high)
        return Part(positions, replicas, low, high)

    def faults(self, replicas: IntArray, elsewhere: int = 0) -> dict[DriftKind, int]:
        """Return in what way an assignment to the candidates does not satisfy the policy, and the replicas concerned.

        ``elsewhere``: the replicas that are on other clusters. They count as assigned.
        """
        if self.copies:
            found = {DriftKind.COPIES: 0 if self.constrained else int((replicas < self.fresh).sum()) * self.unit}
        else:
            found = self._faults_of_division(replicas, elsewhere)
        if self.constrained and not self._is_spread(replicas):
            found[DriftKind.SPREAD] = int(max(replicas.sum(), self.fresh.sum())) * self.unit
        if self.stuck and (replicas > self.capacity).any():
            found[DriftKind.STUCK] = int((replicas - self.capacity).clip(0).sum())
        return {kind: count for kind, count in found.items() if count}

    def _faults_of_division(self, replicas: IntArray, elsewhere: int) -> dict[DriftKind, int]:
        total = int(replicas.sum())
        if total != self.replicas:
            return {DriftKind.REPLICAS: abs(total + elsewhere - self.replicas)}
        weights = overflow = 0
        if (tiers := self.candidates.tiers) is not None:
            more = replicas - self.fresh
            overflow = max(int(more[tiers >= tier].sum()) for tier in set(tiers.tolist()))
        if self.by_weight:
            positions = replicas.nonzero()[0] if self.constrained else np.arange(len(replicas))
            for part in self.parts(positions):
                there = replicas[part.positions]
                over, under = (there - part.high).clip(0).sum(), (part.low - there).clip(0).sum()
                weights += int(max(over, under))
        return {DriftKind.OVERFLOW: max(0, overflow), DriftKind.WEIGHTS: weights}

    def _is_spread(self, replicas: IntArray) -> bool:
        used = replicas > 0
        outside = self.clusters.excess(int(used.sum())) or self.regions.excess(self._region_count(replicas))
        return not outside and int(self.capacity[used].sum()) >= self.needed

    def change(self, replicas: IntArray) -> int:
        """Return how many replicas an assignment starts and stops on the candidates."""
        return int(np.abs(replicas - self.current).sum())

    def _region_count(self, replicas: IntArray) -> int:
        return len(np.unique(self.region_codes[replicas > 0]))


def column_of(fleet: Fleet, assignment: Mapping[str, int], rows: IntArray) -> IntArray:
    """Return the replicas of an assignment on some rows."""
    column = np.zeros(fleet.capacity, dtype=np.int64)
    known = {row: count for name, count in assignment.items() if (row := fleet.row_of.get(name)) is not None}
    column[list(known)] = list(known.values())
    return column[rows]


MAX_NODES: Final = 2_000
MAX_LEAVES: Final = 48
_FIRST_TABLE: Final = 8
_IMPOSSIBLE: Final = -(2**62)


class KeptClusters(NamedTuple):
    """The clusters that get replicas.

    ``changed``: the replicas that start and those that stop on the candidates, at least, for any choice.
    """

    positions: IntArray | None
    changed: int


class _Node(NamedTuple):
    following: int
    kept: tuple[int, ...]
    held: int
    regions: frozenset[int]


class Keeping:
    """The search for one goal."""

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self._replicas = 1 if goal.copies else goal.replicas
        values = np.minimum(goal.current, goal.capacity) if goal.by_capacity else goal.current
        self._total = int(goal.current.sum())
        codes = goal.region_codes
        here = values.nonzero()[0].tolist()
        sums: dict[int, int] = {}
        for position in here:
            sums[int(codes[position])] = sums.get(int(codes[position]), 0) + int(values[position])
        here.sort(key=lambda each: (-sums[int(codes[each])], int(codes[each]), -int(values[each]), each))
        self._here: list[int] = here
        self._values: list[int] = values[here].tolist()
        self._codes: list[int] = codes[here].tolist()
        self._left: list[int] = [sum(self._values[index:]) for index in range(len(here) + 1)]
        self._region_sums = sorted(sums.values(), reverse=True)
        order: dict[int, int] = {code: rank for rank, code in enumerate(dict.fromkeys(self._codes))}
        self._rank = [order[code] for code in self._codes]
        self._usable = (values == 0) & (goal.capacity > 0) if goal.by_capacity else values == 0

    @cached_property
    def _place(self) -> dict[int, int]:
        order = self._goal.candidates.best(len(self._goal.candidates))
        return {position: place for place, position in enumerate(order.tolist())}

    @cached_property
    def _new(self) -> dict[int, list[int]]:
        """The clusters without replicas by region, in selection order."""
        goal, order = self._goal, np.array(list(self._place), dtype=np.int64)
        usable = self._usable[order]
        found: dict[int, list[int]] = {}
        for position, code in zip(order[usable].tolist(), goal.region_codes[order[usable]].tolist(), strict=True):
            found.setdefault(code, []).append(position)
        return found

    def search(self) -> KeptClusters:
        best, leaves, nodes = KeptClusters(None, 0), 0, 0
        root = _Node(0, (), 0, frozenset())
        least = self._least(root)
        stack = [root]
        while stack:
            node = stack.pop()
            if best.positions is not None and self._least(node) >= best.changed:
                continue
            nodes += 1
            if nodes > MAX_NODES or leaves > MAX_LEAVES:
                return KeptClusters(best.positions, least)
            if node.following < len(self._here):
                stack += self._branches(node)
                continue
            leaves += 1
            added = self._completion(node)
            if added is None:
                continue
            changed = self._changed(node.held, len(added))
            if best.positions is None or changed < best.changed:
                best = KeptClusters(np.array([*node.kept, *added], dtype=np.int64), changed)
        return best

    def _branches(self, node: _Node) -> list[_Node]:
        """Return the two ways to go on. The last one is followed first: the cluster keeps its replicas."""
        goal, index = self._goal, node.following
        branches = [node._replace(following=index + 1)]
        regions = node.regions | {self._codes[index]}
        if len(node.kept) < goal.clusters.high and len(regions) <= goal.regions.high:
            kept = (*node.kept, self._here[index])
            branches.append(_Node(index + 1, kept, node.held + self._values[index], regions))
        return branches

    def _changed(self, held: int, added: int) -> int:
        """Return how many replicas start or stop, if clusters with so many replicas stay and others are added."""
        if self._goal.copies:
            return self._total - held + added
        return self._total + self._replicas - 2 * min(held, self._replicas - added)

    def _least(self, node: _Node) -> int:
        most_kept = len(node.kept) + len(self._here) - node.following
        added = max(0, self._goal.clusters.low - most_kept, self._goal.regions.low - len(self._region_sums))
        return self._changed(self._most(node), added)

    def _most(self, node: _Node) -> int:
        """Return how many replicas can stay at most, after the choices of a node."""
        goal, index = self._goal, node.following
        if index == len(self._here):
            return node.held
        by_region = by_cluster = self._left[index]
        free = goal.regions.high - len(node.regions)
        if free < len(self._region_sums):
            rank = self._rank[index]
            end = bisect_right(self._rank, rank)
            here = self._left[index] - self._left[end]
            later = self._region_sums[rank + 1 :]
            if self._codes[index] in node.regions:
                by_region = here + sum(later[:free])
            else:
                by_region = max(sum(later[:free]), here + sum(later[: free - 1]) if free else 0)
        slots = goal.clusters.high - len(node.kept)
        if slots < len(self._here) - index:
            by_cluster = sum(sorted(self._values[index:], reverse=True)[: max(0, slots)])
        return node.held + min(by_region, by_cluster)

    def _completion(self, node: _Node) -> list[int] | None:
        """Return the fewest new clusters that satisfy the limits, or None if no clusters do."""
        goal, kept = self._goal, len(node.kept)
        high = goal.clusters.high if goal.copies else min(goal.clusters.high, self._replicas)
        regions = GroupLimits(max(0, goal.regions.low - len(node.regions)), goal.regions.high - len(node.regions))
        added = GroupLimits(max(0 if kept else 1, goal.clusters.low - kept, regions.low), high - kept)
        needed = max(0, goal.needed - int(goal.capacity[list(node.kept)].sum()))
        if not added.low and not needed:
            return []
        groups = [positions for code, positions in self._new.items() if code not in node.regions]
        pool = sorted((each for code in node.regions for each in self._new.get(code, ())), key=self._place.__getitem__)
        found = _fewest(goal.capacity, [pool, *groups], needed, added, regions)
        # Scores come before capacity in the selection order. Larger clusters may need fewer.
        by_size = [sorted(each, key=lambda position: -int(goal.capacity[position])) for each in (pool, *groups)]
        if by_size == [pool, *groups]:
            return found
        larger = _fewest(goal.capacity, by_size, needed, added, regions)
        return found if found is not None and larger is not None and len(found) <= len(larger) else larger


def _fewest(
    capacity: IntArray, lists: Sequence[Sequence[int]], needed: int, added: GroupLimits, regions: GroupLimits
) -> list[int] | None:
    """Return the fewest clusters that hold enough, from the start of each list; None if there are none.

    ``lists``: the clusters to choose from: first those that need no new region, then those of each new region.
    """
    most = min(added.high, sum(map(len, lists)))
    size = min(most, max(_FIRST_TABLE, added.low))
    while added.low <= most and regions.low <= regions.high:
        found = _from_table(capacity, lists, needed, GroupLimits(added.low, size), regions)
        if found is not None or size == most:
            return found
        size = min(most, 4 * size)
    return None


def _from_table(
    capacity: IntArray, lists: Sequence[Sequence[int]], needed: int, added: GroupLimits, regions: GroupLimits
) -> list[int] | None:
    size, rows = added.high, min(len(lists) - 1, regions.high, added.high)
    sums = [np.concatenate([[0], capacity[list(each[:size])].cumsum()]) for each in lists]
    table = np.full((rows + 1, size + 1), _IMPOSSIBLE, dtype=np.int64)
    table[0, : len(sums[0])] = sums[0]
    tables = [table]
    for region in sums[1:]:
        table = table.copy()
        for count in range(1, len(region)):
            taken = tables[-1][:-1, : size + 1 - count] + region[count]
            np.maximum(table[1:, count:], taken, out=table[1:, count:])
        tables.append(table)
    enough = table >= needed
    enough[: regions.low] = False
    enough[:, : added.low] = False
    counts = np.flatnonzero(enough.any(axis=0))
    if not len(counts):
        return None
    count = int(counts[0])
    row = int(np.where(enough[:, count], table[:, count], _IMPOSSIBLE).argmax())
    chosen: list[int] = []
    for index in range(len(lists) - 1, 0, -1):
        before, region = tables[index - 1], sums[index]
        if before[row, count] == tables[index][row, count]:
            continue
        taken = next(
            each
            for each in range(1, min(len(region) - 1, count) + 1)
            if before[row - 1, count - each] + region[each] == tables[index][row, count]
        )
        chosen += lists[index][:taken]
        row, count = row - 1, count - taken
    return [*lists[0][:count], *chosen]


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
