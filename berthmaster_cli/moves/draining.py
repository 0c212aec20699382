"""What a drain of clusters has left to do, and what stays. Pure functions of bindings and clusters."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from berthmaster.deciding.move_targets import Target, drain_target
from berthmaster.deciding.writes import effective
from berthmaster.model.binding import Binding, names_scheduler, short_assignment
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.cluster import Cluster, Taint, repelling_taints
from berthmaster.model.move import AFTER_FAILURE, DRAINING, as_moved, move_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.views.move_rows import workload_of

_TAINT: Final = Taint(key=DRAINING, effect="NoSchedule")


class DrainState(Enum):
    """Why a workload is still on a cluster that is being drained."""

    MOVING = "moving"
    WAITING = "waiting"
    """A move wants to begin, and the message says what it waits for; or none has begun yet."""
    NOT_OURS = "not ours"
    TOLERATES = "tolerates"
    SUSPENDED = "suspended"


STAYING: Final = frozenset({DrainState.NOT_OURS, DrainState.TOLERATES, DrainState.SUSPENDED})
"""What stays however long the drain lasts."""


class DrainRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A workload on clusters that are being drained. ``message`` is what it waits for, or where it would go."""

    workload: str
    clusters: Mapping[str, int]
    state: DrainState
    message: str = ""


@dataclass(frozen=True, slots=True)
class DrainContext:
    """What a drain depends on."""

    draining: frozenset[str]
    scheduler_name: str
    braked: str = ""


def rows_left(bindings: Iterable[Binding], context: DrainContext) -> list[DrainRow]:
    """Return the workloads that are still on the clusters, in the order of their states and names."""
    rows = [row for each in bindings if (row := row_left(each, context)) is not None]
    return _sorted(rows)


def row_left(binding: Binding, context: DrainContext) -> DrainRow | None:
    """Return the row of a binding; None if nothing of it is on the clusters.

    A cluster that an eviction task names still runs the workload. A binding that only follows another one has no
    assignment of its own, and leaves with it.
    """
    here = {each.name: each.replicas for each in binding.spec.clusters if each.name in context.draining}
    for task in binding.spec.graceful_eviction_tasks:
        if task.from_cluster in context.draining:
            here.setdefault(task.from_cluster, task.replicas or 0)
    if not here:
        return None
    state, message = _state(binding, context)
    return DrainRow(workload_of(binding), here, state, message)


def _state(binding: Binding, context: DrainContext) -> tuple[DrainState, str]:
    spec = binding.spec
    if binding.suspended:
        return DrainState.SUSPENDED, "its scheduling is suspended"
    if not names_scheduler(binding, context.scheduler_name):
        return DrainState.NOT_OURS, f"{binding.scheduler} schedules it"
    if not any(binding.metadata.labels.get(label) for label in MANAGED_BY):
        return DrainState.NOT_OURS, "no policy claims it"
    if spec.placement is not None and not repelling_taints([_TAINT], spec.placement.cluster_tolerations):
        return DrainState.TOLERATES, f"its placement tolerates the taint {DRAINING}"
    if not any(each.name in context.draining for each in spec.clusters):
        return DrainState.MOVING, "its old copy is being removed"
    move = move_of(binding)
    if move is not None and move.under_way:
        where = short_assignment(move.target)
        waits = f"; storm brake: {context.braked}" if context.braked else ""
        return DrainState.MOVING, f"{move.phase.value}, to {where}{waits}"
    if context.braked:
        return DrainState.WAITING, f"storm brake: {context.braked}"
    if move is None:
        return DrainState.WAITING, "no move has begun"
    if move.held_down_until is not None and move.phase in AFTER_FAILURE:
        return DrainState.WAITING, f"held down until {move.held_down_until:%Y-%m-%d %H:%M:%SZ}: {move.message}"
    return DrainState.WAITING, move.message or move.phase.value


def planned(
    bindings: Sequence[Binding], clusters: Mapping[str, Cluster], context: DrainContext, profile: Profile | None = None
) -> list[DrainRow]:
    """Return the workloads on clusters, and where each one would go if the clusters were drained.

    Each workload is decided alone, on the present fleet. ``waiting`` means that it fits nowhere else.
    """
    fleet = Fleet()
    for cluster in clusters.values():
        fleet.apply(_tainted(cluster) if cluster.name in context.draining else cluster)
    scheduler = Scheduler(fleet, profile or karmada_profile())
    rows = []
    for binding in bindings:
        row = row_left(binding, context)
        if row is not None and row.state is DrainState.WAITING and binding.spec.placement is not None:
            row = _decided(row, binding, scheduler, context.draining)
        if row is not None:
            rows.append(row)
    return _sorted(rows)


def _sorted(rows: Iterable[DrainRow]) -> list[DrainRow]:
    order = {each: number for number, each in enumerate(DrainState)}
    return sorted(rows, key=lambda row: (order[row.state], row.workload))


def _decided(row: DrainRow, binding: Binding, scheduler: Scheduler, draining: Collection[str]) -> DrainRow:
    unready = {each.name for each in scheduler.fleet.clusters if each is not None and not each.ready}
    found = drain_target(scheduler, effective(as_moved(binding)), frozenset(draining), frozenset({*unready, *draining}))
    if isinstance(found, Target):
        where = f"would go to {short_assignment(found.clusters)}" if found.clusters else "would be removed"
        return msgspec.structs.replace(row, state=DrainState.MOVING, message=where)
    return msgspec.structs.replace(row, message=f"fits nowhere else: {found.message}")


def _tainted(cluster: Cluster) -> Cluster:
    taints = (*(each for each in cluster.spec.taints if each.key != DRAINING), _TAINT)
    return msgspec.structs.replace(cluster, spec=msgspec.structs.replace(cluster.spec, taints=taints))


def with_taint(taints: Sequence[Mapping[str, Any]], now: str) -> list[Mapping[str, Any]] | None:
    """Return the stored taints of a cluster with the one that drains it; None if it is there. Other taints stay."""
    if any(_drains(each) for each in taints):
        return None
    return [*taints, {"key": DRAINING, "effect": _TAINT.effect, "timeAdded": now}]


def without_taint(taints: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """Return the stored taints of a cluster without any that drains it; None if there is none. Other taints stay."""
    kept = [each for each in taints if each.get("key") != DRAINING]
    return kept if len(kept) < len(taints) else None


def _drains(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == DRAINING and taint.get("effect") == _TAINT.effect
