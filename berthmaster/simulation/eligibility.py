"""Whether a scheduler looks at a workload (karmada ``resourceBindingEventFilter``), why not, and what it decides from.

- A policy waits for objects that do not exist: Karmada creates no binding, and does not update one.
- karmada-scheduler ignores the error that no cluster fits (``getConditionByError``). It tries again when the spec of
  the binding changes, or when the labels or the spec of a cluster change that the binding may use
  (``enqueueAffectedBindings``). The status of a cluster, such as a kind that it serves now, is no event. Berthmaster's
  scheduler tries again.
- A move under way goes on as the controllers continue it (``deciding/move_course.py``).
- Karmada's taint manager, Berthmaster's failover and the deletion of a cluster take workloads off a cluster, under the
  assumptions of the world.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, assert_never

from msgspec.structs import replace

from berthmaster.model import move as moves
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, BindingSpec, GracefulEvictionTask, TargetCluster
from berthmaster.model.claims import KUBE_PRIORITY_CLASS, MANAGED_BY, PRIORITY_CLASS, Existing, overrides_of
from berthmaster.model.cluster import NO_EXECUTE, Cluster, Taint, Toleration
from berthmaster.model.errors import name_list
from berthmaster.model.meta import with_spec
from berthmaster.model.policy import DEFAULT_SCHEDULER, AffinityTerm, Policy
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, decoded_placement, trigger_of
from berthmaster.simulation.plan_answer import TAINT_MANAGER, Assumptions
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

_NO_EVENTS: Final = frozenset({"resource", "conflict_resolution"})
"""The fields of a binding that a simulation completes. A change of each other one makes the scheduler try again."""
SCHEDULERS: Final = frozenset({DEFAULT_SCHEDULER, "berthmaster"})
"""The schedulers that a simulation knows by default: Karmada's and Berthmaster's. Both decide alike."""
UNCLAIMED: Final = Unscheduled(NotScheduled.UNCLAIMED, "no policy selects it")
LOST: Final = Unscheduled(NotScheduled.UNCLAIMED, "no policy holds it any more: it stays where it is")


def why_not_scheduled(workload: SimulatedWorkload, schedulers: Collection[str] = SCHEDULERS) -> Unscheduled | None:
    """Return why no scheduler looks at a workload; None if one does."""
    binding = workload.binding
    if workload.unscheduled is not None:
        return workload.unscheduled
    if binding is None:
        return UNCLAIMED
    spec = binding.spec
    if binding.metadata.deletion_timestamp is not None:
        return Unscheduled(NotScheduled.DELETING, "its binding is being deleted")
    if spec.placement is None:
        if spec.required_by:
            return Unscheduled(NotScheduled.FOLLOWS, "it follows the workloads that need it")
        return Unscheduled(NotScheduled.UNCLAIMED, "its binding has no placement, and no workload needs it")
    if unsupported := unsupported_parts(spec.placement):
        return Unscheduled(
            NotScheduled.UNSUPPORTED,
            f"a part of its placement is not known, so that no decision is simulated: {'; '.join(unsupported)}",
        )
    if binding.suspended:
        return Unscheduled(NotScheduled.SUSPENDED, "its scheduling is suspended: nothing moves until it is resumed")
    if binding.scheduler not in schedulers:
        return Unscheduled(
            NotScheduled.OTHER_SCHEDULER,
            f"it belongs to scheduler {binding.scheduler}, which is not simulated "
            f"(--scheduler-name {binding.scheduler} simulates it by Karmada's rules)",
        )
    # A binding from a file without an UID needs no label of a policy.
    lost = bool(binding.metadata.uid) and not any(map(binding.metadata.labels.get, MANAGED_BY))
    return LOST if lost else None


_GATE: Final = "Karmada writes no binding for it (gate PriorityBasedScheduling, on by default since 1.19)"


def waits(policy: Policy, namespace: str, existing: Existing) -> Unscheduled | None:
    """Return why a policy has no effect on a resource; None if it has one.

    Without its overrides a policy claims nothing (``propagateResource``). Without its priority class it claims the
    resource, and the detector cannot build the binding (``BuildResourceBinding``). A ClusterResourceBinding has no
    priority.
    """
    missing = existing.missing(overrides_of(policy))
    if missing:
        return Unscheduled(
            NotScheduled.MISSING_OVERRIDES,
            f"{policy} waits for {name_list(missing)}: its dependentOverrides must exist",
        )
    priority = policy.spec.schedule_priority
    if priority is None or not namespace:
        return None
    if priority.priority_class_source != KUBE_PRIORITY_CLASS:
        why = f"Karmada supports no priorityClassSource {priority.priority_class_source}, only {KUBE_PRIORITY_CLASS}"
    elif existing.has(name := f"{PRIORITY_CLASS} {priority.priority_class_name}") is False:
        why = f"{policy} names {name}, which does not exist"
    else:
        return None
    return Unscheduled(NotScheduled.NO_PRIORITY, f"{why}: {_GATE}")


def stalls(workload: SimulatedWorkload) -> bool:
    """Return whether nothing makes karmada-scheduler try a workload again."""
    at, binding = workload.stalled_at, workload.binding
    if at is None or binding is None:
        return False
    return all(
        getattr(at, each) == getattr(binding.spec, each)
        for each in BindingSpec.__struct_fields__
        if each not in _NO_EVENTS
    )


def not_retried(assignment: Mapping[str, int]) -> Unscheduled:
    """Return that a workload without clusters would be placed, and what would make the scheduler do so."""
    clusters = ", ".join(f"{name}={count}" if count else name for name, count in sorted(assignment.items()))
    return Unscheduled(
        NotScheduled.NOT_RETRIED,
        f"it fits now ({clusters}), but nothing triggers its scheduling: karmada-scheduler does not try again after "
        "NoClusterFit. An edit of its placement, a label or taint of a cluster, or a WorkloadRebalancer does",
    )


def woken(
    workloads: Sequence[SimulatedWorkload], before: Cluster | None, after: Cluster
) -> Sequence[SimulatedWorkload]:
    """Return workloads after a change of a cluster, which makes the scheduler try those again that may use it.

    ``before``: the cluster before; None if it joins. Karmada taints a new cluster, which is a change of its spec.
    """
    if before is not None and (before.metadata.labels, before.spec, before.deleting) == (
        after.metadata.labels, after.spec, after.deleting,
    ):  # fmt: skip
        return workloads
    versions = [each for each in (before, after) if each is not None]
    return [
        replace(each, stalled_at=None) if each.stalled_at is not None and _may_use(each.binding, versions) else each
        for each in workloads
    ]


def _may_use(binding: Binding | None, versions: Iterable[Cluster]) -> bool:
    """Whether the affinity of a binding matches a version of a cluster. Groups count as matching after a failure."""
    placement = binding.spec.placement if binding is not None else None
    if placement is None:
        return False
    if placement.cluster_affinities is not None or placement.cluster_affinity is None:
        return True
    term = AffinityTerm(placement.cluster_affinity)
    return any(term.matches(each) for each in versions)


def move_note(binding: Binding) -> str:
    """Return a sentence about the move of a binding; empty without one."""
    state = moves.move_of(binding)
    if state is None:
        return moves.move_problem(binding)
    why = f": {state.message}" if state.message else ""
    match state.phase:
        case moves.MovePhase.ELIGIBLE:
            return f"{_reason_to_move(state)}{why}"
        case moves.MovePhase.STABILISING if state.until is not None:
            return f"{_reason_to_move(state)}; it would move to {_place(state)} at {_time(state.until)}"
        case moves.MovePhase.STABILISING:
            return f"{_reason_to_move(state)}; it waits to move to {_place(state)}{why}"
        case moves.MovePhase.RELEASED:
            return f"it moved to {_place(state)} at {_time(state.since)} ({state.reason.value})"
        case moves.MovePhase.ROLLED_BACK | moves.MovePhase.HELD_DOWN:
            return f"it does not move before {_time(state.held_down_until)}{why}"
        case _:
            until = f", until {_time(state.until)}" if state.until is not None else ""
            way = f"{_clusters(state.source)} -> {_clusters(state.target)}, {state.phase.value}{until}"
            return f"a move ({state.reason.value}) to {_place(state)} is under way: {way}{why}"


def _reason_to_move(state: moves.MoveState) -> str:
    return f"{_why_it_moves(state.reason)} since {_time(state.started_at)}"


def _why_it_moves(reason: moves.MoveReason) -> str:
    match reason:
        case moves.MoveReason.FAILBACK:
            return "it is not in its preferred group"
        case moves.MoveReason.DRAIN:
            return "it is to leave a cluster that is being drained"
        case moves.MoveReason.REBALANCE:
            return "it has drifted from its policy"
        case moves.MoveReason.FAILOVER:
            return "it is to leave a lost cluster"
        case moves.MoveReason.RESCHEDULED:
            return "it is to be rescheduled by a move"
        case _:
            assert_never(reason)


def _place(state: moves.MoveState) -> str:
    return f"group {state.target_group}" if state.target_group else _clusters(state.target)


def _clusters(replicas: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(replicas.items())) or "no clusters"


def _time(moment: object) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%SZ}"


_PRODUCER: Final = "berthmaster"


def evicted(
    workload: SimulatedWorkload, fleet: Fleet, assumptions: Assumptions, now: datetime, *, is_scheduled: bool
) -> SimulatedWorkload:
    """Return a workload without the clusters whose NoExecute taints it does not tolerate, as Karmada's taint manager.

    It evicts the bindings of every scheduler, also suspended ones (karmada ``taint_manager.go``). A binding that no
    scheduler has written has no applied placement, and is never evicted. A limited toleration only delays the eviction.
    ``is_scheduled``: whether a scheduler looks at the binding, so that it gets an applied placement.
    """
    binding = workload.binding
    if not assumptions.evicts or binding is None or binding.metadata.deletion_timestamp is not None:
        return workload
    tainted = [each for each in binding.spec.clusters if each.name in fleet.evicting]
    tolerations = _applied_tolerations(binding, is_scheduled=is_scheduled) if tainted else None
    if tolerations is None:
        return workload
    notes = []
    for target in tainted:
        cluster = fleet.get(target.name)
        taints = [each for each in cluster.spec.taints if each.effect == NO_EXECUTE] if cluster is not None else []
        after_s = evicted_after_s(taints, tolerations)
        if after_s is None:
            continue
        binding = _evicted(binding, target, now)
        if after_s:
            notes.append(f"evicted from {target.name} after {after_s} s: it tolerates the taint for that long")
    return replace(workload, binding=binding, notes=(*workload.notes, *notes))


def evicted_after_s(taints: Sequence[Taint], tolerations: Iterable[Toleration]) -> int | None:
    """Return the seconds after which NoExecute taints evict a workload; None if it tolerates them without a limit.

    As in Karmada, the first toleration that tolerates a taint counts, and of several limits the shortest. ``taints``:
    the NoExecute taints of the cluster; all of them are new.
    """
    given = list(tolerations)
    used = [next((each for each in given if each.tolerates(taint)), None) for taint in taints]
    if None in used:
        return 0
    limits = [
        max(0, each.toleration_seconds) for each in used if each is not None and each.toleration_seconds is not None
    ]
    return min(limits, default=None)


def misses_deletion(binding: Binding, fleet: Fleet) -> bool:
    """Return whether a cluster of a binding is being deleted, and no scheduler notices.

    A deletion queues only the bindings whose affinity matches the cluster now (``enqueueAffectedBindings``). Nothing
    else queues the others, unless their binding changes for another reason.
    """
    names = [each.name for each in binding.spec.clusters if each.name in fleet.deleting]
    deleting = [cluster for each in names if (cluster := fleet.get(each)) is not None]
    if not deleting or trigger_of(binding, fleet) is not Trigger.FAILOVER:
        return False
    if trigger_of(binding, Fleet()) is Trigger.FAILOVER:  # a reason that needs no cluster
        return False
    return not any(_is_queued(binding, each) for each in deleting)


def _is_queued(binding: Binding, cluster: Cluster) -> bool:
    placement = binding.spec.placement
    if placement is None:
        return False
    affinity = placement.cluster_affinity
    if placement.cluster_affinities is not None:
        if binding.status.scheduler_observed_generation != binding.metadata.generation:
            return True
        group = binding.status.scheduler_observing_affinity_name
        terms = placement.cluster_affinities
        affinity = next((each for each in terms if each.affinity_name == group), terms[0] if terms else None)
    return affinity is None or AffinityTerm(affinity).matches(cluster)


def _applied_tolerations(binding: Binding, *, is_scheduled: bool) -> tuple[Toleration, ...] | None:
    """Return the tolerations that count for evictions: those of the last scheduling; None if nothing evicts it."""
    applied = binding.metadata.annotations.get(APPLIED_PLACEMENT)
    if not applied:
        placement = binding.spec.placement if is_scheduled else None
        return placement.cluster_tolerations if placement is not None else None
    applied_placement = decoded_placement(applied)
    return applied_placement.cluster_tolerations if applied_placement is not None else None


def _evicted(binding: Binding, target: TargetCluster, now: datetime) -> Binding:
    """Remove a cluster from a binding, and exclude it by an eviction task (``GracefulEvictCluster``)."""
    spec = binding.spec
    known = any(task.from_cluster == target.name for task in spec.graceful_eviction_tasks)
    failover = spec.failover.cluster if spec.failover is not None else None
    task = GracefulEvictionTask(
        from_cluster=target.name,
        producer=TAINT_MANAGER,
        reason="TaintUntolerated",
        purge_mode=(failover.purge_mode if failover is not None else "") or "Gracefully",
        replicas=target.replicas or None,
        creation_timestamp=now,
    )
    return with_spec(
        binding,
        clusters=tuple(each for each in spec.clusters if each.name != target.name),
        graceful_eviction_tasks=(*spec.graceful_eviction_tasks, *(() if known else (task,))),
    )
