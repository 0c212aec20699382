"""KubeAdmiral's score plugins."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import PREFER_NO_SCHEDULE
from berthmaster.scheduling import filters
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import MAX_SCORE
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.allocation import PLAIN_RESOURCES, Allocation
from berthmaster.scheduling.kubeadmiral.unit import (
    GPU,
    labels_matching,
    unit_of,
)

_GPU_WEIGHT: Final = 4
_DISCOURAGING: Final = frozenset({PREFER_NO_SCHEDULE})


class PreferredTaints(filters.ColumnScore):
    """Prefer clusters with fewer untolerated PreferNoSchedule taints."""

    name = "TaintToleration"

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        """Give 0 to the cluster with the most taints, 100 to a cluster without any."""
        counts = filters.untolerated_counts(context.fleet, unit_of(context).tolerations, _DISCOURAGING)
        if counts is None:
            return np.full(len(rows), MAX_SCORE)
        worst = int(counts[rows].max(initial=1))
        return MAX_SCORE - MAX_SCORE * counts[rows] // worst


class PreferredTerms(filters.ColumnScore):
    """Prefer clusters by the weights of the preferred terms that match."""

    name = "ClusterAffinity"

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        """Add the weights. Fields do not count, and a term without expressions matches no cluster."""
        preferred = unit_of(context).preferred
        if not preferred:
            return None
        total = np.zeros(context.fleet.capacity, dtype=np.int64)
        for weight, term in preferred:
            if weight and term.match_expressions:
                total += weight * labels_matching(term, context.fleet)
        return scaled_to_best(total[rows])


def scaled_to_best(counts: IntArray) -> IntArray:
    """Scale the best count to 100, rounding toward zero. If no count is positive, return the counts."""
    best = int(counts.max(initial=0))
    return np.sign(counts) * (MAX_SCORE * np.abs(counts) // best) if best > 0 else counts


def _scored(requests: Mapping[str, Quantity]) -> list[str]:
    """Return the resources that are scored: CPU, memory and others that are requested."""
    names = ["cpu", "memory", *[name for name in requests if name not in PLAIN_RESOURCES]]
    if "ephemeral-storage" in requests and requests["ephemeral-storage"].nanos:
        names.append("ephemeral-storage")
    return names


class ResourceScore(filters.ColumnScore):
    """A score by the resources of a cluster. Units with equal requests share one column."""

    @abstractmethod
    def of(self, allocations: Sequence[Allocation]) -> IntArray:
        """Return the score of each row of some resources."""

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        fleet, requests = context.fleet, unit_of(context).requests
        asked = (
            tuple((name, requests[name].nanos if name in requests else 0) for name in _scored(requests))
            if requests
            else ()
        )
        column = fleet.resources.shared((self.name, asked), lambda: _ResourceScores(fleet, self, requests))
        return column.current()[rows]


class _ResourceScores(Column[np.int64]):
    """The scores of all clusters for some requests."""

    __slots__ = ("_fleet", "_requests", "_score")

    def __init__(self, fleet: Fleet, score: ResourceScore, requests: Mapping[str, Quantity]) -> None:
        super().__init__(fleet.resources.journal)
        self._fleet, self._score, self._requests = fleet, score, requests

    def compute(self) -> IntArray:
        return self._of(np.arange(self._fleet.capacity))

    def compute_row(self, row: int) -> int:
        return int(self._of(np.array([row]))[0])

    def _of(self, rows: IntArray) -> IntArray:
        names = _scored(self._requests)
        return self._score.of([Allocation(self._fleet, rows, name, self._requests) for name in names])


class AllocationScore(ResourceScore):
    """A score by a share of each resource. GPUs count four times as much as others."""

    @abstractmethod
    def share(self, taken: IntArray, capacity: IntArray) -> IntArray:
        """Return the part of the capacity that counts. ``taken`` includes one more replica."""

    def of(self, allocations: Sequence[Allocation]) -> IntArray:
        """Return the mean of the shares. A resource that is missing or insufficient adds 0."""
        total, weights = np.zeros(len(allocations[0].capacity), dtype=np.int64), 0
        for each in allocations:
            weight = _GPU_WEIGHT if each.name == GPU else 1
            weights += weight
            taken, capacity = each.taken(), each.capacity
            counted = weight * (self.share(taken, capacity) * MAX_SCORE // np.maximum(capacity, 1))
            total += np.where((capacity != 0) & (taken <= capacity), counted, 0)
        return total // weights


class LeastAllocated(AllocationScore):
    """Prefer clusters with more free capacity."""

    name = "ClusterResourcesLeastAllocated"

    def share(self, taken: IntArray, capacity: IntArray) -> IntArray:
        return capacity - taken


class MostAllocated(AllocationScore):
    """Prefer clusters with less free capacity."""

    name = "ClusterResourcesMostAllocated"

    def share(self, taken: IntArray, capacity: IntArray) -> IntArray:  # noqa: ARG002 - the signature of the base class
        return taken


class BalancedAllocation(ResourceScore):
    """Prefer clusters whose resources are used to the same degree."""

    name = "ClusterResourcesBalancedAllocation"

    def of(self, allocations: Sequence[Allocation]) -> IntArray:
        """Score the standard deviation of the degrees, in doubles, from left to right, as in KubeAdmiral.

        The degree to which a resource is used is 1 for a cluster without it.
        """
        fractions: list[NDArray[np.float64]] = [
            np.divide(each.taken(), each.capacity, out=np.ones(len(each.capacity)), where=each.capacity != 0)
            for each in allocations
        ]
        if len(fractions) == 2:
            deviation = np.abs((fractions[0] - fractions[1]) / 2)
        else:
            mean = sum(fractions) / len(fractions)
            deviation = np.sqrt(sum((each - mean) * (each - mean) for each in fractions) / len(fractions))
        scores = ((1 - deviation) * MAX_SCORE).astype(np.int64)
        return np.where(np.maximum.reduce(fractions) >= 1, 0, scores)


_SCORES: Final[tuple[filters.Score, ...]] = (
    PreferredTaints(),
    BalancedAllocation(),
    LeastAllocated(),
    PreferredTerms(),
    MostAllocated(),
)
SCORES: Final[dict[str, filters.Score]] = {each.name: each for each in _SCORES}
DEFAULT_SCORES: Final = tuple(name for name in SCORES if name != MostAllocated.name)
