"""What all decisions with moves share: their inputs, a step of a move as a decision, and the end of a move."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec.structs

from berthmaster.controllers.binding_scheduler.decide import (
    BindingDecision,
    ClusterState,
    components_of,
    decide,
    scheduled_message,
)
from berthmaster.controllers.binding_scheduler.failover import Replacement
from berthmaster.controllers.binding_scheduler.writes import (
    SUCCESS,
    SchedulingResult,
    applied_placement,
    move_write,
)
from berthmaster.controllers.moves.config import MoveSettings
from berthmaster.controllers.moves.context import MoveContext
from berthmaster.controllers.moves.lifecycle import BRAKED_LOOK_S, MoveEvent, Step, flapped
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MovePhase, MoveReason, MoveState, without_move
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import Request

SOON_S: Final = 1.0
"""How soon a binding is looked at again that may have another reason to move."""


@dataclass(frozen=True, slots=True)
class MoveDecider:
    """Decides with what a decision with moves depends on besides the binding.

    Attributes:
        state: the clusters.
        now_s: monotonic time.
        bounds: see ``decide``.
        moves: the configuration of moves.
        explain: see ``decide``.
    """

    state: ClusterState
    now_s: float
    bounds: Mapping[str, int] | None
    moves: MoveContext
    explain: bool

    @property
    def now(self) -> Timestamp:
        """The time of day."""
        return self.moves.now

    def settings(self, binding: Binding) -> MoveSettings:
        """Return the settings of moves of a binding."""
        return self.moves.policy(binding).settings

    def decide(self, binding: Binding) -> BindingDecision:
        """Decide without moves. A failover waits for the storm brake, budgets and windows."""

        def may_fail_over(found: Replacement) -> str:
            if self.moves.braked:
                return f"storm brake: {self.moves.braked}"
            source = {name: replicas for name, replicas in binding.assignment.items() if name in found.left}
            move = MoveState(MoveReason.FAILOVER, MovePhase.SURGING, source=source, target=found.clusters)
            waiting = self.moves.admit(binding, move)
            return waiting.reason if waiting is not None else ""

        decision = decide(
            self.state, binding, self.now_s, self.bounds, explain=self.explain, may_fail_over=may_fail_over
        )
        if decision.warning and self.moves.braked:
            decision.requeue_after_s = earliest(decision.requeue_after_s, BRAKED_LOOK_S)
        return decision

    def stepped(self, binding: Binding, step: Step, trigger: Trigger) -> BindingDecision:
        """Return the decision that performs a step of a move."""
        move = step.state
        group = step.group if step.clusters is not None else binding.status.scheduler_observing_affinity_name
        logical = move.target if move is not None and move.phase is not MovePhase.ROLLED_BACK else step.clusters
        name = move.target_group if move is not None and move.phase is not MovePhase.ROLLED_BACK else group
        message = scheduled_message(name, logical if logical is not None else binding.assignment)
        request = Request.of(binding)
        components = components_of(self.state, binding, request) if step.clusters is not None else ()
        placement = binding.spec.placement
        decided = step.clusters is not None and move is not None and move.under_way and placement is not None
        # The target was decided for the present placement. With an older text the move would look superseded.
        applied = {APPLIED_PLACEMENT: applied_placement(placement)} if decided and placement is not None else None
        return BindingDecision(
            trigger,
            binding,
            request,
            SchedulingResult(SUCCESS, message, group),
            move_write(binding, move, step.clusters, step.group, step.tasks, applied, components=components),
            requeue_after_s=step.wait_s,
            clusters=step.clusters,
            move_event=step.event,
        )


def abandoned(
    decider: MoveDecider, binding: Binding, prior: Binding, event: MoveEvent, move: MoveState | None = None
) -> BindingDecision:
    """End a move without a result. The binding is decided as if it were ``prior``, without a move.

    A move that ends without a result is a failure: the binding is held down, so that the same move cannot start and
    end in a loop.

    Args:
        decider: what the decision depends on besides the binding.
        binding: the binding.
        prior: the binding with the assignment that counts from now on.
        event: why the move ends.
        move: the move; None if no move is under way.
    """
    record = None if move is None else flapped(move, decider.settings(binding), decider.now, event.note)
    group = prior.status.scheduler_observing_affinity_name
    plain = without_move(prior, prior.assignment, group)
    decision = decider.decide(plain)
    clusters = decision.clusters if decision.clusters is not None else plain.assignment
    write = decision.write
    placement = binding.spec.placement
    applied = applied_placement(placement) if decision.result.ok and placement is not None else None
    tasks = write.evictions if write is not None and write.evictions is not None else None
    decision.write = move_write(
        binding,
        record,
        clusters,
        decision.result.group if decision.result.ok else group,
        tasks if tasks is not None else plain.spec.graceful_eviction_tasks,
        {APPLIED_PLACEMENT: applied} if applied is not None else None,
        components_of(decider.state, binding, decision.request),
    )
    decision.clusters = clusters
    decision.binding = binding
    decision.move_event = event
    decision.requeue_after_s = earliest(decision.requeue_after_s, SOON_S)
    return decision


def with_tasks(binding: Binding, tasks: tuple[GracefulEvictionTask, ...]) -> Binding:
    """Return a binding with other eviction tasks."""
    return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, graceful_eviction_tasks=tasks))


def earliest(one_s: float | None, other_s: float | None) -> float | None:
    """Return the earlier of two times; None if there is neither."""
    return min((each for each in (one_s, other_s) if each is not None), default=None)
