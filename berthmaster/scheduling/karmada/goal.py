"""What a placement asks for, and how far an assignment is from it."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from berthmaster.model.division_strategy import Strategy
from berthmaster.model.placement import SpreadConstraint
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.division import divide_by_votes, static_weights
from berthmaster.scheduling.karmada.selection import KarmadaPlacement, places_whole_sets
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED

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
