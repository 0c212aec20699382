"""The matrix of docs/compatibility.md: each field that Karmada has, what Berthmaster does with it, and an example.

An example has a binding and the same binding with one change. The test decides both. The outcomes of an honored field
differ, the outcomes of a field without effect are the same, and a refused field gives the reason of its row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Handling(StrEnum):
    """What happens with a field."""

    HONORED = "honored"
    REFUSED = "refused"
    NONE = "no effect"


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        fields: the fields that it covers. A last ``*`` covers everything below.
        handling: what happens.
        change: the merge patch of the example, for the subject of the path: the binding, or cluster ``a``.
        base: the merge patch of the binding before the change.
        remark: what to know about it.
        gate: the feature gate that it needs; empty for none.
        clusters: the merge patch of cluster ``a`` before the change.
        peers: other bindings that are scheduled already.
        reason: the reason of a refusal.
    """

    fields: tuple[str, ...]
    handling: Handling
    change: Mapping[str, Any]
    base: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""
    gate: str = ""
    cluster: Mapping[str, Any] = field(default_factory=dict)
    peers: tuple[dict[str, Any], ...] = ()
    reason: str = ""

    @property
    def of_cluster(self) -> bool:
        return self.fields[0].startswith("cluster.")


HONORED, REFUSED, NONE = Handling.HONORED, Handling.REFUSED, Handling.NONE


def placed(**placement: Any) -> dict[str, Any]:
    return {"spec": {"placement": placement}}


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


COPIES: Final = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
WEIGHTED: Final = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
ANYWHERE: Final = {"affinityName": "any"}
APPLIED: Final = {"metadata": {"annotations": {"policy.karmada.io/applied-placement": "PLACEMENT"}}}
"""The test replaces PLACEMENT by the placement of the binding: it is scheduled already."""
SETTLED: Final = {**APPLIED, **spec(clusters=[{"name": "b", "replicas": 6}])}


def affinity_rows() -> Iterator[Row]:
    in_expression = {"key": "tier", "operator": "In", "values": ["t1"]}
    for path, remark, wrap in (
        ("clusterAffinity", "", lambda each: placed(clusterAffinity=each)),
        ("clusterAffinities[]", "", lambda each: placed(clusterAffinities=[{**ANYWHERE, **each}])),
        (
            "clusterAffinities[].overflowAffinities[]", "Only for workloads with replicas, as in Karmada.",
            lambda each: placed(clusterAffinities=[
                {"affinityName": "g", "clusterNames": ["none"], "overflowAffinities": [{"affinityName": "o", **each}]}
            ]),
        ),
        (
            "replicaScheduling.weightPreference.staticWeightList[].targetCluster", "",
            lambda each: placed(replicaScheduling={**WEIGHTED, "weightPreference": {
                "dynamicWeight": None, "staticWeightList": [{"targetCluster": each, "weight": 5}]
            }}),
        ),
    ):  # fmt: skip
        root = f"placement.{path}"
        any_field = {"matchExpressions": [{"key": "region", "operator": "In", "values": ["r2"]}]}
        for name, affinity in (
            (("labelSelector.matchLabels{}",), {"labelSelector": {"matchLabels": {"tier": "t2"}}}),
            (
                tuple(f"labelSelector.matchExpressions[].{each}" for each in ("key", "operator", "values[]")),
                {"labelSelector": {"matchExpressions": [in_expression]}},
            ),
            (("fieldSelector.matchExpressions[]",), {"fieldSelector": any_field}),
            (("clusterNames[]",), {"clusterNames": ["b"]}),
            (("exclude[]",), {"exclude": ["b"]}),
        ):
            more = "Keys provider, region and zone. Any common zone matches." if name[0].startswith("field") else ""
            text = " ".join(filter(None, (remark, more)))
            yield Row(tuple(f"{root}.{each}" for each in name), HONORED, wrap(affinity), base=wrap({}), remark=text)


