"""Which clusters of a group take a workload: the best ones that can run all its replicas."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import INT64_MAX
from berthmaster.model.taint import NO_SCHEDULE
from berthmaster.scheduling.resources import Requests, free_amount
from extender.protocols.kubeadmiral.wire import PluginSchedulingUnit

DIVIDE: Final = "Divide"
NO_SCHEDULE_ONLY: Final = frozenset({NO_SCHEDULE})
_MAX_STEPS: Final = 2048


@dataclass(frozen=True, slots=True)
class CandidateCluster:
    """A cluster that select may choose. It can run ``capacity`` replicas, by its limits and its resources."""

    cluster: Cluster
    score: int
    min_replicas: int
    capacity: int


def capacity_of(
    unit: PluginSchedulingUnit, requests: Requests, cluster: Cluster, maximum: int | None, *, repelled: bool
) -> int:
    """Return how many replicas a cluster can run: its current replicas and those that fit its available resources.

    A cluster with a NoSchedule taint that is not tolerated keeps its current replicas. KubeAdmiral adds none.
    """
    summary = cluster.status.resource_summary
    fits = INT64_MAX
    for name, amount in requests:
        free = free_amount(summary, name) if summary is not None else 0
        fits = min(fits, max(0, free) // amount)
        if not fits:
            break  # a workload may request many resources that no cluster has
    running = _running(unit, cluster.name)
    fits = running if repelled else min(INT64_MAX, fits + running)
    return fits if maximum is None else min(fits, maximum)


def choose(unit: PluginSchedulingUnit, candidates: Sequence[CandidateCluster]) -> list[str] | str:
    """Return the clusters of a group that take the workload, the best first, or why they cannot.

    The clusters with the best scores come first. If these cannot run all replicas, the clusters with the largest
    capacity come first. A cluster without capacity, or with less capacity than its minimum, is not chosen.
    """
    if not candidates:
        return "none of its clusters is left"
    limit = len(candidates) if unit.max_clusters is None else unit.max_clusters
    by_score = sorted(candidates, key=lambda each: (-each.score, each.cluster.name))
    if unit.scheduling_mode != DIVIDE or not unit.desired_replicas or limit <= 0:
        return [each.cluster.name for each in by_score[: max(0, limit)]]
    usable = [each for each in by_score if each.capacity >= max(1, each.min_replicas)]
    most = 0
    for order in _orders(usable, unit.desired_replicas, limit):
        chosen = _within_minima(order, unit.desired_replicas, limit)
        capacity = sum(each.capacity for each in chosen.values())
        if capacity >= unit.desired_replicas:
            return [each.cluster.name for each in by_score if each.cluster.name in chosen]
        most = max(most, capacity)
    return f"{min(limit, len(usable))} of its clusters hold {most} of {unit.desired_replicas} replicas"


def _running(unit: PluginSchedulingUnit, name: str) -> int:
    """Return the replicas of a cluster. KubeAdmiral sends 0 for a cluster that has all replicas."""
    number = unit.current_replica_distribution.get(name)
    if number is None:
        return 0
    return number or unit.desired_replicas or 0


def _orders(usable: Sequence[CandidateCluster], replicas: int, limit: int) -> Iterator[Sequence[CandidateCluster]]:
    yield usable
    by_capacity = sorted(usable, key=lambda each: -each.capacity)
    yield by_capacity
    sufficient = _sufficient(by_capacity, replicas, limit)
    yield sorted(by_capacity, key=lambda each: each.cluster.name not in sufficient)


def _sufficient(by_capacity: Sequence[CandidateCluster], replicas: int, limit: int) -> set[str]:
    """Return the names of clusters that can run all replicas, with all their minima; empty if none are found.

    The clusters with the largest capacity may be wrong, if their minima leave too few replicas for others. The search
    is bounded.
    """
    totals = [0, *accumulate(each.capacity for each in by_capacity)]
    branches = [_Branch(0, 0, replicas, 0, None)]
    for _ in range(_MAX_STEPS):
        if not branches:
            break
        branch = branches.pop()
        if branch.capacity >= replicas:
            return branch.names()
        start, chosen, left, capacity, _ = branch
        reachable = totals[min(len(by_capacity), start + limit - chosen)] - totals[start]
        if capacity + reachable < replicas:
            continue
        each = by_capacity[start]
        branches.append(branch._replace(start=start + 1))
        if each.min_replicas <= left:
            taken = each.cluster.name, branch.taken
            branches.append(_Branch(start + 1, chosen + 1, left - each.min_replicas, capacity + each.capacity, taken))
    return set()


class _Branch(NamedTuple):
    """A part of the search: ``taken`` is the last chosen cluster and, in the same form, those before it."""

    start: int
    chosen: int
    left: int
    capacity: int
    taken: tuple[str, Any] | None

    def names(self) -> set[str]:
        names, taken = set(), self.taken
        while taken is not None:
            name, taken = taken
            names.add(name)
        return names


def _within_minima(order: Sequence[CandidateCluster], replicas: int, limit: int) -> dict[str, CandidateCluster]:
    """Return the first clusters whose minima do not exceed the replicas, by name."""
    chosen: dict[str, CandidateCluster] = {}
    left = replicas
    for each in order:
        if len(chosen) < limit and each.min_replicas <= left:
            chosen[each.cluster.name] = each
            left -= each.min_replicas
    return chosen
