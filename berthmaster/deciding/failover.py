"""Failover: replace assigned clusters that stay not ready (``--failover=not-ready``). Pure functions.

Karmada leaves this to taints and to evictions by other controllers. Here one group holds the whole workload. If the
group of the assignment can, healthy replicas stay, and lost replicas go to its ready clusters. Otherwise the whole
workload goes to the first group after it that can hold it. A drain uses the same rule.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from berthmaster.model.binding import Binding, GracefulEvictionTask
from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.placement import Placement
from berthmaster.scheduling.decision import Decision, Failure, FailureKind
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import GROUP_STEPS, TooLargeError, Work

REASON = "ClusterNotReady"


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """What happens to workloads on clusters that are not ready.

    Attributes:
        after_s: how long a cluster may be not ready; None disables failover.
    """

    after_s: float | None = None
    producer: str = "berthmaster"


@dataclass(frozen=True, slots=True)
class Replacement:
    """An assignment without lost clusters.

    Attributes:
        left: the lost clusters that it no longer contains.
        kept: the present replicas on the other clusters. They are healthy until they are removed.
    """

    clusters: dict[str, int]
    group: str
    left: tuple[str, ...]
    kept: Mapping[str, int] = field(default_factory=dict)


def replacement(
    scheduler: Scheduler, request: Request, lost: frozenset[str], *, leaves: bool = False
) -> Replacement | MoveRefusal:
    """Return an assignment without lost clusters, or the reason why the workload must stay.

    Args:
        scheduler: schedules. Clusters of its fleet that are not ready get no more replicas.
        leaves: whether a duplicated workload leaves the clusters even if no other cluster takes their copies, as long
            as a copy stays.
    """
    try:
        return _replacement(scheduler, request, lost, Work(scheduler.profile.limits.steps), leaves=leaves)
    except TooLargeError as error:
        return MoveRefusal(Cause.NO_PLACE, str(error), (FailureKind.TOO_LARGE.name,))


def remaining(request: Request, lost: frozenset[str]) -> Request:
    """Return the request for new places of what lost clusters had. What the others have is kept."""
    kept = {name: replicas for name, replicas in request.current.items() if name not in lost}
    return replace(request, current=kept, fresh=False, evicted_from=request.evicted_from | lost)


def _replacement(
    scheduler: Scheduler, request: Request, lost: frozenset[str], work: Work, *, leaves: bool
) -> Replacement | MoveRefusal:
    """See ``replacement``."""
    rest = remaining(request, lost)
    kept = rest.current
    unready = frozenset(each.name for each in scheduler.fleet if not each.ready)
    left = tuple(sorted(lost & request.current.keys()))
    problems: list[MoveRefusal] = []
    for index, placement in enumerate(_placements_by_group(scheduler, request)):
        if index and kept and not request.placement.divides:
            break  # kept copies belong to the first group: its next decision would remove copies in other groups
        asked = replace(rest, placement=placement)
        work.spend(GROUP_STEPS * len(placement.cluster_affinities or ()))
        found = _moved(scheduler, asked, unready, work) if index else _whole(scheduler, asked, unready, work)
        if isinstance(found, MoveRefusal):
            problems.append(found)
            continue
        clusters, group = found
        return Replacement(clusters, group, left, kept)
    if leaves and kept.keys() - unready and not request.placement.divides:
        return Replacement(kept, request.observed_group, left, kept)
    message = "; ".join(dict.fromkeys(each.message for each in problems)) or "there is no other cluster"
    return MoveRefusal(Cause.NO_PLACE, message, tuple(about for each in problems for about in each.about))


def eviction_tasks(binding: Binding, found: Replacement, producer: str) -> tuple[GracefulEvictionTask, ...]:
    """Return the tasks with which Karmada removes the workload from the lost clusters once it runs elsewhere."""
    replicas = binding.assignment
    known = binding.evicted_from
    return tuple(
        GracefulEvictionTask(
            name,
            producer=producer,
            reason=REASON,
            purge_mode=binding.cluster_purge_mode,
            message="the cluster was not ready for longer than the toleration",
            replicas=replicas[name] or None,
            clusters_before_failover=tuple(sorted(replicas)),
        )
        for name in found.left
        if name not in known
    )


def _placements_by_group(scheduler: Scheduler, request: Request) -> Iterator[Placement]:
    """Yield the placement reduced to the group of the assignment, then to each group after it."""
    terms = request.placement.cluster_affinities
    if terms is None:
        yield request.placement
        return
    start = scheduler.compile(request.placement).group_index(request.observed_group)
    for term in terms[start:]:
        yield replace(request.placement, cluster_affinities=(term,))


_Found = tuple[dict[str, int], str] | MoveRefusal
"""Replicas by cluster and their group, or why there are none."""


def _whole(scheduler: Scheduler, request: Request, unready: frozenset[str], work: Work) -> _Found:
    """Schedule the whole workload in one group.

    The result may take replicas from healthy clusters: static weights ignore the assignment, and labels may have
    changed. Then only the missing replicas are scheduled, except with spread constraints, which need the whole.
    """
    kept = request.current
    full = {**(request.bounds or {}), **dict.fromkeys(unready & kept.keys(), 0)}
    elsewhere = request.evicted_from | (unready - kept.keys())
    decision = scheduler.schedule(replace(request, evicted_from=elsewhere, bounds=full or None), work)
    if decision.failure is not None:
        return _refusal(decision.failure)
    if _keeps(request, decision.assignment, unready):
        return _gaining(request, decision.assignment, decision.group)
    strategy = strategy_of(request.placement.replica_scheduling)
    if request.placement.spread_constraints and strategy is not Strategy.STATIC_WEIGHT:
        return MoveRefusal(Cause.NO_PLACE, "healthy replicas would have to move", ("spread",))
    return _rest(scheduler, request, unready, work)


def _moved(scheduler: Scheduler, request: Request, unready: frozenset[str], work: Work) -> _Found:
    """Schedule the whole workload in a later group. The kept replicas go when the new ones are healthy."""
    elsewhere = request.evicted_from | unready
    decision = scheduler.schedule(replace(request, fresh=True, evicted_from=elsewhere), work)
    if decision.failure is not None:
        return _refusal(decision.failure)
    return decision.assignment, decision.group or ""


def _rest(scheduler: Scheduler, request: Request, unready: frozenset[str], work: Work) -> _Found:
    """Keep the healthy replicas, and schedule only the missing ones in one group."""
    missing = request.replicas - sum(request.current.values()) if request.placement.divides else request.replicas
    elsewhere = request.evicted_from | unready
    missing_only = replace(request, current={}, replicas=max(0, missing), evicted_from=elsewhere)
    decision = scheduler.schedule(missing_only, work)
    if decision.failure is not None:
        return _refusal(decision.failure)
    return _gaining(request, _together(request, decision), decision.group)


def _refusal(failure: Failure) -> MoveRefusal:
    if failure.kind is FailureKind.TOO_LARGE:
        raise TooLargeError(failure.message)
    return MoveRefusal(Cause.NO_PLACE, failure.message, (failure.kind.name,))


def _keeps(request: Request, clusters: dict[str, int], unready: frozenset[str]) -> bool:
    """Whether an assignment takes no kept replicas away, and adds none to kept clusters that are not ready."""
    kept = request.current
    if not request.placement.divides:
        return kept.keys() <= clusters.keys()
    shrinks = sum(kept.values()) > request.replicas
    return all(
        (shrinks or clusters.get(name, 0) >= replicas) and (name not in unready or clusters.get(name, 0) <= replicas)
        for name, replicas in kept.items()
    )


def _together(request: Request, decision: Decision) -> dict[str, int]:
    if not request.placement.divides:
        return {**request.current, **decision.assignment}
    names = [*request.current, *(name for name in decision.assignment if name not in request.current)]
    return {name: request.current.get(name, 0) + decision.assignment.get(name, 0) for name in names}


def _gaining(request: Request, clusters: dict[str, int], group: str | None) -> _Found:
    """Return an assignment if it adds replicas somewhere, or none are missing; otherwise staying is better."""
    kept = sum(request.current.values())
    if request.placement.divides and kept and kept >= request.replicas:
        return clusters, group or ""
    if any(replicas > request.current.get(name, -1) for name, replicas in clusters.items()):
        return clusters, group or ""
    return MoveRefusal(Cause.NO_PLACE, "no ready cluster can take its place", ("others",))
