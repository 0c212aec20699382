"""Compiled placements, candidates and selection: which of the clusters that fit the spread constraints select.

Sources: karmada ``calAvailableReplicas``, ``spreadconstraint/select_clusters_by_cluster.go``.

Selection by a constraint on regions (karmada ``group_clusters.go``, ``select_clusters_by_region.go``).

Karmada enumerates all combinations of regions, those with fewer clusters first. It records a combination as soon as it
has enough regions and enough clusters, and does not extend a recorded combination. Of the recorded combinations it
takes the one with the largest weight, then the largest number of clusters, then the first one found. Finally it
shortens the combination to a recorded prefix. The enumeration is exponential in the number of regions.

This module computes the same result without enumeration. In the order of Karmada's walk, a sequence is recorded if its
length is in range, its clusters reach the target, and without its last region it was too short or had too few clusters.
The best completion from region i on therefore depends only on the number of regions chosen so far and on the sum of
their clusters, capped at the target. This is a table of (regions x length x target) entries, filled from the last
region to the first. For the i-th region it has the lengths up to i, and the sums that i regions can have. Recorded
sequences are never prefixes of each other, so "first one found" means lexicographically smallest: on a tie, taking a
region comes before skipping it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.division_strategy import Strategy, ignores_constraints, strategy_of
from berthmaster.model.placement import Placement, ReplicaSchedulingStrategy, SpreadConstraint
from berthmaster.model.placement_limits import OPTION
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import BoolArray, Column, IntArray, Journal
from berthmaster.scheduling.compiled_placement import (
    Affinities,
    AffinityColumn,
    CompiledPlacement,
)
from berthmaster.scheduling.component_sets import sets_column
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED, Estimate
from berthmaster.scheduling.steps import AFFINITY_STEPS, PYTHON_STEPS, Work

MAX_COST: Final = 2**28
"""The largest search, however many steps a decision may take: 256 MiB and some seconds."""
ENTRIES_A_STEP: Final = 2
_REGION_STEPS: Final = 20 * PYTHON_STEPS
_CLUSTER_STEPS: Final = PYTHON_STEPS
_INT64_SAFE: Final = 2**61
_COST_BEYOND_INT64: Final = 16
_SCORE_UNIT: Final = 1000
_UNCONSTRAINED: Final = SpreadConstraint()
ITS_ESTIMATOR: Final = "its scheduler estimator"
"""What limits a cluster whose scheduler estimator reports less than the fleet's own numbers."""


class KarmadaPlacement(CompiledPlacement):
    """A compiled placement with what Karmada's selection and division read.

    Attributes:
        weights: the static weight of each row. None if all clusters have the same weight.
        constrained: selection obeys the spread constraints. Otherwise it selects every cluster that fits.
        whole_sets: a workload of several pod templates is placed as a whole: a constraint asks for exactly one cluster
            (karmada ``isMultiTemplateSchedulingApplicable``).
        spread: the last constraint for each field. A constraint by label has the empty field.
    """

    __slots__ = ("constrained", "spread", "strategy", "weights", "whole_sets")

    def __init__(
        self, placement: Placement, fleet: Fleet, affinities: Affinities, *, component_sets: bool = True
    ) -> None:
        super().__init__(placement, affinities)
        self.strategy = strategy_of(placement.replica_scheduling)
        self.weights = _static_weights(placement.replica_scheduling, fleet, affinities)
        if self.weights is not None:
            self.steps += self.weights.steps(fleet.capacity)
        self.constrained = bool(placement.spread_constraints) and not ignores_constraints(placement.replica_scheduling)
        self.whole_sets = component_sets and any(
            (each.spread_by_field, each.min_groups, each.max_groups) == ("cluster", 1, 1)
            for each in placement.spread_constraints
        )
        self.spread: dict[str, SpreadConstraint] = {
            constraint.spread_by_field: constraint for constraint in placement.spread_constraints
        }


