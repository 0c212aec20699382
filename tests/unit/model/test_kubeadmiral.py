import copy

import pytest
from builders import quantities
from hypothesis import given
from hypothesis import strategies as st
from kubeadmiral_builders import member
from tables import cases, data

from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral.clusters import FederatedCluster, as_cluster
from berthmaster.model.kubeadmiral.policies import KubeAdmiralPolicy, KubeAdmiralSpec, defaulted_spec
from berthmaster.model.kubeadmiral.profiles import SchedulingProfile
from berthmaster.model.quantity import Quantity
from berthmaster.model.unknown_fields import unknown_fields

FULL, PROFILE, STORED = data("kubeadmiral").values()


def test_a_policy_is_decoded_and_encoded_completely():
    # A zero differs from an absent field.
    assert builtins(convert(KubeAdmiralSpec, FULL)) == FULL
    assert unknown_fields(KubeAdmiralSpec, FULL) == []


def test_absent_fields_are_none():
    spec = convert(KubeAdmiralPolicy, {"spec": {"placement": [{"cluster": "a"}], "reschedulePolicy": {}}}).spec
    assert (spec.max_clusters, spec.auto_migration) == (None, None)
    assert spec.placement[0].preferences.weight is None
    assert spec.reschedule_policy.reschedule_when is None


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"maxClusters": "1"}, "maxClusters"),
        ({"placement": [{"cluster": "a", "preferences": {"weight": 1.5}}]}, "placement[0].preferences.weight"),
        ({"clusterSelector": {"a": 1}}, "clusterSelector[a]"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_with_its_path(spec, path):
    with pytest.raises(FieldError) as raised:
        convert(KubeAdmiralSpec, spec)
    assert raised.value.path == path


def test_a_profile_is_decoded_completely():
    profile = convert(SchedulingProfile, PROFILE)
    assert unknown_fields(SchedulingProfile, PROFILE) == []
    (plugin,) = profile.spec.plugins.filter.enabled
    assert (plugin.name, plugin.type, plugin.weight) == ("a", "Webhook", 2)
    assert builtins(profile.spec) == PROFILE["spec"]


WHEN = {
    "policyContentChanged": True,
    "clusterJoined": False,
    "clusterLabelsChanged": False,
    "clusterAPIResourcesChanged": False,
}
AVOID = {"avoidDisruption": True}
WHOLE = {"rescheduleWhen": WHEN, "replicaRescheduling": AVOID}


@cases(
    ("given_policy", "by_crd", "documented"),
    {
        "absent": (None, WHOLE, {"disableRescheduling": False, **WHOLE}),
        "empty: the CRD does not set rescheduleWhen": (
            {},
            {"replicaRescheduling": AVOID},
            {"disableRescheduling": False, **WHOLE},
        ),
        "disabled": (
            {"disableRescheduling": True},
            {"disableRescheduling": True, "replicaRescheduling": AVOID},
            {"disableRescheduling": True, **WHOLE},
        ),
        "given values stay, the rest is completed": (
            {"rescheduleWhen": {"clusterJoined": True, "policyContentChanged": False}},
            {**WHOLE, "rescheduleWhen": {**WHEN, "clusterJoined": True, "policyContentChanged": False}},
            {
                "disableRescheduling": False,
                **WHOLE,
                "rescheduleWhen": {**WHEN, "clusterJoined": True, "policyContentChanged": False},
            },
        ),
        "empty objects are completed": (
            {"rescheduleWhen": {}, "replicaRescheduling": {}},
            WHOLE,
            {"disableRescheduling": False, **WHOLE},
        ),
        "null is absent": (
            {"rescheduleWhen": None, "replicaRescheduling": {"avoidDisruption": False}},
            {"rescheduleWhen": None, "replicaRescheduling": {"avoidDisruption": False}},
            {"disableRescheduling": False, "rescheduleWhen": WHEN, "replicaRescheduling": {"avoidDisruption": False}},
        ),
    },
)
def test_rescheduling(given_policy, by_crd, documented):
    spec = {} if given_policy is None else {"reschedulePolicy": given_policy}
    assert defaulted_spec(spec)["reschedulePolicy"] == by_crd
    assert defaulted_spec(spec, documented=True)["reschedulePolicy"] == documented


@cases(
    ("given_spec", "migration"),
    {
        "absent is off": ({}, None),
        "null is off": ({"autoMigration": None}, None),
        "given is on, with defaults": (
            {"autoMigration": {}},
            {"when": {"podUnschedulableFor": "1m"}, "keepUnschedulableReplicas": False},
        ),
        "given values stay": (
            {"autoMigration": {"when": {"podUnschedulableFor": "5m"}, "keepUnschedulableReplicas": True}},
            {"when": {"podUnschedulableFor": "5m"}, "keepUnschedulableReplicas": True},
        ),
    },
)
def test_auto_migration(given_spec, migration):
    assert defaulted_spec(given_spec).get("autoMigration") == migration


@pytest.mark.parametrize(
    ("strategy", "expected"), [(None, "Spread"), ("", "Spread"), ("Binpack", "Binpack"), ("Other", "Other")]
)
def test_replicas_strategy(strategy, expected):
    assert defaulted_spec({"replicasStrategy": strategy})["replicasStrategy"] == expected


@pytest.mark.parametrize("wrong", ["text", 3, [1], True])
def test_values_of_the_wrong_type_get_no_defaults(wrong):
    spec = {"reschedulePolicy": wrong, "autoMigration": wrong, "replicasStrategy": "Spread"}
    assert defaulted_spec(spec) == spec


LEAVES = st.none() | st.booleans() | st.text(max_size=3)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "schedulingMode": LEAVES,
        "replicasStrategy": LEAVES,
        "reschedulePolicy": LEAVES
        | st.fixed_dictionaries(
            {},
            optional={
                "disableRescheduling": LEAVES,
                "rescheduleWhen": LEAVES | st.dictionaries(st.sampled_from([*WHEN, "other"]), LEAVES),
                "replicaRescheduling": LEAVES | st.dictionaries(st.sampled_from(["avoidDisruption"]), LEAVES),
            },
        ),
        "autoMigration": LEAVES | st.dictionaries(st.sampled_from(["when", "keepUnschedulableReplicas"]), LEAVES),
    },
)


