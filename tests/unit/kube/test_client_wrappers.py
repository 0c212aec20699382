"""API clients that limit, fence and meter another client."""

from contextlib import nullcontext

import pytest
from fake_clock import FakeClock
from faults import refuse
from kube_in_memory import KubeInMemory

from berthmaster.kube import requests
from berthmaster.kube.client import (
    FencedClient,
    MeteredClient,
    RateLimitedClient,
    rate_limited,
)
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.token_bucket import TokenBucket

THINGS = Collection.of("example.io/v1", "things")
KEY = ("ns", "one")
WRITES = {
    "create": requests.create(THINGS, "ns", {"metadata": {"name": "two"}}),
    "update": requests.replace(THINGS, KEY, {"metadata": {"name": "one", "resourceVersion": "1"}}),
    "patch": requests.merge_patch(THINGS, KEY, {}),
    "delete": requests.delete(THINGS, KEY),
}
READS = {
    "get": requests.get(THINGS, KEY),
    "list": requests.page(THINGS, "", 1.0),
    "watch": requests.watch(THINGS, "1", 1, 1.0),
}


@pytest.fixture
def api() -> KubeInMemory:
    api = KubeInMemory()
    api.put(THINGS.object(KEY), {})
    return api


@pytest.mark.parametrize("verb", [*WRITES, *READS])
def test_the_verb_of_a_request(verb):
    request = {**WRITES, **READS}[verb]
    assert request.verb == verb
    assert request.is_read == (verb in READS)


class TestRateLimitedClient:
    def client(self, api: KubeInMemory, **more) -> tuple[RateLimitedClient, list[float]]:
        clock = FakeClock()
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            clock.pass_by(seconds)

        return RateLimitedClient(api, TokenBucket(clock, per_s=10, burst=2), sleep=sleep, **more), waits

    def test_waits_for_a_token(self, api):
        client, waits = self.client(api)
        for _ in range(5):
            client.send(READS["get"])
        assert waits == pytest.approx([0.1, 0.1, 0.1])
        assert len(api.requests) == 5

    @pytest.mark.parametrize("verb", ["list", "watch"])
    def test_lists_and_watches_do_not_wait(self, api, verb):
        client, waits = self.client(api)
        for _ in range(10):
            client.send(READS[verb])
        assert waits == []

    def test_a_request_that_would_wait_too_long_is_not_sent(self, api):
        client, _ = self.client(api, max_wait_s=0.05)
        for _ in range(2):
            client.send(READS["get"])
        with pytest.raises(ApiError, match="client-side rate limit"):
            client.send(READS["get"])
        assert len(api.requests) == 2

    def test_no_limit_returns_the_client_itself(self, api):
        assert rate_limited(api, SystemClock(), 0, 1) is api
        assert rate_limited(api, SystemClock(), 1, 1) is not api


class TestFencedClient:
    @pytest.mark.parametrize("verb", WRITES)
    def test_blocks_writes_without_leadership_and_after_close(self, api, verb):
        is_leading = False
        client = FencedClient(api, lambda: is_leading)
        with pytest.raises(ApiError, match="not the leader") as caught:
            client.send(WRITES[verb])
        assert caught.value.status == 0
        assert api.requests == []
        is_leading = True
        client.send(WRITES[verb])
        assert len(api.requests) == 1
        client.close()
        with pytest.raises(ApiError, match="not the leader"):
            client.send(WRITES[verb])

    def test_says_why_a_write_is_not_sent(self, api):
        with pytest.raises(ApiError, match="not sent: this process only reads"):
            FencedClient(api, lambda: False, "this process only reads").send(WRITES["patch"])

    @pytest.mark.parametrize("verb", READS)
    def test_reads_always_pass(self, api, verb):
        client = FencedClient(api, lambda: False)
        client.close()
        client.send(READS[verb])
        assert len(api.requests) == 1


class TestMeteredClient:
    @pytest.mark.parametrize(
        ("verb", "status"),
        [
            *((verb, 200) for verb in ("get", "list", "watch", "create", "patch")),
            *(("get", status) for status in (0, 404, 409, 429, 500)),
        ],
    )
    def test_reports_the_verb_and_the_status(self, api, verb, status):
        observed = []
        client = MeteredClient(api, FakeClock(), lambda *what: observed.append(what))
        if status != 200:
            api.before = refuse(status)
        with nullcontext() if status == 200 else pytest.raises(ApiError):
            client.send({**WRITES, **READS}[verb])
        assert observed == [(verb, status, 0.0)]
