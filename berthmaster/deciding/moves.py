"""Decide with moves: begin them, say what they wait for, and continue them. Pure functions of clusters and binding.

``decide`` knows nothing about moves. This module calls it for the binding as if its move had ended, or had not begun,
and turns the answer into a step of the move. docs/moves.md has the rules.

A record is written only if it changes in a way that matters: another phase, cause, cluster or time. Numbers of the
fleet in a message do not matter. They change all the time, and each write costs the API server.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec.structs

from berthmaster.deciding import lifecycle, move_targets, writes
from berthmaster.deciding.copies import (
    CopiesNotReadError,
    healthy_assigned,
    healthy_new_copies,
    reported_by_works,
    reported_copies,
    required_clusters,
    rollback_loses_replicas,
    seconds_since,
)
from berthmaster.deciding.copy_checks import (
    UNREAD,
    blocked_failover,
    blocked_move,
    blocked_start,
    growing,
    held_by_purge,
    suspended_clusters,
)
from berthmaster.deciding.decide import (
    BindingDecision,
    ClusterState,
    components_of,
    decide,
    given_up,
    lost_clusters,
    schedule_in_any_group,
    scheduled_message,
    unchanged,
)
from berthmaster.deciding.decision_recorder import MoveContext
from berthmaster.deciding.eviction_tasks import own_tasks, tasks_after, why_not_broken
from berthmaster.deciding.failover import FailoverOptions, Replacement, eviction_tasks, replacement
from berthmaster.deciding.lifecycle import CopiesChange, Step, Surroundings
from berthmaster.deciding.move_end import before_superseded, superseded
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.deciding.move_targets import MoveRequest, Target
from berthmaster.deciding.rules import needs_any_group
from berthmaster.deciding.writes import AssignmentWrite, SchedulingResult
from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask
from berthmaster.model.claims import is_managed
from berthmaster.model.errors import name_list
from berthmaster.model.meta import Timestamp, with_spec, with_status
from berthmaster.model.move import (
    MAX_MESSAGE,
    WAITING,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    as_moved,
    is_intact,
    move_of,
    move_problem,
    union,
    without_evictions,
    without_move,
    written_clusters,
)
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.taint import NO_EXECUTE, repelling_taints
from berthmaster.model.unsupported_placement import unsupported_parts
from berthmaster.model.work import DEFAULT_GRACE_S, Copies
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import Request

LEFT_REASON: Final = "LeftByFailover"
"""The reason of the eviction tasks of healthy copies that a failover leaves without a union."""
SOON_S: Final = 1.0
"""How soon a binding is looked at again that may have another reason to move."""
LOOK_S: Final = 30.0
"""How often a binding that waits for the end of its stabilisation looks whether its target still exists."""
_RELOOK_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class MoveDecider:
    """Decides with what a decision with moves depends on besides the binding."""

    state: ClusterState
    now_s: float
    bounds: Mapping[str, int] | None
    moves: MoveContext
    explain: bool = False

    @property
    def now(self) -> Timestamp:
        return self.moves.now

    def settings(self, binding: Binding) -> MoveSettings:
        return self.moves.policy(binding).settings

    def copies(self) -> Copies:
        """Return the copies of the binding by their Works."""
        if self.moves.copies is None:
            raise CopiesNotReadError
        return self.moves.copies

    def around(self, binding: Binding, move: MoveState | None = None) -> Surroundings:
        """Return what a step of a move depends on besides its binding and its state."""
        return Surroundings(
            self.settings(binding),
            self.now,
            self.moves.producer,
            self.state.unready_since_s,
            self.state.scheduler.fleet.row_of,
            self.moves.braked,
            move is not None and can_return(self.state, binding, move),
            self.moves.copies,
            frozenset() if self.moves.braked else given_up(self.state, binding, self.now_s),
            {} if move is None else self._ready_since(binding, move),
            self.state.scheduler.fleet.deleting,
        )

    def _ready_since(self, binding: Binding, move: MoveState) -> dict[str, Timestamp]:
        """Return since when the clusters that a move leaves, and those of evictions, are ready."""
        names = move.source.keys() | binding.evicted_from
        clusters = (self.state.scheduler.fleet.get(name) for name in names)
        found = {each.name: each.ready_transition for each in clusters if each is not None and each.ready}
        return {name: since for name, since in found.items() if since is not None}

    def decide(self, binding: Binding) -> BindingDecision:
        """Decide without moves. A failover waits for the storm brake and budgets, and for old copies of its target."""
        avoided = self.moves.copies.deleting if self.moves.copies is not None else frozenset()
        avoided |= suspended_clusters(binding, self.state.scheduler.fleet.row_of)
        decision = decide(
            self.state,
            binding,
            self.now_s,
            self.bounds,
            explain=self.explain,
            may_fail_over=partial(self.why_no_failover, binding),
            avoided=avoided,
        )
        if decision.warning and (self.moves.braked or avoided):
            decision = sooner(decision, lifecycle.SOON_LOOK_S)
        return decision

    def why_no_failover(self, binding: Binding, found: Replacement) -> str:
        """Return what a failover waits for; empty if it may begin."""
        if self.moves.braked:
            return f"storm brake: {self.moves.braked}"
        source = {name: replicas for name, replicas in binding.assignment.items() if name in found.left}
        move = MoveState(MoveReason.FAILOVER, MovePhase.SURGING, source=source, target=found.clusters)
        waiting = self.moves.admit(binding, move)
        if waiting is not None:
            return waiting.reason
        leaving = {*found.left, *(found.kept.keys() - found.clusters.keys())}
        blocked = blocked_failover(binding, leaving, found.clusters, self.copies(), self.settings(binding))
        return "" if blocked is None else blocked.message

    def stepped(self, binding: Binding, step: Step, trigger: Trigger) -> BindingDecision:
        move, placement = step.state, binding.spec.placement
        group = step.group if step.clusters is not None else binding.status.scheduler_observing_affinity_name
        if move is not None and (move.under_way or move.phase is MovePhase.RELEASED):
            message = scheduled_message(move.target_group, move.target)
        else:
            message = scheduled_message(group, step.clusters if step.clusters is not None else binding.assignment)
        request = Request.of(binding)
        components = components_of(self.state, binding, request) if step.clusters is not None else ()
        applied = None
        if step.clusters is not None and move is not None and move.under_way and placement is not None:
            # The target was decided for the present placement. With an older text the move would look superseded.
            applied = {APPLIED_PLACEMENT: encoded_placement(placement)}
        return BindingDecision(
            trigger,
            binding,
            request,
            SchedulingResult(writes.SUCCESS, message, group),
            writes.move_write(binding, move, step.clusters, step.group, step.tasks, applied, components=components),
            requeue_after_s=step.wait_s,
            clusters=step.clusters,
            change=step.change,
            move_note=step.note,
        )


def continued(decider: MoveDecider, binding: Binding, move: MoveState) -> BindingDecision:
    """Decide the next step of a move under way. Copies go only after a look at the Works."""
    stored, binding = binding, reported_by_works(binding, decider.moves.copies)
    moved = as_moved(binding)
    if why := superseded(binding, moved, move):
        prior = before_superseded(binding, moved, move)
        if move.strategy is MoveStrategy.BREAK_BEFORE_MAKE:
            prior = with_spec(prior, graceful_eviction_tasks=tasks_after(binding, decider.moves.producer))
        return abandoned(decider, stored, prior, CopiesChange.SUPERSEDED, why, move)
    lost, loss_s = lost_clusters(decider.state, moved, decider.now_s)
    if decider.moves.braked:
        lost = frozenset()
    around = decider.around(binding, move)
    deleted = [name for name in _deleted_clusters(decider, move) if name not in move.target]
    if deleted and not decider.moves.braked:
        return decider.stepped(stored, lifecycle.left_deleted(move, deleted, around), Trigger.NONE)
    found, tasks, trigger = _target_now(decider, moved, move, lost)
    if trigger is Trigger.NONE and (elsewhere := _elsewhere(decider, binding, move)) is not None:
        found = elsewhere
    if move.phase is MovePhase.ADMITTED and isinstance(found, Target):
        found = blocked_start(binding, growing(binding, found.clusters), decider.moves.copies or UNREAD) or found
    if isinstance(found, MoveRefusal):
        step = _without_target(decider, binding, move, found)
    elif found.clusters != move.target and not _waits_for_its_end(decider.state, binding, move, found, lost):
        step = _retargeted(decider, binding, move, found)
    else:
        step = lifecycle.advanced(binding, move, around)
    assigned = step.clusters if step.clusters is not None else binding.assignment
    if any(count > assigned.get(name, -1) for name, count in binding.assignment.items()):
        decider.copies()
    left = tuple(task for task in tasks if task.from_cluster not in assigned)  # a move that waits leaves none yet
    if left and step.tasks is None:
        step = replace(step, tasks=(*binding.spec.graceful_eviction_tasks, *left))
    retargets = isinstance(found, Target) and (step.change is CopiesChange.RETARGETED or found.clusters == move.target)
    requested = trigger is Trigger.RESCHEDULED and retargets
    decision = decider.stepped(stored, step, Trigger.RESCHEDULED if requested else Trigger.NONE)
    return sooner(msgspec.structs.replace(decision, refresh=requested), loss_s)


def abandoned(
    decider: MoveDecider,
    binding: Binding,
    prior: Binding,
    change: CopiesChange,
    why: str,
    move: MoveState | None = None,
) -> BindingDecision:
    """End a move without a result. The binding is decided as if it were ``prior``, without a move.

    A move that ends without a result is a failure: the binding is held down, so that the same move cannot start and
    end in a loop.
    """
    record = None if move is None else lifecycle.flapped(move, decider.settings(binding), decider.now, why)
    group = prior.status.scheduler_observing_affinity_name
    plain = without_move(prior, prior.assignment, group)
    decision = decider.decide(plain)
    clusters = decision.clusters if decision.clusters is not None else plain.assignment
    write, placement = decision.write, binding.spec.placement
    applied = encoded_placement(placement) if decision.result.ok and placement is not None else None
    tasks = write.evictions if write is not None and write.evictions is not None else None
    write = writes.move_write(
        binding,
        record,
        clusters,
        decision.result.group if decision.result.ok else group,
        tasks if tasks is not None else plain.spec.graceful_eviction_tasks,
        {APPLIED_PLACEMENT: applied} if applied is not None else None,
        components_of(decider.state, binding, decision.request),
    )
    decision = msgspec.structs.replace(
        decision, write=write, clusters=clusters, binding=binding, change=change, move_note=why
    )
    return sooner(decision, SOON_S)


def sooner(decision: BindingDecision, after_s: float | None) -> BindingDecision:
    """Return a decision whose binding is reconciled again after some seconds at the latest; None changes nothing."""
    if after_s is None or (decision.requeue_after_s is not None and decision.requeue_after_s <= after_s):
        return decision
    return msgspec.structs.replace(decision, requeue_after_s=after_s)


def _target_now(
    decider: MoveDecider, moved: Binding, move: MoveState, lost: frozenset[str]
) -> tuple[Target | MoveRefusal, tuple[GracefulEvictionTask, ...], Trigger]:
    """Return where the move should end, as decided now, or why nowhere; tasks for lost clusters; and why it is decided.

    Args:
        moved: the binding as if its move had ended.
        lost: its clusters that are not ready for too long.
    """
    same = Target(move.target, move.target_group)
    state = decider.state
    plainly = replace(state, failover=FailoverOptions())
    draining = move_targets.draining_clusters(state, moved) - move.source.keys()
    # A move that returns goes to where it came from, drained or not. Healthy new copies of an unhealthy source stay.
    if decider.moves.braked or move.returning or rollback_loses_replicas(moved, move, state.unready_since_s):
        draining = frozenset()
    if lost or draining:
        found = replacement(state.scheduler, Request.of(moved), lost | draining, leaves=bool(draining))
        trigger = Trigger.FAILOVER if lost else decide(plainly, moved, decider.now_s, decider.bounds).trigger
        if isinstance(found, MoveRefusal):
            goes = any(map(partial(_is_leaving, state.scheduler.fleet), move.target))  # it cannot stay there
            return found if lost or goes or move.phase is MovePhase.ADMITTED else same, (), trigger
        left = replace(found, left=tuple(name for name in found.left if name in lost))
        return Target(dict(found.clusters), found.group), eviction_tasks(moved, left, decider.moves.producer), trigger
    decision = decide(plainly, moved, decider.now_s, decider.bounds)
    if decision.trigger is not Trigger.NONE and not decision.result.ok:
        return MoveRefusal(Cause.NO_PLACE, decision.result.message, (decision.result.reason,)), (), decision.trigger
    if decision.clusters is None:
        return same, (), decision.trigger
    return Target(dict(decision.clusters), decision.result.group), (), decision.trigger


def _elsewhere(decider: MoveDecider, binding: Binding, move: MoveState) -> Target | None:
    """Return another place for a move that is overdue and cannot return; None without one, and for other moves.

    A failover goes back to an earlier group. Another move, whose source is not ready, goes to any group. All copies
    count as present.
    """
    state = decider.state
    late = move.overdue and (move.until is None or move.until <= decider.now)
    if not late or move.phase is not MovePhase.SURGING or decider.moves.braked or can_return(state, binding, move):
        return None
    if move.reason is MoveReason.FAILOVER:
        running = without_move(binding, binding.assignment, move.target_group)
        found = move_targets.earlier_target(state.scheduler, running, state.unusable, 0)
        if isinstance(found, Target):
            return found
    if healthy_new_copies(binding, move, _silenced(state, move)):
        return None
    if held_by_purge(binding, decider.copies()):
        return None  # nothing starts anywhere until that copy is gone
    return _anywhere(decider, binding, move, move.target.keys())


def _anywhere(
    decider: MoveDecider, binding: Binding, move: MoveState, avoided: AbstractSet[str] = frozenset()
) -> Target | None:
    """Return any place for a workload whose move has neither a target nor a way back as a whole; None without one.

    With BreakBeforeMake, what the move has left is free again, or will be. If nothing else can hold the workload, it
    returns to what is drained.
    """
    state, producer = decider.state, decider.moves.producer
    freed = with_spec(binding, graceful_eviction_tasks=tasks_after(binding, producer))
    running = without_move(freed, binding.assignment, move.target_group)
    unready = state.unready_since_s.keys() | suspended_clusters(binding, state.scheduler.fleet.row_of)
    strange = state.draining - move.first.keys()
    for drained in (state.draining, strange):
        found = move_targets.any_target(state.scheduler, running, unready | avoided | drained)
        if isinstance(found, Target):
            return found
        running = move_targets.tolerating_drains(running)
    return None


def _silenced(state: ClusterState, move: MoveState) -> AbstractSet[str]:
    """Return the clusters whose last report does not count for a move.

    A cluster that is not ready may still serve. With BreakBeforeMake its copies are given up.
    """
    return state.unready_since_s.keys() if move.strategy is MoveStrategy.BREAK_BEFORE_MAKE else frozenset()


def can_return(state: ClusterState, binding: Binding, move: MoveState) -> bool:
    """Whether a move can be rolled back if it fails: what it came from is ready, and takes the workload again.

    Karmada evicts a cluster with a taint NoExecute again. A cluster that is being deleted waits for its copies to go.
    """
    placement, fleet = binding.spec.placement, state.scheduler.fleet
    if not move.can_return(state.unready_since_s) or any(map(partial(_is_leaving, fleet), move.home)):
        return False
    tolerations = placement.cluster_tolerations if placement is not None else ()
    evicted = move.home.keys() - move.source.keys()
    found = (fleet.get(name) for name in evicted)
    return not any(
        cluster is None or repelling_taints(cluster.spec.taints, tolerations, frozenset({NO_EXECUTE}))
        for cluster in found
    )


def _is_leaving(fleet: Fleet, name: str) -> bool:
    """Whether a cluster is being deleted, or is gone."""
    cluster = fleet.get(name)
    return cluster is None or cluster.deleting


def _deleted_clusters(decider: MoveDecider, move: MoveState) -> list[str]:
    """Return the clusters of the assignment of a move that are being deleted, or are gone, and that it may leave.

    Karmada has deleted their Works, and keeps such a Cluster until no assignment names it. If all clusters of a fleet
    are missing, that is more likely a fault.
    """
    fleet = decider.state.scheduler.fleet
    return [name for name in written_clusters(move) if _is_leaving(fleet, name)] if len(fleet) else []


def _waits_for_its_end(
    state: ClusterState, binding: Binding, move: MoveState, found: Target, lost: frozenset[str]
) -> bool:
    """Whether another target waits for the end of a move, because it would take healthy new copies down.

    With MakeBeforeBreak it waits only if the old copies, and those that it keeps, have fewer healthy replicas than the
    workload should have. Copies in a cluster that is not ready may not run.
    """
    if move.phase is MovePhase.ADMITTED:
        return False
    gone = lost | state.scheduler.fleet.deleting
    if move.strategy is MoveStrategy.MAKE_BEFORE_BREAK:
        kept = union(move.source, found.clusters)
        lowered = {name: count for name, count in move.target.items() if kept.get(name, -1) < count}
        rest = {name: kept[name] for name in lowered if name in kept}

        def healthy(target: Mapping[str, int], silent: AbstractSet[str]) -> int:
            return healthy_new_copies(binding, msgspec.structs.replace(move, target=target), silent)

        left = healthy(kept, gone | state.unready_since_s.keys())
        wanted = sum(max(1, count) for count in found.clusters.values())  # a copy without replicas counts as one
        return left < wanted and healthy(lowered, gone) > healthy(rest, gone)
    kept = found.clusters
    if sum(kept.values()) < sum(move.target.values()):  # a scale down, which acts at once where copies stay
        if move.target.keys() >= kept.keys():
            return False
        kept = {name: max(count, move.target.get(name, 0)) for name, count in kept.items()}
    taken = {name: count for name, count in move.target.items() if kept.get(name, -1) < count}
    given_up = msgspec.structs.replace(move, target=taken)
    return bool(healthy_new_copies(binding, given_up, gone))


def _without_target(decider: MoveDecider, binding: Binding, move: MoveState, found: MoveRefusal) -> Step:
    """Roll back a move whose target does not exist any more; keep both if there is nothing to return to."""
    if found.cause is Cause.JOB_FINISHED and binding.assignment:
        # It starts nowhere, so what stays is all there will be.
        ended = msgspec.structs.replace(move, target=binding.assignment)
        return lifecycle.released(binding, ended, decider.around(binding))
    # With BreakBeforeMake a rollback of this phase only restores: the brake does not stop it.
    braked = decider.moves.braked and move.phase is not MovePhase.ADMITTED
    # A move that returns has no copies in this phase. If where it returns to is lost, it starts where it was.
    unready = decider.state.unready_since_s
    waits = move.returning and move.phase is MovePhase.ADMITTED
    restored = waits and bool(move.source) and not move.source.keys() & unready.keys()
    restored = restored and not any(map(partial(_is_leaving, decider.state.scheduler.fleet), move.source))
    blocked = blocked_start(binding, growing(binding, move.home), decider.moves.copies or UNREAD)
    # Clusters that share the completions of a Job get the parts that they had.
    startable = blocked is None or blocked.cause is Cause.JOB_DIVIDED
    returns = startable and (restored or can_return(decider.state, binding, move))
    if braked or rollback_loses_replicas(binding, move, unready):
        return lifecycle.without_target(move, decider.now, found.message)
    if not returns and not healthy_new_copies(binding, move, _silenced(decider.state, move)):
        other = _anywhere(decider, binding, move)
        if other is not None and other.clusters != move.target:
            return _retargeted(decider, binding, move, other, found.message)
        if other is not None and move.phase is MovePhase.ADMITTED:  # the target is the best of what is left
            return lifecycle.advanced(binding, move, decider.around(binding, move))
    if not returns:
        if deleted := _deleted_clusters(decider, move):
            return lifecycle.left_deleted(move, deleted, decider.around(binding, move))
        if found.cause is not Cause.NO_PLACE:
            return lifecycle.held_step(binding, move, decider.around(binding, move), found)
        return lifecycle.without_target(move, decider.now, found.message)
    gone = f"the target is gone: {found.message}" if found.cause is Cause.NO_PLACE else found.message
    return lifecycle.rolled_back(binding, move, decider.around(binding, move), gone[:MAX_MESSAGE])


def _retargeted(decider: MoveDecider, binding: Binding, move: MoveState, found: Target, gone: str = "") -> Step:
    """Change the target of a move; roll back if the new one does not serve its reason, and no healthy copy is lost.

    Budgets, pauses and windows are asked only when a move begins.

    Args:
        gone: why the former target cannot hold the workload any more; empty if that is not why.
    """
    around = decider.around(binding, move)
    source = Target(move.first, move.first_group)
    changed = msgspec.structs.replace(move, target=found.clusters, target_group=found.group)
    ends = move.phase is not MovePhase.ADMITTED  # else the old copies have not gone yet
    if ends and not binding.spec.replicas and any((*move.first.values(), *move.target.values())):
        return lifecycle.released(binding, changed, around)
    returns = around.returnable and not rollback_loses_replicas(binding, move, decider.state.unready_since_s)
    if returns and not move_targets.is_better(decider.state, binding, move.reason, found, source):
        return lifecycle.rolled_back(binding, move, around, "no target is better than the source")
    breaks = move.strategy is MoveStrategy.BREAK_BEFORE_MAKE and move.reason is not MoveReason.FAILOVER
    back = breaks and found.clusters.keys() <= move.first.keys() and not found.clusters.keys() <= move.target.keys()
    why = f"the target is gone: {gone}" if gone and back else ""
    return lifecycle.retargeted(binding, move, found.clusters, found.group, around, why)


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
        moves: the configuration of moves; None decides without moves.

    Raises:
        CopiesNotReadError: the decision depends on the Works of the binding, and ``moves`` does not have them.
    """
    if moves is None or unsupported_parts(binding.spec.placement):  # a held workload does not move
        return decide(state, binding, now_s, bounds, explain=explain)
    return _decided(MoveDecider(state, now_s, bounds, moves, explain), writes.effective(binding))


