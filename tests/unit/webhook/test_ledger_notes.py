"""The records of reviews in the ledger."""

import json

import pytest
from fake_clock import FakeClock
from reviews import UID, admission_review

from webhook.admission.impact import BlastRadius, PolicyImpact
from webhook.admission.impact_review import ACCEPT_PLAN
from webhook.admission.settings import AdmissionSettings, Level
from webhook.app import Reviewer

VALIDATE, IMPACT = "/validate-propagationpolicy", "/impact-propagationpolicy"
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop"}]},
}
BROKEN = {
    **POLICY,
    "spec": {
        **POLICY["spec"],
        "placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "private"}]},
    },
}
ACCEPTING = {**POLICY, "metadata": {**POLICY["metadata"], "annotations": {ACCEPT_PLAN: "p1"}}}
LARGE = PolicyImpact("p1", 60, 60, 51, 51, 0, 0, 51)


class Source:
    """Every change moves 51 workloads."""

    def ask(self, _change, _left_s):
        return LARGE


class Notes(list):
    """A ledger that keeps what it gets."""

    noted = list.append


def recorded(path, document, **request):
    notes = Notes()
    settings = AdmissionSettings(
        peer_checks=True, levels={"blast-radius": Level.DENY}, blast_radius=BlastRadius(moved=50),
        exempt_users=frozenset({"root"}),
    )  # fmt: skip
    reviewer = Reviewer(settings, impact=Source(), ledger=notes)
    body = json.dumps(admission_review(document, name="web", **request)).encode()
    reviewer.answer(path, "application/json", body)
    return notes


def test_a_refused_object_is_recorded_with_its_fields_and_without_its_values():
    [note] = recorded(VALIDATE, BROKEN)
    assert (note.kind, note.namespace, note.resource_kind, note.name) == ("refusal", "shop", "PropagationPolicy", "web")
    assert note.policy == "PropagationPolicy shop/web"
    assert note.message.startswith("creation by alice: spec.placement: ")
    assert note.details["uid"] == UID
    assert note.details["fields"] == ["spec.placement"]
    assert "private" not in str(note)


@pytest.mark.parametrize(
    ("document", "request_fields", "kind", "gate"),
    [
        pytest.param(POLICY, {}, "refusal", "refused", id="a change above the blast radius"),
        pytest.param(ACCEPTING, {}, "plan-accepted", "accepted", id="a plan that the user accepts"),
        pytest.param(POLICY, {"username": "root"}, "exemption", "exempt", id="an exempt user"),
    ],
)
def test_the_gate_is_recorded(document, request_fields, kind, gate):
    [note] = recorded(IMPACT, document, **request_fields)
    assert (note.kind, note.details["gate"], note.details["plan"]) == (kind, gate, "p1")
    assert "51 workloads" in note.message


@pytest.mark.parametrize(
    ("path", "document", "request_fields"),
    [
        pytest.param(VALIDATE, POLICY, {}, id="an allowed object"),
        pytest.param(VALIDATE, BROKEN, {"dryRun": True}, id="a dry run"),
        pytest.param(IMPACT, ACCEPTING, {"dryRun": True}, id="a dry run of an accepted plan"),
        pytest.param(VALIDATE, {**POLICY, "spec": {"priority": "x"}}, {}, id="a malformed object"),
    ],
)
def test_nothing_is_recorded_of(path, document, request_fields):
    assert recorded(path, document, **request_fields) == []


def test_a_burst_of_refusals_is_limited_and_the_next_record_counts_the_rest():
    clock, notes = FakeClock(), Notes()
    reviewer = Reviewer(AdmissionSettings(peer_checks=True), ledger=notes, clock=clock)
    body = json.dumps(admission_review(BROKEN)).encode()
    for pause_s in (*[0] * 202, 1):
        clock.pass_by(pause_s)
        reviewer.answer(VALIDATE, "application/json", body)
    assert [each.details.get("suppressed") for each in notes] == [*[None] * 200, 2]
