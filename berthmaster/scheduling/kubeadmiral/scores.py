"""KubeAdmiral's scores: integers, 0 to 100. Scores of all clusters that fit are made together, on columns.

Arithmetic is in int64, as KubeAdmiral's: it overflows where a cluster has more than some 80 PiB of something.
"""

from abc import abstractmethod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cluster import PREFER_NO_SCHEDULE
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters.taint_toleration import untolerated_counts
from berthmaster.scheduling.kubeadmiral.allocation import Allocation
from berthmaster.scheduling.kubeadmiral.request import unit_of
from berthmaster.scheduling.kubeadmiral.terms import labels_matching
from berthmaster.scheduling.kubeadmiral.unit import GPU
from berthmaster.scheduling.scores import MAX_SCORE, ColumnScore, RelativeScore, Score

_GPU_WEIGHT: Final = 4


class PreferredTaints(RelativeScore):
    """TaintToleration: fewer PreferNoSchedule taints that are not tolerated are better."""

    name = "TaintToleration"

    def counts(self, context: Context, rows: IntArray) -> IntArray:
        """The taints that are not tolerated."""
        return untolerated_counts(context.fleet, unit_of(context).tolerations, frozenset({PREFER_NO_SCHEDULE}))[rows]

    def normalised(self, counts: IntArray) -> IntArray:
        """The cluster with the most scores 0, one without any 100."""
        worst = int(counts.max(initial=1))
        return MAX_SCORE - MAX_SCORE * counts // worst


class PreferredTerms(RelativeScore):
    """ClusterAffinity: the weights of the preferred terms that match."""

    name = "ClusterAffinity"

    def counts(self, context: Context, rows: IntArray) -> IntArray:
        """The weights; fields play no part, and a term without expressions means no cluster."""
        total = np.zeros(context.fleet.capacity, dtype=np.int64)
        for weight, term in unit_of(context).preferred:
            if weight and term.match_expressions:
                total += weight * labels_matching(term, context.fleet)
        return total[rows]

    def normalised(self, counts: IntArray) -> IntArray:
        """Scaled so that the best is 100, rounded toward zero; untouched if none is positive."""
        best = int(counts.max(initial=0))
        return np.sign(counts) * (MAX_SCORE * np.abs(counts) // best) if best > 0 else counts


class AllocationScore(ColumnScore):
    """By each resource, the share of it that counts; GPUs count for more than others."""

    @abstractmethod
    def share(self, taken: IntArray, capacity: IntArray) -> IntArray:
        """What counts of the capacity, where that much is taken with one more replica."""

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        """The mean of the shares; a resource of which there is too little, or nothing, adds 0."""
        total, weights = np.zeros(len(rows), dtype=np.int64), 0
        for each in _scored(context, rows):
            weight = _GPU_WEIGHT if each.name == GPU else 1
            weights += weight
            taken, capacity = each.taken(), each.capacity
            counted = weight * (self.share(taken, capacity) * MAX_SCORE // np.maximum(capacity, 1))
            total += np.where((capacity != 0) & (taken <= capacity), counted, 0)
        return total // weights


class LeastAllocated(AllocationScore):
    """ClusterResourcesLeastAllocated: more room is better."""

    name = "ClusterResourcesLeastAllocated"

    def share(self, taken: IntArray, capacity: IntArray) -> IntArray:
        """What is left."""
        return capacity - taken


class MostAllocated(AllocationScore):
    """ClusterResourcesMostAllocated: less room is better."""

    name = "ClusterResourcesMostAllocated"

    def share(self, taken: IntArray, capacity: IntArray) -> IntArray:  # noqa: ARG002 - the other one asks for it
        """What is taken."""
        return taken


class BalancedAllocation(ColumnScore):
    """ClusterResourcesBalancedAllocation: resources used to the same degree are better."""

    name = "ClusterResourcesBalancedAllocation"

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        """By the standard deviation of the degrees, in doubles from left to right as KubeAdmiral's."""
        fractions = [_fraction(each) for each in _scored(context, rows)]
        if len(fractions) == 2:
            deviation = np.abs((fractions[0] - fractions[1]) / 2)
        else:
            mean = sum(fractions) / len(fractions)
            deviation = np.sqrt(sum((each - mean) * (each - mean) for each in fractions) / len(fractions))
        scores = ((1 - deviation) * MAX_SCORE).astype(np.int64)
        return np.where(np.maximum.reduce(fractions) >= 1, 0, scores)


def _fraction(allocation: Allocation) -> NDArray[np.float64]:
    """The degree to which a resource is used; 1 where there is nothing of it."""
    capacity = allocation.capacity
    return np.divide(allocation.taken(), capacity, out=np.ones(len(capacity)), where=capacity != 0)


def _scored(context: Context, rows: IntArray) -> list[Allocation]:
    """The resources that scores look at: CPU and memory, and others that are requested."""
    requests = unit_of(context).requests
    names = ["cpu", "memory", *(name for name in requests if name not in {"cpu", "memory", "ephemeral-storage"})]
    if "ephemeral-storage" in requests and requests["ephemeral-storage"].nanos:
        names.append("ephemeral-storage")
    return [Allocation(context.fleet, rows, name, requests) for name in names]


_ALL: Final[tuple[Score, ...]] = (
    PreferredTaints(),
    BalancedAllocation(),
    LeastAllocated(),
    PreferredTerms(),
    MostAllocated(),
)
SCORES: Final[dict[str, Score]] = {each.name: each for each in _ALL}
DEFAULT_SCORES: Final = tuple(name for name in SCORES if name != MostAllocated.name)