def decide_refused(
    state: ClusterState, decision: BindingDecision, now_s: float, moves: MoveContext, why: str
) -> BindingDecision | None:
    """Decide what to write instead of a step of a move that the API server has refused; None for no other step."""
    if decision.change is CopiesChange.NONE or decision.write is None:
        return None
    binding = decision.binding
    decider = MoveDecider(state, now_s, None, moves)
    after = move_of(decision.write.annotated(binding))
    before = move_of(binding)
    message = f"the API server refused the move: {why}"[:MAX_MESSAGE]
    if decision.change is CopiesChange.BEGUN and after is not None and after.reason is MoveReason.FAILOVER:
        return _failed_over_at_once(decider, decision, after)
    step = lifecycle.refused(binding, decision.change, after, decider.around(binding, before), message)
    return None if step is None else decider.stepped(binding, step, Trigger.NONE)


def _failed_over_at_once(decider: MoveDecider, decision: BindingDecision, move: MoveState) -> BindingDecision | None:
    """Fail over without a union, as Karmada does: a quota that has no room for old and new copies has it for the new.

    The copies in other clusters that still run stay in eviction tasks until the new ones are healthy. Tasks are not
    counted by quotas.
    """
    binding, write = decision.binding, decision.write
    if move.strategy is MoveStrategy.BREAK_BEFORE_MAKE or write is None:
        return None
    known = write.evictions if write.evictions is not None else binding.spec.graceful_eviction_tasks
    listed = {task.from_cluster for task in known}
    left = (
        GracefulEvictionTask(
            name,
            producer=decider.moves.producer,
            reason=LEFT_REASON,
            purge_mode="Gracefully",
            message="the API server accepts no assignment with old and new copies",
            replicas=replicas or None,
            clusters_before_failover=tuple(sorted(binding.assignment)),
        )
        for name, replicas in sorted(move.source.items())
        if name not in move.target and name not in listed
    )
    step = Step(move_of(binding), clusters=move.target, group=move.target_group, tasks=(*known, *left))
    return msgspec.structs.replace(decider.stepped(binding, step, Trigger.FAILOVER), refresh=True)


