"""Clusters, and what readers and quotas allow."""

import msgspec
import pytest
from builders import binding, cluster, taint
from kube_scheduler_builders import node
from tables import cases

from berthmaster.model.binding import AggregatedStatusItem, Binding, BindingStatus, binding_name
from berthmaster.model.cluster import APIEnablement, APIResource, Cluster, Condition
from berthmaster.model.cluster_node import UNSCHEDULABLE, Node, NodeIdentity, cluster_of_node
from berthmaster.model.decode import convert, decode_json, encode_json
from berthmaster.model.shared_parts import SharedParts, SharingReader
from berthmaster.model.taint import Toleration, repelling_taints
from berthmaster.model.work import FederatedResourceQuota, is_looser

NOT_READY = taint("not-ready:NoSchedule")
GPU = taint("gpu=true:NoExecute")


@cases(
    ("toleration", "tolerated", "on"),
    {
        "all equal": (Toleration(key="gpu", value="true", effect="NoExecute"), True, GPU),
        "any effect": (Toleration(key="gpu", operator="Equal", value="true"), True, GPU),
        "another value": (Toleration(key="gpu", operator="Equal", value="no"), False, GPU),
        "an absent value is the empty value": (Toleration(key="gpu"), False, GPU),
        "the empty value of a taint without one": (Toleration(key="not-ready"), True, NOT_READY),
        "any value": (Toleration(key="gpu", operator="Exists"), True, GPU),
        "another key": (Toleration(key="cpu", operator="Exists"), False, GPU),
        "any key and value": (Toleration(operator="Exists"), True, GPU),
        "an empty key matches any key with the same value": (Toleration(value="true"), True, GPU),
        "another effect": (Toleration(operator="Exists", effect="NoSchedule"), False, GPU),
        "an unknown operator": (Toleration(key="gpu", operator="exists"), False, GPU),
        "toleration seconds are ignored": (Toleration(operator="Exists", toleration_seconds=0), True, GPU),
    },
)
def test_tolerations(toleration, tolerated, on):
    assert toleration.tolerates(on) is tolerated


@pytest.mark.parametrize(
    ("text", "repels"),
    [("a:NoSchedule", True), ("a:NoExecute", True), ("a:PreferNoSchedule", False), ("a:Unheard", False)],
)
def test_repelling_effects(text, repels):
    assert repelling_taints([taint(text)], ()) == ([taint(text)] if repels else [])


def test_every_taint_needs_a_toleration():
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    assert repelling_taints([GPU, NOT_READY], tolerations) == [NOT_READY]


@pytest.mark.parametrize("text", ["a:NoSchedule", "a=b:NoExecute"])
def test_taints_are_formatted_as_in_kubectl(text):
    assert str(taint(text)) == text


@cases(
    ("conditions", "ready"),
    {
        "no condition": ([], False),
        "ready": ([("Ready", "True")], True),
        "unknown": ([("Ready", "Unknown")], False),
        "another condition is true": ([("CompleteAPIEnablements", "True"), ("Ready", "False")], False),
    },
)
def test_ready(conditions, ready):
    member = cluster()
    reported = tuple(Condition(type=kind, status=status) for kind, status in conditions)
    status = msgspec.structs.replace(member.status, conditions=reported)
    assert msgspec.structs.replace(member, status=status).ready is ready


def test_enabled_kinds():
    serves = [
        APIEnablement("v1", (APIResource("pods", "Pod"), APIResource("services", "Service"))),
        APIEnablement("empty.io/v1"),
        APIEnablement("apps/v1", (APIResource("deployments", "Deployment"),)),
    ]
    expected = [("v1", "Pod"), ("v1", "Service"), ("apps/v1", "Deployment")]
    assert list(cluster(serves=serves).enabled_kinds()) == expected


TIMES = {"before": "2026-01-01T00:00:00Z", "after": "2026-01-01T02:00:00+01:00"}


