"""How a move under way ends if nothing else happens, and what an edit of the placement makes of it. Pure functions.

A simulation assumes that time passes: a move ends at its target, or where it came from if the target cannot hold the
workload. The binding scheduler asks the same about an edit while it continues the move.
"""

from berthmaster.deciding.copy_checks import suspended_clusters
from berthmaster.deciding.rules import OWN
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask
from berthmaster.model.meta import with_spec
from berthmaster.model.move import (
    EVICTION_REASON,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    as_before,
    as_moved,
    move_of,
)
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import placement_changed


def superseded(binding: Binding, moved: Binding, move: MoveState) -> str:
    """Return what ends a move under way: an edit of the placement; empty if nothing does.

    A failover is never ended: its target is decided again for the new placement, and all its copies stay until then.

    Args:
        moved: the binding as if its move had ended.
    """
    placement, applied = binding.spec.placement, binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    if placement is None or not applied:
        return "the binding has no placement, or no record of the applied one"
    if move.reason is not MoveReason.FAILOVER and placement_changed(
        placement, applied, moved.status.scheduler_observing_affinity_name, in_order=False
    ):
        return "the placement was edited"
    return ""


def before_superseded(binding: Binding, moved: Binding, move: MoveState) -> Binding:
    """Return the binding from which a scheduler decides when an edit ends its move.

    With BreakBeforeMake the old copies are gone once the new ones exist.
    """
    breaks = move.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    return moved if breaks and move.phase is not MovePhase.ADMITTED else as_before(binding)


def tasks_of_others(binding: Binding, producer: str = OWN) -> tuple[GracefulEvictionTask, ...] | None:
    """Return the eviction tasks of a binding without those of moves; None if there are none of moves.

    Args:
        producer: the name that Berthmaster's scheduler writes into its tasks.
    """
    tasks = binding.spec.graceful_eviction_tasks
    if not tasks:
        return None
    others = tuple(task for task in tasks if task.producer != producer or task.reason != EVICTION_REASON)
    return None if len(others) == len(tasks) else others


def has_tasks(binding: Binding) -> bool:
    """Return whether a move has written eviction tasks of a binding."""
    return tasks_of_others(binding) is not None


def as_ended(binding: Binding, fleet: Fleet) -> Binding:
    """Return a binding as if its move under way had ended; the binding itself if none is under way.

    Copies on a cluster that is not ready never become healthy. A move to such a cluster ends where it came from. If it
    cannot return, or if dispatching is suspended before it has started copies, it does not end, and its tasks stay. If
    another client has changed the assignment, the move ends where the binding is now, without the tasks of the move.
    """
    ending = as_ending(binding, fleet)
    return ending if never_healthy(binding, fleet) & ending.assignment.keys() else without_tasks(ending)


def as_ending(binding: Binding, fleet: Fleet) -> Binding:
    """Return a binding as ``as_ended``. If it ends at its target, it still has the tasks of the move.

    Decisions during a move see these tasks: they exclude the clusters that the workload leaves.
    """
    moved = as_moved(binding)
    state = None if moved is binding else move_of(binding)
    if state is None:
        return without_tasks(binding)
    if superseded(binding, moved, state):
        return without_tasks(before_superseded(binding, moved, state))
    unready = _unready(state, fleet)
    if unready & moved.assignment.keys() and state.can_return(unready):
        return restored(binding)
    return moved


def never_healthy(binding: Binding, fleet: Fleet) -> frozenset[str]:
    """Return the clusters on which copies of a move under way never become healthy; empty without a move.

    While dispatching to a cluster is suspended, a move starts no copies. Those that exist are as healthy as before.
    """
    state = None if as_moved(binding) is binding else move_of(binding)
    if state is None:
        return frozenset()
    waits = state.target if state.phase is MovePhase.ADMITTED else ()
    return _unready(state, fleet) | suspended_clusters(binding, waits)


def _unready(state: MoveState, fleet: Fleet) -> frozenset[str]:
    named = (*state.source, *state.target)
    return frozenset(name for name in named if (held := fleet.get(name)) is not None and not held.ready)


def restored(binding: Binding) -> Binding:
    """Return a binding as the rollback of its move leaves it."""
    return without_tasks(as_before(binding))


def without_tasks(binding: Binding) -> Binding:
    """Return a binding without the tasks of its move, which go when the move ends."""
    others = tasks_of_others(binding)
    return binding if others is None else with_spec(binding, graceful_eviction_tasks=others)