def _decided(decider: MoveDecider, binding: Binding) -> BindingDecision:
    stored = move_of(binding)
    move = None if stored is None else lifecycle.plausible(stored, decider.settings(binding), decider.now)
    under_way = move is not None and move.under_way
    if move is not None and under_way and is_intact(binding, move):
        return continued(decider, binding, without_evictions(binding, move))
    # No move is under way, so nothing would ever remove its tasks.
    own = own_tasks(binding, decider.moves.producer)
    prior = with_spec(binding, graceful_eviction_tasks=tasks_after(binding, decider.moves.producer)) if own else binding
    forgotten = stored is None and writes.says_moving(binding)
    if (own or forgotten) and (begun_again := _begun_again(decider, binding, prior, own)) is not None:
        return begun_again
    if problem := move_problem(binding):
        return abandoned(decider, binding, prior, CopiesChange.ABANDONED, problem)
    if under_way or own:
        why = "another client has changed the assignment"
        if move is not None and under_way and prior.spec.clusters and _has_arrived(prior, move):
            prior = with_status(prior, scheduler_observing_affinity_name=move.target_group)
        return abandoned(decider, binding, prior, CopiesChange.ABANDONED, why, move if under_way else None)
    if move is not None and not is_managed(binding.metadata):
        rest = BindingDecision(Trigger.NONE, binding, Request.of(binding), unchanged(binding))
        return msgspec.structs.replace(
            rest, write=writes.move_write(binding, None)
        )  # its policy is gone, so it is not scheduled any more
    return _at_rest(decider, binding, move)


