"""Reviews: requests, their wire format, and answers."""

import gzip
import json
import tracemalloc
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_pages import KUBEADMIRAL, REBALANCER, made
from reviews import COMPANION, STANDALONE, UID, admission_review, answer, denied_fields, operations, patched
from tables import cases

from webhook.admission.field_problem import FieldProblem
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.settings import AdmissionSettings, Level
from webhook.admission.wire import NotAReview, decode, encode, encode_failure, find_uid

VECTORS = Path(__file__).parents[3] / "conformance" / "admission.jsonl.gz"
MUTATE, VALIDATE = "/mutate-propagationpolicy", "/validate-propagationpolicy"


def policy(kind="PropagationPolicy", **spec):
    return made(kind, spec)


def mutated(obj, settings=COMPANION, **review):
    return patched(obj, answer(MUTATE, admission_review(obj, **review), settings))


def paths(obj, settings=COMPANION):
    return {each["path"] for each in operations(answer(MUTATE, admission_review(obj), settings))}


COMPLETE = policy(
    priority=0,
    preemption="Never",
    resourceSelectors=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
)


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


@cases("settings", {"companion": COMPANION, "standalone": STANDALONE})
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


@cases(
    ("change", "message"),
    {
        "another kind": ({"kind": {"group": "apps", "kind": "Deployment"}}, "webhook configuration"),
        "an unknown operation": ({"operation": "PATCH"}, "unknown operation"),
        "no object": ({"object": None}, "request.object is missing"),
        "an update without an old object": ({"operation": "UPDATE"}, "request.oldObject is missing"),
        "an object of another kind": ({"object": {"kind": "ConfigMap"}}, "request.object is of kind"),
        "an object without a kind": ({"object": {"metadata": {}}}, "request.object is of kind 'None'"),
        "a value of the wrong type": (
            {"object": {"kind": "PropagationPolicy", "spec": {"priority": "high"}}},
            "spec.priority",
        ),
        "spec is a list": ({"object": {"kind": "PropagationPolicy", "spec": []}}, "spec"),
        "a label is a number": (
            {"object": {"kind": "PropagationPolicy", "metadata": {"labels": {"a": 1}}}},
            "metadata.labels[a]",
        ),
    },
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


@cases(
    ("new", "old", "allowed"),
    {
        "only metadata": ({}, {}, True),
        "the priority": ({"priority": 5}, {"priority": None}, False),
        "a default that the stored policy lacks": ({"priority": 0}, {"priority": None}, True),
    },
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


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


INVALID = {
    "PropagationPolicy": (
        VALIDATE,
        {"placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}},
    ),
    KUBEADMIRAL: ("/validate-kubeadmiral-propagationpolicy", {"maxClusters": -1}),
    REBALANCER: ("/validate-workloadrebalancer", {"ttlSecondsAfterFinished": -1}),
}


@cases("settings", {"companion": COMPANION, "standalone": STANDALONE})
@pytest.mark.parametrize("shape", INVALID)
def test_an_invalid_object_is_allowed_while_it_is_being_deleted(shape: str, settings: AdmissionSettings):
    path, spec = INVALID[shape]
    for deleted, allowed in ((DELETED, True), ({}, False)):
        # The spec changes too, because an update without a change of the spec is allowed anyway.
        held = made(shape, {"was": "another", "metadata": {"finalizers": ["x.io/hold"], **deleted}})
        sent = made(shape, {**spec, "metadata": deleted})
        assert answer(path, admission_review(sent, held), settings)["allowed"] is allowed


def test_a_deletion_timestamp_in_the_new_object_only_has_no_effect():
    path, spec = INVALID["PropagationPolicy"]
    for stored in (policy(was="another"), None):
        assert answer(path, admission_review(policy(**spec, metadata=DELETED), stored))["allowed"] is False


REVIEW = admission_review({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {}})


def changed(**fields):
    return json.dumps({**REVIEW, **fields}).encode()


@cases(
    ("body", "message", "uid"),
    {
        "an empty body": (b"", "not valid JSON", ""),
        "a list": (b"[]", "not a JSON object", ""),
        "invalid UTF-8": (b"\xff\xfe", "not valid JSON", ""),
        "deeply nested": (b"[" * 5000, "", ""),
        "v1beta1": (changed(apiVersion="admission.k8s.io/v1beta1"), "v1beta1", UID),
        "another kind": (changed(kind="Review"), "'Review'", UID),
        "no request": (changed(request=None), "request is missing", ""),
        "request is a list": (changed(request=[]), "request is missing", ""),
        "no UID": (changed(request={}), "request.uid is missing", ""),
        "an empty UID": (changed(request={"uid": ""}), "request.uid is", ""),
        "UID is a number": (changed(request={"uid": 7}), "request.uid is", ""),
        "object is a number": (changed(request={"uid": UID, "object": 3}), "malformed", UID),
        "dryRun is a string": (changed(request={"uid": UID, "dryRun": "yes"}), "malformed", UID),
        "a truncated review": (json.dumps(REVIEW).encode()[:-9], "not valid JSON", UID),
    },
)
def test_an_invalid_review_is_an_error_with_its_uid(body, message, uid):
    with pytest.raises(NotAReview) as caught:
        decode(body)
    assert caught.value.status == 400
    assert message in str(caught.value)
    assert caught.value.uid == uid


HOSTILE = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=40)


@given(HOSTILE)
def test_warnings_are_those_that_api_servers_show(texts):
    problems = tuple(FieldProblem(f"spec.a[{text}]", text, "bad", "do better") for text in texts)
    response = json.loads(encode("u", ReviewOutcome(warnings=(*problems, *texts))))["response"]
    warnings = response.get("warnings", [])
    assert len(warnings) <= 24
    assert all(len(each) <= 256 and each.isprintable() for each in warnings)
    assert sum(len(each.encode()) for each in warnings) <= 4096
    assert bool(warnings) == bool(texts)


@given(HOSTILE)
def test_denials_are_printable_and_bounded(texts):
    problems = tuple(FieldProblem(f"spec.a[{text}]", text, f"bad {text}", "do better") for text in texts)
    status = json.loads(encode("u", ReviewOutcome(denials=problems)))["response"].get("status")
    lines = status["message"].splitlines() if status else []
    assert all(line.isprintable() for line in lines)
    assert len(lines) == (len(texts) + 1 if len(texts) > 1 else len(texts))


def test_an_invalid_body_costs_no_more_than_its_size():
    many = b"{}," * 10**6
    bodies = [
        b'{"x":[%b{}]}' % many,
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7,"x":[%b{}]}}' % many,
        b'{"apiVersion":"admission.k8s.io/v1","kind":[%b{}],"request":{"uid":"u"}}' % many,
    ]
    for body in bodies:
        tracemalloc.start()
        with pytest.raises(NotAReview):
            decode(body)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * len(body)


