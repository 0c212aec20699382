"""What an edit of the placement makes of a move under way."""

from berthmaster.model.binding import Binding
from berthmaster.model.move import (
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    as_before,
)
from berthmaster.scheduling.karmada.trigger import placement_changed


def superseded(binding: Binding, moved: Binding, move: MoveState) -> str:
    """Return what ends a move under way: an edit of the placement; empty if nothing does.

    A failover is never ended: its target is decided again for the new placement, and all its copies stay until then.

    Args:
        moved: the binding as if its move had ended.
    """
    placement, applied = binding.spec.placement, binding.applied_placement
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
