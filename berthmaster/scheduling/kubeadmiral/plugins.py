"""KubeAdmiral's plugins: filters, scores and select plugins.

Filters that Karmada has as well are in ``berthmaster.scheduling.filters``. Here they get the names and exemptions of
this profile. Scores are integers from 0 to 100. Their arithmetic is in int64, as in KubeAdmiral: it overflows if a
cluster has more than about 80 PiB of a resource. A select plugin takes scored candidates and returns some of them,
ordered. Webhooks can be plugins of each kind (KubeAdmiral ``scheduler/extensions/webhook``).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cluster import Cluster
from berthmaster.model.kubeadmiral.clusters import JOINED
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.quantity import Quantity
from berthmaster.model.selector import Requirement
from berthmaster.model.taint import NO_EXECUTE, PREFER_NO_SCHEDULE
from berthmaster.scheduling import filters
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import PYTHON_STEPS, BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.filters import MAX_SCORE
from berthmaster.scheduling.fleet import CompiledPlacement, Fleet
from berthmaster.scheduling.kubeadmiral.unit import (
    GPU,
    InvalidTermError,
    ReplicasStrategy,
    SchedulingUnit,
    UnitPlacement,
    any_matches,
    labels_matching,
    rows_matching,
    unit_of,
)
from berthmaster.scheduling.resources import CPU, amount_of

_MILLI: Final = 1000


def allocatable_column(fleet: Fleet, name: str) -> Column[np.int64]:
    """Return the allocatable amount of a resource in each row, 0 for a cluster without it."""

    def of(cluster: Cluster) -> int:
        summary = cluster.status.resource_summary
        amount = summary.allocatable.get(name) if summary is not None else None
        return 0 if amount is None else min(INT64_MAX, amount_of(name, amount))

    return fleet.column(f"allocatable {name}", of, np.int64(0), fleet.resources.journal)


class Allocation:
    """One resource in some rows: what is allocatable, what is free, and what one replica requests.

    ``free``: the amount that is not allocated. It may be negative.
    """

    __slots__ = ("capacity", "free", "name", "requested")

    def __init__(self, fleet: Fleet, rows: IntArray, name: str, requests: Mapping[str, Quantity]) -> None:
        self.name = name
        self.capacity: IntArray = allocatable_column(fleet, name).current()[rows]
        self.free = fleet.resources.free(name)[rows]
        self.requested = min(INT64_MAX, amount_of(name, requests[name])) if name in requests else 0

    def taken(self) -> IntArray:
        """Return the used amount with one more replica. If more is free than allocatable, all of it counts as used."""
        used: IntArray = np.where(self.free > self.capacity, self.capacity, self.capacity - self.free)
        return used + self.requested


def whole_units(name: str, amounts: IntArray) -> IntArray:
    """Return amounts of a resource, CPU in cores, rounded away from zero. Millicores are rounded up already."""
    if name != CPU:
        return amounts
    whole: IntArray = np.sign(amounts) * -(-np.abs(amounts) // _MILLI)
    return whole


READY: Final = "Ready"
_PLAIN_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def condition_column(fleet: Fleet, condition_type: str) -> Column[np.bool_]:
    """Return the rows that hold a cluster with a condition."""
    return fleet.column(f"condition {condition_type}", lambda each: each.has_condition(condition_type), np.False_)


class ClusterJoinedFilter(filters.PlacementFilter):
    """Consider only clusters that joined. This is not a plugin."""

    name = "ClusterJoined"

    def column(self, context: Context) -> Column[np.bool_]:
        return condition_column(context.fleet, JOINED)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        return None if cluster.has_condition(JOINED) else "has not joined the federation"


class ClusterReadyFilter(filters.PlacementFilter):
    """Reject clusters that are not ready, unless they have the object. Karmada uses taints for this."""

    name = "ClusterReady"
    exempts_current = True

    def column(self, context: Context) -> Column[np.bool_]:
        return condition_column(context.fleet, READY)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        return None if cluster.ready else "is not ready"


class SelectorColumn(Column[np.bool_]):
    """Which rows match the selector and the required terms of a placement."""

    __slots__ = ("_fleet", "_placement")

    def __init__(self, fleet: Fleet, placement: UnitPlacement) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._placement = placement

    def compute(self) -> BoolArray:
        fleet, placement = self._fleet, self._placement
        mask = np.ones(fleet.capacity, dtype=np.bool_)
        for key, value in placement.cluster_selector.items():
            mask &= fleet.labels.matching(Requirement(key, "In", frozenset({value})), fleet.capacity)
        if placement.required is not None:
            mask &= rows_matching(placement.required, fleet)
        return mask & fleet.occupied

    def steps(self, rows: int) -> int:
        placement = self._placement
        expressions = len(placement.cluster_selector) + sum(
            len(term.match_expressions) + len(term.match_fields) for term in placement.required or ()
        )
        return super().steps(rows) * (1 + expressions) + PYTHON_STEPS * expressions

    def compute_row(self, row: int) -> bool:
        cluster = self._fleet.clusters[row]
        return cluster is not None and mismatch(self._placement, cluster) is None


class SelectorAffinityFilter(filters.PlacementFilter):
    """Require the labels of the selector and one of the required terms.

    Karmada's plugin of the same name differs. Here an invalid requirement rejects a cluster even if a later term
    matches, and the terms are alternatives in addition to the selector.
    """

    name = "ClusterAffinity"

    def column(self, context: Context) -> SelectorColumn | None:
        placement = _placement(context)
        if not placement.cluster_selector and placement.required is None:
            return None
        return SelectorColumn(context.fleet, placement)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        return mismatch(_placement(context), cluster)


def mismatch(placement: UnitPlacement, cluster: Cluster) -> str | None:
    """Describe the first part of selector and terms that a cluster does not match. Return None if it matches."""
    labels: Mapping[str, str] = cluster.metadata.labels
    for key, value in placement.cluster_selector.items():
        if labels.get(key) != value:
            return f"label {key}={value} does not match"
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


class ClusterResourcesFitFilter(filters.Filter):
    """Require that one replica fits, unless the cluster has the object. Ephemeral storage is never compared."""

    name = "ClusterResourcesFit"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        fleet, passing = context.fleet, np.ones(len(rows), dtype=np.bool_)
        for each in _compared(context, rows):
            passing &= each.taken() <= each.capacity
        return rows[passing | fleet.holds(context.request.current)[rows]]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        row = np.array([context.fleet.row_of[cluster.name]])
        short = [each.name for each in _compared(context, row) if each.taken()[0] > each.capacity[0]]
        return f"has insufficient {', '.join(short)}" if short else None


def _compared(context: Context, rows: IntArray) -> list[Allocation]:
    """Return the resources that are compared: CPU, memory and others that are requested."""
    unit = unit_of(context)
    # As in KubeAdmiral, a scalar resource counts even with amount 0.
    if not any(amount.nanos or name not in _PLAIN_RESOURCES for name, amount in unit.requests.items()):
        return []
    names = ["cpu", "memory", *(name for name in unit.requests if name not in _PLAIN_RESOURCES)]
    allocations = [Allocation(context.fleet, rows, name, unit.requests) for name in names]
    return [each for each in allocations if each.requested or each.name in {"cpu", "memory"}]


_FILTERS: Final[tuple[filters.Filter, ...]] = (
    filters.APIEnablementFilter("APIResources", exempts_current=False),
    filters.TaintTolerationFilter(evicting_effects=frozenset({NO_EXECUTE})),
    filters.ClusterAffinityFilter("PlacementFilter"),
    SelectorAffinityFilter(),
    ClusterReadyFilter(),
    filters.ClusterTerminatingFilter(),
    filters.ClusterEvictionFilter("ClusterEvicted"),
    ClusterResourcesFitFilter(),
)
FILTERS: Final[dict[str, filters.Filter]] = {each.name: each for each in _FILTERS}
DEFAULT_FILTERS: Final = tuple(name for name in FILTERS if name != ClusterResourcesFitFilter.name)


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


def _scored(requests: Mapping[str, Quantity]) -> list[str]:
    """Return the resources that are scored: CPU, memory and others that are requested."""
    names = ["cpu", "memory", *[name for name in requests if name not in _PLAIN_RESOURCES]]
    if "ephemeral-storage" in requests and requests["ephemeral-storage"].nanos:
        names.append("ephemeral-storage")
    return names


_SCORES: Final[tuple[filters.Score, ...]] = (
    PreferredTaints(),
    BalancedAllocation(),
    LeastAllocated(),
    PreferredTerms(),
    MostAllocated(),
)
SCORES: Final[dict[str, filters.Score]] = {each.name: each for each in _SCORES}
DEFAULT_SCORES: Final = tuple(name for name in SCORES if name != MostAllocated.name)


Selector = Callable[[SchedulingUnit, Candidates], Candidates | Failure]


def scored(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """Return the candidates on some rows. KubeAdmiral does not select by available replicas, so all have 0."""
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Candidates(context.fleet, rows, nothing, None, nothing if scores is None else scores)


def select(
    plugins: tuple[Selector, ...], context: Context, _compiled: CompiledPlacement, candidates: Candidates
) -> Candidates | Failure:
    """Apply select plugins in order. Return the first failure if there is one.

    If the first plugin does not sort, clusters are in the order of their names. In KubeAdmiral their order is random.
    """
    unit = unit_of(context)
    if plugins[:1] != (priority_sort,):
        candidates = candidates.at(candidates.name_rank().argsort())
    for plugin in plugins:
        selected = plugin(unit, candidates)
        if isinstance(selected, Failure):
            return selected
        candidates = selected
    return candidates


def priority_sort(unit: SchedulingUnit, candidates: Candidates) -> Candidates:
    """Sort by score, then name. With priorities, or for Binpack, priorities replace the scores."""
    priorities = {name: each.priority for name, each in unit.preferences.items() if each.priority is not None}
    if priorities:
        found = [priorities.get(name, 0) for name in candidates.names()]
        candidates = candidates.with_scores(np.array(found, dtype=np.int64))
    elif unit.divide and unit.strategy is ReplicasStrategy.BINPACK:
        candidates = candidates.with_scores(np.zeros(len(candidates), dtype=np.int64))
    return candidates.at(candidates.best(len(candidates)))


def max_cluster(unit: SchedulingUnit, candidates: Candidates) -> Candidates | Failure:
    """Select the ``maxClusters`` clusters with the best scores. Of equal scores the first ones are selected."""
    limit = unit.max_clusters
    if limit is None:
        return candidates
    if limit < 0:
        return Failure(FailureKind.SELECT_FAILED, f"maxClusters is {limit}; accepted are 0 and more")
    scores = np.zeros(len(candidates)) if candidates.scores is None else candidates.scores
    return candidates.at((-scores).argsort(kind="stable")[:limit])


SELECTORS: Final[dict[str, Selector]] = {"PrioritySort": priority_sort, "MaxCluster": max_cluster}
DEFAULT_SELECTORS: Final = tuple(SELECTORS)


class ScoredCluster(NamedTuple):
    """A cluster with the sum of its scores."""

    cluster: Cluster
    score: int


class WebhookPlugin(Protocol):
    """What a webhook answers. A failed call is not modelled."""

    def rejection(self, unit: SchedulingUnit, cluster: Cluster) -> str | None:
        """Return why filter rejects a cluster; None if it passes."""

    def score(self, unit: SchedulingUnit, cluster: Cluster) -> int:
        """Return the score of a cluster. KubeAdmiral scales the best one to 100.

        Raises:
            UnscorableError: the webhook answers with an error, which fails the attempt.
        """

    def select(self, unit: SchedulingUnit, scored: Sequence[ScoredCluster]) -> list[str] | str:
        """Return the names of the selected clusters in order, or the error that fails the attempt."""

    def remark(self, unit: SchedulingUnit, selected: Sequence[Cluster]) -> str:
        """Describe the selected clusters in a few words; empty if there is nothing to say."""


Webhooks = Mapping[str, WebhookPlugin]
"""The webhooks that are known, by the name of their SchedulerPluginWebhookConfiguration."""
NO_WEBHOOKS: Final[Webhooks] = MappingProxyType({})


class WebhookFilter(filters.Filter):
    """The filter of a webhook. It is asked about clusters that have the workload, too."""

    def __init__(self, name: str, webhook: WebhookPlugin) -> None:
        super().__init__(name)
        self._webhook = webhook

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        return self._webhook.rejection(unit_of(context), cluster)


class WebhookScore(filters.RelativeScore):
    """The score of a webhook. Its best score becomes 100."""

    def __init__(self, name: str, webhook: WebhookPlugin) -> None:
        self.name = name
        self._webhook = webhook

    def counts(self, context: Context, rows: IntArray) -> IntArray:
        clusters, unit = context.fleet.clusters, unit_of(context)
        scores = [self._webhook.score(unit, cluster) for row in rows.tolist() if (cluster := clusters[row]) is not None]
        return np.array(scores, dtype=np.int64)

    def normalised(self, counts: IntArray) -> IntArray:
        return scaled_to_best(counts)


def select_by_webhook(webhook: WebhookPlugin, unit: SchedulingUnit, candidates: Candidates) -> Candidates | Failure:
    """Select what a webhook selects, in its order."""
    scores = [0] * len(candidates) if candidates.scores is None else candidates.scores.tolist()
    scored = list(map(ScoredCluster, candidates.clusters(), scores))
    selected = webhook.select(unit, scored)
    if isinstance(selected, str):
        return Failure(FailureKind.SELECT_FAILED, selected)
    place = {name: index for index, name in enumerate(candidates.names())}
    return candidates.at(np.array([place[name] for name in selected], dtype=np.int64))
