"""The rows of a plan: what changes do to each workload, policy and cluster, and in total."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final, assert_never

from msgspec.structs import fields, replace

from berthmaster.deciding.running import Hosts, NotRunning
from berthmaster.model.applied_placement import decoded_placement, without_empty_groups
from berthmaster.model.binding import Binding
from berthmaster.model.errors import name_list
from berthmaster.model.move import move_of as recorded_move
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import may_take_over
from berthmaster.model.readers import Reader
from berthmaster.model.replicas import template_of
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.prices import NO_COST, Cost, CostChange, Costs
from berthmaster.scheduling.request import Request
from berthmaster.simulation import plan_answer
from berthmaster.simulation.change_set import PlanIndex
from berthmaster.simulation.detector import PolicyEdit
from berthmaster.simulation.losses import (
    is_left,
    keeps_all,
    not_running,
    overridden_changes,
    preserves,
    runs_nowhere,
    stopping,
)
from berthmaster.simulation.plan_answer import ClaimChange, StayReason
from berthmaster.simulation.report import notes_on, row
from berthmaster.simulation.results import Moves, PlannedWorkload
from berthmaster.simulation.workload import NO_COMPANIONS, NotScheduled

_PARTS: Final = {field.name: field.encode_name for field in fields(Placement)}
"""The parts of a placement, and how documents name them."""


def seen_by(planned: PlannedWorkload, reader: Reader) -> PlannedWorkload:
    """Return the same without the names of workloads that a reader may not see, for the texts about it."""
    after = planned.after
    if reader.namespaces is None or after.companions is NO_COMPANIONS:
        return planned
    return replace(planned, after=replace(after, companions=after.companions.seen_by(reader)))


def move_of(planned: PlannedWorkload, hosts: Hosts) -> plan_answer.PlannedMove:
    """Return the row of a workload that moves."""
    after, before, cause = planned.after, planned.before, _cause(planned)
    deleted, preserved, evicting = _left(planned)
    return plan_answer.PlannedMove(
        resource=planned.resource,
        policy_before=policy_text(planned.holder_before),
        policy=policy_text(planned.holder_after),
        group_before=before.group or None,
        group=after.group or None,
        before=before.assignment,
        after=after.assignment,
        moves=planned.moves,
        replicas=moved_replicas(planned.moves),
        deleted=deleted,
        preserved=preserved,
        evicting=evicting,
        trigger=cause.after.trigger,
        reason="the resource is deleted" if planned.is_deleted else why_moved(cause),
        due=planned.is_due,
        removed=planned.is_deleted,
        not_running=not_running(planned, hosts),
        notes=[*notes_on(after, names_evictions=False), *dip_notes(planned), *override_notes(planned)],
    )


def dip_notes(planned: PlannedWorkload) -> list[str]:
    """Return the sentence about replicas that may be fewer for a while; empty if none are."""
    before, after = planned.before.assignment, planned.after.assignment
    passed = [f"{name} {before[name]} → {least} → {after[name]}" for name, least in sorted(planned.dips.items())]
    what = "placement and template change one after the other, so that replicas may dip"
    return [f"{what}: {name_list(passed)}"] if passed else []


def override_notes(planned: PlannedWorkload) -> list[str]:
    """Return the sentence about replicas that a change of overrides changes where the workload stays."""
    passed = [f"{name} {then} → {now}" for name, (then, now) in overridden_changes(planned).items()]
    return [f"overrides change its replicas: {name_list(passed)}"] if passed else []


def _notes(planned: PlannedWorkload) -> list[str]:
    return [*notes_on(planned.after), *dip_notes(planned), *override_notes(planned)]


def _cause(planned: PlannedWorkload) -> PlannedWorkload:
    """Return the step that moves a workload: what is due, if the changes let no scheduler look at it again."""
    settled, after = planned.settled, planned.after
    if settled is None or after.trigger is not Trigger.NONE or settled.trigger is Trigger.NONE or not planned.is_due:
        return planned
    return replace(planned, after=settled)


def deleted_copies(planned: PlannedWorkload) -> int:
    """Return how many copies Karmada deletes: the length of ``PlannedMove.deleted``."""
    return len(_left(planned)[0])


def unplaced_of(planned: PlannedWorkload, hosts: Hosts) -> plan_answer.UnplacedWorkload:
    """Return the row of a workload that runs nowhere, or with too few replicas. ``gone`` stops copies."""
    stopped = ", ".join(sorted(stopping(planned, hosts)))
    stops = f"its copies on {stopped} stop, and nothing takes their place" if stopped else ""
    reasons = [stops, not_running_text(not_running(planned, hosts)), row(planned.after).message or ""]
    return plan_answer.UnplacedWorkload(
        resource=planned.resource,
        policy=policy_text(planned.holder_after),
        nowhere=runs_nowhere(planned, hosts),
        by_change=is_left(planned, hosts),
        message="; ".join(filter(None, reasons if planned.after.failure is None else reasons[::-1])),
        keeps=keeps_all(planned, hosts),
    )


def not_running_text(found: Mapping[str, NotRunning]) -> str:
    """Return a sentence about replicas that do not run where they arrive; empty if all run."""
    by_reason: dict[NotRunning, list[str]] = {}
    for name, why in sorted(found.items()):
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"replicas do not start on {name_list(names)}: {_why(why)}" for why, names in by_reason.items())


def _why(found: NotRunning) -> str:
    match found:
        case NotRunning.LOST:
            return "the cluster is lost"
        case NotRunning.DELETED:
            return "the cluster is being deleted"
        case NotRunning.NOT_READY:
            return "the cluster is not ready"
        case NotRunning.SUSPENDED:
            return "dispatching to it is suspended"
        case NotRunning.PURGE:
            return "a copy on a cluster that is out of reach must be deleted first (purgeMode Directly)"
        case _:
            assert_never(found)


def staying_of(planned: PlannedWorkload) -> plan_answer.StayingWorkload:
    """Return the row of a workload that does not move."""
    reason, message = why_stays(planned)
    policy, notes = policy_text(planned.holder_after), _notes(planned)
    return plan_answer.StayingWorkload(planned.resource, policy, reason, message, notes)


def unconcerned_of(planned: PlannedWorkload) -> plan_answer.StayingWorkload:
    """Return the row of a workload that the change does not concern."""
    unscheduled, reason = planned.after.unscheduled, StayReason.UNCHANGED
    message = "the change does not concern it"
    if planned.moves:
        reason, message = (
            StayReason.DUE,
            "it moves at its next scheduling in any case, and the change does not concern it",
        )
    elif unscheduled is not None:
        reason, message = StayReason.NOT_SCHEDULED, unscheduled.message
    policy, notes = policy_text(planned.holder_after), notes_on(planned.after)
    return plan_answer.StayingWorkload(planned.resource, policy, reason, message, notes)


@lru_cache(maxsize=4096)  # a policy has many workloads
def policy_text(reference: PolicyReference | None) -> str | None:
    """Return the text of a policy in rows; None for none."""
    return str(reference) if reference is not None else None


def _left(planned: PlannedWorkload) -> tuple[list[str], list[str], list[str]]:
    """Return the clusters that a workload leaves: those that lose, keep and evict their copy."""
    left = sorted(name for name, (_, now) in planned.moves.items() if now is None)
    binding = None if planned.is_deleted else planned.after.workload.binding
    tasks = binding.spec.graceful_eviction_tasks if binding is not None else ()
    evicting = {each.from_cluster for each in tasks if each.keeps_copy}.intersection(left)
    gone = [name for name in left if name not in evicting]
    kept = preserves(planned.before.workload.binding)
    return [] if kept else gone, gone if kept else [], sorted(evicting)


def why_moved(planned: PlannedWorkload) -> str:
    """Return why a workload moves: the trigger in words, and the cause as far as the change shows it."""
    result, workload = planned.after, planned.after.workload
    cause = _new_holder(planned)
    old = planned.before.workload.binding
    match result.trigger:
        case Trigger.FIRST:
            return cause or _first(old, workload.binding)
        case Trigger.RECONCILE:
            parts = changed_parts(old, workload.binding)
            if parts:
                return _joined(cause, f"its placement changes ({', '.join(parts)})")
            changed = _replicas_changed(old, workload.binding)
            return _joined(cause, changed or "such bindings are scheduled at every event")
        case Trigger.SCALE:
            return _joined(cause, _scaled(old, workload.binding))
        case Trigger.RESCHEDULED:
            return _joined(cause, "a rescheduling was requested")
        case Trigger.FAILOVER:
            return _joined(cause, "a cluster of its assignment is being deleted or evicts it")
        case Trigger.NONE:
            if result.companions.follows:
                return f"it follows {', '.join(result.companions.follows)}"
            state = recorded_move(old) if old is not None else None
            if state is not None and state.under_way:
                end = "ends" if workload.binding is None or recorded_move(workload.binding) else "is rolled back"
                end = "waits" if result.as_is else end
                return _joined(cause, f"its move ({state.reason.value}) is under way and {end}")
            return cause or "no workload needs it any more"


def _first(old: Binding | None, new: Binding | None) -> str:
    """Return why a workload without clusters is scheduled. One with 0 replicas before was scheduled, too."""
    if old is None or new is None:
        return "it is scheduled for the first time"
    return _replicas_changed(old, new) or "it has no cluster"


def why_stays(planned: PlannedWorkload) -> tuple[StayReason, str]:
    """Return why a workload that the change concerns does not move."""
    before, result, workload = planned.before.workload, planned.after, planned.after.workload
    unscheduled = result.unscheduled
    waiting = workload.waits
    if waiting is not None and (before.waits is None or workload.deferred != before.deferred):
        return StayReason.WAITS, waiting.message
    if unscheduled is not None:
        lazy = unscheduled.reason is NotScheduled.DEFERRED
        return (StayReason.LAZY if lazy else StayReason.NOT_SCHEDULED), unscheduled.message
    if workload.deferred is not None and (planned.is_new or workload.deferred != before.deferred):
        return StayReason.LAZY, "its policy is Lazy: the change counts when its template changes"
    if result.decision is not None and result.decision.failure is not None:
        return StayReason.FAILED, "it cannot be scheduled, and keeps what it has"
    if planned.has_event and result.trigger is not Trigger.NONE:
        return (
            StayReason.SAME_RESULT,
            f"it is scheduled again ({result.trigger.value}), with the same result",
        )
    if not planned.has_event:
        return StayReason.UNCHANGED, "its binding does not change"
    parts = changed_parts(before.binding, workload.binding)
    if "clusterAffinities" in parts and result.group:
        return StayReason.OTHER_GROUP, f"the change leaves its group {result.group} as it is"
    what = f"a change of {', '.join(parts)}" if parts else "the change"
    return StayReason.NOT_TRIGGERED, f"{what} does not trigger scheduling"


def changed_parts(before: Binding | None, after: Binding | None) -> list[str]:
    """Return the names of the parts of the placement that differ from the applied one, or else from the one before."""
    if before is None or after is None or after.spec.placement is None:
        return []
    then = decoded_placement(before.applied_placement) or before.spec.placement
    if then is None:
        return []
    then, now = without_empty_groups(then), without_empty_groups(after.spec.placement)
    return [name for field, name in _PARTS.items() if (getattr(then, field) or None) != (getattr(now, field) or None)]


def _new_holder(planned: PlannedWorkload) -> str:
    before, after = planned.holder_before, planned.holder_after
    if after is None or before == after:
        return ""
    return f"{after} claims it" if before is None else f"{after} replaces {before}"


def _scaled(before: Binding | None, after: Binding | None) -> str:
    if before is None:
        return "it is scheduled for the first time"
    return _replicas_changed(before, after) or "its assigned replicas differ from the requested ones"


def _replicas_changed(before: Binding | None, after: Binding | None) -> str:
    if before is None or after is None or before.spec.replicas == after.spec.replicas:
        return ""
    return f"its replicas change from {before.spec.replicas} to {after.spec.replicas}"


def _joined(cause: str, reason: str) -> str:
    return f"{cause}, and {reason}" if cause else reason


class PolicyEffects:
    """The effect of each edited policy, in order, and of the others that take resources because of an edit."""

    def __init__(self, index: PlanIndex, edits: Sequence[PolicyEdit]) -> None:
        self._index = index
        self._after = {each.reference: each.after for each in edits}
        self._effects = {
            each.reference: plan_answer.PolicyEffect(str(each.reference), _action(each, index)) for each in edits
        }
        self._keeps = Counter[PolicyReference]()

    def add(self, planned: PlannedWorkload) -> None:
        then, now = planned.holder_before, planned.holder_after
        if then == now or planned.is_deleted:
            if then is not None and then in self._effects:
                self._keeps[then] += not planned.is_deleted
            return
        change = ClaimChange(planned.resource, policy_text(then), policy_text(now))
        taker, holder = self._known(now), self._known(then)
        template = planned.after.workload.manifest
        taken = taker is not None and holder is not None and may_take_over(taker, holder, template_of(template))
        # A policy that is not edited is listed if it takes something, or if no edited policy is concerned.
        if then is not None and (then in self._effects or now is None):
            effect = self._of(then)
            (effect.unclaimed if now is None else effect.loses).append(change)
        if now is not None and (now in self._effects or taken or then not in self._effects):
            effect = self._of(now)
            (effect.takes if taken else effect.gains).append(change)

    def results(self) -> list[plan_answer.PolicyEffect]:
        for effect in self._effects.values():
            for listed in (effect.gains, effect.takes, effect.loses, effect.unclaimed):
                listed.sort(key=attrgetter("resource"))
        return [replace(effect, keeps=self._keeps[reference]) for reference, effect in self._effects.items()]

    def _of(self, reference: PolicyReference) -> plan_answer.PolicyEffect:
        return self._effects.setdefault(reference, plan_answer.PolicyEffect(str(reference), "unchanged"))

    def _known(self, reference: PolicyReference | None) -> Policy | None:
        if reference is None:
            return None
        return self._after[reference] if reference in self._after else self._index.policy(reference)


def _action(edit: PolicyEdit, index: PlanIndex) -> str:
    if edit.after is None:
        return "deleted"
    before = index.policy(edit.reference)
    if before is None:
        return "created"
    return "updated" if before.spec != edit.after.spec else "unchanged"


def summary_of(
    workloads: int,
    moves: Sequence[tuple[int, bool]],
    unplaced: Sequence[tuple[str, bool, bool, bool]],
    cost: CostChange | None,
) -> plan_answer.PlanSummary:
    """Return what changes would move in total.

    Args:
        moves: of each workload that moves its replicas that move, and whether it is due.
        unplaced: of each workload that cannot be scheduled its name, whether it runs nowhere, whether that is by the
            changes, and whether it keeps all replicas, in the order of the names in the answer.
    """
    return plan_answer.PlanSummary(
        workloads=workloads,
        moved=len(moves),
        replicas=sum(replicas for replicas, _ in moves),
        nowhere=[name for name, nowhere, _, _ in unplaced if nowhere],
        short=[name for name, nowhere, _, _ in unplaced if not nowhere],
        new_failures=[name for name, _, by_change, _ in unplaced if by_change],
        due=sum(due for _, due in moves),
        cost=cost,
        keeping=[name for name, _, _, keeps in unplaced if keeps],
    )


def cost_of(planned: PlannedWorkload, costs: Costs) -> Cost:
    """Return what a move costs; nothing without a binding."""
    binding = planned.after.workload.binding or planned.before.workload.binding
    if binding is None:
        return NO_COST
    return costs.of(Request.of(binding), planned.before.assignment, planned.after.assignment)


def moved_replicas(found: Moves) -> int:
    """Return the replicas that move: those that arrive or those that leave, whichever are more."""
    differences = [(now or 0) - (then or 0) for then, now in found.values()]
    return max(sum(each for each in differences if each > 0), -sum(each for each in differences if each < 0))
