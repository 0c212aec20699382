"""Requests that are almost JSON: no byte of a body, a path or a query crashes the extender."""

import json

import pytest
from corrupted import PARTS, corrupted_at
from extender_services import WatchedPlane
from hypothesis import given, settings
from hypothesis import strategies as st
from karmada_plane import shop
from kube_in_memory import KubeInMemory

from extender.app import Middleware, all_routes, create_app
from extender.protocols.native import examples

LIMIT_S = 30.0
UNIT = {"apiVersion": "apps/v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
BODIES = {
    "/v1/schedule": examples.SCHEDULE_OWN_FLEET,
    "/v1/plan": examples.PLAN,
    "/v1/plan/progress": examples.PLAN,
    "/v1/review": examples.REVIEW,
    "/kubeadmiral/v1alpha1/filter": {
        "schedulingUnit": {**UNIT, "schedulingMode": "Duplicate", "currentClusters": [], "resourceRequest": {}},
        "cluster": {"metadata": {"name": "member1"}, "spec": {}, "status": {"resources": {}}},
    },
    "/kube-scheduler/filter": {
        "Pod": {"metadata": {"name": "web-1", "namespace": "shop"}}, "Nodes": None, "NodeNames": ["node-1"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def client():
    api = KubeInMemory()
    shop(api)
    plane = WatchedPlane(api)
    plane.start()
    middleware = Middleware(plane.services, request_timeout_s=LIMIT_S, stream_timeout_s=LIMIT_S)
    app = create_app(middleware, all_routes())
    app.config["PROPAGATE_EXCEPTIONS"] = False
    yield app.test_client()
    plane.stop()


def encoded(path):
    body = BODIES[path]
    binding = body.get("binding", {})
    # A field that no type has is not looked at by the first decoder.
    placement = binding.get("spec", {}).get("placement")
    if placement is not None:
        binding = {**binding, "spec": {**binding["spec"], "placement": {**placement, "unknown": {"é": ["é"]}}}}
        body = {**body, "binding": binding}
    return json.dumps(body, ensure_ascii=False).encode()


@given(st.sampled_from(sorted(BODIES)), st.sampled_from(PARTS), st.data())
@settings(max_examples=600, deadline=None)
def test_no_byte_of_a_body_crashes_a_request(client, path, part, data):
    body = encoded(path)
    at = data.draw(st.integers(0, len(body) - 1))
    answer = client.post(path, data=corrupted_at(body, at, part), content_type="application/json")
    assert answer.status_code != 500, answer.text


@pytest.mark.parametrize("path", sorted(BODIES))
def test_text_that_is_not_utf_8_is_an_invalid_request(client, path):
    body = encoded(path)
    if "é".encode() not in body:
        body = body.replace(b"{", b'{"unknown":"\xff",', 1)
    answer = client.post(path, data=body.replace("é".encode(), b"\xff"), content_type="application/json")
    assert answer.status_code in {200, 400, 409, 503}, answer.text


@pytest.mark.parametrize("part", ["%ff", "%ed%a0%80", "%00", "%c3", "%F0%9F%9A%A2"])
@pytest.mark.parametrize(
    "address",
    ["/v1/bindings/{}/web", "/v1/bindings/shop/{}", "/v1/workloads?q={}", "/v1/policies?name={}", "/v1/moves?{}=1",
     "/{}", "/v1/bindings/shop/web/why-not?cluster={}"],
)  # fmt: skip
def test_no_address_crashes_a_request(client, address, part):
    assert client.get(address.format(part)).status_code != 500
