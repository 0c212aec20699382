"""KubeAdmiral's filters, and those of them that Karmada does not have.

The others stand in ``berthmaster.scheduling.filters``; here they get the names and the exemptions of this profile.

KubeAdmiral's scores: integers, 0 to 100. Scores of all clusters that fit are made together, on columns.

Arithmetic is in int64, as KubeAdmiral's: it overflows where a cluster has more than some 80 PiB of something.

KubeAdmiral's select plugins: each takes scored candidates and leaves some, in an order.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cluster import NO_EXECUTE, PREFER_NO_SCHEDULE, Cluster
from berthmaster.model.kubeadmiral import JOINED
from berthmaster.model.selector import Requirement
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.compiled_placement import CompiledPlacement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.filters import (
    APIEnablementFilter,
    ClusterAffinityFilter,
    ClusterEvictionFilter,
    ClusterTerminatingFilter,
    Filter,
    PlacementFilter,
    TaintTolerationFilter,
    untolerated_counts,
)
from berthmaster.scheduling.fleet import ClusterColumn, Fleet
from berthmaster.scheduling.kubeadmiral.allocation import Allocation
from berthmaster.scheduling.kubeadmiral.terms import InvalidTermError, any_matches, labels_matching, rows_matching
from berthmaster.scheduling.kubeadmiral.unit import GPU, ReplicasStrategy, SchedulingUnit, UnitPlacement, unit_of
from berthmaster.scheduling.scores import MAX_SCORE, ColumnScore, RelativeScore, Score

READY: Final = "Ready"
_PLAIN_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def condition_column(fleet: Fleet, condition_type: str) -> Column[np.bool_]:
    """Which rows hold a cluster that has a condition."""

    def make(fleet: Fleet) -> ClusterColumn[np.bool_]:
        return ClusterColumn(fleet, fleet.structure, lambda cluster: cluster.has_condition(condition_type), np.False_)

    return fleet.kept(f"condition {condition_type}", make)


class ClusterJoinedFilter(PlacementFilter):
    """Only clusters that joined are looked at; this is no plugin."""

    name = "ClusterJoined"

    def column(self, context: Context) -> Column[np.bool_]:
        """The rows that joined."""
        return condition_column(context.fleet, JOINED)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        """Whether it joined."""
        return None if cluster.has_condition(JOINED) else "has not joined the federation"


class ClusterReadyFilter(PlacementFilter):
    """Only ready clusters, but where the object is it may stay. In Karmada taints see to it."""

    name = "ClusterReady"
    exempts_current = True

    def column(self, context: Context) -> Column[np.bool_]:
        """The rows that are ready."""
        return condition_column(context.fleet, READY)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        """Whether it is ready."""
        return None if cluster.ready else "is not ready"


class SelectorColumn(Column[np.bool_]):
    """Which rows the selector and the required terms of a placement mean."""

    __slots__ = ("_fleet", "_placement")

    def __init__(self, fleet: Fleet, placement: UnitPlacement) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._placement = placement

    def compute(self) -> BoolArray:
        """All rows, through the indexes."""
        fleet, placement = self._fleet, self._placement
        mask = np.ones(fleet.capacity, dtype=np.bool_)
        for key, value in placement.cluster_selector.items():
            mask &= fleet.labels.matching(Requirement(key, "In", frozenset({value})), fleet.capacity)
        if placement.required is not None:
            mask &= rows_matching(placement.required, fleet)
        return mask & fleet.occupied

    def compute_row(self, row: int) -> bool:
        """One row."""
        cluster = self._fleet.clusters[row]
        return cluster is not None and mismatch(self._placement, cluster) is None


class SelectorAffinityFilter(PlacementFilter):
    """ClusterAffinity: the selector's labels, then one of the required terms.

    Unlike Karmada's plugin of that name: an invalid requirement rules a cluster out even if a later term matches, and
    terms are alternatives beside the selector.
    """

    name = "ClusterAffinity"

    def column(self, context: Context) -> SelectorColumn | None:
        """The rows that are meant."""
        placement = _placement(context)
        if not placement.cluster_selector and placement.required is None:
            return None
        return SelectorColumn(context.fleet, placement)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The first part that does not hold."""
        return mismatch(_placement(context), cluster)


def mismatch(placement: UnitPlacement, cluster: Cluster) -> str | None:
    """The first part of selector and terms that does not hold for a cluster, in words; None if it is meant."""
    labels: Mapping[str, str] = cluster.metadata.labels
    for key, value in placement.cluster_selector.items():
        if labels.get(key) != value:
            return f"label {key}={value} does not hold"
    if placement.required is None:
        return None
    try:
        return None if any_matches(placement.required, cluster) else "no term of the affinity matches"
    except InvalidTermError as error:
        return f"the affinity has an invalid term: {error}"


def _placement(context: Context) -> UnitPlacement:
    placement = context.compiled.placement
    if not isinstance(placement, UnitPlacement):
        raise TypeError(f"a {type(placement).__name__} was given to KubeAdmiral's profile")
    return placement


