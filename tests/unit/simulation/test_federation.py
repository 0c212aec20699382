from datetime import UTC, datetime, timedelta
from io import BytesIO

import pytest
import yaml
from federation_documents import KUBEADMIRAL, member, policy, shop
from tables import cases

from berthmaster.manifests import load_manifests
from berthmaster.model.cluster import Taint
from berthmaster.model.errors import InputError, ManifestError
from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, Reschedule, Scale
from berthmaster.simulation.federation import apply_to_federation, federation_of, run_federation
from berthmaster.simulation.workload import ResourceName

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
    },
)
def test_a_change_to_an_unknown_target_is_rejected(change, message):
    with pytest.raises(InputError, match=message):
        apply_to_federation([change], federation(member("a"), policy(), shop()), NOW)


@cases(
    ("document", "message"),
    {
        "a typo in a policy": (policy(maxCluster=1), "spec.maxCluster: unknown field; did you mean maxClusters"),
        "a wrong type": (policy(maxClusters="x"), "spec.maxClusters: 'x' is a str; accepted is int"),
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
