"""Thousands of mutated reviews over HTTP: the webhook never answers 5xx, never hangs, and always returns the UID.

``BERTHMASTER_FUZZ`` multiplies the number of examples.
"""

import json
import os
import time
from functools import cache
from http.client import HTTPException

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reviews import UID, admission_review
from webhook_process import make_pair, running

from webhook.admission.catalog import ROUTES
from webhook.admission.settings import WebhookMode

EXAMPLES = 550 * int(os.environ.get("BERTHMASTER_FUZZ", "1"))
ANSWERED_WITHIN_S = 10.0  # the default timeout of API servers; bench/ measures the speed
JSON = {"Content-Type": "application/json"}
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

WORDS = st.sampled_from([
    "", "a", "Always", "Never", "Divided", "Weighted", "Exists", "In", "cluster", "Gracefully", "metadata", "-1",
    "policy.berthmaster.io/priority-drop", '{"from": 9, "to": 3}', "x" * 300, "\u0000", "\U0001f6a2", "a/b/c",
])  # fmt: skip
NUMBERS = st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63, 2**64, 1.5, 1e308])
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))


@cache
def seeds():
    term = {"affinityName": "g", "clusterNames": ["a"], "labelSelector": {"matchLabels": {"a": "b"}}}
    placement = {
        "clusterAffinities": [{**term, "overflowAffinities": [{**term, "affinityName": "o"}]}],
        "clusterTolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["a"]}, "weight": 1}]},
        },
        "workloadAffinity": {"affinity": {"groupByLabelKey": "a"}},
    }
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "labelSelector": {}}]
    application = {"decisionConditions": {"tolerationSeconds": 3}, "purgeMode": "Gracefully"}
    karmada = {
        "resourceSelectors": selectors, "placement": placement, "priority": 3, "preemption": "Always",
        "failover": {"application": application}, "suspension": {"dispatching": True},
    }  # fmt: skip
    kubeadmiral = {
        "schedulingMode": "Divide", "placement": [{"cluster": "a", "preferences": {"weight": 1}}], "maxClusters": 1,
        "clusterAffinity": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}],
        "tolerations": [{"key": "a"}], "autoMigration": {"when": {"podUnschedulableFor": "1m"}},
    }  # fmt: skip
    rebalancer = {"workloads": selectors, "ttlSecondsAfterFinished": 1}
    specs = {"policy.karmada.io": karmada, "core.kubeadmiral.io": kubeadmiral, "apps.karmada.io": rebalancer}
    reviews = []
    for path, route in ROUTES.items():
        metadata = {
            "name": "p",
            "namespace": "shop",
            "labels": {"a": "b"},
            "annotations": {"a": "b"},
            "finalizers": ["f"],
        }
        obj = {"apiVersion": f"{route.group}/v1", "kind": route.kind, "metadata": metadata, "spec": specs[route.group]}
        reviews.append((path, admission_review(obj)))
        reviews.append((path, admission_review(obj, {**obj, "spec": {**obj["spec"], "priority": 9}})))
    return reviews


@st.composite
def mutated(draw):
    path, review = draw(st.sampled_from(seeds()))
    document = json.loads(json.dumps(review))
    for _ in range(draw(st.integers(0, 3))):
        node = document
        for _ in range(draw(st.integers(1, 9))):
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if not isinstance(node[key], dict | list) or draw(st.integers(0, 5)) == 0:
                if draw(st.booleans()):
                    node[key] = draw(VALUES)
                elif isinstance(node, dict):
                    del node[key]
                break
            node = node[key]
    return path, document


@pytest.fixture(scope="module", params=list(WebhookMode))
def target(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    options = ("--mode", request.param.value, "--workers=1", "--drain-s=0", "--log-level=error", "--peer-checks")
    with running(folder, *options, pair=make_pair()) as server:
        connection = server.connection()
        yield connection
        connection.close()
        assert "Traceback" not in server.log.read_text()
        assert "trace" not in server.log.read_text()


def posted(connection, path, body):
    started = time.monotonic()
    try:
        connection.request("POST", path, body, JSON)
        answer = connection.getresponse()
        text = answer.read()
    except HTTPException as error:
        raise AssertionError(f"no answer to {body!r}") from error
    assert time.monotonic() - started < ANSWERED_WITHIN_S
    assert answer.status < 500, text
    response = json.loads(text)["response"]
    assert response["allowed"] or response["status"]["message"]
    assert answer.status == 200 or response["status"]["code"] == answer.status
    assert "internal" not in response.get("status", {}).get("reason", "").lower()
    return answer.status, response


@FUZZ
@given(mutated())
def test_a_mutated_review_is_answered_with_its_uid(target, case):
    path, document = case
    _, response = posted(target, path, json.dumps(document).encode())
    request = document.get("request")
    sent = request.get("uid") if isinstance(request, dict) else None
    assert response["uid"] == (sent if isinstance(sent, str) else "")


@FUZZ
@given(
    st.sampled_from(seeds()), st.integers(0, 4000), st.lists(st.tuples(st.integers(200, 4000), st.binary(max_size=3)))
)
def test_a_corrupted_review_is_answered_with_its_uid(target, seed, cut, splices):
    path, review = seed
    body = json.dumps(review).encode()[: 200 + cut]
    for place, garbage in splices:
        body = body[:place] + garbage + body[place + 1 :]
    _, response = posted(target, path, body)
    assert response["uid"] == UID, "the first 200 bytes contain the UID and are intact"


def test_long_lists_are_reviewed_in_time(target):
    many = 20_000
    spreads = [{"spreadByField": f"f{index}"} for index in range(many)]
    groups = [{"affinityName": f"g{index}", "clusterNames": ["a"]} for index in range(many)]
    spec = {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "name": str(index)} for index in range(many)],
        "placement": {"spreadConstraints": spreads, "clusterAffinities": groups},
    }
    obj = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {}, "spec": spec}
    for path in ("/mutate-propagationpolicy", "/validate-propagationpolicy"):
        assert posted(target, path, json.dumps(admission_review(obj)).encode())[0] == 200