def group(name: str, *clusters: str, **more: Any) -> dict[str, Any]:
    return {"affinityName": name, "clusterNames": list(clusters), **more}


TAINTED: Final = {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}


def tolerating(**change: Any) -> dict[str, Any]:
    """A toleration of the taint of ``TAINTED``, changed."""
    given = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule", **change}
    return placed(clusterTolerations=[given])


def by_cluster(least: int, most: int, **more: Any) -> dict[str, Any]:
    return placed(spreadConstraints=[{"spreadByField": "cluster", "minGroups": least, "maxGroups": most, **more}])


PLACEMENT_ROWS: Final = (
    *affinity_rows(),
    Row(
        ("placement.clusterAffinities[].affinityName",), HONORED,
        placed(clusterAffinities=[group("one", "a"), group("other", "b")]),
        base={**placed(clusterAffinities=[group("one", "a"), group("two", "b")]),
              **status(schedulerObservingAffinityName="two")},
        remark="Groups are tried in order, from the observed one. If the observed one is gone, from the first.",
    ),
    Row(
        ("placement.clusterAffinities[].overflowAffinities[].affinityName",), NONE,
        placed(clusterAffinities=[group("g", "a", overflowAffinities=[group("o", "b")])]),
        base=placed(clusterAffinities=[group("g", "a", overflowAffinities=[group("other", "b")])]),
        remark="Only the order of the overflow affinities counts, as in Karmada.",
    ),
    *(
        Row((f"placement.clusterTolerations[].{name}",), HONORED, tolerating(**{name: value}),
            base=tolerating(), cluster=TAINTED)
        for name, value in (("key", "other"), ("operator", "Gt"), ("value", "other"), ("effect", "NoExecute"))
    ),
    Row(
        ("placement.clusterTolerations[].tolerationSeconds",), NONE, tolerating(effect="", tolerationSeconds=5),
        base=tolerating(effect=""), cluster=TAINTED, remark="Karmada's taint manager reads it, no scheduler does.",
    ),
    Row(("placement.replicaScheduling.replicaSchedulingType",), HONORED,
        placed(replicaScheduling={"replicaSchedulingType": "Duplicated"})),
    Row(("placement.replicaScheduling.replicaDivisionPreference",), HONORED,
        placed(replicaScheduling={"replicaDivisionPreference": "Aggregated"})),
    Row(("placement.replicaScheduling.weightPreference.dynamicWeight",), HONORED,
        placed(replicaScheduling={"weightPreference": {"dynamicWeight": None}})),
    Row(
        ("placement.replicaScheduling.weightPreference.staticWeightList[].weight",), HONORED,
        placed(replicaScheduling={**WEIGHTED, "weightPreference": {"dynamicWeight": None, "staticWeightList": [
            {"targetCluster": {"clusterNames": ["a"]}, "weight": 5},
            {"targetCluster": {"clusterNames": ["b"]}, "weight": 1},
        ]}}),
        base=placed(replicaScheduling={**WEIGHTED, "weightPreference": {"dynamicWeight": None, "staticWeightList": [
            {"targetCluster": {"clusterNames": ["a"]}, "weight": 1},
            {"targetCluster": {"clusterNames": ["b"]}, "weight": 1},
        ]}}),
    ),
    Row(("placement.spreadConstraints[].maxGroups",), HONORED, by_cluster(1, 1), base=by_cluster(1, 2),
        remark="An absent value is 0, which selects nothing, as in Karmada."),
    Row(("placement.spreadConstraints[].minGroups",), HONORED, by_cluster(4, 4), base=by_cluster(1, 4)),
    Row(
        ("placement.spreadConstraints[].spreadByField",), HONORED,
        placed(spreadConstraints=[
            {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
        ]),
        base=by_cluster(1, 2),
        remark="zone and provider only require the field of a cluster, as in Karmada. Alone they are refused.",
    ),
    Row(
        ("placement.spreadConstraints[].spreadByLabel",), REFUSED,
        placed(spreadConstraints=[{"spreadByLabel": "rack", "minGroups": 1, "maxGroups": 1}]), reason="SchedulerError",
        remark="Karmada refuses it as well. Beside a constraint by cluster it has no effect, as in Karmada.",
    ),
    Row(
        tuple(f"placement.workloadAffinity.{each}.groupByLabelKey" for each in ("affinity", "antiAffinity")), NONE,
        placed(workloadAffinity={"affinity": {"groupByLabelKey": "app"}}), gate="WorkloadAffinity",
        remark="Karmada's detector derives binding.spec.workloadAffinityGroups from it, which are honored.",
    ),
)  # fmt: skip


def component(replicas: int = 1, cpu: str = "1", name: str = "driver", **claim: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}, **claim}}


