"""How a move under way goes on if time passes and nothing else happens. Pure functions.

A simulation takes the steps of the controllers (``moves.decide_with_moves``) one after the other, with the copies that
Karmada and the members would then report. It assumes that these copies become healthy wherever their cluster is ready,
not about to be deleted, and gets what Karmada dispatches. On other clusters they stay as they were reported last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from berthmaster.deciding.copies import STATUS_LAG_S
from berthmaster.deciding.decide import BindingDecision, ClusterState
from berthmaster.deciding.decision_recorder import MoveContext, PolicyMoves
from berthmaster.deciding.eviction_tasks import own_tasks
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.move_settings import NO_SOURCE
from berthmaster.deciding.move_targets import is_draining
from berthmaster.deciding.moves import MoveDecider, decide_with_moves
from berthmaster.deciding.rules import BERTHMASTER, OWN, SchedulerRules, rules_of
from berthmaster.deciding.running import reported_replicas, with_overrides
from berthmaster.deciding.writes import Version, effective, status_write
from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import mapping_of
from berthmaster.model.meta import Timestamp, with_status
from berthmaster.model.move import MovePhase, as_moved, move_of, read_move
from berthmaster.model.template_facts import TemplateFacts
from berthmaster.model.work import DEFAULT_GRACE_S, Copies, CopyOfWorkload
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.scheduler import Scheduler

_MOST_STEPS: Final = 200
"""A move with more steps than this does not end. What it has reached then counts."""
_STANDS_AFTER_S: Final = 60.0
"""After this time without a change, a move that is overdue or waits for others stays as it is."""
NOTICED_S: Final = 40.0
"""How long it takes Karmada to notice that a cluster has failed, by default."""
_GENERATIONS: Final = frozenset({"generation", "observedGeneration", "resourceTemplateGeneration"})
"""What a report says about the template. A copy that becomes healthy runs the newest one."""


@dataclass(frozen=True, slots=True)
class Surmise:
    """What is assumed while time passes.

    Attributes:
        replaced_after_s: after which time failover leaves a cluster that is not ready; None without failover.
        rules: those of the scheduler that the binding names.
        policy: what configuration and policy say about the moves of the binding. It begins no move that nothing but
            time asks for: no failback, no drain, no rebalancing.
        facts: what the manifest of the workload says.
        producer: the name that Berthmaster's scheduler writes into eviction tasks.
        silent: the clusters that have stopped answering, and still count as ready.
        overridden: the replicas that overrides set for a copy, by cluster.
    """

    replaced_after_s: float | None = None
    rules: SchedulerRules = BERTHMASTER
    policy: PolicyMoves = field(default_factory=PolicyMoves)
    facts: TemplateFacts = field(default_factory=TemplateFacts)
    producer: str = OWN
    silent: frozenset[str] = frozenset()
    overridden: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Course:
    """How a move goes on.

    Attributes:
        binding: the binding when nothing changes any more, or when the time is over.
        copies: its copies then.
        trigger: why its scheduler has scheduled it meanwhile; NONE if the move alone goes on.
        last: the last decision. It changes nothing.
        ends_as_recorded: whether the move ends at its recorded target, and nothing else happens to the copies.
        begun: the binding after the first step, which takes no time.
    """

    binding: Binding
    trigger: Trigger
    last: BindingDecision
    ends_as_recorded: bool
    begun: Binding
    copies: Copies

    @property
    def reported(self) -> Binding:
        """The binding, with what its copies report."""
        return _reported(self.binding, self.copies)

    @property
    def stands(self) -> bool:
        """Whether the move does not end: copies stay as they are."""
        state = move_of(self.binding)
        return state is not None and state.under_way

    @property
    def ends_as_begun(self) -> bool:
        """Whether the move ends at the target of its first step."""
        if self.stands or self.trigger is not Trigger.NONE:
            return False
        return _ends_as_recorded(self.begun, self.binding)


def is_moving(binding: Binding, producer: str = OWN) -> bool:
    """Return whether a move of a binding is under way, or has left something behind that its scheduler removes."""
    state, problem = read_move(binding)
    if problem or (state is not None and state.under_way):
        return True
    return bool(own_tasks(binding, producer))


def course_of(
    scheduler: Scheduler, binding: Binding, now: Timestamp, surmise: Surmise, for_s: float | None = None
) -> Course:
    """Return how the move of a binding goes on from a time on. ``for_s``: for how long; None until nothing changes."""
    state = cluster_state(scheduler, surmise)
    started, begun, elapsed_s, idle_s, trigger = binding, binding, 0.0, 0.0, Trigger.NONE
    copies = assumed_copies(binding, scheduler.fleet, surmise)
    for _ in range(_MOST_STEPS):
        at = now + timedelta(seconds=elapsed_s)
        context = MoveContext(at, lambda _: surmise.policy, producer=surmise.producer, copies=copies)
        last = decide_with_moves(state, _reported(binding, copies), elapsed_s, None, context)
        trigger = last.trigger if trigger is Trigger.NONE else trigger
        after = written(binding, last, at)
        changes = _copies(after) != _copies(binding)
        idle_s = 0.0 if changes else idle_s
        binding = after
        begun = begun if elapsed_s else after
        copies = assumed_copies(binding, scheduler.fleet, surmise, copies)
        wait_s = _wait_s(state, binding, last, elapsed_s, idle_s, at)
        if wait_s is None and not changes:
            break
        wait_s = wait_s or STATUS_LAG_S
        elapsed_s, idle_s = elapsed_s + wait_s, idle_s + wait_s
        if for_s is not None and elapsed_s > for_s:
            break
    as_recorded = trigger is Trigger.NONE and _ends_as_recorded(started, binding)
    return Course(binding, trigger, last, as_recorded, begun, copies)


def ended(scheduler: Scheduler, binding: Binding, now: Timestamp, own: str = OWN) -> Binding:
    """Return a binding as if time had passed until its move has ended, with the group of its assignment.

    A move that does not end counts as ended at its present target. ``own``: the name that Berthmaster's scheduler
    serves, and writes into eviction tasks.
    """
    if not is_moving(binding, own):
        return effective(binding)
    surmise = Surmise(rules=rules_of(binding, own), producer=own)
    return as_moved(course_of(scheduler, binding, now, surmise).binding)


def cluster_state(scheduler: Scheduler, surmise: Surmise) -> ClusterState:
    """Return the clusters as the scheduler sees them. A cluster that is not ready has just failed, at the time 0.

    A cluster that is being deleted goes while time passes, whether or not it answers.
    """
    return ClusterState(
        scheduler,
        {each.name: 0.0 for each in scheduler.fleet if not (each.ready or each.deleting)},
        FailoverOptions(surmise.replaced_after_s, surmise.producer),
        frozenset(each.name for each in scheduler.fleet if is_draining(each)),
        surmise.rules,
    )


def decider_at(
    scheduler: Scheduler, binding: Binding, now: Timestamp, elapsed_s: float, surmise: Surmise
) -> MoveDecider:
    """Return what decides for a binding some seconds after a time."""
    copies = assumed_copies(binding, scheduler.fleet, surmise)
    context = MoveContext(now, lambda _: surmise.policy, producer=surmise.producer, copies=copies)
    return MoveDecider(cluster_state(scheduler, surmise), elapsed_s, None, context)


def only_asked(policy: PolicyMoves) -> PolicyMoves:
    """Return what a policy says about moves, without the sources that begin moves when time passes."""
    return replace(policy, settings=NO_SOURCE.applied(policy.settings))


def assumed_copies(binding: Binding, fleet: Fleet, surmise: Surmise, before: Copies | None = None) -> Copies:
    """Return the Works that Karmada keeps for a binding once it has done what the binding says.

    Karmada deletes a Work on a cluster that is not ready, and waits until the cluster is back. As long as such a
    deletion belongs to a task with the purge mode Directly, it writes no Work: those that there are stay as they are.

    Args:
        before: the copies before the last change of the binding; None for those that the binding reports.
    """
    known = binding.reports
    there = known.keys() if before is None else before.by_cluster.keys()
    tasks = binding.spec.graceful_eviction_tasks
    wanted = {each.from_cluster: each.replicas or 0 for each in tasks if each.keeps_copy} | binding.assignment
    left = [each for name in sorted(there - wanted.keys()) if (each := fleet.get(name)) is not None]
    hanging = {each.name for each in left if _is_out_of_reach(each, surmise)}
    starts = hanging.isdisjoint(binding.purged_from)
    preserved = bool(binding.spec.preserve_resources_on_deletion)
    asked = with_overrides(binding, wanted, surmise.overridden)
    found = {}
    for name, wants in [*asked.items(), *((each, 0) for each in hanging)]:
        cluster = fleet.get(name)
        if cluster is None or cluster.deleting or not (starts or name in there):
            continue
        item = known.get(name, AggregatedStatusItem(name))
        replicas = wants if starts else _written(binding, name, wants, item, before)
        if name in wanted and cluster.ready and name not in surmise.silent and binding.dispatches_to(name):
            item = _healthy(item, replicas)
        found[name] = CopyOfWorkload(
            name in hanging, replicas, 0, DEFAULT_GRACE_S, item, preserved=preserved, facts=surmise.facts
        )
    return Copies(found)


def _written(binding: Binding, name: str, replicas: int, item: AggregatedStatusItem, before: Copies | None) -> int:
    """Return the replicas of a Work that is not written again: those before, or those that its member reports."""
    if before is not None:
        return before.by_cluster[name].replicas or 0
    return reported_replicas(binding, item, replicas)


def _is_out_of_reach(cluster: Cluster, surmise: Surmise) -> bool:
    return cluster.name in surmise.silent or (not cluster.ready and not cluster.deleting)


def _healthy(item: AggregatedStatusItem, replicas: int) -> AggregatedStatusItem:
    """Return a report whose replicas are all ready. What it says about anything but replicas stays."""
    stays = mapping_of(item.status)
    status = {name: value for name, value in stays.items() if name not in _GENERATIONS}
    status |= {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
    return AggregatedStatusItem(item.cluster_name, status, applied=True, health="Healthy")


def _reported(binding: Binding, copies: Copies) -> Binding:
    """Return a binding in whose status Karmada has collected what the copies report."""
    items = (each.item for _, each in sorted(copies.by_cluster.items()))
    return with_status(binding, aggregated_status=tuple(each for each in items if each.runs))


def written(binding: Binding, decision: BindingDecision, now: Timestamp) -> Binding:
    """Return a binding as the controllers write a decision: first its assignment, then its status."""
    version = Version(binding.metadata.resource_version, binding.metadata.generation)
    after = binding if decision.write is None else decision.write.applied(binding, version)
    return status_write(after, decision.result, now, refresh=decision.refresh).applied(after, version)


def _copies(binding: Binding) -> tuple[object, ...]:
    """Return what the copies of a workload depend on, and the move without its times and messages."""
    state = move_of(binding)
    move = None if state is None else (state.phase, state.source, state.target, state.overdue, state.returning)
    spec = binding.spec
    return spec.clusters, spec.graceful_eviction_tasks, binding.status.last_scheduled_time, move


def _ends_as_recorded(started: Binding, ended: Binding) -> bool:
    moved = as_moved(started)
    return moved is not started and as_moved(ended).assignment == moved.assignment


def _wait_s(
    state: ClusterState, binding: Binding, last: BindingDecision, elapsed_s: float, idle_s: float, now: Timestamp
) -> float | None:
    """Return the seconds until something can change; None if nothing does any more."""
    after_s = state.failover.after_s
    loss_s = None if after_s is None or not state.unready_since_s else after_s - elapsed_s
    if loss_s is not None and loss_s < 0:
        loss_s = None
    move = move_of(binding)
    if move is None or not move.under_way:
        return max(1.0, loss_s) if loss_s is not None and last.requeue_after_s is not None else None
    stands = move.phase is not MovePhase.SOAKING and (move.overdue or bool(move.cause)) and idle_s > _STANDS_AFTER_S
    if stands or last.requeue_after_s is None:
        return None if loss_s is None else max(1.0, loss_s)
    wait_s = max(1.0, last.requeue_after_s)
    if idle_s > STATUS_LAG_S and last.write is None and move.until is not None:
        wait_s = max(wait_s, (move.until - now).total_seconds())
    return wait_s if loss_s is None else max(1.0, min(wait_s, loss_s))
