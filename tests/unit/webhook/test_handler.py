import json

import pytest
from reviews import COMPANION, UID, admission_review

from webhook import handler
from webhook.app import create_app
from webhook.handler import Reviewer

POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "p", "namespace": "shop"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]},
}
PATH = "/mutate-propagationpolicy"
BODY = json.dumps(admission_review(POLICY)).encode()


@pytest.fixture
def app():
    return create_app(Reviewer(COMPANION), body_bytes=4096)


def test_a_crash_is_an_answer_with_its_uid(monkeypatch, app):
    def crash(*_args):
        raise ZeroDivisionError

    monkeypatch.setattr(handler, "review", crash)
    answer = app.test_client().post(PATH, data=BODY, content_type="application/json")
    assert answer.status_code == 200
    assert answer.json["response"]["uid"] == UID
    assert answer.json["response"]["allowed"] is False
    assert answer.json["response"]["status"]["code"] == 500


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(BODY, "application/json", id="a review"),
        pytest.param(BODY, "application/json; charset=utf-8", id="a review with a charset"),
        pytest.param(BODY[:-3], "application/json", id="half a review"),
        pytest.param(BODY, "text/yaml", id="another content type"),
        pytest.param(BODY * 50, "application/json", id="too much"),
        pytest.param(b"", "application/json", id="nothing"),
    ],
)
def test_the_short_way_answers_what_flask_would(app, body, content_type):
    short = app.test_client().post(PATH, data=body, content_type=content_type)
    app.wsgi_app = app.wsgi_app._others
    long = app.test_client().post(PATH, data=body, content_type=content_type)
    assert (short.status_code, short.data, short.headers["Content-Type"]) == (
        long.status_code,
        long.data,
        long.headers["Content-Type"],
    )
