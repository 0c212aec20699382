"""Why no scheduler looks at a workload (karmada ``resourceBindingEventFilter``).

A policy waits for objects that do not exist: Karmada creates no binding, and does not update one.
"""

from collections.abc import Collection
from typing import Final

from berthmaster.model.claims import is_managed
from berthmaster.model.errors import name_list
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster.model.prerequisites import KUBE_PRIORITY_CLASS, PRIORITY_CLASS, Existence, overrides_of
from berthmaster.model.unsupported_placement import unsupported_parts
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

SCHEDULERS: Final = frozenset({DEFAULT_SCHEDULER, "berthmaster"})
"""The schedulers that a simulation knows by default: Karmada's and Berthmaster's. Both decide alike."""
UNCLAIMED: Final = Unscheduled(NotScheduled.UNCLAIMED, "no policy selects it")
LOST: Final = Unscheduled(NotScheduled.UNCLAIMED, "no policy holds it any more: it stays where it is")
_GATE: Final = "Karmada writes no binding for it (gate PriorityBasedScheduling, on by default since 1.19)"


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
    lost = bool(binding.metadata.uid) and not is_managed(binding.metadata)
    return LOST if lost else None


def waits(policy: Policy, namespace: str, existing: Existence) -> Unscheduled | None:
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
