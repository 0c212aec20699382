"""The reviews of Karmada's policies in both modes."""

import gzip
import json
from copy import deepcopy
from pathlib import Path

import pytest
from reviews import COMPANION, STANDALONE, admission_review, answer, denied_fields, operations, patched

from webhook.admission.settings import AdmissionSettings, Level

VECTORS = Path(__file__).parents[3] / "conformance" / "admission.jsonl.gz"
MUTATE, VALIDATE = "/mutate-propagationpolicy", "/validate-propagationpolicy"


def policy(kind="PropagationPolicy", **spec):
    metadata = {"name": "p"} if kind.startswith("Cluster") else {"name": "p", "namespace": "shop"}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}], **spec},
    }


def mutated(obj, settings=COMPANION, **review):
    return patched(obj, answer(MUTATE, admission_review(obj, **review), settings))


def paths(obj, settings=COMPANION):
    return {each["path"] for each in operations(answer(MUTATE, admission_review(obj), settings))}


COMPLETE = policy(
    priority=0,
    preemption="Never",
    resourceSelectors=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
)


def test_a_complete_policy_gets_no_patch():
    response = answer(MUTATE, admission_review(COMPLETE))
    assert "patch" not in response
    assert "patchType" not in response


def test_companion_mode_sets_no_identity():
    obj = policy(resourceSelectors=[{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}])
    assert not [path for path in paths(obj) if "metadata" in path or "propagateDeps" in path]
    assert {path for path in paths(obj, STANDALONE) if "metadata" in path or "propagateDeps" in path} == {
        "/metadata/labels",
        "/metadata/finalizers",
        "/spec/propagateDeps",
    }


def test_unknown_fields_stay_unchanged():
    obj = policy(unknown={"a": [1.5, None, {"b": 2**60}]}, placement={"new": True, "spreadConstraints": [{"x": "y"}]})
    after = mutated(obj)
    assert after["spec"]["unknown"] == obj["spec"]["unknown"]
    assert after["spec"]["placement"]["new"] is True
    assert after["spec"]["placement"]["spreadConstraints"][0]["x"] == "y"
    assert all("unknown" not in path and "new" not in path for path in paths(obj))


def vectors():
    with gzip.open(VECTORS, "rt") as lines:
        return [json.loads(line) for line in lines][::7]


@pytest.mark.parametrize("settings", [COMPANION, STANDALONE], ids=["companion", "standalone"])
def test_the_mutation_is_idempotent(settings):
    for vector in vectors():
        path = f"/mutate-{vector['kind'].lower()}"
        old, namespace = vector.get("oldObject"), vector["namespace"]
        first = answer(path, admission_review(vector["object"], old, namespace=namespace), settings)
        once = patched(deepcopy(vector["object"]), first)
        # An API server calls again after other webhooks, with the same operation and the same old object.
        second = answer(path, admission_review(once, old, namespace=namespace), settings)
        assert patched(deepcopy(once), second) == once, vector["id"]
        if settings is COMPANION:
            assert "patch" not in second, vector["id"]


def test_companion_mode_runs_its_own_checks():
    obj = policy(
        preemption="Always",
        resourceSelectors=[{"apiVersion": "apps/v1", "kind": "Deployment"}],
        placement={
            "clusterAffinity": {"clusterNames": ["a"]},
            "clusterAffinities": [{"affinityName": "x"}, {"affinityName": "x"}],
            "spreadConstraints": [{"spreadByField": "zone", "minGroups": -1}],
        },
    )
    response = answer(VALIDATE, admission_review(obj))
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert response["status"]["reason"] == "Forbidden"
    assert denied_fields(response) == [
        "spec.placement",
        "spec.placement.clusterAffinities",
        "spec.resourceSelectors[0].name",
    ]
    causes = response["status"]["details"]["causes"]
    assert sorted({each["field"] for each in causes}) == denied_fields(response)


def test_peer_checks_find_what_karmada_webhook_would_deny():
    obj = policy(placement={"spreadConstraints": [{"spreadByField": "zone", "minGroups": -1}]})
    assert answer(VALIDATE, admission_review(obj))["allowed"] is True
    response = answer(VALIDATE, admission_review(obj), AdmissionSettings(peer_checks=True))
    assert denied_fields(response) == [
        "spec.placement.spreadConstraints",
        "spec.placement.spreadConstraints[0]",
        "spec.resourceSelectors[0].namespace",
    ]


CLUSTER_WIDE = policy(
    "ClusterPropagationPolicy",
    preemption="Always",
    priority=5,
    resourceSelectors=[
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "reader"},
        {"apiVersion": "example.org/v1", "kind": "Gadget", "name": "g"},
    ],
)