@cases(
    ("triggered", "last", "requested"),
    {
        "triggered after the last scheduling, with any offset": ("after", "before", True),
        "triggered before": ("before", "after", False),
        "at the same time": ("before", "before", False),
        "never scheduled": ("after", None, False),
        "never triggered": (None, "before", False),
    },
)
def test_reschedule_requested(triggered, last, requested):
    status = convert(BindingStatus, {"lastScheduledTime": TIMES[last]} if last else {})
    moment = convert(BindingStatus, {"lastScheduledTime": TIMES[triggered]}).last_scheduled_time if triggered else None
    assert binding(reschedule_triggered_at=moment, status=status).reschedule_requested is requested


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [("Deployment", "nginx", "nginx-deployment"), ("ClusterRole", "system:Node", "system.node-clusterrole")],
)
def test_names_of_bindings(kind, name, expected):
    assert binding_name(kind, name) == expected


def node_cluster(**fields):
    return cluster_of_node(convert(Node, node("n1", **fields)))


def test_a_node_keeps_name_labels_and_deletion():
    made = node_cluster(tier="gold", deleting=True)
    assert (made.name, made.metadata.labels, made.deleting) == ("n1", {"tier": "gold"}, True)


@cases(
    ("labels", "region", "zones"),
    {
        "no labels": ({}, "", ()),
        "the region is a label": ({"topology.kubernetes.io/region": "eu"}, "eu", ()),
        "the zone is a label": ({"topology.kubernetes.io/zone": "eu-a"}, "", ("eu-a",)),
    },
)
def test_region_and_zone(labels, region, zones):
    made = node_cluster(**labels)
    assert (made.spec.region, made.spec.zones) == (region, zones)


@cases(
    ("provider_id", "provider"),
    {
        "none": ("", ""),
        "the scheme of the id": ("aws:///us-east-1a/i-0abc", "aws"),
        "the scheme of Liqo": ("liqo://other-cluster", "liqo"),
        "an id without scheme names no provider": ("no-scheme", ""),
    },
)
def test_provider(provider_id, provider):
    assert node_cluster(provider_id=provider_id).spec.provider == provider


@cases(
    ("fields", "taints"),
    {
        "none": ({}, ()),
        "the taints of the node": (
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]},
            (taint("k=v:NoExecute"),),
        ),
        "a cordoned node": ({"unschedulable": True}, (UNSCHEDULABLE,)),
        "a cordoned node that already has the taint": (
            {"unschedulable": True, "taints": [{"key": UNSCHEDULABLE.key, "effect": "NoSchedule"}]},
            (UNSCHEDULABLE,),
        ),
    },
)
def test_taints(fields, taints):
    assert node_cluster(**fields).spec.taints == taints


def test_the_summary_holds_the_allocatable_amounts_only():
    summary = node_cluster(cpu="2", pods="30").status.resource_summary
    assert {name: amount.text for name, amount in summary.allocatable.items()} == {
        "cpu": "2",
        "memory": "8Gi",
        "pods": "30",
    }
    assert summary.allocated == {}


def test_a_node_without_amounts_has_no_summary():
    bare = cluster_of_node(convert(Node, {"metadata": {"name": "n1"}, "spec": None, "status": {}}))
    assert bare.status.resource_summary is None


def test_a_node_has_its_condition_and_serves_pods():
    made = node_cluster()
    assert made.ready
    assert list(made.enabled_kinds()) == [("v1", "Pod")]


def test_a_node_identity_makes_the_same_cluster_without_status():
    whole = node_cluster(tier="gold", provider_id="aws:///i", unschedulable=True)
    short = cluster_of_node(convert(NodeIdentity, node("n1", tier="gold", provider_id="aws:///i", unschedulable=True)))
    assert (short.metadata, short.spec) == (whole.metadata, whole.spec)


def document(name: str, replicas: int = 2, clusters: int = 3) -> bytes:
    targets = [{"name": f"a-cluster-{each}", "replicas": replicas} for each in range(clusters)]
    status = {"replicas": replicas, "readyReplicas": replicas}
    reports = [
        {"clusterName": each["name"], "status": status, "applied": True, "health": "Healthy"} for each in targets
    ]
    condition = {
        "type": "Scheduled",
        "status": "True",
        "reason": "Success",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return encode_json({
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"by": "policy-id", "own": name},
            "annotations": {"policy": "web", "placement": "{}"}, "finalizers": ["karmada.io/binding-controller"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-{name}"}],
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
            "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
            "placement": {"clusterAffinity": {"clusterNames": ["a-cluster-1"]}},
            "clusters": targets, "suspension": {"dispatching": True},
            "components": [{"name": "main", "replicas": 1}],
        },
        "status": {"conditions": [condition], "aggregatedStatus": reports},
    })  # fmt: skip