@given(SPECS, st.booleans())
def test_defaulting_is_idempotent_and_changes_no_given_value(spec, documented):
    before = copy.deepcopy(spec)
    once = defaulted_spec(spec, documented=documented)
    assert spec == before
    assert defaulted_spec(once, documented=documented) == once
    assert all(once[key] == value for key, value in spec.items() if isinstance(value, bool) or key == "schedulingMode")


def test_a_federated_cluster_is_converted():
    cluster = as_cluster(convert(FederatedCluster, STORED))
    assert (cluster.name, cluster.deleting, cluster.ready) == ("member1", True, False)
    assert cluster.metadata.labels == {"az": "a"}
    assert [str(each) for each in cluster.spec.taints] == ["a:NoSchedule"]
    assert list(cluster.enabled_kinds()) == [("apps/v1", "Deployment"), ("v1", "ConfigMap")]


@cases(
    ("available", "used"),
    {
        "some is available": ({"cpu": "1500m"}, "2500m"),
        "no available amount: all is used": ({}, "4"),
        "an overcommitted cluster": ({"cpu": "-1"}, "5"),
        "all is available": ({"cpu": 4}, "0"),
    },
)
def test_allocated_amounts(available, used):
    summary = member(allocatable={"cpu": 4}, available=available).status.resource_summary
    assert summary.allocatable == quantities({"cpu": 4})
    assert summary.allocated == {"cpu": Quantity.parse(used)}


def test_a_cluster_without_status():
    cluster = as_cluster(convert(FederatedCluster, {"metadata": {"name": "new"}, "spec": None, "status": {}}))
    assert cluster.status.conditions == ()
    assert cluster.status.resource_summary.allocatable == {}


def test_an_invalid_quantity_is_an_error_with_its_path():
    with pytest.raises(FieldError) as raised:
        convert(FederatedCluster, {"metadata": {"name": "x"}, "status": {"resources": {"available": {"cpu": "much"}}}})
    assert raised.value.path == "status.resources.available[cpu]"
