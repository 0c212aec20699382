"""Where the replicas of clusters that stay not ready go (``--failover=not-ready``): pure.

Karmada leaves this to taints and evictions by its controllers. Here what is healthy keeps what it has; what is lost is
placed on ready clusters, of the group that the assignment came from if they hold it, else of the groups after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec.structs

from berthmaster.model.binding import Binding, GracefulEvictionTask
from berthmaster.model.placement import Placement
from berthmaster.scheduling.compiled_placement import Strategy, strategy_of
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

REASON = "ClusterNotReady"


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """What happens to workloads on clusters that are not ready.

    Attributes:
        after_s: how long a cluster may be not ready; None if nothing is to happen (Karmada's taints see to it).
        producer: by which name eviction tasks say who made them.
    """

    after_s: float | None = None
    producer: str = "berthmaster"


@dataclass(frozen=True, slots=True)
class Replacement:
    """An assignment without the clusters that are lost.

    Attributes:
        clusters: replicas by cluster.
        group: the group that it counts as coming from; empty without groups.
        left: the clusters that are left.
    """

    clusters: dict[str, int]
    group: str
    left: tuple[str, ...]


def replacement(scheduler: Scheduler, request: Request, lost: frozenset[str]) -> Replacement | str:
    """Where a workload goes without some of its clusters, or why it has to stay.

    Args:
        scheduler: decides; clusters of its fleet that are not ready take nothing over.
        request: the workload with its whole assignment.
        lost: the clusters of its assignment that are given up.
    """
    kept = {name: replicas for name, replicas in request.current.items() if name not in lost}
    remaining = replace(request, current=kept, fresh=False, evicted_from=request.evicted_from | lost)
    unready = frozenset(each.name for each in scheduler.fleet.clusters if each is not None and not each.ready)
    left = tuple(sorted(lost & request.current.keys()))
    problems = []
    for turn, placement in enumerate(_turns(scheduler, request)):
        if turn and kept and not _divided(request):
            break  # copies that are kept are of the first group: its next decision would take away all others again
        asked = replace(remaining, placement=placement)
        found = _rest(scheduler, asked, unready) if turn else _whole(scheduler, asked, unready)
        if isinstance(found, str):
            problems.append(found)
            continue
        clusters, group = found
        return Replacement(clusters, request.observed_group if turn and kept else group, left)
    return "; ".join(dict.fromkeys(problems)) or "there is no other cluster"


def eviction_tasks(binding: Binding, found: Replacement, producer: str) -> tuple[GracefulEvictionTask, ...]:
    """The tasks by which Karmada takes the workload off the clusters that are left, once it runs elsewhere."""
    cluster_failover = binding.spec.failover.cluster if binding.spec.failover is not None else None
    purge_mode = (cluster_failover.purge_mode if cluster_failover is not None else "") or "Gracefully"
    replicas = {target.name: target.replicas for target in binding.spec.clusters}
    known = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    return tuple(
        GracefulEvictionTask(
            name,
            producer=producer,
            reason=REASON,
            purge_mode=purge_mode,
            message="the cluster has not been ready for longer than is tolerated",
            replicas=replicas[name] or None,
            clusters_before_failover=tuple(sorted(replicas)),
        )
        for name in found.left
        if name not in known
    )


def _turns(scheduler: Scheduler, request: Request) -> Iterator[Placement]:
    """The placement cut down to the group that the assignment came from, then to each one after it."""
    terms = request.placement.cluster_affinities
    if terms is None:
        yield request.placement
        return
    start = scheduler.compile(request.placement).group_index(request.observed_group)
    for term in terms[start:]:
        yield msgspec.structs.replace(request.placement, cluster_affinities=(term,))


_Found = tuple[dict[str, int], str] | str
"""Replicas by cluster and the group that they come from, or why there are none."""


def _whole(scheduler: Scheduler, request: Request, unready: frozenset[str]) -> _Found:
    """What a group makes of all of a workload, with what is kept counted in.

    Where that takes from what is kept - fixed weights look at no assignment, labels may have changed since - the group
    is asked for the rest alone; not so under spread constraints, which only hold for the whole.
    """
    kept = request.current
    full = {**(request.bounds or {}), **dict.fromkeys(unready & kept.keys(), 0)}
    elsewhere = request.evicted_from | (unready - kept.keys())
    decision = scheduler.schedule(replace(request, evicted_from=elsewhere, bounds=full or None))
    if decision.failure is not None:
        return decision.failure.message
    if _keeps(request, decision.assignment, unready):
        return _gaining(request, decision.assignment, decision.group)
    strategy = strategy_of(request.placement.replica_scheduling)
    if request.placement.spread_constraints and strategy is not Strategy.STATIC_WEIGHT:
        return "what is healthy would have to move"
    return _rest(scheduler, request, unready)


def _rest(scheduler: Scheduler, request: Request, unready: frozenset[str]) -> _Found:
    """What is kept, and where a group puts only what is missing."""
    missing = request.replicas - sum(request.current.values()) if _divided(request) else request.replicas
    elsewhere = request.evicted_from | unready
    decision = scheduler.schedule(replace(request, current={}, replicas=max(0, missing), evicted_from=elsewhere))
    if decision.failure is not None:
        return decision.failure.message
    return _gaining(request, _together(request, decision), decision.group)


def _keeps(request: Request, clusters: dict[str, int], unready: frozenset[str]) -> bool:
    """Whether an assignment takes nothing from what is kept, and adds nothing to what of it is not ready."""
    kept = request.current
    if not _divided(request):
        return kept.keys() <= clusters.keys()
    shrinks = sum(kept.values()) > request.replicas
    return all(
        (shrinks or clusters.get(name, 0) >= replicas) and (name not in unready or clusters.get(name, 0) <= replicas)
        for name, replicas in kept.items()
    )


def _together(request: Request, decision: Decision) -> dict[str, int]:
    """What is kept and what a later group adds to it."""
    if not _divided(request):
        return {**request.current, **decision.assignment}
    names = [*request.current, *(name for name in decision.assignment if name not in request.current)]
    return {name: request.current.get(name, 0) + decision.assignment.get(name, 0) for name in names}


def _divided(request: Request) -> bool:
    scheduling = request.placement.replica_scheduling
    return scheduling is not None and scheduling.replica_scheduling_type == "Divided"


def _gaining(request: Request, clusters: dict[str, int], group: str | None) -> _Found:
    """An assignment, if anything is gained anywhere, or nothing is missing: only to lose a cluster helps nobody."""
    kept = sum(request.current.values())
    if _divided(request) and kept and kept >= request.replicas:
        return clusters, group or ""
    if any(replicas > request.current.get(name, -1) for name, replicas in clusters.items()):
        return clusters, group or ""
    return "no ready cluster takes their place"
