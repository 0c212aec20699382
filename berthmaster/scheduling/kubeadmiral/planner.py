"""The Spread planner: replicas by weight within bounds (KubeAdmiral ``util/planner``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from berthmaster.scheduling.kubeadmiral.fnv import fnv1_32


class Share(NamedTuple):
    """One cluster's part in a distribution; no maximum is None."""

    name: str
    weight: int
    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What clusters hold, by name; a cluster that is not named holds everything.

    Attributes:
        estimated: what it turned out to hold. What this cuts off is reported as overflow.
        limited: what it may hold.
    """

    estimated: Mapping[str, int] = field(default_factory=dict)
    limited: Mapping[str, int] = field(default_factory=dict)

    def capped(self, name: str, replicas: int) -> int:
        """So many replicas, or as many as the cluster holds."""
        return min(replicas, self.limited.get(name, replicas), self.estimated.get(name, replicas))


class Plan(NamedTuple):
    """Replicas by cluster, and those that were cut off by an estimate but are counted there as well."""

    replicas: dict[str, int]
    overflow: dict[str, int]


def plan(
    total: int,
    shares: Sequence[Share],
    current: Mapping[str, int],
    limits: Limits,
    key: str,
    *,
    avoid_disruption: bool,
    keep_unschedulable: bool,
) -> Plan:
    """Divide replicas over clusters.

    Args:
        total: how many there are.
        shares: the clusters with weights and bounds.
        current: replicas that are there now.
        limits: what clusters hold.
        key: breaks ties, with the names.
        avoid_disruption: move no more of the current replicas than it takes.
        keep_unschedulable: count what an estimate cuts off in full, not only what finds no other place.
    """
    keep = keep_unschedulable or not avoid_disruption
    desired, overflow = distribute(total, ordered(shares, key), limits, keep=keep)
    if not avoid_disruption:
        return Plan(desired, overflow)
    settled = {each.name: limits.capped(each.name, current.get(each.name, 0)) for each in shares}
    difference = sum(desired.values()) - sum(settled.values())
    if difference < 0:
        surplus = {name: count - desired[name] for name, count in settled.items() if desired[name] < count}
        taken = [Share(name, count, 0, settled[name]) for name, count in surplus.items()]
        removed, _ = distribute(-difference, ordered(taken, key), Limits(), keep=True)
        return Plan({name: count - removed.get(name, 0) for name, count in settled.items()}, overflow)
    if difference > 0:
        lacking = {name: desired[name] - count for name, count in settled.items() if desired[name] > count}
        maxima = {each.name: each.maximum for each in shares}
        given = [Share(name, count, 0, _less(maxima[name], settled[name])) for name, count in lacking.items()]
        added, _ = distribute(difference, ordered(given, key), Limits(), keep=True)
        return Plan({name: count + added.get(name, 0) for name, count in settled.items()}, overflow)
    return Plan(settled, overflow)


def ordered(shares: Sequence[Share], key: str) -> list[Share]:
    """By weight, the heaviest first, then by the FNV-1 hash of name and key."""
    return sorted(shares, key=lambda each: (-each.weight, fnv1_32((each.name + key).encode())))


def distribute(total: int, shares: Sequence[Share], limits: Limits, *, keep: bool) -> Plan:
    """Give minima in order, then the rest by weight, in passes, until nothing changes any more."""
    distribution = _Distribution(total, shares, limits)
    distribution.give_minima()
    active = list(shares)
    while distribution.remaining > 0:
        before = distribution.grown
        active = distribution.pass_over(active)
        if distribution.grown == before:
            break
    overflow = distribution.overflow
    if not keep:
        trimmed = {name: min(count, distribution.remaining) for name, count in overflow.items()}
        overflow = {name: count for name, count in trimmed.items() if count > 0}
    return Plan(distribution.replicas, overflow)


class _Distribution:
    def __init__(self, total: int, shares: Sequence[Share], limits: Limits) -> None:
        self.remaining = total
        self.replicas = {each.name: 0 for each in shares}
        self.overflow: dict[str, int] = {}
        self.grown = 0
        self._shares = shares
        self._limits = limits

    def give_minima(self) -> None:
        """Maxima play no part here."""
        for each in self._shares:
            given = min(each.minimum, self.remaining)
            given = min(given, self._limits.limited.get(each.name, given))
            given = self._within_estimate(each.name, given)
            self.replicas[each.name] = given
            self.remaining -= given

    def pass_over(self, active: list[Share]) -> list[Share]:
        """One pass by weight; the clusters that are not full after it."""
        weights = sum(each.weight for each in active)
        if weights <= 0:
            return active
        to_give = self.remaining
        not_full = []
        for each in active:
            extra = min(-(-to_give * each.weight // weights), self.remaining)
            wanted = self.replicas[each.name] + extra
            taken = wanted if each.maximum is None else min(wanted, each.maximum)
            taken = min(taken, self._limits.limited.get(each.name, taken))
            taken = self._within_estimate(each.name, taken)
            if taken == wanted:
                not_full.append(each)
            growth = taken - self.replicas[each.name]
            self.remaining -= growth
            self.replicas[each.name] = taken
            self.grown += max(0, growth)
        return not_full

    def _within_estimate(self, name: str, replicas: int) -> int:
        estimated = self._limits.estimated.get(name)
        if estimated is None or replicas <= estimated:
            return replicas
        self.overflow[name] = self.overflow.get(name, 0) + replicas - estimated
        return estimated


def _less(maximum: int | None, settled: int) -> int | None:
    return None if maximum is None else maximum - settled