def _has_arrived(prior: Binding, move: MoveState) -> bool:
    """Whether only copies of the target of a move are assigned, or more of these are healthy than of its source."""
    if prior.assignment.keys() <= move.target.keys():
        return True
    new, old = move.target.keys() - move.home.keys(), move.home.keys() - move.target.keys()
    return healthy_assigned(prior, new) > healthy_assigned(prior, old)


def _begun_again(
    decider: MoveDecider, binding: Binding, prior: Binding, own: tuple[GracefulEvictionTask, ...]
) -> BindingDecision | None:
    """Begin a move with BreakBeforeMake again whose record is gone or damaged; None if no copy would start elsewhere.

    Its tasks name the clusters whose pods may still end. Karmada may have removed them. The reason is not known any
    more.

    Args:
        prior: the binding without the tasks of the move.
        own: these tasks.
    """
    going = {task.from_cluster: task.replicas or 0 for task in own}
    if decider.settings(binding).strategy is not MoveStrategy.BREAK_BEFORE_MAKE:
        return None
    plain = without_move(prior, prior.assignment, prior.status.scheduler_observing_affinity_name)
    decision = decider.decide(plain)
    if decision.waits_for_capacity and not plain.spec.clusters and decider.state.rules.asks_every_group:
        decision = schedule_in_any_group(decider.state, plain, decider.bounds, decision.trigger)
    clusters = decision.clusters or {}
    if not growing(prior, clusters) or (going and going.keys() <= clusters.keys()):
        return None
    target = Target(dict(clusters), decision.result.group)
    state = _state_of(decider, plain, MoveReason.RESCHEDULED, target, None)
    state = msgspec.structs.replace(state, source={**going, **prior.assignment})
    step = lifecycle.begun(binding, state, decider.around(binding))
    note = f"another client has removed or damaged the record of a move, and old copies may still run; {step.note}"
    return decider.stepped(binding, replace(step, note=note), Trigger.NONE)


