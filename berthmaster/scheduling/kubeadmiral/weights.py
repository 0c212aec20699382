"""The weights of Spread division (KubeAdmiral's ``rsp`` plugin, ClusterCapacityWeight)."""

from collections.abc import Sequence
from math import floor
from typing import Final

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.allocation import Allocation
from berthmaster.scheduling.kubeadmiral.unit import GPU, SchedulingUnit

_SUM: Final = 1000
_ALLOCATABLE_SHARE: Final = 1.4
"""A cluster weighs at most so many times its share of all that is allocatable."""


def division_weights(unit: SchedulingUnit, fleet: Fleet, selected: Candidates) -> dict[str, int]:
    """The weight of each cluster: those of the policy if it gives any, else by what clusters have to offer.

    A policy's weights are by name, and none is 0 - even if all are, unlike Karmada's rules, which then count alike.
    """
    names = selected.names()
    if any(each.weight is not None for each in unit.preferences.values()):
        return {name: unit.preference(name).weight or 0 for name in names}
    offer = Allocation(fleet, selected.rows, GPU if GPU in unit.requests else "cpu", unit.requests)
    weights = capacity_weights(offer.capacity_units().tolist(), offer.left_units().tolist())
    return dict(zip(names, weights, strict=True))


def capacity_weights(allocatable: Sequence[int], available: Sequence[int]) -> list[int]:
    """Weights that add up to 1000, by what is available, capped by what is allocatable.

    All arithmetic is in doubles, from left to right, as KubeAdmiral's. Which of several equal largest weights takes
    the rounding difference is random there; here it is the first.
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
        # Something is available where nothing is allocatable: KubeAdmiral divides by zero here.
        return even
    weights = [_rounded(each / total_shares * _SUM) for each in shares]
    weights[weights.index(max(weights))] += _SUM - sum(weights)
    return weights


def _rounded(value: float) -> int:
    """Half away from zero, as Go rounds; Python rounds half to even."""
    return floor(value + 0.5) if value >= 0 else -floor(-value + 0.5)