class StaticWeights(Column[np.int64]):
    """The static weight of each row: the largest weight of the rules that match it, or 0."""

    __slots__ = ("_rules",)

    def __init__(self, journal: Journal, rules: list[tuple[AffinityColumn, int]]) -> None:
        super().__init__(journal)
        self._rules = rules

    def compute(self) -> IntArray:
        weights = (np.where(column.current(), np.int64(weight), np.int64(0)) for column, weight in self._rules)
        return reduce(np.maximum, weights)

    def steps(self, rows: int) -> int:
        own = super().steps(rows)
        return sum(AFFINITY_STEPS + column.steps(rows) + 8 * own for column, _ in self._rules)

    def compute_row(self, row: int) -> int:
        return max(weight if column.current()[row] else 0 for column, weight in self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def weight_of(self, cluster: Cluster) -> int:
        return max(weight if column.term.matches(cluster) else 0 for column, weight in self._rules)


def _static_weights(
    scheduling: ReplicaSchedulingStrategy | None, fleet: Fleet, affinities: Affinities
) -> StaticWeights | None:
    preference = scheduling.weight_preference if scheduling is not None else None
    if preference is None or not preference.static_weight_list:
        return None
    rules = [(affinities.column(rule.target_cluster), rule.weight) for rule in preference.static_weight_list]
    return StaticWeights(fleet.structure, rules)


class ClusterGroup(NamedTuple):
    """Clusters that are selected together or not at all: those of one region."""

    name: str
    value: int
    weight: int


def select_by_region(
    compiled: KarmadaPlacement, replicas: int, candidates: Candidates, work: Work | None = None
) -> Candidates | Failure:
    """Return one cluster of each of the best regions, then the best of their other clusters, or why there are none.

    Raises:
        TooLargeError: the search takes too many steps.
    """
    work = work or Work()
    work.spend(_CLUSTER_STEPS * len(candidates))
    regions, clusters = compiled.spread["region"], compiled.spread.get("cluster", _UNCONSTRAINED)
    ordered = candidates.ordered()
    members = _by_region(ordered)
    if len(members) < regions.min_groups:
        return _failure(
            f"{len(members)} regions have clusters that fit, but at least {regions.min_groups} are required",
            "the number of feasible region is less than spreadConstraint.MinGroups",
        )
    groups = region_groups(compiled, replicas, ordered, members)
    limits = max(1, regions.min_groups), regions.max_groups, clusters.min_groups
    cost = search_cost(groups, *limits)
    if cost > min(MAX_COST, ENTRIES_A_STEP * work.limit):
        return _failure(
            f"the choice of {limits[0]} to {limits[1]} of {len(members)} regions with at least {limits[2]} clusters is "
            "too large to search; lower maxGroups of the regions or minGroups of the clusters, or raise steps in "
            f"{OPTION}"
        )
    work.spend(_REGION_STEPS * len(groups) + cost // ENTRIES_A_STEP)
    chosen = select_groups(groups, *limits)
    if not chosen:
        bounds = f"{regions.min_groups} to {regions.max_groups}" if regions.max_groups else "no (maxGroups is not set)"
        return _failure(
            f"of {len(members)} regions no choice of {bounds} has {clusters.min_groups} clusters that fit",
            "the number of clusters is less than the cluster spreadConstraint.MinGroups",
        )
    return ordered.at(_spread_over([members[group.name] for group in chosen], clusters.max_groups))


def region_groups(
    compiled: KarmadaPlacement,
    replicas: int,
    candidates: Candidates,
    members: Mapping[str, list[int]] | None = None,
) -> list[ClusterGroup]:
    """Return the regions of candidates with their weights. ``members``: their positions in the order, if known."""
    ordered = candidates.ordered()
    weigh = _region_weight(
        compiled.strategy, replicas, ordered, compiled.spread["region"], compiled.spread.get("cluster", _UNCONSTRAINED)
    )
    found = _by_region(ordered) if members is None else members
    return [ClusterGroup(name, len(positions), weigh(positions)) for name, positions in found.items()]


def _failure(message: str, upstream: str = "") -> Failure:
    """Return why no clusters are selected. ``upstream``: the error of karmada-scheduler (``selectClusters``)."""
    return Failure(FailureKind.SELECT_FAILED, message, upstream and f"failed to select clusters: {upstream}")


def _by_region(ordered: Candidates) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for position, region in enumerate(ordered.regions()):
        if region:
            members.setdefault(region, []).append(position)
    return members


def _spread_over(chosen: list[list[int]], max_clusters: int) -> np.ndarray:
    """Take one cluster of each region, even above ``max_clusters``, then the best others up to that number."""
    first = [positions[0] for positions in chosen]
    others = sorted(position for positions in chosen for position in positions[1:])
    wanted = min(len(first) + len(others), max_clusters) - len(first)
    return np.array(first + others[: max(0, wanted)], dtype=np.int64)


def _region_weight(
    strategy: Strategy, replicas: int, ordered: Candidates, regions: SpreadConstraint, clusters: SpreadConstraint
) -> Callable[[list[int]], int]:
    """Return how good a region is: first by how many replicas it holds, then by the scores of its clusters."""
    room: list[int] = ordered.available.tolist()
    scores: list[int] = [0] * len(ordered) if ordered.scores is None else ordered.scores.tolist()
    share = -(-replicas // max(1, regions.min_groups))
    least_clusters = max(clusters.min_groups, regions.min_groups)

    def of_duplicated(positions: list[int]) -> int:
        holding = [scores[each] for each in positions if room[each] >= replicas]
        return len(holding) * _SCORE_UNIT + sum(holding) // len(holding) if holding else 0

    def of_divided(positions: list[int]) -> int:
        available = score = 0
        for count, position in enumerate(positions, start=1):
            available += room[position]
            score += scores[position]
            if count >= least_clusters and available >= share:
                return share * _SCORE_UNIT + score // count
        return min(available, share) * _SCORE_UNIT + score // len(positions)

    return of_duplicated if strategy is Strategy.DUPLICATED else of_divided


def search_cost(groups: list[ClusterGroup], min_groups: int, max_groups: int, target: int) -> int:
    """Return the number of table entries that ``select_groups`` fills, 0 if no choice is possible.

    Args: see ``select_groups``.
    """
    longest = min(max_groups, len(groups))
    if longest < min_groups or sum(group.value for group in groups) < target:
        return 0
    last_row = min_groups if longest == len(groups) else longest
    each = _COST_BEYOND_INT64 if _combined_gains(groups).dtype == object else 1
    shapes = _shapes(sorted(group.value for group in groups), last_row, max(0, target))
    return sum(rows * values for rows, values in shapes) * each


def select_groups(groups: list[ClusterGroup], min_groups: int, max_groups: int, target: int) -> list[ClusterGroup]:
    """Return the best choice of groups, heaviest first, or an empty list if there is none.

    ``max_groups``: the largest number of groups. 0 allows none.
    """
    if not search_cost(groups, min_groups, max_groups, target):
        return []
    in_walk_order = sorted(groups, key=lambda group: (group.value, -group.weight, group.name))
    best = _best_sequence(in_walk_order, min_groups, min(max_groups, len(groups)), max(0, target))
    heaviest_first = sorted(best, key=lambda group: (-group.weight, group.name))
    return _shortened(heaviest_first, min_groups, target)


def _best_sequence(groups: list[ClusterGroup], shortest: int, longest: int, target: int) -> list[ClusterGroup]:
    """Return the best recorded sequence: by weight, then value, then the order of the walk. Empty if there is none."""
    gains = _combined_gains(groups)
    taken = _fill_table(groups, gains, shortest, longest, target)
    last_row = len(taken[-1]) - 1
    chosen: list[ClusterGroup] = []
    value = 0
    for index, group in enumerate(groups):
        if taken[index][min(len(chosen), last_row), value]:
            chosen.append(group)
            value = min(value + group.value, target)
            if len(chosen) >= shortest and value >= target:
                return chosen
    return []


def _combined_gains(groups: list[ClusterGroup]) -> IntArray | np.ndarray:
    """Combine weight and value of each group in one number, so that sums compare by weight first."""
    unit = sum(group.value for group in groups) + 1
    gains = [group.weight * unit + group.value for group in groups]
    return np.array(gains, dtype=np.int64 if sum(gains) < _INT64_SAFE else object)


def _shapes(values: Sequence[int], last_row: int, target: int) -> Iterator[tuple[int, int]]:
    """Yield the number of lengths and of sums before each group: i groups give at most i lengths, and their sum."""
    total = 0
    for index, value in enumerate(values):
        yield 1 + min(index, last_row), 1 + min(total, target)
        total += value


def _fill_table(
    groups: list[ClusterGroup], gains: np.ndarray, shortest: int, longest: int, target: int
) -> list[BoolArray]:
    """Return for each group, and each (length, value) before it, whether the best completion takes the group.

    ``best[length, value]`` is the largest gain of the groups considered so far that completes such a beginning. If the
    upper bound does not limit the length, all beginnings that are long enough share the last row.
    """
    unbounded = longest == len(groups)
    last_row = shortest if unbounded else longest
    # A beginning that cannot be completed stays negative, whatever it gains.
    best = np.full((last_row + 1, target + 1), -1 - gains.sum(), dtype=gains.dtype)
    # A beginning that is long enough and has reached the target is recorded: complete, with nothing to gain.
    best[shortest:, target] = 0
    taken: list[BoolArray] = []
    shapes = list(_shapes([group.value for group in groups], last_row, target))
    for index in range(len(groups) - 1, -1, -1):
        rows, values = shapes[index]
        # Without an upper bound the last row extends itself. Otherwise it cannot be extended.
        extensible = rows if unbounded else min(rows, last_row)
        taking = _shifted(best, extensible, values, groups[index].value) + gains[index]
        skipping = best[:extensible, :values]
        takes = np.zeros((rows, values), dtype=np.bool_)
        np.logical_and(taking >= skipping, taking >= 0, out=takes[:extensible])
        np.copyto(skipping, taking, where=takes[:extensible])
        best[shortest:, target] = 0
        taken.append(takes)
    return taken[::-1]


def _shifted(best: np.ndarray, rows: int, values: int, value: int) -> np.ndarray:
    """Return for each length and sum the entry with one more group of ``value`` clusters, capped at the table's end."""
    last_row, target = best.shape[0] - 1, best.shape[1] - 1
    shifted = np.empty((rows, values), dtype=best.dtype)
    longer = best[1 : rows + 1] if rows <= last_row else np.concatenate([best[1:], best[-1:]])
    within = max(0, min(values, target + 1 - value))
    shifted[:, :within] = longer[:, value : value + within]
    shifted[:, within:] = longer[:, target:]
    return shifted


def _shortened(heaviest_first: list[ClusterGroup], shortest: int, target: int) -> list[ClusterGroup]:
    for length in range(shortest, len(heaviest_first)):
        prefix = heaviest_first[:length]
        value = sum(group.value for group in prefix)
        last_in_walk = max(group.value for group in prefix)
        if value >= target and (length == shortest or value - last_in_walk < target):
            return prefix
    return heaviest_first


def candidates_of(context: Context, rows: IntArray, scores: IntArray | None) -> Candidates:
    """Return the candidates on some rows, which are ascending. Of several estimates the smallest counts."""
    fleet, request = context.fleet, context.request
    if request.replicas == 0 and not request.components:
        allocatable = np.full(len(rows), UNLIMITED, dtype=np.int64)
    else:
        allocatable = _estimates(context).current()[rows]
        if request.bounds:
            np.minimum(allocatable, _bounds(fleet, request.bounds)[rows], out=allocatable)
        # A cluster without any limit holds all of the replicas. Karmada counts it as no more than that.
        allocatable[allocatable == UNLIMITED] = request.replicas
    return Candidates(fleet, rows, allocatable, _assigned(fleet, request, rows), scores, context.group.tiers(rows))


def places_whole_sets(request: Request, compiled: CompiledPlacement) -> bool:
    """Whether the available replicas of a workload are complete sets of the pods of its templates."""
    return bool(request.component_set) and isinstance(compiled, KarmadaPlacement) and compiled.whole_sets


def _estimates(context: Context) -> Column[np.int64]:
    """Return the column of the available replicas, or of the available sets of a workload of several templates."""
    resources, request = context.fleet.resources, context.request
    if places_whole_sets(request, context.compiled):
        return sets_column(resources, request.component_set)
    return resources.estimate(request.requests)


def estimate_of(fleet: Fleet, request: Request, compiled: CompiledPlacement, row: int) -> Estimate:
    """Return how many more replicas fit one row, as in ``candidates_of``, and what limits them."""
    if places_whole_sets(request, compiled):
        estimate = sets_column(fleet.resources, request.component_set).estimate_row(row)
    else:
        estimate = fleet.resources.estimate_row(row, request.requests)
    cluster = fleet.clusters[row]
    if not request.bounds or cluster is None:
        return estimate
    bound = request.bounds.get(cluster.name, UNLIMITED)
    return Estimate(bound, ITS_ESTIMATOR) if bound < estimate.replicas else estimate


def select(context: Context, compiled: KarmadaPlacement, candidates: Candidates) -> Candidates | Failure:
    """Return the selected candidates in selection order, or why the constraints cannot be satisfied."""
    if not compiled.constrained:
        return candidates
    replicas = context.request.replicas
    if "region" in compiled.spread:
        return select_by_region(compiled, replicas, candidates, context.work)
    if "cluster" in compiled.spread:
        # Without division every selected cluster takes all replicas, so that their sum does not matter.
        needed, unit = None if compiled.strategy is Strategy.DUPLICATED else replicas, "replica"
        if needed is not None and places_whole_sets(context.request, compiled):
            needed, unit = 1, "set of pods"
        return select_by_cluster(compiled.spread["cluster"], needed, candidates, context.work, unit=unit)
    fields = sorted(
        each.spread_by_field or f"label {each.spread_by_label}" for each in compiled.placement.spread_constraints
    )
    return _failure(
        f"cannot spread by {' and '.join(fields)} alone: a constraint on cluster or region is required",
        "just support cluster and region spread constraint",
    )


def select_by_cluster(
    constraint: SpreadConstraint,
    needed: int | None,
    candidates: Candidates,
    work: Work | None = None,
    *,
    unit: str = "replica",
) -> Candidates | Failure:
    """Return the best ``maxGroups`` clusters, changed as little as necessary to hold ``needed`` replicas.

    Args:
        needed: the number of replicas; None if available replicas do not matter.
        unit: what is counted, for the message of a failure.

    Raises:
        TooLargeError: the selection takes too many steps.
    """
    if len(candidates) < constraint.min_groups:
        return _failure(
            f"{len(candidates)} clusters fit, but the spread constraint requires at least {constraint.min_groups}",
            "the number of feasible clusters is less than spreadConstraint.MinGroups",
        )
    count = max(0, min(len(candidates), constraint.max_groups))
    chosen = candidates.at(candidates.best(count))
    if needed is None:
        return chosen
    available = int(chosen.available.sum())
    if count and available < needed:
        if work is not None:
            work.spend(PYTHON_STEPS * len(candidates) // 2)
        chosen = candidates.at(_exchanged(candidates, count, needed))
        available = int(chosen.available.sum())
    if not count or available < needed:
        hold = "1 cluster holds" if count == 1 else f"{count} clusters hold"
        limit = f"{hold} {available} at most" if count else "maxGroups is not set, which allows none"
        requested = f"1 {unit} is requested" if needed == 1 else f"{needed} {unit}s are requested"
        return _failure(f"{requested}, but {limit}", f"no enough resource when selecting {count} clusters")
    return chosen


def _exchanged(candidates: Candidates, count: int, needed: int) -> np.ndarray:
    """Exchange selected clusters, the last one first, for unselected ones until all replicas fit.

    Each selected cluster is considered once. It is exchanged for the unselected cluster with the most available
    replicas, if that one has more.
    """
    order = candidates.best(len(candidates))
    chosen, available = order[:count].copy(), candidates.available
    total = int(available[chosen].sum())
    # The unselected clusters, the largest first. Of equals the one that is first in the order comes first. A cluster
    # that is exchanged takes the place of the other one.
    others = zip(available[order[count:]].tolist(), order[count:].tolist(), strict=True)
    rest = [(-replicas, place, position) for place, (replicas, position) in enumerate(others)]
    heapify(rest)
    for slot in range(count - 1, -1, -1):
        if total >= needed or not rest:
            break
        smaller = int(available[chosen[slot]])
        largest, place, position = rest[0]
        if -largest > smaller:
            heapreplace(rest, (-smaller, place, int(chosen[slot])))
            chosen[slot] = position
            total += -largest - smaller
    return chosen


def _assigned(fleet: Fleet, request: Request, rows: IntArray) -> IntArray | None:
    if not request.current or not len(rows):
        return None
    assigned = np.zeros(len(rows), dtype=np.int64)
    held = {row: replicas for name, replicas in request.current.items() if (row := fleet.row_of.get(name)) is not None}
    for position, (row, replicas) in zip(rows.searchsorted([*held]).tolist(), held.items(), strict=True):
        if position < len(rows) and rows[position] == row:
            assigned[position] = replicas
    return assigned


def _bounds(fleet: Fleet, bounds: Mapping[str, int]) -> IntArray:
    """Return the external bound of each row, ``UNLIMITED`` if it has none."""
    column = np.full(fleet.capacity, UNLIMITED, dtype=np.int64)
    for name, bound in bounds.items():
        row = fleet.row_of.get(name)
        if row is not None:
            column[row] = min(bound, UNLIMITED)
    return column