def _at_rest(decider: MoveDecider, binding: Binding, record: MoveState | None) -> BindingDecision:
    if record is not None and (vanished := _vanished(decider, binding, record)):
        return _replaced(decider, binding, record, vanished)
    decision = decider.decide(binding)
    if decision.replaced is not None:
        return _failed_over(decider, binding, decision, decision.replaced, record)
    if decision.trigger is Trigger.RESCHEDULED and _is_movable(decider, binding, decision):
        return _rescheduled(decider, binding, decision, record)
    if not decision.result.ok and (elsewhere := _placed_anywhere(decider, binding, decision, record)) is not None:
        return elsewhere
    if decision.write is not None:
        if decision.clusters and was_emptied(binding, decider.settings(binding)):
            found = Replacement(dict(decision.clusters), decision.result.group, (), {})
            return _failed_over(decider, binding, decision, found, record)
        return _plainly_changed(decider, decision, record)
    if not decision.result.ok:
        return decision
    request = move_targets.move_request(decider.state, binding, decider.moves, decider.bounds, record)
    if request is None:
        return _recorded(decider, binding, decision, ended_record(record, decider.now))
    return _requested(decider, binding, decision, request, record)


def was_emptied(binding: Binding, settings: MoveSettings) -> bool:
    """Whether a workload that must not run twice was scheduled before, and another client took its clusters away."""
    breaks = settings.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    return breaks and not binding.spec.clusters and binding.status.last_scheduled_time is not None


