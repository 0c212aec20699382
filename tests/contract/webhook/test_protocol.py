"""The protocol of a running webhook."""

import json
import time
from contextlib import ExitStack, closing

import pytest
from reviews import POLICY, UID, admission_review
from servers import request

from webhook.admission.catalog import ROUTES

PATH = "/mutate-propagationpolicy"
SOON_S = 30  # far above all deadlines of the server, so that a busy machine fails no test
REVIEW = json.dumps(admission_review(POLICY)).encode()
JSON = {"Content-Type": "application/json"}


def post(connection, path=PATH, body=REVIEW, headers=JSON, method="POST", **how):
    connection.request(method, path, body=body, headers=headers, **how)
    answer = connection.getresponse()
    return answer, json.loads(answer.read())["response"]


def test_reviews_share_a_connection(connection):
    for _ in range(20):
        answer, response = post(connection)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert (response["uid"], response["allowed"], response["patchType"]) == (UID, True, "JSONPatch")
    assert connection.sock is not None


@pytest.mark.parametrize("path", ROUTES)
def test_every_path_reviews_its_kind(connection, path):
    route = ROUTES[path]
    kind = {"apiVersion": f"{route.group}/v1alpha1", "kind": route.kind, "metadata": {"name": "x"}, "spec": {}}
    answer, response = post(connection, path, json.dumps(admission_review(kind)).encode())
    assert answer.status == 200
    assert response["uid"] == UID
    assert response.get("status", {}).get("code") != 400


@pytest.mark.parametrize(
    ("changes", "status", "uid"),
    [
        pytest.param({"path": "/nowhere"}, 404, UID, id="an unknown path"),
        pytest.param({"path": PATH + "/"}, 404, UID, id="a known path with a slash at its end"),
        pytest.param({"method": "GET", "body": None}, 405, "", id="a GET"),
        pytest.param({"method": "PUT"}, 405, UID, id="a PUT"),
        pytest.param({"headers": {"Content-Type": "text/plain"}}, 415, UID, id="another content type"),
        pytest.param({"headers": {}}, 415, UID, id="no content type"),
        pytest.param({"body": b""}, 400, "", id="an empty body"),
        pytest.param({"body": REVIEW[:-5]}, 400, UID, id="a truncated body"),
        pytest.param({"body": b"\x00\xff" * 50}, 400, "", id="a body that is not JSON"),
        pytest.param({"body": REVIEW.replace(b"k8s.io/v1", b"k8s.io/v1beta1", 1)}, 400, UID, id="v1beta1"),
        pytest.param({"body": REVIEW + b" " * 65536}, 413, UID, id="a body over the limit"),
        pytest.param(
            {"body": (REVIEW, b" " * 65536), "encode_chunked": True}, 413, UID, id="a chunked body over the limit"
        ),
    ],
)
def test_a_request_that_is_not_a_review_is_refused_with_a_review(connection, changes, status, uid):
    answer, response = post(connection, **changes)
    assert answer.status == status, response
    assert response["allowed"] is False
    assert response["status"]["code"] == status
    assert response["status"]["message"]
    assert response["uid"] == uid
    if status == 405:
        assert "POST" in answer.headers["Allow"]
    answer, response = post(connection)
    assert (answer.status, response["allowed"]) == (200, True), "the connection or the next one works"


def test_an_incomplete_body_is_answered_at_the_deadline_and_does_not_delay_others(server, connection):
    half = request("POST", PATH, REVIEW)[:-100]
    started = time.monotonic()
    with ExitStack() as slow:
        clients = []
        for _ in range(3):  # of 4 threads in each worker, so no client is disconnected early
            clients.append(slow.enter_context(server.wire()))
            clients[-1].send(half)
        assert post(connection)[0].status == 200
        for client in clients:
            assert client.answer().status == 408
    assert time.monotonic() - started < SOON_S


def test_metrics_add_up_over_all_workers(server):
    name, labels = "berthmaster_webhook_reviews_total", {"path": PATH, "operation": "CREATE", "verdict": "allowed"}
    before = server.metric(name, **labels, dry_run="true")
    body = json.dumps(admission_review(POLICY, dryRun=True)).encode()
    for _ in range(24):
        with closing(server.connection()) as fresh:
            assert post(fresh, body=body)[0].status == 200
    after = server.metrics()
    assert server.metric(name, after, **labels, dry_run="true") == before + 24
    assert server.metric("berthmaster_webhook_review_duration_seconds_count", after, path=PATH) >= 24
    assert server.metric("berthmaster_webhook_certificate_expiry_timestamp_seconds", after) > time.time()
