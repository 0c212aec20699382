"""1,500 recorded decisions of karmada-webhook, compared with standalone mode."""

import gzip
import json
from pathlib import Path

import pytest
from reviews import FRESH_ID, STANDALONE, admission_review, answer, denied_fields, patched

VECTORS = Path(__file__).parents[3] / "conformance" / "admission.jsonl.gz"
IMMUTABLE = ("spec.schedulerName", "metadata.labels")


def without_empty(value):
    if isinstance(value, dict):
        kept = {key: without_empty(entry) for key, entry in value.items()}
        return {key: entry for key, entry in kept.items() if entry not in (None, "", False, {}, [])}
    return [without_empty(entry) for entry in value] if isinstance(value, list) else value


def _zero(value):
    return isinstance(value, int | float) and value == 0


def vectors():
    with gzip.open(VECTORS, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ["PropagationPolicy", "ClusterPropagationPolicy"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_decisions_are_those_of_karmada_webhook(kind, operation):
    chosen = [each for each in vectors() if (each["kind"], each["operation"]) == (kind, operation)]
    assert len(chosen) > 100
    wrong = [each["id"] for each in chosen if decide(each) != expected(each)]
    assert wrong == []


def expected(vector):
    result = vector["result"]
    return without_empty(result["mutated"]), result["allowed"], result["code"], sorted(result["fields"] or [])


def decide(vector):
    kind = vector["kind"].lower()
    old, namespace = vector.get("oldObject"), vector["namespace"]
    mutation = answer(f"/mutate-{kind}", admission_review(vector["object"], old, namespace=namespace), STANDALONE)
    mutated = patched(vector["object"], mutation)
    review = admission_review(mutated, old, namespace=namespace)
    validation = answer(f"/validate-{kind}", review, STANDALONE)
    code = validation.get("status", {}).get("code", 200)
    fields = [each for each in denied_fields(validation) if not each.startswith(IMMUTABLE)]
    shown = without_empty(mutated)
    annotations = shown["metadata"].get("annotations", {})
    annotations.pop("policy.berthmaster.io/priority-drop", None)  # karmada-webhook does not have it
    return without_empty(shown), validation["allowed"], code, fields


def test_a_new_policy_gets_a_new_id():
    vector = next(each for each in vectors() if each["operation"] == "CREATE")
    assert FRESH_ID in decide(vector)[0]["metadata"]["labels"].values()
