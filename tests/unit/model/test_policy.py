import pytest
from builders import placement, policy, selector

from berthmaster.model.decode import builtins, convert
from berthmaster.model.policy import FailoverBehavior, defaulted, defaulted_placement


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        pytest.param({}, {}, id="an empty placement"),
        pytest.param(
            {"replicaScheduling": {}},
            {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                }
            },
            id="replicas are divided by weight",
        ),
        pytest.param(
            {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
            {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
            id="duplicated replicas have no preference",
        ),
        pytest.param(
            {"replicaScheduling": {"replicaDivisionPreference": "Aggregated"}},
            {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Aggregated",
                }
            },
            id="a preference stays",
        ),
        pytest.param(
            {"spreadConstraints": [{}]},
            {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1}]},
            id="spread over at least one cluster, without a maximum",
        ),
        pytest.param(
            {"spreadConstraints": [{"spreadByLabel": "rack", "minGroups": 2, "maxGroups": 3}]},
            {"spreadConstraints": [{"spreadByLabel": "rack", "minGroups": 2, "maxGroups": 3}]},
            id="a label replaces the field",
        ),
    ],
)
def test_placements(written, stored):
    assert builtins(defaulted_placement(placement(**written))) == stored
    assert defaulted_placement(placement(**stored)) == placement(**stored)


def test_selectors_default_to_the_namespace_of_the_policy():
    stored = defaulted(policy(namespace=""))
    assert stored.metadata.namespace == "default"
    assert stored.spec.resource_selectors == (selector(namespace="default"),)


def test_a_given_namespace_stays():
    stored = defaulted(policy(namespace="team", selectors=[selector(namespace="other"), selector()]))
    assert [each.namespace for each in stored.spec.resource_selectors] == ["other", "team"]


def test_selectors_of_a_cluster_policy_keep_an_empty_namespace():
    stored = defaulted(policy(cluster_scoped=True))
    assert stored.metadata.namespace == ""
    assert stored.spec.resource_selectors == (selector(),)


def test_scalars_have_the_values_of_the_crd():
    spec = defaulted(policy()).spec
    assert (spec.priority, spec.preemption, spec.scheduler_name) == (0, "Never", "default-scheduler")
    assert (spec.conflict_resolution, spec.propagate_deps) == ("Abort", False)


def test_service_imports_propagate_their_dependencies():
    chosen = [selector("ServiceImport", "multicluster.x-k8s.io/v1alpha1")]
    assert defaulted(policy(selectors=chosen)).spec.propagate_deps


def test_defaulting_twice_changes_nothing():
    once = defaulted(policy(placement=placement(replicaScheduling={}, spreadConstraints=[{}])))
    assert defaulted(once) == once


def test_a_failover_gets_the_defaults_of_the_crd_and_of_the_webhook():
    written = defaulted(policy("p", failover=convert(FailoverBehavior, {"application": {}, "cluster": {}})))
    assert builtins(written.spec.failover) == {
        "application": {
            "decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600,
        },
        "cluster": {"purgeMode": "Gracefully"},
    }  # fmt: skip
    kept = {"application": {"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Never"}}
    assert builtins(defaulted(policy("p", failover=convert(FailoverBehavior, kept))).spec.failover) == kept
