"""Schemas of the CRDs, and recorded reviews."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from e2e.assets import MissingAssetError
from e2e.control_plane import crd_folder
from mutated_policies import COMPLETE
from policy_pages import KUBEADMIRAL, REBALANCER, made
from programs import program
from reviews import FRESH_ID, STANDALONE, admission_review, answer, denied_fields, patched

from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import FieldProblem
from webhook.admission.linting import lint
from webhook.admission.schema import SCHEMA, TABLE, UNKNOWN_FIELD, completed, object_problems, schema_of
from webhook.admission.settings import AdmissionSettings

ROOT = Path(__file__).parents[4]
CONTEXT = AdmissionContext(AdmissionSettings(peer_checks=True), lambda: "")
SELECTOR = "resourceSelectors: [{apiVersion: v1, kind: Secret}]"
WEIGHT = "placement: {replicaScheduling: {weightPreference: {staticWeightList: [{targetCluster: {}, weight: %s}]}}}"
GROUP = "placement: {clusterAffinities: [{affinityName: '%s'}]}"
NAME = "metadata: {name: '%s'}"

REFUSED = [
    ("PropagationPolicy", "resourceSelectors: []", "spec.resourceSelectors", "has 0 items, and the minimum is 1"),
    ("PropagationPolicy", "resourceSelectors: null", "spec.resourceSelectors", "is missing or null"),
    ("PropagationPolicy", "resourceSelectors: [null]", "spec.resourceSelectors[0]", "where a mapping is accepted"),
    ("PropagationPolicy", WEIGHT % 0, "weight", "0: is below the minimum 1"),
    ("PropagationPolicy", WEIGHT % -3, "weight", "use 1 or more"),
    ("PropagationPolicy", WEIGHT % 1.5, "weight", "is a number, where a whole number is accepted"),
    ("PropagationPolicy", WEIGHT % 2**63, "weight", f"integers from {-(2**63)} to {2**63 - 1}"),
    ("PropagationPolicy", f"priority: {2**31}", "spec.priority", f"integers from {-(2**31)} to {2**31 - 1}"),
    ("PropagationPolicy", "preemption: always", "spec.preemption", "did you mean Always? accepted: Always, Never"),
    ("PropagationPolicy", "failover: {cluster: {purgeMode: Never}}", "purgeMode", "accepted: Directly, Gracefully"),
    (
        "PropagationPolicy",
        "schedulePriority: {priorityClassSource: PodPriorityClass, priorityClassName: a}",
        "spec.schedulePriority.priorityClassSource",
        "did you mean KubePriorityClass?",
    ),
    ("PropagationPolicy", GROUP % ("a" * 33), "affinityName", "has 33 characters, and the maximum is 32"),
    ("PropagationPolicy", GROUP % "", "affinityName", "has 0 characters, and the minimum is 1"),
    ("PropagationPolicy", NAME % "Web", "metadata.name", "is not a valid name"),
    ("PropagationPolicy", NAME % ("a" * 254), "metadata.name", "at most 253 characters"),
    ("PropagationPolicy", NAME % "", "metadata.name", "is missing"),
    ("PropagationPolicy", "metadata: {name: '', generateName: Web-}", "metadata.generateName", "is not a valid prefix"),
    ("PropagationPolicy", "metadata: {name: a, namespace: a.b}", "metadata.namespace", "is not a valid name of a"),
    ("PropagationPolicy", "metadata: {name: 5}", "metadata.name", "5: is a number, where a text is accepted"),
    ("PropagationPolicy", "metadata: {name: a, labels: {a: 1}}", "metadata.labels[a]", "where a text is accepted"),
    ("PropagationPolicy", "metadata: {name: a, labels: {a: b c}}", "metadata.labels[a]", "is not a label value"),
    ("PropagationPolicy", "metadata: {name: a, labels: {a b: c}}", "metadata.labels[a b]", "is not a label key"),
    ("PropagationPolicy", "metadata: {name: a, annotations: {a b: c}}", "metadata.annotations[a b]", "annotation key"),
    ("PropagationPolicy", "metadata: {name: a, finalizers: [a b]}", "metadata.finalizers[0]", "is not a valid name"),
    (
        "PropagationPolicy",
        "metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Pod, name: a}]}",
        "metadata.ownerReferences[0].uid",
        "is missing or empty",
    ),
    (KUBEADMIRAL, "schedulingMode: Split", "spec.schedulingMode", "accepted: Duplicate, Divide"),
    (KUBEADMIRAL, "autoMigration: {when: {}}", "spec.autoMigration.when", "has 0 fields, and the minimum is 1"),
    (KUBEADMIRAL, "autoMigration: {when: {podUnschedulableFor: soon}}", "podUnschedulableFor", "is not a duration"),
    (KUBEADMIRAL, "placement: [{cluster: a, preferences: {minReplicas: -1}}]", "minReplicas", "below the minimum 0"),
    (REBALANCER, "workloads: []", "spec.workloads", "has 0 items, and the minimum is 1"),
    (REBALANCER, "workloads: [{apiVersion: v1, kind: Pod}]", "spec.workloads[0].name", "is missing or null"),
]


@pytest.mark.parametrize(("shape", "spec", "path", "message"), REFUSED, ids=[" ".join(each[:2]) for each in REFUSED])
def test_lint_states_what_the_definition_demands(shape, spec, path, message):
    found = lint(made(shape, yaml.safe_load(f"{{{spec}}}")), CONTEXT, "shop")
    [problem] = [each for each in found.errors if each.rule == SCHEMA]
    assert problem.path.endswith(path)
    assert message in problem.detail


def found_in(raw: dict[str, object]) -> list[FieldProblem]:
    schema = schema_of(str(raw["apiVersion"]), str(raw["kind"]))
    assert schema is not None
    return list(object_problems(schema, completed(schema, raw)))


@pytest.mark.parametrize("raw", COMPLETE, ids=lambda raw: f"{raw['apiVersion']} {raw['kind']}")
def test_a_complete_object_is_accepted(raw):
    assert found_in(raw) == []


def test_nulls_are_absent_and_defaults_complete_a_required_object():
    raw = made("PropagationPolicy", yaml.safe_load("{placement: null, priority: null, schedulerName: null}"))
    assert found_in(raw) == []
    assert found_in({**raw, "metadata": {"name": "a", "labels": {"a": None}, "creationTimestamp": None}}) == []


def test_an_unknown_field_has_a_hint_in_every_object():
    raw = made("PropagationPolicy", yaml.safe_load(f"{{placment: {{}}, {SELECTOR}}}"))
    raw["metadata"]["annotation"] = {}
    found = [(each.path, each.rule, each.fault) for each in found_in({**raw, "status": {}})]
    assert found == [
        ("spec.placment", UNKNOWN_FIELD, "unknown field; did you mean placement?"),
        ("status", UNKNOWN_FIELD, "unknown field"),
        ("metadata.annotation", UNKNOWN_FIELD, "unknown field; did you mean annotations?"),
    ]


def test_the_table_is_that_of_the_definitions():
    try:
        folder = crd_folder()
    except MissingAssetError as missing:
        pytest.skip(str(missing))
    generator = program("packaging/crd_schemas.py")
    assert TABLE.read_text() == generator.text(generator.table(folder)), "run packaging/crd_schemas.py"


VECTORS = Path(__file__).parents[3] / "conformance" / "admission.jsonl.gz"
IMMUTABLE = ("spec.schedulerName", "metadata.labels")


def without_empty(value):
    if isinstance(value, dict):
        kept = {key: without_empty(entry) for key, entry in value.items()}
        return {key: entry for key, entry in kept.items() if entry not in (None, "", False, {}, [])}
    return [without_empty(entry) for entry in value] if isinstance(value, list) else value


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
