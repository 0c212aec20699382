"""The kinds and fields of custom resources that the code reads or writes.

Older releases of Karmada lack some of them. Each of these names the feature that needs it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class RequiredKind(NamedTuple):
    """A kind of object.

    Attributes:
        fields: the feature that needs a field, by the field's path. Empty if nothing works without the field. Paths
            name no list indexes.
    """

    api_version: str
    kind: str
    plural: str
    fields: Mapping[str, str]
    feature: str = ""


_OVERFLOW: Final = "spec.placement.clusterAffinities.overflowAffinities"
_POLICY: Final = {
    "spec.resourceSelectors": "",
    "spec.placement.clusterAffinities": "",
    "spec.priority": "priorities of policies",
    "spec.preemption": "preemption between policies",
    "spec.schedulerName": "choosing a scheduler in a policy",
    _OVERFLOW: "overflow groups",
}
_BINDING: Final = {
    "spec.schedulerName": "",
    "spec.placement": "",
    "spec.clusters": "",
    "spec.replicaRequirements": "",
    "status.conditions": "",
    "status.schedulerObservedGeneration": "",
    "status.schedulerObservingAffinityName": "continuing with the cluster group chosen before",
    "status.lastScheduledTime": "rebalancing",
    "spec.rescheduleTriggeredAt": "rebalancing",
    "spec.schedulePriority": "scheduling by priority",
    _OVERFLOW: "overflow groups",
}
_CLUSTER: Final = {
    "spec.taints": "",
    "spec.zones": "spreading over several zones of a cluster",
    "status.conditions": "",
    "status.apiEnablements": "",
    "status.resourceSummary.allocatable": "",
}
_REBALANCER: Final = {
    "spec.workloads": "",
    "spec.ttlSecondsAfterFinished": "removing finished rebalancers",
    "status.observedWorkloads": "",
}
REQUIRED_KINDS: Final = (
    RequiredKind("policy.karmada.io/v1alpha1", "PropagationPolicy", "propagationpolicies", _POLICY),
    RequiredKind("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies", _POLICY),
    RequiredKind("work.karmada.io/v1alpha2", "ResourceBinding", "resourcebindings", _BINDING),
    RequiredKind("work.karmada.io/v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", _BINDING),
    RequiredKind("cluster.karmada.io/v1alpha1", "Cluster", "clusters", _CLUSTER),
    RequiredKind("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "workloadrebalancers", _REBALANCER, "rebalancing"),
)
API_VERSIONS: Final = tuple(dict.fromkeys(each.api_version for each in REQUIRED_KINDS))
SINCE: Final = {_OVERFLOW: "1.18"}
"""The first release of Karmada with a field that not every supported release has, by the field's path."""
