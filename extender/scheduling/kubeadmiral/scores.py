"""KubeAdmiral's scores: integers, 0 to 100, added up without weights. Scores of all clusters are made together."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

from extender.scheduling.kubeadmiral.resources import cluster_resources, requested
from extender.scheduling.kubeadmiral.terms import labels_match
from extender.scheduling.kubeadmiral.unit import GPU, SchedulingUnit
from fleet.model.cluster import Cluster
from fleet.model.taint import PREFER_NO_SCHEDULE, tolerated

MAX_SCORE: Final = 100
_GPU_WEIGHT: Final = 4

Scorer = Callable[[SchedulingUnit, Sequence[Cluster]], list[int]]


def normalised(scores: list[int]) -> list[int]:
    """Scaled so that the best is 100, rounded toward zero; untouched if none is positive."""
    best = max([0, *scores])
    return [_truncated(MAX_SCORE * score, best) for score in scores] if best else scores


def taint_toleration(unit: SchedulingUnit, clusters: Sequence[Cluster]) -> list[int]:
    """TaintToleration: fewer PreferNoSchedule taints that are not tolerated are better."""
    tolerations = [each for each in unit.tolerations if each.effect in {"", PREFER_NO_SCHEDULE}]
    counts = [
        sum(taint.effect == PREFER_NO_SCHEDULE and not tolerated(taint, tolerations) for taint in cluster.spec.taints)
        for cluster in clusters
    ]
    worst = max(counts, default=0)
    return [MAX_SCORE - MAX_SCORE * count // worst for count in counts] if worst else [MAX_SCORE] * len(counts)


def cluster_affinity(unit: SchedulingUnit, clusters: Sequence[Cluster]) -> list[int]:
    """ClusterAffinity: the weights of the preferred terms that match. An invalid term fails all of scheduling."""
    weighted = [(weight, term) for weight, term in unit.preferred if weight]
    return normalised([sum(weight for weight, term in weighted if labels_match(term, each)) for each in clusters])


def least_allocated(unit: SchedulingUnit, clusters: Sequence[Cluster]) -> list[int]:
    """ClusterResourcesLeastAllocated: more room is better."""
    return [_by_allocation(unit, cluster, lambda wanted, cap: cap - wanted) for cluster in clusters]


def most_allocated(unit: SchedulingUnit, clusters: Sequence[Cluster]) -> list[int]:
    """ClusterResourcesMostAllocated: less room is better."""
    return [_by_allocation(unit, cluster, lambda wanted, _: wanted) for cluster in clusters]


def balanced_allocation(unit: SchedulingUnit, clusters: Sequence[Cluster]) -> list[int]:
    """ClusterResourcesBalancedAllocation: resources used to the same degree are better."""
    return [_balance(unit, cluster) for cluster in clusters]


def _by_allocation(unit: SchedulingUnit, cluster: Cluster, share: Callable[[int, int], int]) -> int:
    total = weights = 0
    for name, wanted, cap in _allocations(unit, cluster):
        weight = _GPU_WEIGHT if name == GPU else 1
        weights += weight
        if cap and wanted <= cap:
            total += weight * (share(wanted, cap) * MAX_SCORE // cap)
    return total // weights


def _balance(unit: SchedulingUnit, cluster: Cluster) -> int:
    fractions = [wanted / cap if cap else 1.0 for _, wanted, cap in _allocations(unit, cluster)]
    if any(fraction >= 1 for fraction in fractions):
        return 0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions) / len(fractions)
        deviation = sqrt(sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
    return int((1 - deviation) * MAX_SCORE)


def _allocations(unit: SchedulingUnit, cluster: Cluster) -> list[tuple[str, int, int]]:
    """(resource, used with one more replica, what there is), for all resources that scores look at."""
    resources, wanted = cluster_resources(cluster), requested(unit)
    names = ["cpu", "memory", *(name for name in wanted if name not in {"cpu", "memory", "ephemeral-storage"})]
    if wanted.get("ephemeral-storage"):
        names.append("ephemeral-storage")
    return [(name, resources.used(name) + wanted.get(name, 0), resources.allocatable(name)) for name in names]


def _truncated(dividend: int, divisor: int) -> int:
    """Integer division toward zero, as Go's."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


SCORES: Final[dict[str, Scorer]] = {
    "TaintToleration": taint_toleration,
    "ClusterResourcesBalancedAllocation": balanced_allocation,
    "ClusterResourcesLeastAllocated": least_allocated,
    "ClusterAffinity": cluster_affinity,
    "ClusterResourcesMostAllocated": most_allocated,
}
DEFAULT_SCORES: Final = tuple(name for name in SCORES if name != "ClusterResourcesMostAllocated")
