"""Drift of a fleet: which workloads do not satisfy their policies, and how many replicas a repair moves.

Each workload is judged alone, with the capacity that the clusters report now. docs/drift.md has the rules.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from berthmaster.deciding.copies import missing_replicas
from berthmaster.deciding.move_course import ended, is_moving
from berthmaster.deciding.rules import OWN
from berthmaster.deciding.writes import assigned_group
from berthmaster.model.binding import Binding
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.goal import NOTHING, DriftKind
from berthmaster.scheduling.karmada.minimal import DEFAULT_TOLERANCE, decide_minimal
from berthmaster.scheduling.prices import CostChange, Costs, change_of, total_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.not_scheduled import why_not_scheduled
from berthmaster.simulation.scheduling_cycle import scheduler_of
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World

DEFAULT_PENDING_S: Final = 300.0


class WorkloadDrift(msgspec.Struct, frozen=True, rename="camel"):
    """The drift of one workload.

    Attributes:
        minimal, full: the same after a minimal repair, and after a full one.
        cost, full_cost: what each repair costs; null if no cluster has a price.
        moves, full_moves: the replicas that each repair starts or stops, whichever are more.
        is_exact: whether no repair is known to move less.
    """

    resource: str
    policy: str
    group: str
    kinds: dict[str, int]
    clusters: dict[str, int]
    minimal: dict[str, int]
    full: dict[str, int]
    moves: int
    full_moves: int
    is_exact: bool
    unplaced: str = ""
    cost: CostChange | None = None
    full_cost: CostChange | None = None


class DriftTotal(msgspec.Struct, frozen=True, rename="camel"):
    """The drift of the workloads of one policy or group, or of a whole fleet."""

    name: str
    workloads: int
    drifted: int
    moves: int
    full_moves: int


class ClusterDrift(msgspec.Struct, frozen=True, rename="camel"):
    """The replicas that a minimal repair takes from a cluster, and those that it adds."""

    name: str
    leaving: int
    arriving: int


class FleetDrift(msgspec.Struct, frozen=True, rename="camel"):
    """The drift of a fleet.

    Attributes:
        total: all workloads that a scheduler looks at.
        heuristic: the drifted workloads for which a repair with fewer moves may exist.
        unplaced: the workloads that no group can hold. They do not count as drifted.
        cost, full_cost: what a minimal and a full repair of all workloads cost; null if no cluster has a price.
    """

    total: DriftTotal
    heuristic: int
    unplaced: int
    kinds: dict[str, int]
    policies: list[DriftTotal]
    groups: list[DriftTotal]
    clusters: list[ClusterDrift]
    workloads: list[WorkloadDrift]
    cost: CostChange | None = None
    full_cost: CostChange | None = None


def workload_drifts(
    world: World,
    profile: Profile,
    now: datetime,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    pending_s: float = DEFAULT_PENDING_S,
) -> list[WorkloadDrift]:
    """Return the drift of each workload that a scheduler looks at.

    ``pending_s``: how long after the last scheduling replicas that do not run count, in seconds.
    """
    scheduler = scheduler_of(world, profile)
    costs = Costs(profile.prices, scheduler.fleet.get)
    return [
        workload_drift(
            scheduler, each, now, tolerance=tolerance, pending_s=pending_s, costs=costs, own=world.assumptions.scheduler
        )
        for each in world.workloads
        if each.present and why_not_scheduled(each, world.schedulers) is None
    ]


def workload_drift(
    scheduler: Scheduler,
    workload: SimulatedWorkload,
    now: datetime,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    pending_s: float = DEFAULT_PENDING_S,
    costs: Costs | None = None,
    own: str = OWN,
) -> WorkloadDrift:
    """Return the drift of a workload that a scheduler looks at. A move under way counts as ended.

    Args: see ``workload_drifts``. ``own`` is the name that Berthmaster's scheduler serves.
    """
    costs = costs or Costs(scheduler.profile.prices, scheduler.fleet.get)
    binding = workload.binding
    if binding is None:
        raise ValueError(f"{workload} has no binding, so that it has no drift")
    base = ended(scheduler, binding, now, own)
    request = Request.of(base)
    stuck = _stuck(base, scheduler.fleet, now, pending_s) if not is_moving(binding, own) else NOTHING
    decided = decide_minimal(scheduler, request, tolerance=tolerance, stuck=stuck)
    failure = decided.fresh.failure
    return WorkloadDrift(
        str(workload),
        str(workload.held_by) if workload.held_by is not None else "",
        assigned_group(base),
        {kind.value: decided.drift[kind] for kind in DriftKind if kind in decided.drift},
        request.current,
        dict(decided.assignment),
        decided.fresh.assignment,
        decided.moved,
        decided.moved_fresh,
        decided.is_exact,
        "" if failure is None else str(failure),
        change_of([costs.of(request, request.current, decided.assignment)]),
        None if failure is not None else change_of([costs.of(request, request.current, decided.fresh.assignment)]),
    )


def _stuck(binding: Binding, fleet: Fleet, now: datetime, pending_s: float) -> Mapping[str, int]:
    """Return the replicas that members report as not ready long after the last scheduling, by cluster."""
    scheduled = binding.status.last_scheduled_time
    if scheduled is not None and (now - scheduled).total_seconds() < pending_s:
        return NOTHING
    missing = missing_replicas(binding)
    return {name: count for name, count in missing.items() if (each := fleet.get(name)) is not None and each.ready}


def summary(found: Sequence[WorkloadDrift]) -> FleetDrift:
    """Return the drift of a fleet from that of its workloads."""
    drifted = sorted(
        (each for each in found if each.kinds), key=lambda each: (-each.moves, -each.full_moves, each.resource)
    )
    by_policy, by_group = defaultdict(list), defaultdict(list)
    for each in found:
        by_policy[each.policy].append(each)
        if each.group:
            by_group[f"{each.policy} {each.group}".strip()].append(each)
    leaving, arriving = Counter[str](), Counter[str]()
    for each in drifted:
        for name in each.clusters.keys() | each.minimal.keys():
            more = each.minimal.get(name, 0) - each.clusters.get(name, 0)
            (arriving if more > 0 else leaving)[name] += abs(more)
    clusters = [ClusterDrift(name, leaving[name], arriving[name]) for name in leaving.keys() | arriving.keys()]
    kinds = Counter(kind for each in drifted for kind in each.kinds)
    return FleetDrift(
        _total("", found),
        sum(not each.is_exact for each in drifted),
        sum(bool(each.unplaced) for each in found),
        {kind.value: kinds[kind.value] for kind in DriftKind if kinds[kind.value]},
        _totals(by_policy),
        _totals(by_group),
        sorted(
            (each for each in clusters if each.leaving or each.arriving),
            key=lambda each: (-max(each.leaving, each.arriving), each.name),
        ),
        drifted,
        total_of(each.cost for each in drifted),
        total_of(each.full_cost for each in found),
    )


def _totals(by_name: Mapping[str, Sequence[WorkloadDrift]]) -> list[DriftTotal]:
    totals = [_total(name, found) for name, found in by_name.items()]
    return sorted((each for each in totals if each.drifted), key=lambda each: (-each.moves, each.name))


def _total(name: str, found: Iterable[WorkloadDrift]) -> DriftTotal:
    every = list(found)
    drifted = [each for each in every if each.kinds]
    return DriftTotal(
        name, len(every), len(drifted), sum(each.moves for each in drifted), sum(each.full_moves for each in every)
    )
