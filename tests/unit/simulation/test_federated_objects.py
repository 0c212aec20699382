"""FederatedObjects are the present of a federation: where workloads are, with how many replicas, and why."""

import json
from datetime import UTC, datetime
from io import BytesIO

import pytest
import yaml
from federation_documents import KUBEADMIRAL, member, policy, shop
from tables import cases

from berthmaster.manifests import load_manifests
from berthmaster.model.cluster import Taint
from berthmaster.model.errors import ManifestError
from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger
from berthmaster.simulation.changes import AddTaint, Down, RemoveCluster, Scale
from berthmaster.simulation.federation import compare_federation, federation_of, run_federation
from berthmaster.simulation.workload import ResourceName
from extender.protocols.kubeadmiral.simulated import webhooks_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = ResourceName("default", "Deployment", "shop")
SCHEDULER = "kubeadmiral.io/global-scheduler"
"""What KubeAdmiral stores after it scheduled 8 replicas by the policy ``shop``. Its hashes are its own."""
STORED = {
    "schedulingAnnotationsHash": "1",
    "replicaCount": 8,
    "resourceRequest": {"millicpu": 1},
    "policyName": "shop",
    "policyContentHash": "2",
    "clusters": ["b", "a"],
    "clusterLabelsHashes": {"a": "3", "b": "4"},
    "clusterTaintsHashes": {"a": "5", "b": "6"},
    "clusterAPIResourceTypesHashes": {"a": "7", "b": "8"},
}


def federated(placed: dict[str, int | None], *, replicas: int = 8, stored: object = STORED, others=(), **metadata):
    """The FederatedObject of the Deployment ``shop``."""
    template = shop({})
    template["spec"]["replicas"] = replicas
    text = stored if isinstance(stored, str) else json.dumps(stored)
    patched = [
        {"cluster": name, "patches": [{"op": "replace", "path": "/spec/replicas", "value": number}]}
        for name, number in placed.items()
        if number is not None
    ]
    return {
        "apiVersion": KUBEADMIRAL,
        "kind": "FederatedObject",
        "metadata": {
            "name": "shop-deployments.apps",
            "namespace": "default",
            "labels": {"kubeadmiral.io/propagation-policy-name": "shop"},
            "annotations": {} if stored is None else {"kubeadmiral.io/scheduling-triggers": text},
            **metadata,
        },
        "spec": {
            "template": template,
            "placements": [
                {"controller": SCHEDULER, "placement": [{"cluster": name} for name in placed]},
                *({"controller": name, "placement": [{"cluster": cluster}]} for name, cluster in others),
            ],
            "overrides": [
                {"controller": "overridepolicy-controller", "clusters": [
                    {"cluster": "a", "patches": [{"path": "/spec/replicas", "value": 99}]}]},
                {"controller": SCHEDULER, "clusters": patched},
            ],
        },
    }  # fmt: skip


def compared(*documents, changes=(), **options):
    text = yaml.safe_dump_all([member("a"), member("b"), *documents]).encode()
    federation = federation_of(load_manifests(["-"], stdin=BytesIO(text)), **options)
    return compare_federation(federation, changes, NOW)


def clusters(results):
    return [dict(each.bound.workload.current) for each in results]


@cases(
    ("objects", "trigger", "settled"),
    {
        "nothing changed: it stays where it is": ([federated({"a": 8})], ObjectTrigger.NONE, {"a": 8}),
        "the source object is the same workload": ([federated({"a": 8}), shop()], ObjectTrigger.NONE, {"a": 8}),
        "replicas that were not scheduled yet are a trigger": (
            [federated({"a": 6, "b": 2}, replicas=10)],
            ObjectTrigger.REPLICAS,
            {"a": 6, "b": 4},
        ),
        "another policy is a trigger": (
            [federated({"a": 8}, stored={**STORED, "policyName": "old"})],
            ObjectTrigger.POLICY,
            {"a": 4, "b": 4},
        ),
        "an unreadable record is a trigger": (
            [federated({"a": 8}, stored="not JSON")],
            ObjectTrigger.UNREADABLE,
            {"a": 4, "b": 4},
        ),
        "no record: it was never scheduled": ([federated({}, stored=None)], ObjectTrigger.FIRST, {"a": 4, "b": 4}),
        "an object that is being deleted is not scheduled": (
            [federated({"a": 8}, deletionTimestamp="2026-01-01T00:00:00Z", stored=None)],
            ObjectTrigger.NONE,
            {"a": 8},
        ),
    },
)
def test_the_present_and_what_is_due(objects, trigger, settled):
    result = compared(policy(reschedulePolicy={"replicaRescheduling": {"avoidDisruption": False}}), *objects)
    [due] = result.settled
    assert due.trigger is trigger
    assert sum(due.bound.workload.current.values()) == sum(settled.values())
    assert due.bound.workload.current.keys() == settled.keys()


def test_before_is_what_the_objects_say_and_not_a_new_decision():
    result = compared(policy(), federated({"a": 5, "b": 1}, replicas=10))
    assert clusters(result.before) == [{"a": 5, "b": 1}]
    assert clusters(result.settled) != clusters(result.before)


@cases(
    ("change", "trigger"),
    {
        "more replicas": (Scale(SHOP, 12), ObjectTrigger.REPLICAS),
        "a cluster that leaves": (RemoveCluster("a"), ObjectTrigger.CLUSTER_TAINTS),
        "a taint": (AddTaint("a", Taint("k", effect="NoExecute")), ObjectTrigger.CLUSTER_TAINTS),
        "a cluster that is not ready moves nothing": (Down("a"), ObjectTrigger.NONE),
    },
)
def test_a_change_is_seen_against_the_stored_record(change, trigger):
    result = compared(policy(), federated({"a": 6, "b": 2}), changes=[change])
    assert [each.trigger for each in result.settled] == [ObjectTrigger.NONE]
    assert [each.trigger for each in result.after] == [trigger]


