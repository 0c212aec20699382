import json

import pytest
from fake_clock import FakeClock
from reviews import UID, admission_review

from webhook import app as webhook_app
from webhook.admission.settings import AdmissionSettings
from webhook.app import Reviewer, create_app

POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "p", "namespace": "shop"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]},
}
PATH = "/mutate-propagationpolicy"
BODY = json.dumps(admission_review(POLICY)).encode()
BROKEN = {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}
BROKEN_FIELDS = ["spec.placement", "spec.resourceSelectors[0].namespace"]


@pytest.fixture
def app():
    return create_app(Reviewer(AdmissionSettings(peer_checks=True)), body_bytes=4096)


def test_a_crash_is_answered_with_the_uid_of_the_review(monkeypatch, app):
    def crash(*_args):
        raise ZeroDivisionError

    monkeypatch.setattr(webhook_app, "review_body", crash)
    answer = app.test_client().post(PATH, data=BODY, content_type="application/json")
    assert answer.status_code == 200
    assert answer.json["response"]["uid"] == UID
    assert answer.json["response"]["allowed"] is False
    assert answer.json["response"]["status"]["code"] == 500


@pytest.mark.parametrize(
    ("path", "body", "content_type", "message", "expected"),
    [
        pytest.param(
            "/validate-propagationpolicy",
            admission_review({**POLICY, "spec": {**POLICY["spec"], "placement": BROKEN}}),
            "application/json",
            "review denied",
            {"verdict": "denied", "namespace": "shop", "name": "", "denied_fields": BROKEN_FIELDS},
            id="a denied review names its fields",
        ),
        pytest.param(
            PATH,
            admission_review({**POLICY, "spec": {"priority": "confidential"}}),
            "application/json",
            "review malformed",
            {"verdict": "malformed", "namespace": "shop", "denied_fields": []},
            id="a malformed review names its object",
        ),
        pytest.param(
            PATH, admission_review(POLICY), "text/plain", "request refused",
            {"status": 415, "uid": UID, "path": PATH, "problem": "content type 'text/plain' is not application/json"},
            id="a refused request names its problem",
        ),
        pytest.param(
            "/unknown", admission_review(POLICY), "application/json", "request refused",
            {"status": 404, "uid": UID, "path": "/unknown"}, id="an unknown path",
        ),
    ],
)  # fmt: skip
def test_each_refusal_is_one_line_at_info(app, caplog, path, body, content_type, message, expected):
    caplog.set_level("INFO")
    app.test_client().post(path, data=json.dumps(body), content_type=content_type)
    [record] = [each for each in caplog.records if each.name == "berthmaster.webhook"]
    assert (record.levelname, record.getMessage()) == ("INFO", message)
    assert {key: record.fields[key] for key in expected} == expected
    assert "confidential" not in str(record.fields)


def test_a_burst_of_refusals_is_limited(caplog):
    caplog.set_level("INFO")
    client = create_app(Reviewer(AdmissionSettings(), clock=FakeClock()), body_bytes=4096).test_client()
    for _ in range(700):
        client.post(PATH, data=b"", content_type="text/plain")
    records = [each for each in caplog.records if each.name == "berthmaster.webhook"]
    assert len(records) == 500


def test_an_allowed_review_is_logged_at_debug_only(app, caplog):
    caplog.set_level("INFO")
    app.test_client().post(PATH, data=BODY, content_type="application/json")
    assert [each for each in caplog.records if each.name == "berthmaster.webhook"] == []