CLAIM: Final = "nodeClaim"
ESTIMATED: Final = "Part of the request to scheduler estimators, which apply it."
NO_REPLICAS: Final = {"replicas": 0, "replicaRequirements": None}


def asked(**requirements: Any) -> dict[str, Any]:
    return spec(replicaRequirements=requirements)


TEMPLATES: Final = "MultiplePodTemplatesScheduling"
ONE_SET: Final = {"spec": {
    **NO_REPLICAS, "components": [component(), component(name="worker")],
    "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
}}  # fmt: skip
"""A workload of two templates that one cluster gets as a whole."""


def claim_rows(prefix: str, change: Any, base: Mapping[str, Any], gate: str = "") -> Iterator[Row]:
    """Yield the rows of the requirements that only estimators read. ``change`` wraps requirements."""
    toleration = {"key": "k", "operator": "Exists"}
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
    for names, given in (
        (("nodeClaim.hardNodeAffinity",), {CLAIM: {"hardNodeAffinity": term}}),
        (("nodeClaim.nodeSelector{}",), {CLAIM: {"nodeSelector": {"gpu": "yes"}}}),
        (
            tuple(f"nodeClaim.tolerations[].{each}" for each in
                  ("effect", "key", "operator", "tolerationSeconds", "value")),
            {CLAIM: {"tolerations": [toleration]}},
        ),
        (("priorityClassName",), {"priorityClassName": "high"}),
    ):  # fmt: skip
        fields = tuple(f"{prefix}.{each}" for each in names)
        yield Row(fields, HONORED, change(**given), base=base, remark=ESTIMATED, gate=gate)


def peer(**groups: str) -> dict[str, Any]:
    """A scheduled binding of a workload affinity group, on cluster c."""
    return {
        "metadata": {"name": "db-deployment", "namespace": "shop"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "db"},
            "clusters": [{"name": "c", "replicas": 1}],
            "workloadAffinityGroups": groups,
        },
    }


BEFORE, AFTER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
EVICTION: Final = {"fromCluster": "a", "producer": "x", "reason": "y"}
CONTROLLERS: Final = "Karmada's controllers read it, no scheduler does."

