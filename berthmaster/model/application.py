"""The binding that comes of a policy and the resource it claims (karmada ``detector`` ``ApplyPolicy``)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from berthmaster.model.binding import (
    Binding,
    BindingSchedulePriority,
    BindingSpec,
    ObjectReference,
    WorkloadAffinityGroups,
    binding_name,
)
from berthmaster.model.claim import Template
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.placement import WorkloadAffinity, WorkloadAffinityTerm
from berthmaster.model.policy import Policy, PropagationSpec, Suspension
from berthmaster.model.template import Replicas, template_of


def binding_of(
    raw: Mapping[str, Any],
    policy: Policy,
    replicas: Replicas,
    *,
    current: Binding | None = None,
    workload_affinity: bool = False,
    priority_classes: Mapping[str, int] | None = None,
) -> Binding:
    """The binding of a resource under the policy that claims it.

    Args:
        raw: the resource.
        policy: with its defaults (``berthmaster.model.defaults``).
        replicas: what ``replicas_of`` says of the resource.
        current: the binding as it is. Where the workload is, what is being moved, when a rescheduling was
            triggered and its status are kept, everything that comes from policy or resource is written anew.
        workload_affinity: whether groups of workloads count (Karmada's gate ``WorkloadAffinity``).
        priority_classes: the values of the cluster's PriorityClasses; None where Karmada's gate
            ``PriorityBasedScheduling`` is off, which it is by default.

    Raises:
        FieldError: the policy names a priority class that is not there.
    """
    template = template_of(raw)
    metadata = raw.get("metadata") or {}
    namespaced = bool(template.namespace)
    wanted = policy.spec
    before = current.spec if current is not None else None
    spec = BindingSpec(
        resource=ObjectReference(
            api_version=template.api_version,
            kind=template.kind,
            name=template.name,
            namespace=template.namespace,
            uid=str(metadata.get("uid") or ""),
            resource_version=str(metadata.get("resourceVersion") or ""),
        ),
        replicas=replicas.number,
        replica_requirements=replicas.requirements,
        placement=wanted.placement,
        # On a ClusterResourceBinding it is written once and never again.
        propagate_deps=wanted.propagate_deps if namespaced or before is None else before.propagate_deps,
        scheduler_name=wanted.scheduler_name,
        failover=wanted.failover,
        conflict_resolution=wanted.conflict_resolution,
        preserve_resources_on_deletion=wanted.preserve_resources_on_deletion,
        suspension=_suspension(wanted.suspension, before.suspension if before is not None else None),
        schedule_priority=_priority(wanted, priority_classes) if namespaced else None,
        workload_affinity_groups=_groups(wanted, template) if namespaced and workload_affinity else None,
    )
    if before is not None:
        spec = msgspec.structs.replace(
            spec,
            clusters=before.clusters,
            graceful_eviction_tasks=before.graceful_eviction_tasks,
            required_by=before.required_by,
            reschedule_triggered_at=before.reschedule_triggered_at,
        )
    return _dressed(spec, template, current)


def _dressed(spec: BindingSpec, template: Template, current: Binding | None) -> Binding:
    """The spec as an object: the current one with a new spec, or a new one."""
    if current is not None:
        return msgspec.structs.replace(current, spec=spec)
    return Binding(
        kind="ResourceBinding" if template.namespace else "ClusterResourceBinding",
        metadata=ObjectMeta(name=binding_name(template.kind, template.name), namespace=template.namespace),
        spec=spec,
    )


def _suspension(wanted: Suspension | None, before: Suspension | None) -> Suspension | None:
    """Dispatching is the policy's to suspend, scheduling is not: it stays as it was."""
    scheduling = before.scheduling if before is not None else None
    if wanted is None:
        return Suspension(scheduling=scheduling) if scheduling is not None else None
    return msgspec.structs.replace(wanted, scheduling=scheduling)


def _priority(spec: PropagationSpec, classes: Mapping[str, int] | None) -> BindingSchedulePriority | None:
    wanted = spec.schedule_priority
    if wanted is None or classes is None:
        return None
    path = "spec.schedulePriority"
    if wanted.priority_class_source != "KubePriorityClass":
        problem = f"{shown(wanted.priority_class_source)} is not accepted; accepted is KubePriorityClass"
        raise FieldError(f"{path}.priorityClassSource", problem)
    if wanted.priority_class_name not in classes:
        problem = f"there is no PriorityClass {shown(wanted.priority_class_name)}"
        raise FieldError(f"{path}.priorityClassName", problem)
    return BindingSchedulePriority(priority=classes[wanted.priority_class_name])


def _groups(spec: PropagationSpec, template: Template) -> WorkloadAffinityGroups | None:
    """The groups that the labels of a workload put it into; None if there are none."""
    wanted = spec.placement.workload_affinity or WorkloadAffinity()
    together, apart = _group(wanted.affinity, template), _group(wanted.anti_affinity, template)
    if not together and not apart:
        return None
    return WorkloadAffinityGroups(affinity_group=together, anti_affinity_group=apart)


def _group(term: WorkloadAffinityTerm | None, template: Template) -> str:
    key = term.group_by_label_key if term is not None else ""
    return f"{key}={template.labels[key]}" if key in template.labels else ""
