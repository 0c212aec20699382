"""Bodies above 64 KiB: the outcome is that of the usual review, or a cheap refusal."""

import json
import tracemalloc

import policy_pages
import pytest
from policy_pages import made
from reviews import FRESH_ID, admission_review
from tables import cases

from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.large import LARGE_BYTES, review_body
from webhook.admission.reviews import review
from webhook.admission.settings import AdmissionSettings
from webhook.admission.wire import decode

MUTATE, VALIDATE = "/mutate-propagationpolicy", "/validate-propagationpolicy"
KUBEADMIRAL = "/validate-kubeadmiral-propagationpolicy"
REBALANCER = "/validate-workloadrebalancer"
SELECTOR = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}
CONTEXT = AdmissionContext(AdmissionSettings(peer_checks=True), lambda: FRESH_ID)
FILLER = {"filler": "x" * LARGE_BYTES}


def policy(annotations=None, **placement):
    metadata = {"annotations": annotations or {}}
    return made("PropagationPolicy", {"metadata": metadata, "resourceSelectors": [SELECTOR], "placement": placement})


def rebalancer(count, **spec):
    workloads = [{"apiVersion": "v1", "kind": "Pod", "name": f"n{n}", "namespace": "a"} for n in range(count)]
    return made(policy_pages.REBALANCER, {"workloads": workloads, **spec})


NAMES = [f"a-member-with-a-quite-long-name-in-some-region-{n:05}" for n in range(21_000)]
GROUPS = [{"affinityName": f"g{n}", "clusterNames": [f"member-{n}"]} for n in range(2000)]
MANY = policy(spreadConstraints=[{}] * 300_000)


def reviewed(path, *objects, context=CONTEXT, **more):
    body = json.dumps(admission_review(*objects, **more), separators=(",", ":")).encode()
    return review_body(ROUTES[path], body, context)[1]


@cases(
    ("path", "objects"),
    {
        "a mutation": (MUTATE, [policy(FILLER)]),
        "a mutation of a list": (MUTATE, [policy(FILLER, spreadConstraints=[{}] * 20)]),
        "a denial": (VALIDATE, [policy(FILLER, clusterAffinities=GROUPS[:3] * 2)]),
        "a warning": (VALIDATE, [policy(FILLER, clusterTolerations=[{"operator": "Exists"}])]),
        "an object that cannot be read": (VALIDATE, [policy(FILLER, clusterAffinities=3)]),
        "an update": (VALIDATE, [policy(FILLER), policy()]),
        "an object of another kind": (VALIDATE, [rebalancer(1, **FILLER)]),
        "an object without a spec": (KUBEADMIRAL, [{**made(policy_pages.KUBEADMIRAL, FILLER), "spec": None}]),
        "KubeAdmiral": (KUBEADMIRAL, [made(policy_pages.KUBEADMIRAL, {**FILLER, "maxClusters": -1})]),
        "a rebalancer": (REBALANCER, [rebalancer(1500)]),
    },
)
def test_the_outcome_is_that_of_a_usual_review(path, objects):
    body = json.dumps(admission_review(*objects)).encode()
    assert reviewed(path, *objects) == review(ROUTES[path], decode(body), CONTEXT)


@cases(
    ("path", "objects", "field", "text"),
    {
        "groups": (MUTATE, [policy(clusterAffinities=GROUPS)], "spec.placement.clusterAffinities", "2,000 groups"),
        "a megabyte of names": (
            VALIDATE,
            [policy(clusterAffinity={"clusterNames": NAMES})],
            "request.object",
            "bytes of JSON; at most 524,288 are accepted",
        ),
        "a mutation": (MUTATE, [MANY], "request.object", "JSON values; at most 200,000 are reviewed"),
        "a validation": (VALIDATE, [MANY], "request.object", "--max-object-values"),
        "KubeAdmiral": (
            KUBEADMIRAL,
            [
                made(
                    policy_pages.KUBEADMIRAL,
                    {"tolerations": [{"operator": "Exists", "key": f"key-number-{n}"} for n in range(2000)]},
                )
            ],
            "spec.tolerations",
            "2,000 tolerations",
        ),
        "a rebalancer": (REBALANCER, [rebalancer(40_000)], "request.object", "JSON values"),
    },
)
def test_too_large_objects_are_denied(path, objects, field, text):
    [denial] = reviewed(path, *objects).denials
    assert (denial.path, denial.rule) == (field, "too-large")
    assert text in denial.detail


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
@cases("stored", {"very many values": MANY, "many groups": policy(clusterAffinities=GROUPS)})
class TestStoredObjects:
    """Objects that were stored before the webhook."""

    def test_an_update_that_changes_nothing_is_allowed(self, path, stored):
        labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
        outcome = reviewed(path, labelled, stored)
        assert (outcome.allowed, outcome.patch, [each.rule for each in outcome.warnings]) == (True, (), ["too-large"])

    def test_an_object_that_is_being_deleted_is_allowed(self, path, stored):
        deleted = {**stored, "metadata": {**stored["metadata"], "deletionTimestamp": "2026-11-22T00:00:00Z"}}
        assert reviewed(path, {**stored, "spec": {**stored["spec"], "priority": 1}}, deleted).allowed
        assert reviewed(path, None, stored, operation="DELETE").allowed

    def test_a_smaller_object_is_allowed(self, path, stored):
        dropped = {**stored, "spec": {**stored["spec"], "priority": 7}}
        outcome = reviewed(path, policy(), dropped)
        assert outcome.allowed
        if path == MUTATE:
            assert outcome.audit == {"priority-drop": '{"from": 7, "to": 0}'}

    def test_another_change_is_denied(self, path, stored):
        assert not reviewed(path, {**stored, "spec": {**stored["spec"], "priority": 1}}, stored).allowed


def test_the_number_of_values_is_configurable():
    context = AdmissionContext(AdmissionSettings(max_values=1000), lambda: FRESH_ID)
    values = {"filler": "x" * LARGE_BYTES, "commas": "," * 1000}
    assert reviewed(MUTATE, policy(values)).allowed
    assert not reviewed(MUTATE, policy(values), context=context).allowed


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
@pytest.mark.parametrize("count", [300_000, 1_000_000])
def test_a_refusal_costs_less_memory_than_the_body(path, count):
    body = json.dumps(admission_review(policy(spreadConstraints=[{}] * count)), separators=(",", ":")).encode()
    tracemalloc.start()
    _, outcome = review_body(ROUTES[path], body, CONTEXT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not outcome.allowed
    assert peak < 1.5 * len(body)


@cases(
    "broken",
    {
        "an object that is a list": {"object": [1] * LARGE_BYTES},
        "metadata that is a list": {"object": {"metadata": [], **FILLER}},
        "no object": {"object": None, "filler": "x" * LARGE_BYTES},
    },
)
def test_an_object_that_cannot_be_read_is_malformed(broken):
    document = admission_review(policy())
    document["request"].update(broken)
    _, outcome = review_body(ROUTES[VALIDATE], json.dumps(document).encode(), CONTEXT)
    assert outcome.malformed
