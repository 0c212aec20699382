"""What is left on clusters that are being drained: why each workload is still there, and where it would go."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from berthmaster.controllers.binding_scheduler.need_index import NeedIndex
from berthmaster.controllers.moves.copies_reader import with_needs
from berthmaster.deciding.config import DEFAULT_MOVES, MovesConfig
from berthmaster.deciding.copy_checks import UNREAD, blocked_move
from berthmaster.deciding.decision_recorder import PolicyMoves
from berthmaster.deciding.move_selector import subject_of
from berthmaster.deciding.move_targets import drain_target
from berthmaster.deciding.policy_moves import policy_moves
from berthmaster.deciding.writes import effective
from berthmaster.model.binding import Binding, holder, names_scheduler, short_assignment
from berthmaster.model.claims import is_managed
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import name_list
from berthmaster.model.meta import with_spec
from berthmaster.model.move import AFTER_FAILURE, DRAINING, MovePhase, MoveReason, MoveState, as_moved, move_of
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.taint import Taint, repelling_taints
from berthmaster.model.work import Copies, binding_id
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.views.move_rows import workload_of
from berthmaster_cli.moves import reading

_TAINT: Final = Taint(key=DRAINING, effect="NoSchedule")
_NAMED: Final = 5


class DrainState(Enum):
    """Why a workload is still on a cluster that is being drained."""

    MOVING = "moving"
    WAITING = "waiting"
    """A move wants to begin, and the message says what it waits for; or none has begun yet."""
    NOT_OURS = "not ours"
    TOLERATES = "tolerates"
    SUSPENDED = "suspended"
    UNREAD = "not known"
    """The binding cannot be read, so it is not known where its workload is."""


STAYING: Final = frozenset({DrainState.NOT_OURS, DrainState.TOLERATES, DrainState.SUSPENDED, DrainState.UNREAD})
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


def rows_left(bindings: Iterable[Binding], unread: Mapping[str, str], context: DrainContext) -> list[DrainRow]:
    """Return the workloads that are, or may be, on the clusters, in the order of their states and names."""
    rows = (row for each in bindings if (row := _row_left(each, context)) is not None)
    return in_order((*rows, *rows_unread(unread)))


def rows_unread(unread: Mapping[str, str]) -> list[DrainRow]:
    return [DrainRow(name, {}, DrainState.UNREAD, f"the binding {problem}") for name, problem in unread.items()]


def _row_left(binding: Binding, context: DrainContext) -> DrainRow | None:
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
    if not is_managed(binding.metadata):
        return DrainState.NOT_OURS, "no policy claims it"
    if spec.placement is not None and not repelling_taints([_TAINT], spec.placement.cluster_tolerations):
        return DrainState.TOLERATES, f"its placement tolerates the taint {DRAINING}"
    if not any(each.name in context.draining for each in spec.clusters):
        return DrainState.MOVING, "its old copy is being removed"
    move = move_of(binding)
    if move is not None and move.under_way:
        where = short_assignment(move.target)
        if move.cause and not context.braked:
            return DrainState.WAITING, f"{move.phase.value}, to {where}: {move.message}"
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
    bindings: Sequence[Binding],
    clusters: Mapping[str, Cluster],
    context: DrainContext,
    profile: Profile | None = None,
    facts: reading.DrainFacts | None = None,
    config: MovesConfig = DEFAULT_MOVES,
) -> list[DrainRow]:
    """Return the workloads on clusters, and where each would go alone. ``waiting``: something keeps it there.

    ``config``: how the controllers move bindings, as far as that is known.
    """
    fleet = Fleet()
    for cluster in clusters.values():
        taints = (*(each for each in cluster.spec.taints if each.key != DRAINING), _TAINT)
        fleet.apply(with_spec(cluster, taints=taints) if cluster.name in context.draining else cluster)
    scheduler = Scheduler(fleet, profile or karmada_profile())
    known = _KnownCopies(bindings, facts or reading.DrainFacts(), config)
    rows = []
    for binding in bindings:
        row = _row_left(binding, context)
        if row is not None and row.state is DrainState.WAITING and binding.spec.placement is not None:
            row = _decided(row, binding, scheduler, context.draining, known)
        if row is not None:
            rows.append(row)
    return in_order(rows)


def in_order(rows: Iterable[DrainRow]) -> list[DrainRow]:
    order = {each: number for number, each in enumerate(DrainState)}
    return sorted(rows, key=lambda row: (order[row.state], row.workload))


class _KnownCopies:
    """What is known about the copies on the clusters of a drain."""

    def __init__(self, bindings: Iterable[Binding], facts: reading.DrainFacts, config: MovesConfig) -> None:
        self._facts = facts
        self._config = config
        self._needs = NeedIndex()
        for each in bindings:
            self._needs.changed(each.metadata.key, None, each)

    def of(self, binding: Binding) -> Copies:
        found, namespace = (self._facts.copies or {}).get(binding_id(binding), UNREAD), binding.metadata.namespace
        quotas = tuple(each for each in self._facts.quotas if each.metadata.namespace == namespace)
        found = msgspec.structs.replace(found, quotas=quotas)
        return with_needs(found, self._needs.needing, binding)

    def policy(self, binding: Binding) -> PolicyMoves:
        """Return what the policy of a binding says beside the settings of the controllers."""
        reference = holder(binding.metadata)
        annotations = {} if reference is None else self._facts.annotations.get(reference, {})
        return policy_moves(self._config.settings_for(subject_of(binding)), annotations, binding)


def _decided(
    row: DrainRow, binding: Binding, scheduler: Scheduler, draining: Collection[str], known: _KnownCopies
) -> DrainRow:
    unready = {each.name for each in scheduler.fleet if not each.ready}
    moved = effective(as_moved(binding))
    found = drain_target(scheduler, moved, frozenset(draining), frozenset({*unready, *draining}))
    if isinstance(found, MoveRefusal):
        nowhere = found.cause is Cause.NO_PLACE
        return msgspec.structs.replace(row, message=f"fits nowhere else: {found.message}" if nowhere else found.message)
    settings, copies = known.policy(moved).settings, known.of(moved)
    move = MoveState(
        MoveReason.DRAIN, MovePhase.ADMITTED, settings.strategy, source=moved.assignment, target=found.clusters
    )
    if (blocked := blocked_move(moved, move, copies, settings)) is not None:
        return msgspec.structs.replace(row, message=blocked.message)
    where = f"would go to {short_assignment(found.clusters)}" if found.clusters else "would be removed"
    needing = sorted({each for name in move.leaving for each in copies.needed.get(name, ())})
    after = f", after {name_list(needing, _NAMED)}" if needing else ""
    return msgspec.structs.replace(row, state=DrainState.MOVING, message=f"{where}{after}")


def with_taint(taints: Sequence[Mapping[str, Any]], now: str) -> list[Mapping[str, Any]] | None:
    """Return the stored taints of a cluster with the one that drains it; None if it is there. Other taints stay."""
    if any(each.get("key") == DRAINING and each.get("effect") == _TAINT.effect for each in taints):
        return None
    return [*taints, {"key": DRAINING, "effect": _TAINT.effect, "timeAdded": now}]


def without_taint(taints: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """Return the stored taints of a cluster without any that drains it; None if there is none. Other taints stay."""
    kept = [each for each in taints if each.get("key") != DRAINING]
    return kept if len(kept) < len(taints) else None
