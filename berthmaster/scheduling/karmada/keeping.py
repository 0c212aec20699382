"""Which clusters a repair keeps, so that the fewest replicas move."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from berthmaster.model.cached import cached_property
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.karmada.goal import Goal, GroupLimits

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