def test_replicas_without_a_cluster_are_counted():
    result = compared(policy(), federated({"a": 3, "b": 2}))
    assert [each.unplaced for each in result.settled] == [3]
    whole = compared(policy(), federated({"a": None}))
    assert [each.unplaced for each in whole.settled] == [0], "a cluster without a number has all replicas"


def test_placements_of_other_controllers_are_a_note():
    [result] = compared(policy(), federated({"a": 8}, others=[("kubeadmiral.io/follower-controller", "b")])).settled
    assert result.bound.workload.current == {"a": 8}
    assert result.notes == ("other controllers place it on b as well",)


LIMITS = [
    {"cluster": "a", "preferences": {"maxReplicas": 3}},
    {"cluster": "b", "preferences": {"minReplicas": 9}},
]


def test_limits_of_mode_duplicate_are_ignored_as_in_kubeadmiral_with_a_note():
    [result] = compared(policy(schedulingMode="Duplicate", placement=LIMITS), shop()).settled
    assert result.bound.workload.current == {"a": None, "b": None}
    assert "--duplicate-limits" in result.notes[-1]


def test_limits_of_mode_duplicate_apply_on_request():
    [result] = compared(policy(schedulingMode="Duplicate", placement=LIMITS), shop(), duplicate_limits=True).settled
    assert result.bound.workload.current == {"a": 3, "b": 9}
    assert result.notes == ()


@pytest.mark.parametrize("kind", ["SchedulerPluginWebhookConfiguration", "FederatedTypeConfig", "OverridePolicy"])
def test_an_object_of_kubeadmiral_is_no_workload(kind):
    document = {"apiVersion": KUBEADMIRAL, "kind": kind, "metadata": {"name": "x", "namespace": "default"}}
    assert compared(policy(), shop(), document).settled[0].bound.name.kind == "Deployment"
    assert len(compared(policy(), shop(), document).settled) == 1


def test_an_invalid_template_names_the_file_and_field():
    broken = federated({"a": 8})
    broken["spec"]["template"]["spec"]["replicas"] = "many"
    with pytest.raises(ManifestError, match="replicas"):
        compared(policy(), broken)


GROUPS = json.dumps(
    [
        {"affinityName": "owned", "labelSelector": {"matchLabels": {"owned": "yes"}}},
        {"affinityName": "rented", "clusterNames": ["b"]},
    ]
)


def grouped(name: str = "berthmaster", *, cpu: str = "16", replicas: int = 8):
    """A workload with ordered groups, a policy with the profile that asks for them, and both clusters."""
    owned = member("a", cpu=cpu)
    owned["metadata"]["labels"] = {"owned": "yes"}
    workload = shop(**{"policy.berthmaster.io/cluster-affinities": GROUPS})
    workload["spec"]["replicas"] = replicas
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
    point = {"enabled": [{"type": "Webhook", "name": name}]}
    return [
        owned,
        member("b"),
        {
            "apiVersion": KUBEADMIRAL,
            "kind": "SchedulingProfile",
            "metadata": {"name": "ordered"},
            "spec": {"plugins": {"filter": point, "score": point, "select": point}},
        },
        policy(schedulingProfile="ordered"),
        workload,
    ]


def placed_by_groups(*documents):
    manifests = load_manifests(["-"], stdin=BytesIO(yaml.safe_dump_all(documents).encode()))
    federation = federation_of(manifests, webhooks=webhooks_of(manifests))
    [result] = run_federation(federation, NOW, diagnose=True)[1]
    return result


def with_gpus(document: dict, number: int) -> dict:
    for amounts in document["status"]["resources"].values():
        amounts["nvidia.com/gpu"] = str(number)
    return document


@cases(
    ("owned", "clusters", "group"),
    {
        "the first group that holds the workload": (8, {"a": 8}, "group owned"),
        "the second group, because the first is too small": (7, {"b": 8}, "group rented"),
    },
)
def test_groups_in_order_are_those_of_the_extender(owned, clusters, group):
    documents = grouped()
    with_gpus(documents[0], owned)
    with_gpus(documents[1], 8)
    result = placed_by_groups(*documents)
    assert result.bound.workload.current == clusters
    assert group in result.notes


def test_no_group_that_holds_the_workload_fails_the_attempt_as_in_kubeadmiral():
    documents = grouped()
    with_gpus(documents[0], 1)
    with_gpus(documents[1], 1)
    result = placed_by_groups(*documents)
    assert "no group can hold the workload" in result.decision.failure.message
    assert result.unplaced == 8


def test_a_cluster_in_no_group_is_explained():
    documents = [*grouped(), member("c")]
    with_gpus(documents[0], 8)
    result = placed_by_groups(*documents)
    [c] = [each for each in result.diagnosis.clusters if each.cluster == "c"]
    assert [(each.plugin, each.reason) for each in c.rejections] == [("berthmaster", "is in no group")]


def test_the_plugin_is_known_by_the_name_of_its_configuration():
    documents = grouped("ours")
    with_gpus(documents[0], 8)
    unknown = placed_by_groups(*documents)
    assert "a webhook that is not known here" in unknown.decision.failure.message
    configuration = {
        "apiVersion": KUBEADMIRAL,
        "kind": "SchedulerPluginWebhookConfiguration",
        "metadata": {"name": "ours"},
        "spec": {"payloadVersions": ["v1alpha1"], "urlPrefix": "https://b.example.org:443/kubeadmiral/v1alpha1"},
    }
    assert placed_by_groups(*documents, configuration).bound.workload.current == {"a": 8}
