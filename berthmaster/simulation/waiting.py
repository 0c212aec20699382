"""Policies that wait for objects that do not exist: Karmada creates no binding, and does not update one."""

from typing import Final

from berthmaster.model.errors import name_list
from berthmaster.model.existing import KUBE_PRIORITY_CLASS, PRIORITY_CLASS, Existing, overrides_of
from berthmaster.model.policy import Policy
from berthmaster.simulation.workload import NotScheduled, Unscheduled

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