@pytest.mark.parametrize("hold_unknown", [True, False])
def test_a_binding_is_the_same_as_without_sharing(*, hold_unknown: bool):
    reader = SharingReader(hold_unknown=hold_unknown)
    for name in ("web", "api", "web"):
        assert reader.binding(document(name)) == decode_json(Binding, document(name))


def test_bindings_share_what_is_equal():
    reader = SharingReader()
    one, other = reader.binding(document("web")), reader.binding(document("api"))

    def parts(binding: Binding) -> list[object]:
        spec, metadata, first = binding.spec, binding.metadata, binding.status.aggregated_status[0]
        return [
            spec.placement, spec.replica_requirements, spec.components, spec.suspension, spec.resource.namespace,
            spec.clusters[0], metadata.annotations, metadata.finalizers, metadata.labels["by"],
            metadata.owner_references[0].kind, binding.status.conditions[0].reason, first.status, first.cluster_name,
        ]  # fmt: skip

    for index, (mine, its) in enumerate(zip(parts(one), parts(other), strict=True)):
        assert mine is its, f"part {index}"


def test_a_report_of_another_cluster_costs_only_its_own_entry():
    reports = SharingReader().binding(document("web", clusters=20)).status.aggregated_status
    assert len({id(each.status) for each in reports}) == 1


def test_equal_json_of_other_types_is_not_shared():
    raw = decode_json(dict, document("web"))
    raw["status"]["aggregatedStatus"][0]["status"] = raw["spec"]["suspension"]
    raw["spec"]["clusters"][0]["components"] = raw["spec"]["components"]
    text = encode_json(raw)
    assert SharingReader().binding(text) == decode_json(Binding, text)


def test_clusters_share_the_kinds_that_they_serve():
    served = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
    raw = {"metadata": {"name": "a"}, "status": {"apiEnablements": served}}
    reader = SharingReader()
    found = [
        reader.cluster(decode_json(Cluster, encode_json({**raw, "metadata": {"name": name}}))) for name in ("a", "b")
    ]
    assert found[0].status.api_enablements is found[1].status.api_enablements
    assert msgspec.structs.replace(found[0], metadata=found[1].metadata) == found[1]


def test_parts_above_the_limit_are_forgotten_together():
    parts = SharedParts(most_bytes=1000)
    for number in range(100):
        parts.part("status", AggregatedStatusItem(f"cluster-{number}"))
        assert len(parts) <= 8
    assert parts.part("status", AggregatedStatusItem("cluster-99")) == AggregatedStatusItem("cluster-99")


def quota(overall, used=None):
    return convert(
        FederatedResourceQuota,
        {"metadata": {"name": "limit"}, "spec": {"overall": overall}, "status": {"overallUsed": used or {}}},
    )


@cases(
    ("before", "after", "looser"),
    {
        "nothing changed": (quota({"cpu": "3"}), quota({"cpu": "3"}), False),
        "a limit is raised": (quota({"cpu": "3"}), quota({"cpu": "3001m"}), True),
        "a limit is lowered": (quota({"cpu": "3"}), quota({"cpu": "2"}), False),
        "the same limit in another unit": (quota({"cpu": "1000m"}), quota({"cpu": "1"}), False),
        "a limit is removed": (quota({"cpu": "3"}), quota({}), True),
        "a limit is added": (quota({"cpu": "3"}), quota({"cpu": "3", "memory": "1"}), False),
        "one of two is raised": (quota({"cpu": "3", "memory": 1}), quota({"cpu": "1", "memory": 2}), True),
        "less is used": (quota({"cpu": "3"}, {"cpu": "2"}), quota({"cpu": "3"}, {"cpu": "1"}), True),
        "more is used": (quota({"cpu": "3"}, {"cpu": "1"}), quota({"cpu": "3"}, {"cpu": "2"}), False),
        "nothing is used any more": (quota({"cpu": "3"}, {"cpu": "1"}), quota({"cpu": "3"}), True),
        "it is deleted": (quota({"cpu": "3"}), None, True),
    },
)
def test_which_changes_of_a_quota_make_it_looser(before, after, looser):
    assert is_looser(before, after) is looser