def test_cluster_wide_preemption_requires_the_namespace_of_namespaced_kinds():
    response = answer("/validate-clusterpropagationpolicy", admission_review(CLUSTER_WIDE))
    assert denied_fields(response) == ["spec.resourceSelectors[0].namespace"]
    [warning] = response["warnings"]
    assert "spec.resourceSelectors[2].namespace" in warning


def test_the_level_of_that_rule_is_configurable():
    lenient = AdmissionSettings(
        levels={"preemption-without-namespace": Level.WARN, "preemption-scope-unknown": Level.OFF}
    )
    response = answer("/validate-clusterpropagationpolicy", admission_review(CLUSTER_WIDE), lenient)
    assert response["allowed"] is True
    assert len(response["warnings"]) == 1


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_an_operation_without_a_new_object_is_allowed(operation):
    response = answer(VALIDATE, admission_review(None, COMPLETE, operation=operation))
    # Without an object the kind is that of the old object.
    assert response == {"uid": response["uid"], "allowed": True}


def test_a_subresource_is_not_changed():
    assert operations(answer(MUTATE, admission_review(policy(), subResource="status"))) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"kind": {"group": "apps", "kind": "Deployment"}}, "webhook configuration", id="another kind"),
        pytest.param({"operation": "PATCH"}, "unknown operation", id="an unknown operation"),
        pytest.param({"object": None}, "request.object is missing", id="no object"),
        pytest.param({"operation": "UPDATE"}, "request.oldObject is missing", id="an update without an old object"),
        pytest.param({"object": {"kind": "ConfigMap"}}, "request.object is of kind", id="an object of another kind"),
        pytest.param({"object": {"metadata": {}}}, "request.object is of kind 'None'", id="an object without a kind"),
        pytest.param(
            {"object": {"kind": "PropagationPolicy", "spec": {"priority": "high"}}},
            "spec.priority",
            id="a value of the wrong type",
        ),
        pytest.param({"object": {"kind": "PropagationPolicy", "spec": []}}, "spec", id="spec is a list"),
        pytest.param(
            {"object": {"kind": "PropagationPolicy", "metadata": {"labels": {"a": 1}}}},
            "metadata.labels[a]",
            id="a label is a number",
        ),
    ],
)
def test_an_invalid_request_is_a_bad_request(change, message):
    response = answer(MUTATE, admission_review(policy(), **change))
    assert response["allowed"] is False
    assert response["status"]["code"] == 400
    assert response["status"]["reason"] == "BadRequest"
    assert message in response["status"]["message"]


def test_values_of_a_newer_schema_are_not_denied():
    obj = policy(
        preemption="Sometimes",
        conflictResolution="Merge",
        placement={
            "spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 2}, {"spreadByField": "node"}],
            "replicaScheduling": {"replicaSchedulingType": "Elastic"},
            "clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        },
    )
    for settings in (COMPANION, AdmissionSettings(peer_checks=True)):
        after = mutated(obj, settings)
        assert answer(VALIDATE, admission_review(after), settings)["allowed"] is True


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        pytest.param({}, {}, True, id="only metadata"),
        pytest.param({"priority": 5}, {"priority": None}, False, id="the priority"),
        pytest.param({"priority": 0}, {"priority": None}, True, id="a default that the stored policy lacks"),
    ],
)
def test_a_policy_from_before_a_check_can_still_be_labelled(new, old, allowed):
    spec = {"preemption": "Always", "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}
    after, before = policy(**spec, **new), policy(**spec, **old)
    after["metadata"]["labels"] = {"new": "label"}
    response = answer(VALIDATE, admission_review(mutated(after, old=before), before))
    assert response["allowed"] is allowed
    if allowed:
        assert any("spec.resourceSelectors[0].name" in each for each in response["warnings"])


def test_a_policy_that_is_being_deleted_is_never_denied():
    before = policy("ClusterPropagationPolicy", **CLUSTER_WIDE["spec"])
    after = policy("ClusterPropagationPolicy", **{**CLUSTER_WIDE["spec"], "priority": 7})
    before["metadata"]["deletionTimestamp"] = after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert answer("/validate-clusterpropagationpolicy", admission_review(after, before))["allowed"] is True


def test_an_absent_field_equals_an_empty_one():
    spec = {"activationPreference": "Lazy", "failover": {"application": {}}}
    before = mutated(policy(**spec))
    after = policy(**{**spec, "placement": {}, "failover": {"application": {"decisionConditions": {}}}})
    response = answer(VALIDATE, admission_review(mutated(after, old=before), before))
    assert not [each for each in response.get("warnings", ()) if "lazy-change" in each]
