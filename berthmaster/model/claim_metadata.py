"""What a resource says of who claims it: the labels and annotations that Karmada's detector writes and reads.

From ``pkg/detector/claim.go``. A claim of a PropagationPolicy takes away what a ClusterPropagationPolicy has written;
the other way round nothing is taken away. A resource that carries both belongs to the PropagationPolicy.
"""

from typing import Final

from berthmaster.model.meta import ObjectMeta, may_be_name
from berthmaster.model.policy import Policy, PolicyReference

PERMANENT_ID: Final = {
    "PropagationPolicy": "propagationpolicy.karmada.io/permanent-id",
    "ClusterPropagationPolicy": "clusterpropagationpolicy.karmada.io/permanent-id",
}
"""The label that tells policies of the same name apart; on a policy, and on what it claims."""
_NAMESPACE: Final = "propagationpolicy.karmada.io/namespace"
_NAME: Final = "propagationpolicy.karmada.io/name"
_CLUSTER_ID: Final = PERMANENT_ID["ClusterPropagationPolicy"]
_CLUSTER_NAME: Final = "clusterpropagationpolicy.karmada.io/name"
_SET_ASIDE: Final = "resourcetemplate.karmada.io/claimed-by"

Change = dict[str, dict[str, str | None]]


def permanent_id(policy: Policy) -> str:
    """The permanent id of a policy; empty as long as Karmada's webhook has not given it one."""
    return policy.metadata.labels.get(PERMANENT_ID[policy.kind], "")


def holder(resource: ObjectMeta) -> PolicyReference | None:
    """Who claims a resource, as its annotations say; None for nobody."""
    annotations = resource.annotations
    namespace, name = annotations.get(_NAMESPACE, ""), annotations.get(_NAME, "")
    if may_be_name(namespace) and may_be_name(name):
        return PolicyReference("PropagationPolicy", namespace, name)
    name = annotations.get(_CLUSTER_NAME, "")
    return PolicyReference("ClusterPropagationPolicy", "", name) if may_be_name(name) else None


def set_aside(resource: ObjectMeta) -> bool:
    """Whether something other than policies propagates a resource, so that the detector passes it over."""
    return bool(resource.labels.get(_SET_ASIDE))


def claimed(resource: ObjectMeta, policy: Policy) -> Change:
    """What changes in a resource's metadata when a policy claims it.

    Args:
        resource: the metadata as it is.
        policy: who claims it; it has a permanent id.

    Returns:
        A merge patch of ``metadata``: labels and annotations by key, None for those that go.
    """
    labels: dict[str, str | None] = {PERMANENT_ID[policy.kind]: permanent_id(policy)}
    if policy.cluster_scoped:
        return {"labels": labels, "annotations": {_CLUSTER_NAME: policy.metadata.name}}
    annotations: dict[str, str | None] = {_NAMESPACE: policy.metadata.namespace, _NAME: policy.metadata.name}
    labels |= {key: None for key in (_CLUSTER_ID,) if key in resource.labels}
    annotations |= {key: None for key in (_CLUSTER_NAME,) if key in resource.annotations}
    return {"labels": labels, "annotations": annotations}
