"""Simulations of a federation: from its policies, and from the present of its FederatedObjects; invalid objects."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO

import pytest
import yaml
from federation_documents import KUBEADMIRAL, member, policy, shop
from fleet_dump import members, stored_binding, stored_policy, stored_template
from switched_on import world_of
from tables import cases

from berthmaster.manifests import Document, load_manifests
from berthmaster.manifests.loader import manifests_of
from berthmaster.model.errors import InputError, ManifestError
from berthmaster.model.readers import ANY_READER
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.model.taint import Taint
from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, Rebalance, RemoveCluster, Reschedule, Scale
from berthmaster.simulation.kubeadmiral.federation import (
    apply_to_federation,
    compare_federation,
    federation_of,
    run_federation,
)
from berthmaster.simulation.workload import ResourceName
from extender.protocols.kubeadmiral.groups_plugin import webhooks_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
SHOP = ResourceName("", "Deployment", "shop")


def federation(*documents: dict):
    return federation_of(load_manifests(["-"], stdin=BytesIO(yaml.safe_dump_all(documents).encode())))


def result(*documents: dict):
    (found,) = run_federation(federation(*documents), NOW)[1]
    return found


@cases(
    ("documents", "clusters"),
    {
        "replicas are divided by the available resources": ([policy(), shop()], {"a": 7, "b": 1}),
        "duplicated to all clusters": ([policy(schedulingMode="Duplicate"), shop()], {"a": None, "b": None}),
        "a resource without replicas is duplicated": ([policy(), shop(kind="ConfigMap")], {"a": None, "b": None}),
        "maxClusters limits the clusters": ([policy(maxClusters=1), shop()], {"a": 8}),
        "a cluster policy is bound by its own label": (
            [policy("ClusterPropagationPolicy"), shop({"kubeadmiral.io/cluster-propagation-policy-name": "shop"})],
            {"a": 7, "b": 1},
        ),
        "an annotation overrides the policy": ([policy(), shop(**{"kubeadmiral.io/maxClusters": "1"})], {"a": 8}),
        "no policy is bound": ([policy(), shop({})], {}),
    },
)
def test_assignments(documents, clusters):
    assert result(member("a"), member("b", cpu="4"), *documents).bound.workload.current == clusters


def test_a_profile_selects_the_plugins():
    profile = {
        "apiVersion": KUBEADMIRAL,
        "kind": "SchedulingProfile",
        "metadata": {"name": "lenient"},
        "spec": {"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}},
    }
    tainted = member("a", taints=[{"key": "k", "effect": "NoExecute"}])
    documents = [tainted, profile, shop()]
    assert result(*documents, policy()).decision.failure is not None
    assert result(*documents, policy(schedulingProfile="lenient")).bound.workload.current == {"a": 8}


def test_an_invalid_profile_fails_only_the_policies_that_name_it():
    plugins = {"filter": {"enabled": [{"name": "groups", "type": "Webhook"}]}}
    profile = {"apiVersion": KUBEADMIRAL, "kind": "SchedulingProfile", "metadata": {"name": "p"}}
    documents = [member("a"), {**profile, "spec": {"plugins": plugins}}, shop()]
    assert result(*documents, policy()).bound.workload.current == {"a": 8}
    failed = result(*documents, policy(schedulingProfile="p")).decision.failure
    assert failed.message.startswith("SchedulingProfile p: spec.plugins.filter.enabled[0].name: 'groups' is a webhook")


@cases(
    ("documents", "note"),
    {
        "a missing policy": ([shop()], "PropagationPolicy shop does not exist"),
        "a missing profile": ([policy(schedulingProfile="p"), shop()], "SchedulingProfile p does not exist"),
        "an annotation": (
            [policy(), shop(**{"kubeadmiral.io/no-scheduling": "yes"})],
            "an annotation disables scheduling",
        ),
    },
)
def test_a_note_says_why_nothing_is_scheduled(documents, note):
    found = result(member("a"), *documents)
    assert (found.trigger, found.notes) == (ObjectTrigger.NONE, (note,))


@cases(
    ("change", "trigger", "clusters"),
    {
        "scaling": (Scale(SHOP, 16), ObjectTrigger.REPLICAS, {"a": 13, "b": 3}),
        "a NoExecute taint evicts": (AddTaint("a", Taint("k", "NoExecute")), ObjectTrigger.CLUSTER_TAINTS, {"b": 8}),
        "a NoSchedule taint does not evict": (
            AddTaint("a", Taint("k", "NoSchedule")),
            ObjectTrigger.CLUSTER_TAINTS,
            {"a": 7, "b": 1},
        ),
        "a label does not trigger scheduling by default": (
            AddLabel("a", "k", "v"),
            ObjectTrigger.NONE,
            {"a": 7, "b": 1},
        ),
        "a failed cluster keeps its replicas": (Down("a"), ObjectTrigger.NONE, {"a": 7, "b": 1}),
        "a forced run changes nothing": (Reschedule(), ObjectTrigger.NONE, {"a": 7, "b": 1}),
    },
)
def test_what_a_change_moves(change, trigger, clusters):
    before, _ = run_federation(federation(member("a"), member("b", cpu="4"), policy(), shop()), NOW)
    _, (after,) = run_federation(apply_to_federation([change], before, LATER), LATER)
    assert (after.trigger, after.bound.workload.current) == (trigger, clusters)


def test_a_note_names_the_setting_that_defers_a_change():
    before, _ = run_federation(federation(member("a"), policy(), shop()), NOW)
    _, (after,) = run_federation(apply_to_federation([AddLabel("a", "k", "v")], before, LATER), LATER)
    assert after.notes == ("clusterLabelsChanged:false",)


def test_disabled_rescheduling_keeps_the_replicas_of_a_scaled_workload():
    sticky = policy(reschedulePolicy={"disableRescheduling": True})
    before, _ = run_federation(federation(member("a"), member("b", cpu="4"), sticky, shop()), NOW)
    _, (after,) = run_federation(apply_to_federation([Scale(SHOP, 99)], before, LATER), LATER)
    assert (after.trigger, after.bound.workload.current) == (ObjectTrigger.REPLICAS, {"a": 7, "b": 1})


def test_a_workload_that_fits_no_cluster_loses_its_assignment():
    before, _ = run_federation(federation(member("a"), policy(), shop()), NOW)
    change = AddTaint("a", Taint("k", "NoExecute"))
    _, (after,) = run_federation(apply_to_federation([change], before, LATER), LATER)
    assert after.decision.failure is not None
    assert after.bound.workload.current == {}


@cases(
    ("change", "message"),
    {
        "an unknown workload": (Scale(ResourceName("", "Job", "x"), 1), "no resources have this name"),
        "an unknown cluster": (Down("z"), "there is no cluster 'z'"),
        "a change of Karmada only": (Rebalance(WorkloadRebalancer()), "Rebalance is not simulated for KubeAdmiral"),
    },
)
def test_a_change_that_a_federation_does_not_have_is_rejected(change, message):
    with pytest.raises(InputError, match=message):
        apply_to_federation([change], federation(member("a"), policy(), shop()), NOW)


@cases(
    ("document", "message"),
    {
        "a typo in a policy": (policy(maxCluster=1), "spec.maxCluster: unknown field; did you mean maxClusters"),
        "a wrong type": (policy(maxClusters="x"), "spec.maxClusters: 'x' is a text, where a number is accepted"),
        "a negative amount": ({**member("b"), "status": {"resources": {"allocatable": {"cpu": "-1"}}}}, "is negative"),
        "a duplicate cluster": (member("a"), "'a' is already defined"),
    },
)
def test_invalid_manifests_are_rejected(document, message):
    with pytest.raises(ManifestError, match=message):
        federation(member("a"), document)


def test_clusters_of_both_control_planes_are_rejected():
    karmada = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "k"}}
    with pytest.raises(InputError, match="both Clusters and FederatedClusters"):
        federation(member("a"), karmada)


SHOP_OF_DEFAULT = ResourceName("default", "Deployment", "shop")
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
        "more replicas": (Scale(SHOP_OF_DEFAULT, 12), ObjectTrigger.REPLICAS),
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


def read(*objects, number: int = 0):
    """The manifests of objects of an API server, or, with a number, of a file."""
    return manifests_of([Document("karmada", number, "", dict(each)) for each in objects], "karmada")


def broken(template):
    return {**template, "spec": {**template["spec"], "replicas": "many"}}


def test_an_invalid_template_leaves_its_binding_and_all_others():
    held_by = stored_policy(to=["member1"])
    web, api = (stored_template(held_by=held_by, name=name) for name in ("web", "api"))
    bindings = [stored_binding(each, {"member1": 2}, policy=held_by) for each in (web, api)]
    manifests = read(*members("member1"), held_by, broken(web), api, *bindings)
    world = world_of(manifests)
    assert {str(each): each.template is not None for each in world.workloads} == {
        "default/Deployment/api": True,
        "default/Deployment/web": False,
    }
    [gap] = manifests.gaps
    assert gap.about == ("default/Deployment/web",)
    assert "spec.replicas" in gap.text(ANY_READER)


def test_an_invalid_template_of_a_file_is_an_error_that_names_it():
    template = broken(stored_template())
    manifests = read(*members("member1"), number=1)
    manifests.templates.append(Document("web.yaml", 1, "", template))
    with pytest.raises(ManifestError, match=r"web.yaml.*spec.replicas"):
        world_of(manifests)


def test_an_invalid_federated_object_leaves_all_others():
    metadata = {"name": "shop-deployments.apps", "namespace": "default"}
    template = shop({})
    template["spec"]["replicas"] = "many"
    federated = {"apiVersion": KUBEADMIRAL, "kind": "FederatedObject", "metadata": metadata}
    other = shop()
    other["metadata"]["name"] = "other"
    manifests = read(member("a"), policy(), {**federated, "spec": {"template": template}}, other)
    assert [each.name.name for each in federation_of(manifests).workloads] == ["other"]
    assert len(manifests.gaps) == 1
