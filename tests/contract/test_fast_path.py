"""The fast path answers like Flask's own dispatch, byte for byte, for every recorded request."""

import pytest
from extender_services import services_of
from recorded_requests import encoded, exchange, masked, recorded
from reviews import COMPANION

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.app import Middleware, all_routes
from extender.app import create_app as create_extender
from extender.metrics import ServiceMetrics
from extender.protocols.native import examples
from extender.protocols.services import RequestLimits
from webhook.app import create_app as create_webhook
from webhook.reviewer import Reviewer

BODY_BYTES = 65536
TOKEN = "Bearer a-token-of-some-length"  # noqa: S105 - opens only the application of this test


def webhook():
    return create_webhook(Reviewer(COMPANION, new_id=lambda: "<id>"), body_bytes=BODY_BYTES)


def extender(authenticate=lambda _environ: True):
    clusters = {raw["metadata"]["name"]: convert(Cluster, raw) for raw in examples.CLUSTERS}
    binding = convert(Binding, examples.BINDING)
    world = World(clusters, [SimulatedWorkload(binding.spec.resource, (), binding)])
    services = services_of(world, metrics=ServiceMetrics(), limits=RequestLimits(BODY_BYTES))
    middleware = Middleware(services, request_timeout_s=5, stream_timeout_s=5, authenticate=authenticate)
    return create_extender(middleware, all_routes())


def with_token(environ):
    return environ.get("HTTP_AUTHORIZATION") == TOKEN


def same_response(app, case, status):
    fast, flask = exchange(app, case), exchange(app.wsgi_app, case)
    assert masked(fast) == masked(flask)
    assert fast.startswith(f"HTTP/1.1 {status} ".encode()), fast[:2000]


@pytest.mark.parametrize("case", recorded("webhook"))
def test_the_webhook_gives_the_same_response(case):
    same_response(webhook(), case, case["status"])


@pytest.mark.parametrize("case", recorded("extender"))
def test_the_extender_gives_the_same_response(case):
    same_response(extender(), case, case["status"])


@pytest.mark.parametrize("case", recorded("extender"))
def test_the_extender_gives_the_same_response_to_clients_without_a_token(case):
    app = extender(with_token)
    fast, flask = exchange(app, case), exchange(app.wsgi_app, case)
    assert masked(fast) == masked(flask)
    assert b"a valid bearer token is required" in fast or case["method"] == "HEAD" or b'"selected":true' in fast


def test_the_fast_path_has_every_exact_post_path_and_no_other():
    exact = {route.path for route in all_routes() if route.method == "POST" and "{" not in route.path}
    assert set(extender().views) == exact
    assert "/v1/schedule" in exact


def test_recorded_requests_are_unique():
    for service in ("webhook", "extender"):
        requests = [encoded(case.values[0]) for case in recorded(service)]
        assert len(set(requests)) == len(requests)
        assert len({case.id for case in recorded(service)}) == len(requests)


def test_two_routes_for_one_method_and_path_are_an_error():
    route = all_routes()[0]
    with pytest.raises(ValueError, match="two routes for"):
        create_extender(Middleware(None, request_timeout_s=1, stream_timeout_s=1), [route, route])
