"""The labels and annotations by which a template and its binding record the policy that holds them.

The detector keeps to the record of the template. It finds the workloads of a policy by the labels of bindings, which
can record another policy: that of a binding whose template a Lazy policy took over stays until the template changes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec.structs

from berthmaster.model.binding import Binding
from berthmaster.model.claims import PERMANENT_ID, holder, permanent_id, record_keys
from berthmaster.model.decode import convert
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.simulation.workload import SimulatedWorkload

_CLUSTER_KIND: Final = "ClusterPropagationPolicy"


def metadata_of(workload: SimulatedWorkload) -> ObjectMeta:
    """Return the metadata of the template of a workload.

    Raises:
        FieldError: it is invalid.
    """
    return convert(ObjectMeta, workload.manifest.get("metadata") or {})


def recorded(workload: SimulatedWorkload) -> PolicyReference | None:
    """Return the policy that a template records, or else the one that holds the workload; None without one."""
    if workload.template is not None:
        metadata = metadata_of(workload)
        found = holder(metadata)
        if found is not None and metadata.labels.get(PERMANENT_ID[found.kind]):
            return found
    return workload.held_by


def recorded_by_binding(workload: SimulatedWorkload, reference: PolicyReference, policy_id: str) -> bool:
    """Return whether the binding of a workload records a policy.

    Args:
        workload: the workload. A binding that no API server has stored records the policy that holds the workload.
        reference: the policy.
        policy_id: its permanent ID; empty if it has none yet.
    """
    binding = workload.binding
    if binding is None or not workload.present:
        return workload.held_by == reference and not _is_recorded(workload)
    if not _is_stored(binding):
        return workload.held_by == reference
    if reference.kind != _CLUSTER_KIND and binding.metadata.namespace != reference.namespace:
        return False
    return binding.metadata.labels.get(PERMANENT_ID[reference.kind]) == (policy_id or _placeholder(reference))


def with_record(workload: SimulatedWorkload, policy: Policy) -> SimulatedWorkload:
    """Return a workload whose template records a policy."""
    claimed = replace(workload, held_by=policy.reference)
    if workload.held_by != policy.reference:
        claimed = replace(claimed, stalled_at=None)  # its binding gets other labels and another version of the template
    if workload.template is None or (not _is_recorded(workload) and not _has_uid(workload.template)):
        return claimed
    dropped = record_keys(_CLUSTER_KIND) if not policy.cluster_scoped else ((), ())
    metadata = metadata_of(workload)
    labels = {key: value for key, value in metadata.labels.items() if key not in dropped[0]}
    annotations = {key: value for key, value in metadata.annotations.items() if key not in dropped[1]}
    label, names = record_keys(policy.kind)
    labels[label[0]] = permanent_id(policy) or _placeholder(policy.reference)
    annotations |= dict(zip(names, (policy.metadata.name, policy.metadata.namespace), strict=False))
    return replace(claimed, template=_with_metadata(workload.template, labels, annotations))


def without_record(
    workload: SimulatedWorkload, reference: PolicyReference, only_id: str | None = None
) -> SimulatedWorkload:
    """Return a workload whose template and binding do not record a policy of this kind.

    Args:
        workload: the workload.
        reference: the policy.
        only_id: the binding keeps its record unless that has this permanent ID; None to remove any.
    """
    found = replace(workload, held_by=None, claims=(), why_not=())
    labels, annotations = record_keys(reference.kind)
    if workload.template is not None:
        metadata = metadata_of(workload)
        template = _with_metadata(
            workload.template,
            {key: value for key, value in metadata.labels.items() if key not in labels},
            {key: value for key, value in metadata.annotations.items() if key not in annotations},
        )
        found = replace(found, template=template)
    binding = workload.binding
    if binding is None or (only_id is not None and binding.metadata.labels.get(labels[0], only_id) != only_id):
        return found
    return without_bound(found, reference)


def without_bound(workload: SimulatedWorkload, reference: PolicyReference) -> SimulatedWorkload:
    """Return a workload whose binding does not record a policy of this kind."""
    binding = workload.binding
    if binding is None:
        return workload
    labels, _ = record_keys(reference.kind)
    kept = {key: value for key, value in binding.metadata.labels.items() if key not in labels}
    metadata = msgspec.structs.replace(binding.metadata, labels=kept)
    return replace(workload, binding=msgspec.structs.replace(binding, metadata=metadata))


def bound_by(binding: Binding, policy: Policy) -> Binding:
    """Return a binding whose labels record a policy. A PropagationPolicy removes the record of a cluster-wide one."""
    if not _is_stored(binding):
        return binding
    dropped = PERMANENT_ID[_CLUSTER_KIND] if not policy.cluster_scoped else ""
    labels = {key: value for key, value in binding.metadata.labels.items() if key != dropped}
    labels[PERMANENT_ID[policy.kind]] = permanent_id(policy) or _placeholder(policy.reference)
    if labels == binding.metadata.labels:
        return binding
    return msgspec.structs.replace(binding, metadata=msgspec.structs.replace(binding.metadata, labels=labels))


def _placeholder(reference: PolicyReference) -> str:
    """Return what stands for the permanent ID of a policy that has none yet."""
    return f"new:{reference}"


def _is_stored(binding: Binding) -> bool:
    return bool(binding.metadata.uid) or any(binding.metadata.labels.get(each) for each in PERMANENT_ID.values())


def _is_recorded(workload: SimulatedWorkload) -> bool:
    return workload.template is not None and holder(metadata_of(workload)) is not None


def _has_uid(template: Mapping[str, Any]) -> bool:
    return bool((template.get("metadata") or {}).get("uid"))


def _with_metadata(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    metadata = {**(template.get("metadata") or {}), "labels": dict(labels), "annotations": dict(annotations)}
    return {**template, "metadata": metadata}
