"""The fields of custom resources that the code reads or writes, and what does without those of newer releases."""

from typing import Final, NamedTuple


class Field(NamedTuple):
    """A field.

    Attributes:
        path: from the root, through lists as if there were none.
        without: what does not work where it is missing; empty if nothing works.
    """

    path: str
    without: str = ""


class Kind(NamedTuple):
    """A kind of object.

    Attributes:
        api_version, kind, plural: which.
        fields: what is needed of it.
        without: what does not work where the kind is missing; empty if nothing works.
    """

    api_version: str
    kind: str
    plural: str
    fields: tuple[Field, ...]
    without: str = ""


_POLICY: Final = (
    Field("spec.resourceSelectors"),
    Field("spec.placement.clusterAffinities"),
    Field("spec.priority", "priorities of policies"),
    Field("spec.preemption", "preemption between policies"),
    Field("spec.schedulerName", "choosing a scheduler in a policy"),
    Field("spec.placement.clusterAffinities.overflowAffinities", "overflow groups"),
)
_BINDING: Final = (
    Field("spec.schedulerName"),
    Field("spec.placement"),
    Field("spec.clusters"),
    Field("spec.replicaRequirements"),
    Field("status.conditions"),
    Field("status.schedulerObservedGeneration"),
    Field("status.schedulerObservingAffinityName", "going on with the group of clusters that was chosen before"),
    Field("status.lastScheduledTime", "rebalancing"),
    Field("spec.rescheduleTriggeredAt", "rebalancing"),
    Field("spec.schedulePriority", "scheduling by priority"),
)
KINDS: Final = (
    Kind("policy.karmada.io/v1alpha1", "PropagationPolicy", "propagationpolicies", _POLICY),
    Kind("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies", _POLICY),
    Kind("work.karmada.io/v1alpha2", "ResourceBinding", "resourcebindings", _BINDING),
    Kind("work.karmada.io/v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", _BINDING),
    Kind(
        "cluster.karmada.io/v1alpha1", "Cluster", "clusters",
        (Field("spec.taints"), Field("spec.zones", "spreading over several zones of a cluster"),
         Field("status.conditions"), Field("status.apiEnablements"), Field("status.resourceSummary.allocatable")),
    ),
    Kind(
        "apps.karmada.io/v1alpha1", "WorkloadRebalancer", "workloadrebalancers",
        (Field("spec.workloads"), Field("spec.ttlSecondsAfterFinished", "removing finished rebalancers"),
         Field("status.observedWorkloads")),
        "rebalancing",
    ),
)  # fmt: skip
API_VERSIONS: Final = tuple(dict.fromkeys(each.api_version for each in KINDS))
