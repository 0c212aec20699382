"""Lint and a real API server agree on what is refused."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from e2e.api import Api
from mutated_policies import mutated_policies

from webhook.admission.context import AdmissionContext
from webhook.admission.linting import lint
from webhook.admission.schema import SCHEMA, UNKNOWN_FIELD
from webhook.admission.settings import AdmissionSettings

pytestmark = pytest.mark.e2e

POLICIES = 2000
CONTEXT = AdmissionContext(AdmissionSettings(), lambda: "")
PLURALS = {
    "PropagationPolicy": "namespaces/default/propagationpolicies",
    "ClusterPropagationPolicy": "clusterpropagationpolicies",
    "FederatedCluster": "federatedclusters",
    "WorkloadRebalancer": "workloadrebalancers",
}


def refused_by_lint(made: dict[str, Any]) -> list[str]:
    found = lint(made, CONTEXT, "default")
    return [str(each) for each in found.errors if each.rule in {SCHEMA, UNKNOWN_FIELD}]


def refused_by(api: Api, made: Mapping[str, Any]) -> str:
    """Create an object as kubectl does, without storing it, and return why it is refused; empty if it is not."""
    client = api.client
    path = f"/apis/{made['apiVersion']}/{PLURALS[made['kind']]}?dryRun=All&fieldValidation=Strict"
    answer = client.rest_client.pool_manager.request("POST", client.configuration.host + path, json=made)
    assert answer.status in {201, 400, 422}, answer.data
    return "" if answer.status == 201 else str(answer.json()["message"])


def test_lint_and_the_api_server_refuse_the_same_policies(api: Api) -> None:
    answers: Counter[bool] = Counter()
    for made in mutated_policies(POLICIES, seed=28):
        refusal, found = refused_by(api, made), refused_by_lint(made)
        assert bool(refusal) == bool(found), (made, refusal, found)
        answers[bool(refusal)] += 1
    assert answers.total() == POLICIES
    assert min(answers.values()) > POLICIES / 10, "both answers must be common"