def _placed_anywhere(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, record: MoveState | None
) -> BindingDecision | None:
    """Decide for a workload that neither its group nor a later one can hold: an earlier one may hold it.

    Karmada asks no earlier group. A workload that was evicted from its last group would stay without copies. It waits
    for no hold-down. None if it has its copies, or no group can hold it.
    """
    asks = decider.state.rules.asks_every_group and decision.waits_for_capacity
    if not asks or not needs_any_group(binding, loses_all=decision.write is not None):
        return None
    fresh = schedule_in_any_group(decider.state, binding, decider.bounds, decision.trigger)
    if not binding.spec.clusters and not fresh.result.ok:
        return fresh  # it names each group that was asked
    if not fresh.result.ok or fresh.clusters is None:
        return None
    found = Replacement(dict(fresh.clusters), fresh.result.group, (), binding.assignment)
    if binding.spec.clusters:  # what runs stays until the new copies are healthy
        breaks = decider.settings(binding).strategy is MoveStrategy.BREAK_BEFORE_MAKE
        waits = breaks or decider.why_no_failover(binding, found)
        return None if waits else _failed_over(decider, binding, fresh, found, record)
    if decider.copies().deleting & fresh.clusters.keys():  # Karmada cannot write a Work that it is deleting
        return sooner(decision, lifecycle.SOON_LOOK_S)
    return _failed_over(decider, binding, fresh, found, record)


def _vanished(decider: MoveDecider, binding: Binding, record: MoveState) -> frozenset[str]:
    """Return the ready clusters whose copies have disappeared since the move to them was released.

    The deletion of a cluster takes its copies away, too. That is no failure of the move, and has a trigger of its own.
    """
    if record.phase is not MovePhase.RELEASED or lifecycle.is_over(record, decider.now) or decider.moves.braked:
        return frozenset()
    scheduled = binding.status.last_scheduled_time
    recent = scheduled is not None and seconds_since(scheduled, decider.now) < LOOK_S
    if recent or binding.status.scheduler_observed_generation != binding.metadata.generation:
        return frozenset()  # Karmada may not have written all Works of another scale yet
    fleet = decider.state.scheduler.fleet
    there = record.target.keys() & binding.assignment.keys() & fleet.row_of.keys() - fleet.deleting
    there -= decider.state.unready_since_s.keys()
    silent = there - {*reported_copies(binding, there)}
    if not silent or decider.copies().problem:
        return frozenset()
    return frozenset(name for name in silent if not decider.copies().alive(name))


def _replaced(decider: MoveDecider, binding: Binding, record: MoveState, vanished: frozenset[str]) -> BindingDecision:
    names = name_list(sorted(vanished))
    why = f"the copies on {names} are gone after the {record.reason.value} was released"
    failed = lifecycle.flapped(record, decider.settings(binding), decider.now, why[:MAX_MESSAGE])
    found = replacement(decider.state.scheduler, Request.of(binding), vanished)
    step = Step(failed, CopiesChange.VANISHED, wait_s=LOOK_S, note=why)
    if isinstance(found, Replacement):
        step = replace(step, clusters=found.clusters, group=found.group)
    return decider.stepped(binding, step, Trigger.NONE)


def _plainly_changed(decider: MoveDecider, decision: BindingDecision, record: MoveState | None) -> BindingDecision:
    """Write a decision that is no move. An edit of the placement forgets failures."""
    if record is None and not _may_be_away(decider, decision):
        return decision
    changed = sooner(msgspec.structs.replace(decision, plain=decision), SOON_S)
    if decision.write is not None and APPLIED_PLACEMENT in decision.write.annotations:
        return _also(changed, writes.move_write(decision.binding, None))
    if record is None or record.phase is not MovePhase.RELEASED or decision.clusters is None:
        return changed
    # A copy that starts or goes now is none of the move that was released.
    kept = record.target.keys() & decision.binding.assignment.keys() & decision.clusters.keys()
    target = {name: count for name, count in record.target.items() if name in kept}
    return _also(changed, writes.move_write(decision.binding, msgspec.structs.replace(record, target=target)))


def _also(decision: BindingDecision, record: AssignmentWrite | None) -> BindingDecision:
    if decision.write is None or record is None:
        return decision
    annotations = {**decision.write.annotations, **record.annotations}
    return msgspec.structs.replace(decision, write=replace(decision.write, annotations=annotations))


def _may_be_away(decider: MoveDecider, decision: BindingDecision) -> bool:
    """Whether a new assignment may not be what its policy prefers, and should return. No event reports that."""
    placement = decision.binding.spec.placement
    if placement is None or not placement.cluster_affinities or not decision.clusters:
        return False
    if move_targets.rank(decider.state.scheduler, placement, decision.result.group, decision.clusters) == (0, False):
        return False
    return decider.moves.policy(decision.binding).settings.failback.mode != "Off"


