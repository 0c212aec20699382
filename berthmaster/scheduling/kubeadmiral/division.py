"""Assignment: how many replicas each selected cluster gets, by the Spread or the Binpack planner, and why."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import floor
from typing import Final

from berthmaster.model.cluster import NO_SCHEDULE
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.compiled_placement import CompiledPlacement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt
from berthmaster.scheduling.filters import untolerated_counts
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.allocation import Allocation
from berthmaster.scheduling.kubeadmiral.planners import CapacityLimits, Share, divide_by_weight, divide_in_order
from berthmaster.scheduling.kubeadmiral.unit import GPU, ReplicasStrategy, SchedulingUnit, unit_of

_SUM: Final = 1000
_ALLOCATABLE_SHARE: Final = 1.4
"""The largest weight of a cluster, as a multiple of its share of all allocatable resources."""


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
    shares = _shares(context, unit, selected)
    keeping = {"avoid_disruption": unit.avoid_disruption, "keep_unschedulable": unit.keep_unschedulable}
    if unit.strategy is ReplicasStrategy.BINPACK:
        division = divide_in_order(unit.replicas, shares, current, unit.scheduled, limits, **keeping)
    else:
        division = divide_by_weight(unit.replicas, shares, current, limits, unit.key, **keeping)
    names = [*division.replicas, *(name for name in division.overflow if name not in division.replicas)]
    total = {name: division.replicas.get(name, 0) + division.overflow.get(name, 0) for name in names}
    return {name: count for name, count in total.items() if count}


def _weights(context: Context, selected: Candidates) -> dict[str, int]:
    """Return the weight of each selected cluster by name. Empty for Binpack."""
    unit = unit_of(context)
    if not len(selected) or unit.strategy is ReplicasStrategy.BINPACK:
        return {}
    return division_weights(unit, context.fleet, selected)


def _shares(context: Context, unit: SchedulingUnit, selected: Candidates) -> list[Share]:
    weights = _weights(context, selected)
    counts = untolerated_counts(context.fleet, unit.tolerations, frozenset({NO_SCHEDULE}))[selected.rows]
    return [
        _share(unit, name, weights.get(name, 0), context.request.current, repels=bool(count))
        for name, count in zip(selected.names(), counts.tolist(), strict=True)
    ]


def _share(unit: SchedulingUnit, name: str, weight: int, current: Mapping[str, int], *, repels: bool) -> Share:
    """Return a cluster's bounds. A cluster with an untolerated NoSchedule taint cannot gain replicas."""
    preference = unit.preference(name)
    maximum = preference.maximum
    if repels:
        running = current.get(name, 0)
        maximum = running if maximum is None else min(maximum, running)
    return Share(name, weight, preference.minimum, maximum)


def division_weights(unit: SchedulingUnit, fleet: Fleet, selected: Candidates) -> dict[str, int]:
    """Return the weight of each cluster: those of the policy if it sets any, else weights by capacity.

    The weights of a policy are by name, and a missing one is 0, even if all are. Karmada's rules differ: if all weights
    are 0, they all count as 1.
    """
    names = selected.names()
    if any(each.weight is not None for each in unit.preferences.values()):
        return {name: unit.preference(name).weight or 0 for name in names}
    capacity = Allocation(fleet, selected.rows, GPU if GPU in unit.requests else "cpu", unit.requests)
    weights = capacity_weights(capacity.capacity_units().tolist(), capacity.free_units().tolist())
    return dict(zip(names, weights, strict=True))


def capacity_weights(allocatable: Sequence[int], available: Sequence[int]) -> list[int]:
    """Return weights that add up to 1000, by available resources, capped by allocatable resources.

    All arithmetic is in doubles, from left to right, as in KubeAdmiral. If several weights are the largest, KubeAdmiral
    adds the rounding difference to a random one. Here it is the first.
    """
    count = len(allocatable)
    even = [_rounded(_SUM / count)] * count
    offered = [max(0, each) for each in available]
    total_allocatable, total_offered = sum(allocatable), sum(offered)
    limits = (
        [_rounded(each / total_allocatable * _SUM * _ALLOCATABLE_SHARE) for each in allocatable]
        if total_allocatable
        else even
    )
    if not total_offered:
        return even
    shares = [min(_rounded(each / total_offered * _SUM), limit) for each, limit in zip(offered, limits, strict=True)]
    total_shares = sum(shares)
    if not total_shares:
        # Only clusters without allocatable resources have available ones. KubeAdmiral divides by zero here.
        return even
    weights = [_rounded(each / total_shares * _SUM) for each in shares]
    weights[weights.index(max(weights))] += _SUM - sum(weights)
    return weights


def _rounded(value: float) -> int:
    """Round half away from zero, as Go does. Python rounds half to even."""
    return floor(value + 0.5) if value >= 0 else -floor(-value + 0.5)


class UnitReasons:
    """The reasons of one attempt."""

    def __init__(self, context: Context, _compiled: CompiledPlacement, attempt: Attempt) -> None:
        self._context = context
        self._attempt = attempt

    @cached_property
    def weights(self) -> Mapping[int, int]:
        selected = self._attempt.selected
        if selected is None or not unit_of(self._context).divide:
            return {}
        row_of = self._context.fleet.row_of
        return {row_of[name]: weight for name, weight in _weights(self._context, selected).items()}

    def not_selected(self, row: int) -> str:  # noqa: ARG002 - it is the same for every row
        selected = self._attempt.selected
        taken = 0 if selected is None else len(selected)
        return f"select plugins selected {taken} of {len(self._attempt.rows)} clusters that fit"

    def no_replicas(self, row: int) -> str:  # noqa: ARG002 - it is the same for every row
        return "its share is 0 replicas" if unit_of(self._context).replicas > 0 else "the workload requests no replicas"

    def capacity(self, row: int) -> tuple[int | None, str]:  # noqa: ARG002 - it is the same for every row
        """Return no capacity: KubeAdmiral does not estimate it."""
        return None, ""
