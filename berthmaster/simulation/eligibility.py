"""Whether a scheduler looks at a workload (karmada ``resourceBindingEventFilter``), and why not.

Policies that wait for objects that do not exist: Karmada creates no binding, and does not update one.

Workloads that karmada-scheduler does not try again by itself, although a cluster would fit now.

It ignores the error that no cluster fits (karmada ``getConditionByError``). It tries again when the spec of the binding
changes, or when the labels or the spec of a cluster change that the binding may use (``enqueueAffectedBindings``). The
status of a cluster, such as a kind that it serves now, is no event. Berthmaster's scheduler tries again.

Bindings in the middle of a move: what a scheduler decides from, and what users read about the move.

docs/moves.md has the rules. A simulation assumes that a move under way ends well, and shows where copies are now.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import name_list
from berthmaster.model.existing import KUBE_PRIORITY_CLASS, PRIORITY_CLASS, Existing, overrides_of
from berthmaster.model.move import MovePhase, MoveReason, MoveState, as_before, as_moved, move_of, move_problem
from berthmaster.model.placement import AffinityTerm
from berthmaster.model.policy import DEFAULT_SCHEDULER, Policy
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed, trigger_of
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

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
    return LOST if _lost_its_policy(binding) else None


def _lost_its_policy(binding: Binding) -> bool:
    """Whether a stored binding has no label of a policy. A binding from a file without an UID needs none."""
    return bool(binding.metadata.uid) and not any(binding.metadata.labels.get(label) for label in MANAGED_BY)


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


_EVENTS: Final = (
    "placement", "replicas", "replica_requirements", "components", "clusters", "scheduler_name", "suspension",
    "propagate_deps", "graceful_eviction_tasks", "required_by", "reschedule_triggered_at",
)  # fmt: skip
"""The fields of a binding that a change of a world can change. A change of any makes the scheduler try again."""


def stalls(workload: SimulatedWorkload) -> bool:
    """Return whether nothing makes karmada-scheduler try a workload again."""
    at, binding = workload.stalled_at, workload.binding
    if at is None or binding is None:
        return False
    return all(getattr(at, each) == getattr(binding.spec, each) for each in _EVENTS)


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

    Args:
        before: the cluster before; None if it joins. Karmada taints a new cluster, which is a change of its spec.
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


class Due(NamedTuple):
    """What is due for a binding.

    Attributes:
        binding: the binding as the decision sees it: as if its move had ended, or had not begun.
    """

    binding: Binding
    trigger: Trigger


def due(binding: Binding, fleet: Fleet) -> Due:
    """Return what is due for a binding. An edit of the placement ends its move: it is decided from the source."""
    moved = as_moved(binding)
    if moved is binding:
        return Due(binding, trigger_of(binding, fleet))
    placement, applied = binding.spec.placement, binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    group = moved.status.scheduler_observing_affinity_name
    edited = placement is not None and bool(applied) and placement_changed(placement, applied, group, in_order=False)
    base = as_before(binding) if edited or binding.reschedule_requested else moved
    return Due(base, trigger_of(base, fleet))


def move_note(binding: Binding) -> str:
    """Return a sentence about the move of a binding; empty without one."""
    state = move_of(binding)
    if state is None:
        return move_problem(binding)
    why = f": {state.message}" if state.message else ""
    match state.phase:
        case MovePhase.ELIGIBLE:
            return f"{_reason_to_move(state)}{why}"
        case MovePhase.STABILISING if state.until is not None:
            return f"{_reason_to_move(state)}; it would move to {_place(state)} at {_time(state.until)}"
        case MovePhase.STABILISING:
            return f"{_reason_to_move(state)}; it waits to move to {_place(state)}{why}"
        case MovePhase.RELEASED:
            return f"it moved to {_place(state)} at {_time(state.since)} ({state.reason.value})"
        case MovePhase.ROLLED_BACK | MovePhase.HELD_DOWN:
            return f"it does not move before {_time(state.held_down_until)}{why}"
        case _:
            return f"{_under_way(state)}{why}"


def _under_way(state: MoveState) -> str:
    until = f", until {_time(state.until)}" if state.until is not None else ""
    way = f"{_clusters(state.source)} -> {_clusters(state.target)}"
    return f"a move ({state.reason.value}) to {_place(state)} is under way: {way}, {state.phase.value}{until}"


def _reason_to_move(state: MoveState) -> str:
    since = _time(state.started_at)
    if state.reason is MoveReason.FAILBACK:
        return f"it is not in its preferred group since {since}"
    if state.reason is MoveReason.DRAIN:
        return f"it is to leave a cluster that is being drained since {since}"
    if state.reason is MoveReason.REBALANCE:
        return f"it has drifted from its policy since {since}"
    return f"it is to be rescheduled by a move since {since}"


def _place(state: MoveState) -> str:
    return f"group {state.target_group}" if state.target_group else _clusters(state.target)


def _clusters(replicas: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(replicas.items())) or "no clusters"


def _time(moment: object) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%SZ}"
