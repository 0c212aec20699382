"""Plan a change: decide where the workloads go that it concerns, and compare that with where they are.

Only workloads whose binding changes are scheduled again, as in a control plane: nothing else makes a scheduler look at
them. A change of clusters concerns all workloads.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import msgspec.structs

from berthmaster.model.cluster import NO_EXECUTE, Cluster
from berthmaster.model.gaps import Gap, GapKind, texts
from berthmaster.model.reader import ANY_READER, Reader
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.assumptions import Assumptions
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.losses import Gone, is_left, loss_of
from berthmaster.simulation.plan_answer import ClusterTotal, Loss, Plan, PlanSummary, StayingWorkload, StayReason
from berthmaster.simulation.plan_decisions import PlanDecider, with_followers
from berthmaster.simulation.plan_index import PlanIndex, WorkloadKey
from berthmaster.simulation.plan_rows import move_of, policy_effects, seen_by, staying_of, unplaced_of
from berthmaster.simulation.plan_totals import cluster_totals, summary_of
from berthmaster.simulation.planned_changes import ChangedWorkloads, changed_workloads
from berthmaster.simulation.run import PlannedWorkload, present, run
from berthmaster.simulation.world import World

_FORMAT: Final = 1
"""Raised when the definition changes, so that ids of different definitions differ."""
_DIGITS: Final = 16


def plan(
    index: PlanIndex,
    changes: ChangeSet,
    now: datetime,
    *,
    gaps: Sequence[Gap] = (),
    check: Callable[[], None] = lambda: None,
    reader: Reader = ANY_READER,
) -> Plan:
    """Return what changes would move.

    The caller keeps the index for further plans, which it leaves unchanged. For a service that plans each admission
    review: keep one ``PlanIndex``, call ``update`` with the current world before each plan, and hold one lock during
    both. The plan of a policy that concerns few workloads then costs what these workloads cost.

    Args:
        index: the world before the changes, with all resources that the changed policies can select.
        changes: the changes.
        now: the time of the changes; later than every scheduling in the world.
        gaps: what is not known about the world and can change the answer.
        check: called before each workload; an exception that it raises ends the plan.
        reader: the reader of the sentences in the answer. The rows are those of all workloads; ``visible_plan`` leaves
            out what the reader may not see.

    Raises:
        InputError: a deleted cluster does not exist, or the fleet is full.
    """
    changed = changed_workloads(index, changes, now, check)
    decider = PlanDecider(index, changed, now, check)
    return plan_of(index, changes, changed, decider, decider.concerned(), gaps=gaps, reader=reader)


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """All workloads before and after changes.

    Attributes:
        workloads: the workloads, in the order of the world. ``settled`` is set.
        clusters: the clusters after the changes, with the status that they report.
        gone: the clusters whose copies stop.
        assumptions: the switches of the control plane that the answer assumes.
    """

    workloads: Sequence[PlannedWorkload]
    clusters: Mapping[str, Cluster]
    gone: Gone
    assumptions: Assumptions

    @property
    def summary(self) -> PlanSummary:
        return summary_of(self.workloads, len(self.workloads), self.gone)

    @property
    def loss(self) -> Loss | None:
        """What stops running; None if no cluster is lost or deleted."""
        return loss_of(self.workloads, self.gone) if self.gone.clusters else None


def planned_fleet(
    world: World,
    changes: ChangeSet,
    profile: Profile,
    now: datetime,
    *,
    shared_capacity: bool = False,
    check: Callable[[], None] = lambda: None,
) -> PlannedFleet:
    """Return all workloads before and after changes, also those that the changes do not concern.

    The scheduling that is due anyway comes first. The changes happen one second later.

    Args:
        world: the world before the changes. Without any binding, a first scheduling says where workloads are.
        changes: the changes.
        profile: the plugins that decide.
        now: the time of the scheduling that is due; later than every scheduling in the world.
        shared_capacity: whether each decision sees the replicas that the others add (``PlanDecider``).
        check: called before each workload; an exception that it raises ends the plan.

    Raises:
        InputError: a change names a cluster or workload that does not exist, or the fleet is full.
    """
    before = present(world)
    base, settled = run(world, profile, now, shared_capacity=shared_capacity, check=check)
    if not world.has_bindings:
        before = settled
    index, later = PlanIndex(base, profile), now + timedelta(seconds=1)
    changed = changed_workloads(index, changes, later, check)
    decider = PlanDecider(index, changed, later, check, everything=True, shared_capacity=shared_capacity)
    # Deductions for replicas that were just assigned are no status.
    clusters = {name: world.clusters.get(name, each) for name, each in decider.clusters.items()}
    workloads = [PlannedWorkload(*each) for each in zip(before, decider.all(), settled, strict=True)]
    return PlannedFleet(workloads, clusters, decider.gone, decider.assumptions)


def plan_of(
    index: PlanIndex,
    changes: ChangeSet,
    changed: ChangedWorkloads,
    decider: PlanDecider,
    decided: dict[WorkloadKey, PlannedWorkload],
    *,
    gaps: Sequence[Gap] = (),
    reader: Reader = ANY_READER,
    lists_staying: bool = True,
) -> Plan:
    """Return the plan of decided workloads.

    Args:
        index: the world before the changes.
        changes: the changes.
        changed: what they make of the workloads.
        decider: has decided the workloads.
        decided: the workloads that the changes concern (``PlanDecider.concerned``).
        gaps: see ``plan``.
        reader: see ``plan``.
        lists_staying: whether the plan lists the workloads that stay. Its id does not depend on them.
    """
    concerned, followers = with_followers(index, decider, decided)
    rows = [seen_by(each, reader) for each in (*concerned, *followers)]
    gone = decider.gone
    rows.sort(key=lambda each: (not is_left(each, gone), bool(each.after.assignment), each.resource))
    moving = [move_of(each) for each in rows if each.moves]
    moving.sort(key=lambda each: (-each.replicas, -len(each.deleted), each.resource))
    totals = _changed_clusters(index, decider.clusters, [each for each in rows if each.moves])
    all_gaps = sorted(texts([*gaps, *changed.gaps, *_unknown_dependencies(rows)], reader))
    answer = Plan(
        id="",
        summary=summary_of(rows, len(index) + sum(each.is_new for each in concerned), gone),
        concerned=len(concerned),
        deleted_copies=sum(len(each.deleted) for each in moving),
        complete=not all_gaps,
        gaps=all_gaps,
        policies=policy_effects(index, changed.edits, concerned),
        unplaced=[unplaced_of(each, gone) for each in rows if each.after.failure is not None or is_left(each, gone)],
        moves=moving,
        overcommitted=[each.cluster for each in totals if each.overcommitted],
        clusters=totals,
        staying=_staying(concerned, changed) if lists_staying else [],
        overrides=list(changes.overrides),
        assumptions=decider.assumptions,
        preemption_matters=changed.preemption_matters,
        evicting_taints=_gains_no_execute(index.world.clusters, decider),
        loss=loss_of(rows, gone) if gone.clusters else None,
    )
    return msgspec.structs.replace(answer, id=plan_id(changes, answer))


def _gains_no_execute(before: Mapping[str, Cluster], decider: PlanDecider) -> bool:
    return any(
        taint.effect == NO_EXECUTE and (name not in before or taint not in before[name].spec.taints)
        for name, cluster in decider.clusters.items()
        if before.get(name) is not cluster and name not in decider.gone.lost
        for taint in cluster.spec.taints
    )


def _staying(concerned: Sequence[PlannedWorkload], changed: ChangedWorkloads) -> list[StayingWorkload]:
    return [
        *(staying_of(each) for each in concerned if not each.moves and not each.is_deleted),
        *(
            StayingWorkload(str(workload), str(policy), StayReason.HELD, reason)
            for workload, policy, reason in changed.blocked.values()
        ),
    ]


def _changed_clusters(
    index: PlanIndex, clusters: Mapping[str, Cluster], moving: Sequence[PlannedWorkload]
) -> list[ClusterTotal]:
    """Return the clusters whose replicas change, or that get copies, ordered by name."""
    touched = {name for each in moving for name in each.moves}
    change: Counter[str] = Counter()
    for each in moving:
        for name, (then, now) in each.moves.items():
            change[name] += (now or 0) - (then or 0)
    present = index.replicas
    return [
        msgspec.structs.replace(each, before=present[each.cluster], after=present[each.cluster] + change[each.cluster])
        for each in cluster_totals((cluster for name, cluster in clusters.items() if name in touched), moving)
    ]


def first_scheduled(world: World, profile: Profile, now: datetime) -> World:
    """Return a world of manifests without bindings after a first scheduling, as if a control plane ran it."""
    scheduled, _ = run(world, profile, now)
    workloads = [
        replace(each, present=each.binding is not None and each.unscheduled is None) for each in scheduled.workloads
    ]
    return replace(scheduled, workloads=workloads)


def _unknown_dependencies(rows: Iterable[PlannedWorkload]) -> list[Gap]:
    return [
        Gap(GapKind.DEPENDENCIES, (each.resource,))
        for each in rows
        if each.moves and not each.is_deleted and each.after.workload.dependencies is None
    ]


def plan_id(changes: ChangeSet, answer: Plan) -> str:
    """Return the id of a plan: a hash of the change and of its effect.

    The change enters with everything that affects decisions, but without the rest of its metadata. The effect is:
    which policy holds what before and after, from where to where each workload moves, which copies are deleted, which
    workloads cannot be scheduled, and which clusters are overcommitted. Amounts, messages, the rest of the world, and
    workloads that do not move do not enter. ``docs/plan.md`` has the table.

    Args:
        changes: the change.
        answer: the plan. Its own id does not count.
    """
    content = [_FORMAT, changes.digest_input(), _effect(answer)]
    encoded = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:_DIGITS]


def _effect(answer: Plan) -> dict[str, Any]:
    moves = [
        [each.resource, each.policy_before, each.policy, each.group_before, each.group, each.before, each.after,
         each.deleted, each.preserved, each.evicting, each.removed]
        for each in answer.moves
    ]  # fmt: skip
    policies = [
        [each.policy, each.action, each.gains, each.takes, each.loses, each.unclaimed] for each in answer.policies
    ]
    return {
        "moves": sorted(moves, key=lambda each: str(each[0])),
        "policies": sorted(policies, key=lambda each: str(each[0])),
        "unplaced": sorted([each.resource, each.nowhere, each.by_change] for each in answer.unplaced),
        "overcommitted": sorted([each.cluster, each.overcommitted] for each in answer.clusters if each.overcommitted),
        "complete": answer.complete,
    }
