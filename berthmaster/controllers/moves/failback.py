"""Failback: whether a workload could return to an earlier group. Pure functions of the fleet and the binding."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec.structs
import numpy as np

from berthmaster.model.binding import Binding
from berthmaster.model.placement import Placement
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.work import TooLargeError


class Target(NamedTuple):
    """Where a workload could go.

    Attributes:
        clusters: replicas by cluster.
        group: the group; empty without groups.
    """

    clusters: dict[str, int]
    group: str


def rank(scheduler: Scheduler, placement: Placement, group: str, clusters: Mapping[str, int]) -> tuple[int, bool]:
    """Return how far an assignment is from what its policy prefers: the index of its group, and whether it overflows.

    A smaller value is better. ``(0, False)`` is the best; nothing can be gained then.
    """
    if not placement.cluster_affinities:
        return 0, False
    try:
        compiled = scheduler.compile(placement)
    except TooLargeError:
        return 0, False
    index = compiled.group_index(group)
    own, overflow = compiled.groups[index].own, compiled.groups[index].overflow
    if not overflow or own is None:
        return index, False
    fleet = scheduler.fleet
    rows = np.array([fleet.row_of[name] for name in clusters if name in fleet.row_of], dtype=np.int64)
    return index, not bool(own.current()[rows].all())


def earlier_target(
    scheduler: Scheduler,
    binding: Binding,
    avoided: frozenset[str],
    headroom_percent: int,
    bounds: Mapping[str, int] | None = None,
) -> Target | str:
    """Return the best earlier group that can hold a workload, by full decisions; a text says why none can.

    Args:
        scheduler: schedules on the present fleet.
        binding: the binding, with the effective group of its assignment.
        avoided: clusters that get nothing, for example those that are not ready.
        headroom_percent: the capacity beyond the replicas that must be free, in percent of them.
        bounds: more replicas that clusters can take, as their estimators report; None if none was asked.
    """
    placement = binding.spec.placement
    if placement is None:
        return "it has no placement"
    request = replace(Request.of(binding), fresh=True, bounds=bounds)
    request = replace(request, evicted_from=request.evicted_from | avoided)
    more = -(-request.replicas * (100 + headroom_percent) // 100)
    problems = []
    for name, reduced in _better_groups(scheduler, request, placement):
        asked = replace(request, placement=reduced)
        decision = scheduler.schedule(replace(asked, replicas=more))
        if decision.failure is None and more != request.replicas:
            decision = scheduler.schedule(asked)
        if decision.failure is None:
            return Target(decision.assignment, name)
        problems.append(f"group {name}: {decision.failure.message}")
    return "; ".join(problems) or "it is in its first group"


def _better_groups(scheduler: Scheduler, request: Request, placement: Placement) -> Iterator[tuple[str, Placement]]:
    """Yield the placement reduced to each group that is better than the present one, the best one first."""
    index, overflows = rank(scheduler, placement, request.observed_group, request.current)
    terms = placement.cluster_affinities or ()
    for term in terms[:index]:
        yield term.affinity_name, msgspec.structs.replace(placement, cluster_affinities=(term,))
    if overflows:
        own = msgspec.structs.replace(terms[index], overflow_affinities=None)
        yield own.affinity_name, msgspec.structs.replace(placement, cluster_affinities=(own,))