@given(st.text(max_size=40), st.integers(0, 400))
def test_the_uid_of_a_truncated_review_is_found(uid, cut):
    body = json.dumps({"kind": "AdmissionReview", "request": {"uid": uid, "object": {"uid": "other"}}}).encode()
    whole = len(json.dumps({"kind": "AdmissionReview", "request": {"uid": uid}})) - 2
    assert find_uid(body[: whole + cut]) in {uid, ""}
    if not any("\ud800" <= character <= "\udfff" for character in uid):
        assert find_uid(body[: whole + cut]) == uid


def test_a_denial_has_every_cause_and_no_patch():
    problems = tuple(FieldProblem(f"spec.a[{index}]", index, "bad", "do better") for index in range(3))
    response = json.loads(encode("u", ReviewOutcome(denials=problems)))["response"]
    assert response["status"]["message"].splitlines() == [
        "3 problems:",
        "- spec.a[0]: 0: bad; do better",
        "- spec.a[1]: 1: bad; do better",
        "- spec.a[2]: 2: bad; do better",
    ]
    assert [each["field"] for each in response["status"]["details"]["causes"]] == [each.path for each in problems]


def test_the_length_of_a_message_is_limited():
    problems = tuple(FieldProblem("spec." + "x" * 500, index, "bad", "do better") for index in range(1000))
    assert len(encode("u", ReviewOutcome(denials=problems))) < 100_000


def test_a_failure_is_an_admission_review():
    document = json.loads(encode_failure("u", 413, "RequestEntityTooLarge", "too much"))
    assert document["kind"] == "AdmissionReview"
    assert document["response"]["uid"] == "u"
    assert document["response"]["status"]["code"] == 413