class ClusterResourcesFitFilter(Filter):
    """One replica must fit what is not used; ephemeral storage is never compared. Where the object is it may stay."""

    name = "ClusterResourcesFit"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """The rows where nothing is short, and those where the object is."""
        fleet, passing = context.fleet, np.ones(len(rows), dtype=np.bool_)
        for each in _compared(context, rows):
            passing &= each.taken() <= each.capacity
        current = [row for name in context.request.current if (row := fleet.row_of.get(name)) is not None]
        return rows[passing | np.isin(rows, current)]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The resources that are short."""
        row = np.array([context.fleet.row_of[cluster.name]])
        short = [each.name for each in _compared(context, row) if each.taken()[0] > each.capacity[0]]
        return f"has insufficient {', '.join(short)}" if short else None


def _compared(context: Context, rows: IntArray) -> list[Allocation]:
    """The resources that are compared: CPU and memory, and others of which something is requested."""
    unit = unit_of(context)
    if not _requests_anything(unit):
        return []
    names = ["cpu", "memory", *(name for name in unit.requests if name not in _PLAIN_RESOURCES)]
    allocations = [Allocation(context.fleet, rows, name, unit.requests) for name in names]
    return [each for each in allocations if each.wanted or each.name in {"cpu", "memory"}]


def _requests_anything(unit: SchedulingUnit) -> bool:
    """A scalar resource counts even if none of it is requested, as in KubeAdmiral."""
    return any(amount.nanos or name not in _PLAIN_RESOURCES for name, amount in unit.requests.items())


_FILTERS: Final[tuple[Filter, ...]] = (
    APIEnablementFilter("APIResources", exempts_current=False),
    TaintTolerationFilter(driving_out=frozenset({NO_EXECUTE})),
    ClusterAffinityFilter("PlacementFilter"),
    SelectorAffinityFilter(),
    ClusterReadyFilter(),
    ClusterTerminatingFilter(),
    ClusterEvictionFilter("ClusterEvicted"),
    ClusterResourcesFitFilter(),
)
FILTERS: Final[dict[str, Filter]] = {each.name: each for each in _FILTERS}
DEFAULT_FILTERS: Final = tuple(name for name in FILTERS if name != ClusterResourcesFitFilter.name)


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


_SCORES: Final[tuple[Score, ...]] = (
    PreferredTaints(),
    BalancedAllocation(),
    LeastAllocated(),
    PreferredTerms(),
    MostAllocated(),
)
SCORES: Final[dict[str, Score]] = {each.name: each for each in _SCORES}
DEFAULT_SCORES: Final = tuple(name for name in SCORES if name != MostAllocated.name)


PRIORITY_SORT: Final = "PrioritySort"

Selector = Callable[[SchedulingUnit, Candidates], Candidates | Failure]


def scored(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """The candidates on some rows. Their room plays no part in KubeAdmiral's selection, so that all have none."""
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Candidates(context.fleet, rows, nothing, None, nothing if scores is None else scores)


def select(
    names: tuple[str, ...], context: Context, _compiled: CompiledPlacement, candidates: Candidates
) -> Candidates | Failure:
    """What the select plugins of these names leave, or the first failure; without any all are selected.

    Where no plugin sorts, clusters stand by name. In KubeAdmiral they stand in random order.
    """
    unit = unit_of(context)
    if names[:1] != (PRIORITY_SORT,):
        candidates = candidates.at(candidates.name_rank().argsort())
    for name in names:
        left = SELECTORS[name](unit, candidates)
        if isinstance(left, Failure):
            return left
        candidates = left
    return candidates


def priority_sort(unit: SchedulingUnit, candidates: Candidates) -> Candidates:
    """PrioritySort: by score, then name; priorities, where there are any or in Binpack, replace the scores."""
    prioritised = any(each.priority is not None for each in unit.preferences.values())
    if prioritised or (unit.divide and unit.strategy is ReplicasStrategy.BINPACK):
        priorities = [unit.preference(name).priority or 0 for name in candidates.names()]
        candidates = candidates.with_scores(np.array(priorities, dtype=np.int64))
    return candidates.at(candidates.best(len(candidates)))


def max_cluster(unit: SchedulingUnit, candidates: Candidates) -> Candidates | Failure:
    """MaxCluster: the first ``maxClusters`` by score; of equal scores those that come first."""
    limit = unit.max_clusters
    if limit is None:
        return candidates
    if limit < 0:
        return Failure(FailureKind.SELECT_FAILED, f"maxClusters is {limit}; accepted are 0 and more")
    scores = np.zeros(len(candidates)) if candidates.scores is None else candidates.scores
    return candidates.at((-scores).argsort(kind="stable")[:limit])


SELECTORS: Final[dict[str, Selector]] = {PRIORITY_SORT: priority_sort, "MaxCluster": max_cluster}
DEFAULT_SELECTORS: Final = tuple(SELECTORS)
