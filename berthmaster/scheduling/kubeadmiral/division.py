"""Assignment: how many replicas each selected cluster gets, and why.

Two planners: divide replicas by weight (Spread), or fill one cluster after the other (Binpack).

Sources: KubeAdmiral ``util/planner``, ``plugins/preferencebinpack``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import floor
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cached import cached_property
from berthmaster.model.taint import NO_SCHEDULE
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import BoolArray, DigestArray, IntArray
from berthmaster.scheduling.compiled_placement import CompiledPlacement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt
from berthmaster.scheduling.filters import untolerated_counts
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.fnv import fnv1_32_continued, fnv1_32_of_name, fnv1_32_of_names
from berthmaster.scheduling.kubeadmiral.allocation import Allocation, whole_units
from berthmaster.scheduling.kubeadmiral.unit import GPU, NO_PREFERENCE, ReplicasStrategy, SchedulingUnit, unit_of

_BY_WEIGHT: Final = itemgetter(1)
_FEW_CLUSTERS: Final = 32
_REPELLING: Final = frozenset({NO_SCHEDULE})
_SUM: Final = 1000
_ALLOCATABLE_SHARE: Final = 1.4
"""The largest weight of a cluster, as a multiple of its share of all allocatable resources."""


class Share(NamedTuple):
    """The weight and bounds of one cluster. Without a maximum, ``maximum`` is None."""

    name: str
    weight: int
    minimum: int = 0
    maximum: int | None = None


class CapacityLimits(NamedTuple):
    """How many replicas clusters hold, by name. A cluster without an entry has no limit.

    ``estimated``: what auto-migration estimated. Replicas above it are reported as overflow.
    """

    estimated: Mapping[str, int] = {}
    limited: Mapping[str, int] = {}

    def capped(self, name: str, replicas: int) -> int:
        if not (self.limited or self.estimated):
            return replicas
        return min(replicas, self.limited.get(name, replicas), self.estimated.get(name, replicas))


class Division(NamedTuple):
    """Replicas by cluster, and those above an estimate, which count for their cluster as well."""

    replicas: dict[str, int]
    overflow: dict[str, int]


def divide_by_weight(
    total: int,
    shares: Sequence[Share],
    current: Mapping[str, int],
    limits: CapacityLimits,
    key: str,
    *,
    avoid_disruption: bool,
    keep_unschedulable: bool,
    left_out: int = 0,
) -> Division:
    """Divide replicas over clusters by weight, within their bounds.

    Args:
        key: breaks ties, together with the names.
        left_out: the sum of the weights of the clusters without a share, see ``reachable``.
        avoid_disruption: move no more of the current replicas than necessary.
        keep_unschedulable: count all replicas above an estimate, not only those that fit no other cluster.
    """
    keep = keep_unschedulable or not avoid_disruption
    desired, overflow = distribute_by_weight(total, ordered(shares, key), limits, keep=keep, left_out=left_out)
    if not avoid_disruption:
        return Division(desired, overflow)
    settled = {each.name: limits.capped(each.name, current.get(each.name, 0)) for each in shares}
    difference = sum(desired.values()) - sum(settled.values())
    if difference < 0:
        surplus = {name: count - desired[name] for name, count in settled.items() if desired[name] < count}
        taken = [Share(name, count, 0, settled[name]) for name, count in surplus.items()]
        removed, _ = distribute_by_weight(-difference, ordered(taken, key), CapacityLimits(), keep=True)
        return Division({name: count - removed.get(name, 0) for name, count in settled.items()}, overflow)
    if difference > 0:
        lacking = {name: desired[name] - count for name, count in settled.items() if desired[name] > count}
        maxima = {each.name: each.maximum for each in shares}
        given = [Share(name, count, 0, _reduced(maxima[name], settled[name])) for name, count in lacking.items()]
        added, _ = distribute_by_weight(difference, ordered(given, key), CapacityLimits(), keep=True)
        return Division({name: count + added.get(name, 0) for name, count in settled.items()}, overflow)
    return Division(settled, overflow)


def ordered(shares: Sequence[Share], key: str) -> list[Share]:
    """Order clusters by weight, largest first, then by the FNV-1 hash of name and key."""
    count = Counter([each.weight for each in shares])
    if len(count) == len(shares):
        return sorted(shares, key=_BY_WEIGHT, reverse=True)
    tied = [each.name for each in shares if count[each.weight] > 1]
    digests = dict(zip(tied, fnv1_32_of_names(tied, key.encode()), strict=True))
    return sorted(shares, key=lambda each: (-each.weight, digests.get(each.name)))


def only_grow(shares: Sequence[Share], limits: CapacityLimits) -> bool:
    """Return whether no step of a division takes replicas from a cluster: as long as all bounds are sound."""
    return min(limits.limited.values(), default=0) >= 0 and all(
        weight >= 0 <= minimum and (maximum is None or minimum <= maximum) for _, weight, minimum, maximum in shares
    )


def distribute_by_weight(
    total: int, shares: Sequence[Share], limits: CapacityLimits, *, keep: bool, left_out: int = 0
) -> Division:
    """Give minima in order, then the rest by weight, in passes, until a pass changes nothing."""
    distribution = _Distribution(total, shares, limits, left_out)
    distribution.give_minima()
    active = list(shares)
    while distribution.remaining > 0:
        before = distribution.grown
        active = distribution.pass_over(active)
        if distribution.grown == before:
            break
    overflow = distribution.overflow if keep else _trimmed(distribution.overflow, distribution.remaining)
    return Division(distribution.replicas, overflow)


class _Distribution:
    def __init__(self, total: int, shares: Sequence[Share], limits: CapacityLimits, left_out: int) -> None:
        self.remaining = total
        self.replicas = {each.name: 0 for each in shares}
        self.overflow: dict[str, int] = {}
        self.grown = 0
        self._shares = shares
        self._limits = limits
        self._left_out = left_out

    def give_minima(self) -> None:
        """Give each cluster its minimum. Maxima do not count here."""
        for each in self._shares:
            if not each.minimum and not self._limits.limited:
                continue
            given = min(each.minimum, self.remaining)
            given = min(given, self._limits.limited.get(each.name, given))
            given = self._within_estimate(each.name, given)
            self.replicas[each.name] = given
            self.remaining -= given

    def pass_over(self, active: list[Share]) -> list[Share]:
        """Give the remaining replicas by weight, once. Return the clusters that are not full afterwards."""
        weights = self._left_out + sum([each.weight for each in active])
        if weights <= 0:
            return active
        to_give, limited, estimated = self.remaining, self._limits.limited, self._limits.estimated
        not_full = []
        for each in active:
            name, weight, _, maximum = each
            before = self.replicas[name]
            taken = wanted = before + min(-(-to_give * weight // weights), self.remaining)
            if maximum is not None and maximum < taken:
                taken = maximum
            if limited:
                taken = min(taken, limited.get(name, taken))
            if estimated:
                taken = self._within_estimate(name, taken)
            if taken == wanted:
                not_full.append(each)
            if taken != before:
                self.remaining -= taken - before
                self.replicas[name] = taken
                self.grown += max(0, taken - before)
        return not_full

    def _within_estimate(self, name: str, replicas: int) -> int:
        estimated = self._limits.estimated.get(name)
        if estimated is None or replicas <= estimated:
            return replicas
        self.overflow[name] = self.overflow.get(name, 0) + replicas - estimated
        return estimated


def _trimmed(overflow: Mapping[str, int], limit: int) -> dict[str, int]:
    """Return the overflow of each cluster, at most ``limit``, without clusters that have none."""
    return {name: min(count, limit) for name, count in overflow.items() if min(count, limit) > 0}


def _reduced(maximum: int | None, settled: int) -> int | None:
    return None if maximum is None else maximum - settled


def may_divide_again(
    shares: Sequence[Share], current: Mapping[str, int], scheduled: Mapping[str, int], limits: CapacityLimits
) -> bool:
    """Return whether Binpack may divide again: the current division has settled, or is no longer possible."""
    selected = {each.name for each in shares}
    if any(name not in selected for name in current):
        return True
    if any(name in limits.limited and count > limits.limited[name] for name, count in current.items()):
        return True
    return all(
        limits.estimated[name] == count if name in limits.estimated else current.get(name, 0) == count
        for name, count in scheduled.items()
    )


def divide_in_order(
    total: int,
    shares: Sequence[Share],
    current: Mapping[str, int],
    scheduled: Mapping[str, int],
    limits: CapacityLimits,
    *,
    avoid_disruption: bool,
    keep_unschedulable: bool,
) -> Division:
    """Fill clusters in order. Unlike ``divide_by_weight``, differences are relative to ``total``.

    ``shares``: the clusters in the order in which they are filled. Weights do not count.
    """
    if not may_divide_again(shares, current, scheduled, limits):
        return Division(dict(current), {})
    keep = keep_unschedulable or not avoid_disruption
    desired, overflow = distribute_in_order(total, shares, limits)
    settled = {each.name: limits.capped(each.name, current.get(each.name, 0)) for each in shares}
    names = [each.name for each in shares if each.name in scheduled]
    running = sum(min(scheduled[name], limits.limited.get(name, scheduled[name])) for name in names)
    if not keep and running == total:
        return Division({name: scheduled[name] for name in names}, {})
    if not avoid_disruption:
        return Division(desired, overflow)
    if not keep:
        overflow = _trimmed(overflow, total - running)
    difference = sum(desired.values()) - sum(settled.values())
    if difference < 0:
        surplus = [each for each in reversed(shares) if desired[each.name] < settled[each.name]]
        bounds = [Share(each.name, 0, 0, settled[each.name]) for each in surplus]
        removed, _ = distribute_in_order(sum(settled.values()) - total, bounds, CapacityLimits())
        return Division({name: count - removed.get(name, 0) for name, count in settled.items()}, overflow)
    if difference > 0:
        lacking = [each for each in shares if desired[each.name] > settled[each.name]]
        bounds = [Share(each.name, 0, each.minimum, _reduced(each.maximum, settled[each.name])) for each in lacking]
        # As in KubeAdmiral, the limit applies to the increment, not to the sum.
        added, _ = distribute_in_order(total - sum(settled.values()), bounds, CapacityLimits(limited=limits.limited))
        return Division({name: count + added.get(name, 0) for name, count in settled.items()}, overflow)
    return Division(settled, overflow)


def distribute_in_order(total: int, shares: Sequence[Share], limits: CapacityLimits) -> Division:
    """Give minima in order, then give each cluster in order as many replicas as it takes."""
    minima = _Distribution(total, shares, limits, 0)
    minima.give_minima()
    remaining, replicas, overflow = minima.remaining, minima.replicas, minima.overflow
    for each in shares:
        wanted = replicas[each.name] + remaining
        wanted = wanted if each.maximum is None else min(wanted, each.maximum)
        wanted = min(wanted, limits.limited.get(each.name, wanted))
        estimated = limits.estimated.get(each.name)
        if estimated is not None and estimated < wanted:
            overflow[each.name] = max(wanted - estimated, overflow.get(each.name, 0))
            wanted = estimated
        remaining -= wanted - replicas[each.name]
        replicas[each.name] = wanted
    return Division(replicas, overflow)


def assign(context: Context, _compiled: CompiledPlacement, selected: Candidates) -> dict[str, int]:
    """Return replicas by cluster.

    In Divide mode clusters that get none are left out. Otherwise no numbers are assigned, and every cluster has 0.
    """
    unit = unit_of(context)
    if not unit.divide:
        return dict.fromkeys(selected.names(), 0)
    if not len(selected) or unit.replicas <= 0:
        return {}
    current = context.request.current
    limits = CapacityLimits(
        {name: count for name, count in unit.estimated_capacity.items() if count >= 0}, unit.limited_capacity
    )
    shares, left_out = _shares(context, unit, selected, limits)
    grow = only_grow(shares, limits)
    if not grow:
        shares, left_out = _shares(context, unit, selected, limits, every=True)
    # If nothing is there yet, dividing the difference would give the same replicas again.
    anew = grow and not (current or limits.estimated or unit.scheduled)
    keeping = {
        "avoid_disruption": unit.avoid_disruption and not anew,
        "keep_unschedulable": unit.keep_unschedulable,
    }
    if unit.strategy is ReplicasStrategy.BINPACK:
        division = divide_in_order(unit.replicas, shares, current, unit.scheduled, limits, **keeping)
    else:
        division = divide_by_weight(unit.replicas, shares, current, limits, unit.key, left_out=left_out, **keeping)
    total = division.replicas
    if division.overflow:
        names = [*total, *(name for name in division.overflow if name not in total)]
        total = {name: total.get(name, 0) + division.overflow.get(name, 0) for name in names}
    return {name: count for name, count in total.items() if count}


def _shares(
    context: Context, unit: SchedulingUnit, selected: Candidates, limits: CapacityLimits, *, every: bool = False
) -> tuple[list[Share], int]:
    """Return the shares of the clusters that the division can reach, and the sum of the weights of all others.

    A cluster with an untolerated NoSchedule taint cannot gain replicas. ``every``: return the shares of all clusters.
    """
    fleet, current, rows = context.fleet, context.request.current, selected.rows
    weights = division_weights(unit, fleet, selected)
    named = [unit.preferences, current, limits.limited, limits.estimated, unit.scheduled]
    bounded = fleet.holds(chain(*named))[rows]
    counts = untolerated_counts(fleet, unit.tolerations, _REPELLING)
    repelled = None if counts is None else counts[rows] > 0
    if repelled is not None:
        bounded |= repelled

    def digests(positions: IntArray) -> DigestArray:
        names = fleet.column("digest of names", lambda cluster: fnv1_32_of_name(cluster.name), np.uint32(0))
        return fnv1_32_continued(names.current()[rows[positions]], unit.key.encode())

    reached, left_out = reachable(unit.replicas, weights, bounded, digests)
    positions = np.arange(len(rows)) if every else reached.nonzero()[0]
    weighed = [0] * len(positions) if weights is None else weights[positions].tolist()
    repels = [False] * len(positions) if repelled is None else repelled[positions].tolist()
    shares = []
    for name, weight, repel in zip(selected.names_at(positions), weighed, repels, strict=True):
        preference = unit.preferences.get(name, NO_PREFERENCE)
        maximum = preference.maximum
        if repel:
            running = current.get(name, 0)
            maximum = running if maximum is None else min(maximum, running)
        shares.append(Share(name, weight, preference.minimum, maximum))
    return shares, 0 if every else left_out


def reachable(
    total: int, weights: IntArray | None, bounded: BoolArray, digests: Callable[[IntArray], DigestArray]
) -> tuple[BoolArray, int]:
    """Return which clusters can get replicas or have bounds of their own, and the sum of the weights of all others.

    A cluster without bounds takes at least one replica when it is visited, as long as there are any. So only the first
    ones of the order get replicas, at most as many clusters as replicas. This holds for shares that ``only_grow``.

    Args:
        weights: the weights. None if the clusters are filled in their order.
        bounded: which clusters have preferences, limits, taints or replicas.
        digests: returns the hashes that order clusters of equal weight, from their positions.
    """
    if weights is None:
        reached = bounded.copy()
        reached[bounded.argmin()] = True
        return reached, 0
    reached = bounded | (weights != 0)
    if np.count_nonzero(reached) <= max(total, _FEW_CLUSTERS):
        return reached, 0
    free = np.where(bounded, 0, weights)
    least = np.partition(free, -total)[-total]
    above = free > least
    tied = (free == least).nonzero()[0]
    reached = bounded | above | (free < 0)
    if least > 0:
        hashes, taken = digests(tied), total - np.count_nonzero(above)
        reached[tied[hashes <= np.partition(hashes, taken - 1)[taken - 1]]] = True
    return reached, int(free[~reached].sum())


def division_weights(unit: SchedulingUnit, fleet: Fleet, selected: Candidates) -> IntArray | None:
    """Return the weight of each cluster, by the policy if it sets any, else by capacity. Binpack has none.

    The weights of a policy are by name, and a missing one is 0, even if all are. Karmada's rules differ: if all weights
    are 0, they all count as 1.
    """
    if unit.strategy is ReplicasStrategy.BINPACK:
        return None
    given = {name: each.weight for name, each in unit.preferences.items() if each.weight is not None}
    if not given:
        name = GPU if GPU in unit.requests else "cpu"
        found = Allocation(fleet, selected.rows, name, unit.requests)
        return capacity_weights(whole_units(name, found.capacity), whole_units(name, found.free))
    weights = np.zeros(fleet.capacity, dtype=np.int64)
    for name, weight in given.items():
        if name in fleet.row_of:
            weights[fleet.row_of[name]] = weight
    return weights[selected.rows]


def capacity_weights(allocatable: IntArray, available: IntArray) -> IntArray:
    """Return weights that add up to 1000, by available resources, capped by allocatable resources.

    All arithmetic is in doubles, from left to right, as in KubeAdmiral. If several weights are the largest, KubeAdmiral
    adds the rounding difference to a random one. Here it is the first.
    """
    even = np.full(len(allocatable), floor(_SUM / len(allocatable) + 0.5))
    offered = np.maximum(available, 0)
    total_allocatable, total_offered = allocatable.sum(), offered.sum()
    if not total_offered:
        return even
    limits = _rounded(allocatable / total_allocatable * _SUM * _ALLOCATABLE_SHARE) if total_allocatable else even
    shares = np.minimum(_rounded(offered / total_offered * _SUM), limits)
    total_shares = shares.sum()
    if not total_shares:
        # Only clusters without allocatable resources have available ones. KubeAdmiral divides by zero here.
        return even
    weights = _rounded(shares / total_shares * _SUM)
    weights[weights.argmax()] += _SUM - weights.sum()
    return weights


def _rounded(values: NDArray[np.float64]) -> IntArray:
    """Round halves away from zero, as Go does. NumPy rounds halves to even."""
    return (values + np.copysign(0.5, values)).astype(np.int64)


class UnitReasons:
    """The reasons of one attempt."""

    def __init__(self, context: Context, _compiled: CompiledPlacement, attempt: Attempt) -> None:
        self._context = context
        self._attempt = attempt

    @cached_property
    def weights(self) -> Mapping[int, int]:
        selected = self._attempt.selected
        unit = unit_of(self._context)
        if selected is None or not len(selected) or not unit.divide:
            return {}
        weights = division_weights(unit, self._context.fleet, selected)
        return {} if weights is None else dict(zip(selected.rows.tolist(), weights.tolist(), strict=True))

    def not_selected(self, row: int) -> str:  # noqa: ARG002 - it is the same for every row
        selected = self._attempt.selected
        taken = 0 if selected is None else len(selected)
        return f"select plugins selected {taken} of {len(self._attempt.rows)} clusters that fit"

    def assigned(self, row: int, replicas: int) -> str:
        unit = unit_of(self._context)
        bounds = unit.preferences.get(self._name(row), NO_PREFERENCE)
        met = [
            f"{name} {value}"
            for name, value in (("minReplicas", bounds.minimum or None), ("maxReplicas", bounds.maximum))
            if unit.divide and value == replicas
        ]
        return f"it has its {' and its '.join(met)}" if met else ""

    def no_replicas(self, row: int) -> str:
        if unit_of(self._context).preferences.get(self._name(row), NO_PREFERENCE).maximum == 0:
            return "its maxReplicas is 0"
        return "its share is 0 replicas" if unit_of(self._context).replicas > 0 else "the workload requests no replicas"

    def _name(self, row: int) -> str:
        return self._context.fleet.names(np.array([row]))[0]

    def capacity(self, row: int) -> tuple[int | None, str]:  # noqa: ARG002 - it is the same for every row
        """Return no capacity: KubeAdmiral does not estimate it."""
        return None, ""