BINDING_ROWS: Final = (
    Row(("binding.spec.resource.apiVersion",), HONORED, spec(resource={"apiVersion": "apps/v2"})),
    Row(("binding.spec.resource.kind",), HONORED, spec(resource={"kind": "StatefulSet"})),
    Row(
        ("binding.spec.resource.namespace",), HONORED, spec(resource={"namespace": "other"}),
        base=spec(workloadAffinityGroups={"affinityGroup": "app=x"}), peers=(peer(affinityGroup="app=x"),),
        gate="WorkloadAffinity", remark="Affinity groups are those of a namespace.",
    ),
    Row(("binding.spec.resource.name", "binding.spec.resource.resourceVersion"), NONE,
        spec(resource={"name": "api", "resourceVersion": "7"}), base={**APPLIED, **spec(clusters=[
            {"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}, {"name": "c", "replicas": 3}])},
        remark="They identify the workload in events and messages."),
    Row(("binding.spec.resource.uid",), HONORED, spec(resource={"uid": "v"}),
        base=spec(replicas=1, placement={"replicaScheduling": {"weightPreference": {"dynamicWeight": None}}}),
        remark="It decides ties of the division, since 1.16."),
    Row(("binding.spec.replicas",), HONORED, spec(replicas=7)),
    Row(("binding.spec.replicaRequirements.resourceRequest{}",), HONORED, asked(resourceRequest={"cpu": "8"})),
    Row(("binding.spec.replicaRequirements.namespace",), HONORED, asked(namespace="other"), remark=ESTIMATED),
    *claim_rows("binding.spec.replicaRequirements", asked, {}),
    *claim_rows("binding.spec.components[].replicaRequirements",
                lambda **given: spec(components=[component(**given)]), ONE_SET, gate=TEMPLATES),
    Row(("binding.spec.components[].name",), HONORED, spec(components=[component(), component(name="other")]),
        base=ONE_SET, gate=TEMPLATES, remark="It names the pods in spec.clusters[].components."),
    Row(("binding.spec.components[].replicas",), HONORED, spec(components=[component(25), component(name="b")]),
        base=ONE_SET, gate=TEMPLATES, remark="Complete sets of pods are counted, and placed on one cluster."),
    Row(("binding.spec.components[].replicaRequirements.resourceRequest{}",), HONORED,
        spec(components=[component(cpu="40"), component(name="worker")]), base=ONE_SET, gate=TEMPLATES),
    Row(
        tuple(f"binding.spec.clusters[].components[].{each}" for each in ("name", "replicas")), HONORED,
        spec(clusters=[{"name": "c", "components": [{"name": "driver", "replicas": 7}]}]),
        base={**ONE_SET, "spec": {**ONE_SET["spec"], "clusters": [{"name": "c", "components": [
            {"name": "driver", "replicas": 1}, {"name": "worker", "replicas": 1}]}]}},
        gate=TEMPLATES, remark="Written, and corrected if it is outdated. Karmada has it after 1.19.0-rc.0.",
    ),
    Row(("binding.spec.clusters[].name",), HONORED, spec(clusters=[{"name": "a", "replicas": 5}]),
        base=spec(clusters=[{"name": "b", "replicas": 5}])),
    Row(("binding.spec.clusters[].replicas",), HONORED, spec(clusters=[{"name": "a", "replicas": 5}]),
        base=spec(clusters=[{"name": "a", "replicas": 2}])),
    Row(("binding.spec.gracefulEvictionTasks[].fromCluster",), HONORED, spec(gracefulEvictionTasks=[EVICTION])),
    Row(
        tuple(f"binding.spec.gracefulEvictionTasks[].{each}" for each in (
            "clustersBeforeFailover[]", "creationTimestamp", "gracePeriodSeconds", "message", "preservedLabelState{}",
            "producer", "purgeMode", "reason", "replicas", "suppressDeletion",
        )),
        NONE,
        spec(gracefulEvictionTasks=[{
            **EVICTION, "reason": "z", "producer": "w", "creationTimestamp": AFTER, "purgeMode": "Directly",
            "message": "m", "replicas": 2, "gracePeriodSeconds": 5, "suppressDeletion": True,
            "preservedLabelState": {"k": "v"}, "clustersBeforeFailover": ["a"],
        }]),
        base=spec(gracefulEvictionTasks=[EVICTION]), remark=CONTROLLERS,
    ),
    Row(("binding.spec.rescheduleTriggeredAt",), HONORED, spec(rescheduleTriggeredAt=AFTER),
        base={**SETTLED, **status(lastScheduledTime=BEFORE)},
        remark="It also resets the walk over groups to the first one, as in Karmada since 1.19."),
    Row(("binding.spec.schedulerName",), HONORED, spec(schedulerName="default-scheduler")),
    Row(("binding.spec.suspension.scheduling",), HONORED, spec(suspension={"scheduling": True})),
    Row(
        ("binding.spec.suspension.dispatching", "binding.spec.suspension.dispatchingOnClusters.clusterNames[]"), NONE,
        spec(suspension={"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["a"]}}), remark=CONTROLLERS,
    ),
    Row(("binding.spec.schedulePriority.priority",), HONORED, spec(schedulePriority={"priority": 5}),
        gate="PriorityBasedScheduling", remark="On by default here; in Karmada after 1.19.0-rc.0."),
    Row(("binding.spec.workloadAffinityGroups.affinityGroup",), HONORED,
        spec(workloadAffinityGroups={"affinityGroup": "app=x"}), peers=(peer(affinityGroup="app=x"),),
        gate="WorkloadAffinity"),
    Row(("binding.spec.workloadAffinityGroups.antiAffinityGroup",), HONORED,
        spec(workloadAffinityGroups={"antiAffinityGroup": "app=x"}), peers=(peer(antiAffinityGroup="app=x"),),
        gate="WorkloadAffinity"),
    Row(("binding.spec.failover.*",), NONE, spec(failover={
            "application": {"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Never"},
            "cluster": {"purgeMode": "Directly"},
        }),
        remark="Karmada's controllers read it. Failover of this scheduler copies purgeMode to its eviction tasks."),
    Row(("binding.spec.requiredBy[].*",), NONE, spec(requiredBy=[
            {"name": "x", "namespace": "shop", "clusters": [{"name": "a", "replicas": 1}]}]),
        remark="Dependencies follow their workloads without a scheduler."),
    Row(("binding.spec.conflictResolution", "binding.spec.preserveResourcesOnDeletion", "binding.spec.propagateDeps"),
        NONE, spec(conflictResolution="Overwrite", preserveResourcesOnDeletion=True, propagateDeps=True),
        remark=CONTROLLERS),
    Row(("binding.status.schedulerObservingAffinityName",), HONORED, status(schedulerObservingAffinityName="two"),
        base=placed(clusterAffinities=[group("one", "a"), group("two", "b")])),
    Row(("binding.status.lastScheduledTime",), HONORED, status(lastScheduledTime=AFTER),
        base={**SETTLED, "spec": {**SETTLED["spec"], "rescheduleTriggeredAt": AFTER},
              **status(lastScheduledTime=BEFORE)}),
    Row(("binding.status.conditions[]",), HONORED,
        status(conditions=[{"type": "Scheduled", "status": "False", "reason": "NoClusterFit"}]), base=SETTLED,
        remark="NoClusterFit is tried again. Karmada does not try it again."),
    Row(("binding.status.schedulerObservedGeneration",), NONE, status(schedulerObservedGeneration=7), base=SETTLED,
        remark="It decides which changes of clusters queue the binding, not what is decided."),
    Row(
        tuple(f"binding.status.aggregatedStatus[].{each}" for each in
              ("applied", "appliedMessage", "clusterName", "health", "status")),
        NONE, status(aggregatedStatus=[{"clusterName": "a", "applied": True, "health": "Healthy", "status": {"x": 1},
                                        "appliedMessage": "m"}]),
        remark="A healthy report ends the assumption of replicas on that cluster.",
    ),
)  # fmt: skip


def cluster_spec(**fields: Any) -> dict[str, Any]:
    """A change of the spec of cluster ``a``."""
    return {"spec": fields}


def summary(**fields: Any) -> dict[str, Any]:
    """A change of the resource summary of cluster ``a``."""
    return {"status": {"resourceSummary": fields}}


def modeled(count: int = 2, least: str = "2", grade: int = 0, most: str = "8", name: str = "cpu") -> dict[str, Any]:
    """Models of nodes of cluster ``a``."""
    ranges = [{"name": name, "min": least, "max": most}]
    return {
        "spec": {"resourceModels": [{"grade": 0, "ranges": ranges}]},
        **summary(allocatableModelings=[{"grade": grade, "count": count}]),
    }


IN_FIELD: Final = {"matchExpressions": [{"key": "provider", "operator": "In", "values": ["p1", "p2"]}]}
FEW: Final = {"spec": {"replicas": 3, "placement": {"clusterAffinity": {"clusterNames": ["a"]}}}}
"""Three replicas on cluster ``a``, whose models have room for four."""
CONNECTION: Final = tuple(f"cluster.spec.{each}" for each in (
    "apiEndpoint", "id", "impersonatorSecretRef.*", "insecureSkipTLSVerification", "proxyHeader{}", "proxyURL",
    "secretRef.*",
))  # fmt: skip

CLUSTER_ROWS: Final = (
    Row(("cluster.metadata.labels{}",), HONORED, {"metadata": {"labels": {"tier": "t9"}}},
        base=placed(clusterAffinity={"labelSelector": {"matchLabels": {"tier": "t1"}}})),
    Row(("cluster.metadata.deletionTimestamp",), HONORED, {"metadata": {"deletionTimestamp": BEFORE}}),
    Row(("cluster.spec.provider",), HONORED, cluster_spec(provider="p9"),
        base=placed(clusterAffinity={"fieldSelector": IN_FIELD})),
    Row(("cluster.spec.region",), HONORED, cluster_spec(region="r2"), base=placed(spreadConstraints=[
        {"spreadByField": "region", "minGroups": 3, "maxGroups": 3},
        {"spreadByField": "cluster", "minGroups": 3, "maxGroups": 3}])),
    Row(("cluster.spec.zones[]",), HONORED, cluster_spec(zones=["z8", "z9"]),
        base=placed(clusterAffinity={"fieldSelector": {"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["z1", "z2", "z7"]}]}}),
        remark="One common zone is enough for In, as in Karmada since 1.18. Before, all zones had to be listed."),
    Row(("cluster.spec.zone",), NONE, cluster_spec(zone="z9"),
        base=placed(clusterAffinity={"fieldSelector": {"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["z1", "z9"]}]}}),
        remark="Deprecated. Schedulers read zones."),
    *(
        Row((f"cluster.spec.taints[].{name}",), HONORED,
            cluster_spec(taints=[{"key": "k", "value": "v", "effect": "NoSchedule", name: value}]),
            base=tolerating(effect=""), cluster=TAINTED)
        for name, value in (("key", "other"), ("value", "other"))
    ),
    Row(("cluster.spec.taints[].effect",), HONORED,
        cluster_spec(taints=[{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]), cluster=TAINTED,
        remark="NoSchedule and NoExecute keep workloads off. PreferNoSchedule does not, as in Karmada."),
    Row(("cluster.spec.taints[].timeAdded",), NONE,
        cluster_spec(taints=[{**TAINTED["spec"]["taints"][0], "timeAdded": BEFORE}]), cluster=TAINTED,
        remark=CONTROLLERS),
    Row(("cluster.spec.resourceModels[].grade",), HONORED,
        {"spec": {"resourceModels": [{"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "8"}]}]}},
        base=FEW, cluster=modeled()),
    Row(("cluster.spec.resourceModels[].ranges[].min",), HONORED, modeled(least="1"), base=FEW, cluster=modeled()),
    Row(("cluster.spec.resourceModels[].ranges[].name",), HONORED, modeled(name="memory"), base=FEW,
        cluster=modeled()),
    Row(("cluster.spec.resourceModels[].ranges[].max",), NONE, modeled(most="9"), base=FEW, cluster=modeled(),
        remark="A node counts with the smallest amounts of its grade, as in Karmada."),
    Row(("cluster.spec.syncMode",), NONE, cluster_spec(syncMode="Pull"),
        remark="Karmada can leave out the estimators of Pull clusters. Here a missing estimator affects only its "
        "cluster."),
    Row(CONNECTION, NONE, cluster_spec(apiEndpoint="https://x", id="7", proxyURL="http://y"), remark=CONTROLLERS),
    Row(
        ("cluster.status.apiEnablements[].groupVersion", "cluster.status.apiEnablements[].resources[].kind"), HONORED,
        {"status": {"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}]}},
    ),
    Row(("cluster.status.apiEnablements[].resources[].name",), NONE,
        {"status": {"apiEnablements": [
            {"groupVersion": "apps/v1", "resources": [{"name": "renamed", "kind": "Deployment"}]}]}},
        remark="Kinds are compared."),
    Row(("cluster.status.conditions[]",), NONE, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        remark="Taints keep workloads off a cluster that is not ready, as in Karmada. Failover of this scheduler and "
        "moves read Ready."),
    Row(("cluster.status.resourceSummary.allocatable{}",), HONORED, summary(allocatable={"cpu": "60"})),
    Row(("cluster.status.resourceSummary.allocated{}",), HONORED, summary(allocated={"cpu": "9"})),
    Row(("cluster.status.resourceSummary.allocating{}",), HONORED, summary(allocating={"cpu": "9"})),
    Row(("cluster.status.resourceSummary.allocatableModelings[].count",), HONORED, modeled(count=1),
        base=FEW, cluster=modeled()),
    Row(("cluster.status.resourceSummary.allocatableModelings[].grade",), HONORED, modeled(grade=3),
        base=FEW, cluster=modeled()),
    Row(
        ("cluster.status.kubernetesVersion", "cluster.status.nodeSummary.*", "cluster.status.remedyActions[]"), NONE,
        {"status": {"kubernetesVersion": "v1.36.0", "nodeSummary": {"readyNum": 1, "totalNum": 3},
                    "remedyActions": ["TrafficControl"]}},
        remark="No scheduler reads it.",
    ),
)  # fmt: skip

ROWS: Final = (*PLACEMENT_ROWS, *BINDING_ROWS, *CLUSTER_ROWS)

GATES: Final = {
    "CustomizedClusterResourceModeling": "Always on: resource models of clusters count.",
    "MultiplePodTemplatesScheduling": "`MultiplePodTemplatesScheduling`, on by default. Bindings have components only "
    "if Karmada's gate is on.",
    "PriorityBasedScheduling": "`PriorityBasedScheduling`, on by default. Bindings have a priority only if Karmada's "
    "gate is on.",
    "WorkloadAffinity": "`WorkloadAffinity`, off by default. Set it as in Karmada.",
    "SchedulingOvercommitProtection": "`SchedulingOvercommitProtection`, on by default. See "
    "[differences.md](differences.md#overcommit-protection).",
    "PropagationPolicyPreemption": "`PolicyPreemption`, off by default.",
    "FederatedQuotaEnforcement": "Always honored: karmada-webhook refuses an assignment above a quota. The binding "
    "is tried again, at once when the quota becomes looser.",
    "ResourceQuotaEstimate": "Always honored: scheduler estimators get the namespace and the priority class.",
    "GracefulEviction": "Always on: eviction tasks keep a workload off a cluster.",
    "Failover": "Not read by schedulers. Clusters get taints, and bindings eviction tasks.",
}
"""The gates of Karmada that can change a decision."""
RULES: Final = (
    ("Divisions use Webster's method; the workload's uid decides ties", "1.16", "Earlier releases divide differently."),
    ("Complete sets of pods are estimated for workloads of several templates", "1.16", ""),
    ("A workload of several templates without clusters is scheduled again", "1.16", ""),
    ("Scale-down ignores clusters that are no candidates any more", "1.17", ""),
    ("Workload affinity", "1.17", ""),
    ("Both rules about several templates hold for one template in `spec.components`, too", "1.18", ""),
    ("One common zone is enough for `In`", "1.18", "Before, all zones of a cluster had to be listed."),
    ("Overflow affinities", "1.18", ""),
    ("A triggered rescheduling starts at the first group", "1.19-rc.0", ""),
    ("Bindings are scheduled by priority by default", "master", ""),
    ("The pods of each template are written to the assignment", "master", ""),
)
"""Rules that changed between releases. Berthmaster follows the newest."""