def _failed_over(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, found: Replacement, record: MoveState | None
) -> BindingDecision:
    """Fail over. It is a move if healthy copies must stay until the new ones are healthy."""
    kept = lifecycle.reduced(found.kept, binding.spec.replicas, divided=binding.is_divided)
    if record is not None and record.phase is MovePhase.RELEASED:
        why = f"left {', '.join(found.left)} again after a {record.reason.value}"
        record = lifecycle.flapped(record, decider.settings(binding), decider.now, why)
    breaks = decider.settings(binding).strategy is MoveStrategy.BREAK_BEFORE_MAKE
    evicted = breaks and not binding.spec.clusters and _may_still_run(decider, binding, found.clusters)
    fits = all(name in found.clusters and replicas <= found.clusters[name] for name, replicas in kept.items())
    if fits and not evicted:
        plainly = _also(msgspec.structs.replace(decision, plain=decision), writes.move_write(binding, record))
        return sooner(plainly, SOON_S) if record is not None or _may_be_away(decider, plainly) else plainly
    step = _failover_step(decider, binding, found, kept, record)
    return msgspec.structs.replace(
        decider.stepped(binding, step, Trigger.FAILOVER), refresh=decision.refresh, plain=decision
    )


def _failover_step(
    decider: MoveDecider, binding: Binding, found: Replacement, kept: Mapping[str, int], record: MoveState | None
) -> Step:
    """Return the first step of a failover whose healthy copies (``kept``) stay until the new ones are healthy."""
    state = _state_of(decider, binding, MoveReason.FAILOVER, Target(found.clusters, found.group), record)
    state = msgspec.structs.replace(state, source=dict(kept))
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE and why_not_broken(
        binding, [name for name in kept if name not in found.clusters]
    ):
        state = msgspec.structs.replace(state, strategy=MoveStrategy.MAKE_BEFORE_BREAK)
    lost = (*binding.spec.graceful_eviction_tasks, *eviction_tasks(binding, found, decider.moves.producer))
    step = lifecycle.begun(with_spec(binding, graceful_eviction_tasks=lost), state, decider.around(binding))
    return replace(step, tasks=step.tasks if step.tasks is not None else lost)


def _may_still_run(decider: MoveDecider, binding: Binding, clusters: Mapping[str, int]) -> bool:
    """Whether pods of a workload without an assignment may run in other clusters than some.

    If it was scaled to zero, its Works are gone before its pods.
    """
    scheduled = binding.status.last_scheduled_time
    ending = scheduled is not None and seconds_since(scheduled, decider.now) < DEFAULT_GRACE_S
    return ending or bool(_copies_elsewhere(decider, binding, clusters))


def _copies_elsewhere(decider: MoveDecider, binding: Binding, clusters: Mapping[str, int]) -> set[str]:
    """Return the other clusters that still have a copy of a workload."""
    return {*decider.copies().by_cluster.keys() - required_clusters(binding) - clusters.keys()}


def _is_movable(decider: MoveDecider, binding: Binding, decision: BindingDecision) -> bool:
    if decision.clusters is None or decision.clusters == binding.assignment or not binding.spec.clusters:
        return False
    return decision.result.ok and decider.moves.policy(binding).reschedules


def _rescheduled(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, record: MoveState | None
) -> BindingDecision:
    """Reschedule by a move. The request stays until the move is admitted."""
    target = Target(dict(decision.clusters or {}), decision.result.group)
    request = MoveRequest(MoveReason.RESCHEDULED, decider.moves.policy(binding), target)
    rest = BindingDecision(Trigger.NONE, binding, decision.request, unchanged(binding))
    started = _requested(decider, binding, rest, request, record)
    if started.clusters is None:
        return started
    return msgspec.structs.replace(started, trigger=Trigger.RESCHEDULED, refresh=True, plain=decision)


def _requested(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, request: MoveRequest, record: MoveState | None
) -> BindingDecision:
    """Begin a move if everything allows it; otherwise record what it waits for."""
    found = waiting_record(binding, request, record, decider.now, decider.moves.braked)
    if found.ready and isinstance(request.target, Target):
        state = _state_of(decider, binding, request.reason, request.target, found.state)
        waiting = decider.moves.admit(binding, state)
        if waiting is not None:
            found = found.waiting_for(
                MoveRefusal(Cause(waiting.cause), waiting.reason, waiting.about), waiting.retry_after_s
            )
        elif (blocked := _blocked(decider, binding, state)) is not None:
            found = found.waiting_for(blocked, LOOK_S)
        else:
            return decider.stepped(binding, lifecycle.begun(binding, state, decider.around(binding)), Trigger.NONE)
    kept = found.state
    if isinstance(request.target, MoveRefusal) and record is not None and ended_record(record, decider.now) is not None:
        kept = record  # how the last move ended says more than why the next one cannot begin
    # All bindings are looked at for drift in turn, so that many which wait cost no more.
    wait_s = None if request.reason is MoveReason.REBALANCE else found.wait_s
    decision = sooner(_recorded(decider, binding, decision, kept), wait_s)
    return msgspec.structs.replace(decision, waits_for_place=isinstance(request.target, MoveRefusal))


def _blocked(decider: MoveDecider, binding: Binding, state: MoveState) -> MoveRefusal | None:
    """Return why the copies of a workload keep its move from beginning; None if they do not."""
    copies = decider.copies()
    if copies.problem:
        return MoveRefusal(Cause.WORKS_UNREAD, copies.problem, (copies.problem,))
    return _old_copies(binding, state, copies) or blocked_move(binding, state, copies, decider.settings(binding))


def _old_copies(binding: Binding, state: MoveState, copies: Copies) -> MoveRefusal | None:
    """Return which old copies on clusters of a target are still being removed; None if there are none.

    Karmada finishes the deletion of such a copy later, and would delete what a move has put there.
    """
    there = copies.by_cluster.keys() - required_clusters(binding) - binding.assignment.keys() | copies.deleting
    names = sorted(there & state.target.keys())
    if not names:
        return None
    return MoveRefusal(Cause.OLD_COPY, f"the old copy on {name_list(names)} is still being removed", tuple(names))


