"""Decide with moves: begin them, continue them, and end them. Pure functions of clusters, binding and time.

``decide`` knows nothing about moves. This module calls it for the binding as if its move had ended, or had not begun,
and turns the answer into a step of the move. docs/moves.md has the rules.
"""

from collections.abc import Mapping

from berthmaster.controllers.binding_scheduler.decide import BindingDecision, ClusterState, decide
from berthmaster.controllers.binding_scheduler.move_decision import MoveDecider, abandoned, with_tasks
from berthmaster.controllers.binding_scheduler.move_progress import continued
from berthmaster.controllers.binding_scheduler.move_start import at_rest
from berthmaster.controllers.binding_scheduler.writes import effective
from berthmaster.controllers.moves.break_first import leftover_tasks
from berthmaster.controllers.moves.context import MoveContext
from berthmaster.controllers.moves.lifecycle import MoveEvent
from berthmaster.model.binding import Binding
from berthmaster.model.move import is_intact, left_by, move_of, move_problem
from berthmaster.model.unsupported import unsupported_parts


def decide_with_moves(
    state: ClusterState,
    binding: Binding,
    now_s: float,
    bounds: Mapping[str, int] | None = None,
    moves: MoveContext | None = None,
    *,
    explain: bool = False,
) -> BindingDecision:
    """Decide for a binding with a placement, and for its move.

    Args:
        state: the clusters.
        binding: the latest binding.
        now_s: monotonic time.
        bounds: see ``decide``.
        moves: the configuration of moves; None decides without moves.
        explain: see ``decide``.
    """
    if moves is None or unsupported_parts(binding.spec.placement):  # a held workload does not move
        return decide(state, binding, now_s, bounds, explain=explain)
    return _decided(MoveDecider(state, now_s, bounds, moves, explain), binding)


def _decided(decider: MoveDecider, binding: Binding) -> BindingDecision:
    binding = effective(binding)
    move = move_of(binding)
    under_way = move is not None and move.under_way
    if move is not None and under_way and is_intact(binding, move):
        return continued(decider, binding, left_by(binding, move))
    if problem := move_problem(binding):
        return abandoned(decider, binding, binding, MoveEvent("Warning", "InvalidMove", problem))
    # No move is under way, so nothing would ever remove its tasks.
    leftover = leftover_tasks(binding, decider.moves.producer)
    if under_way or leftover is not None:
        prior = binding if leftover is None else with_tasks(binding, leftover)
        event = MoveEvent("Warning", "MoveAbandoned", "another client has changed the assignment")
        return abandoned(decider, binding, prior, event, move if under_way else None)
    return at_rest(decider, binding, move)