def _state_of(
    decider: MoveDecider, binding: Binding, reason: MoveReason, target: Target, record: MoveState | None
) -> MoveState:
    settings = decider.settings(binding)
    return MoveState(
        reason,
        MovePhase.ADMITTED,
        strategy=settings.strategy,
        source=binding.assignment,
        target=dict(target.clusters),
        source_group=binding.status.scheduler_observing_affinity_name,
        target_group=target.group,
        started_at=record.started_at if record is not None and record.reason is reason else decider.now,
        failures=record.failures if record is not None else 0,
        held_down_until=record.held_down_until if record is not None else None,
        rebalance_after=record.rebalance_after if record is not None else None,
    )


def _recorded(
    decider: MoveDecider, binding: Binding, decision: BindingDecision, record: MoveState | None
) -> BindingDecision:
    decision = msgspec.structs.replace(decision, write=writes.move_write(binding, record))
    if record is None or record.until is None:
        return decision
    return sooner(decision, max(SOON_S, (record.until - decider.now).total_seconds()))


# The record of a binding that waits for a move, or has ended one.


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """What a binding waits for. ``ready`` says whether only budgets and old copies decide now."""

    state: MoveState
    ready: bool
    wait_s: float
    known: MoveState | None = None

    def waiting_for(self, refusal: MoveRefusal, retry_after_s: float) -> "WaitingRecord":
        """Return the record of a move that may not begin yet."""
        state = _with_refusal(msgspec.structs.replace(self.state, until=None), refusal)
        return replace(self, state=_kept(state, self.known), ready=False, wait_s=max(1.0, retry_after_s))


def waiting_record(
    binding: Binding, request: MoveRequest, record: MoveState | None, now: Timestamp, braked: str
) -> WaitingRecord:
    """Return the record of a binding that should move."""
    if record is not None and record.held_down(now) and record.held_down_until is not None:
        return WaitingRecord(record, ready=False, wait_s=(record.held_down_until - now).total_seconds())
    state = _waiting_state(binding, request, record, now)
    if isinstance(request.target, MoveRefusal):
        refusal = request.target
        if refusal.cause is Cause.NO_PLACE:
            refusal = refusal._replace(message=f"no place: {refusal.message}")
        return _eligible(state, record, refusal)
    if request.dry_run:
        names = tuple(sorted(request.target.clusters))
        return _eligible(state, record, MoveRefusal(Cause.DRY_RUN, "DryRun: it would move, and stays", names))
    state = _stabilising(state, request, record, now)
    stable_at = lifecycle.later(state.since or now, request.after_s)
    if now < stable_at:
        state = msgspec.structs.replace(state, until=stable_at)
        return WaitingRecord(_kept(state, record), ready=False, wait_s=min(LOOK_S, (stable_at - now).total_seconds()))
    if braked:
        state = _with_refusal(state, MoveRefusal(Cause.BRAKE, f"storm brake: {braked}"))
        return WaitingRecord(_kept(state, record), ready=False, wait_s=lifecycle.SOON_LOOK_S)
    return WaitingRecord(state, ready=True, wait_s=LOOK_S, known=record)


def ended_record(record: MoveState | None, now: Timestamp) -> MoveState | None:
    """Return the record of a binding that has no reason to move: None once it has no further meaning.

    The record of a later move can end before a rebalanced workload may be rebalanced again.
    """
    if record is None:
        return None
    counts = record.phase is MovePhase.RELEASED or record.held_down(now)
    if record.phase not in WAITING and counts and not lifecycle.is_over(record, now):
        return record
    if not record.rests(now):
        return None
    rest = record.rebalance_after
    return MoveState(MoveReason.REBALANCE, MovePhase.RELEASED, since=record.since, until=rest, rebalance_after=rest)


def _waiting_state(binding: Binding, request: MoveRequest, record: MoveState | None, now: Timestamp) -> MoveState:
    target = request.target if isinstance(request.target, Target) else Target({}, "")
    same = record is not None and record.reason is request.reason
    whole = now.replace(microsecond=0)
    waits = record is not None and record.phase in WAITING
    return MoveState(
        request.reason,
        MovePhase.ELIGIBLE,
        strategy=request.policy.settings.strategy,
        source=binding.assignment,
        target=target.clusters,
        source_group=binding.status.scheduler_observing_affinity_name,
        target_group=target.group,
        started_at=record.started_at if record is not None and same and waits else whole,
        since=whole,
        failures=record.failures if record is not None else 0,
        held_down_until=record.held_down_until if record is not None else None,
        rebalance_after=record.rebalance_after if record is not None else None,
    )


def _eligible(state: MoveState, record: MoveState | None, refusal: MoveRefusal) -> WaitingRecord:
    if record is not None and record.phase is MovePhase.ELIGIBLE and record.reason is state.reason:
        state = msgspec.structs.replace(state, since=record.since)
    return WaitingRecord(_kept(_with_refusal(state, refusal), record), ready=False, wait_s=_RELOOK_S)


def _with_refusal(state: MoveState, refusal: MoveRefusal) -> MoveState:
    message, about = refusal.message[:MAX_MESSAGE], refusal.about
    return msgspec.structs.replace(state, message=message, cause=refusal.cause.value, about=about)


def _stabilising(state: MoveState, request: MoveRequest, record: MoveState | None, now: Timestamp) -> MoveState:
    """Return the state with the time since which its target has existed without a break."""
    since = state.since
    if record is not None and record.phase is MovePhase.STABILISING and record.reason is request.reason:
        since = record.since
        broken = request.stable_since
        if since is not None and broken is not None and broken > since:
            since = min(broken, now).replace(microsecond=0)
    if since is None or since > now:
        since = now.replace(microsecond=0)
    return msgspec.structs.replace(state, phase=MovePhase.STABILISING, since=since)


def _kept(state: MoveState, record: MoveState | None) -> MoveState:
    """Return the present record if the new one says the same."""
    return record if record is not None and _meaning(state) == _meaning(record) else state


def _meaning(state: MoveState) -> MoveState:
    """Return a state without what changes with every number of the fleet."""
    return msgspec.structs.replace(state, target=dict.fromkeys(state.target, 0), message="")
