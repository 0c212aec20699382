"""Connections that hold back: by rate, by fence; and one that counts."""

import threading

import pytest
from fake_clock import FakeClock
from faults import refuse
from kube_in_memory import KubeInMemory

from berthmaster.kube import requests
from berthmaster.kube.client_wrappers import FencedClient, MeteredClient, RateLimitedClient, TokenBucket, rate_limited
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

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
def test_a_request_knows_its_verb(verb):
    request = {**WRITES, **READS}[verb]
    assert request.verb == verb
    assert request.reads == (verb in READS)
    assert request.of_many == (verb in {"list", "watch"})


class TestTokenBucket:
    def test_gives_a_burst_and_then_so_many_a_second(self):
        clock = FakeClock()
        bucket = TokenBucket(clock, per_s=10, burst=3)
        assert [bucket.take() for _ in range(4)] == [True, True, True, False]
        clock.pass_by(0.1)
        assert [bucket.take(), bucket.take()] == [True, False]
        clock.pass_by(60)
        assert [bucket.take() for _ in range(4)] == [True, True, True, False], "it holds no more than the burst"

    def test_gives_in_advance_what_is_not_too_far_away(self):
        bucket = TokenBucket(FakeClock(), per_s=10, burst=1)
        waits = [bucket.reserve(0.35) for _ in range(5)]
        assert waits[:4] == pytest.approx([0.0, 0.1, 0.2, 0.3])
        assert waits[4] is None
        assert bucket.reserve(0.45) == pytest.approx(0.4), "what was refused took nothing"

    def test_is_right_for_several_threads(self):
        bucket = TokenBucket(FakeClock(), per_s=1, burst=1000)
        taken = []

        def take() -> None:
            taken.extend(bucket.take() for _ in range(500))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(taken) == 1000


class TestLimitedConnection:
    def client(self, api: KubeInMemory, **more) -> tuple[RateLimitedClient, list[float]]:
        clock = FakeClock()
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            clock.pass_by(seconds)

        return RateLimitedClient(api, TokenBucket(clock, per_s=10, burst=2), sleep=sleep, **more), waits

    def test_waits_for_its_turn(self, api):
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

    def test_what_would_wait_too_long_is_not_sent(self, api):
        client, _ = self.client(api, longest_wait_s=0.05)
        for _ in range(2):
            client.send(READS["get"])
        with pytest.raises(ApiError, match="our own limit"):
            client.send(READS["get"])
        assert len(api.requests) == 2

    def test_no_limit_is_the_connection_itself(self, api):
        assert rate_limited(api, SystemClock(), 0, 1) is api
        assert rate_limited(api, SystemClock(), 1, 1) is not api


class TestFencedConnection:
    @pytest.mark.parametrize("verb", WRITES)
    def test_lets_no_write_pass_while_it_is_closed(self, api, verb):
        is_open = False
        client = FencedClient(api, lambda: is_open)
        with pytest.raises(ApiError, match="does not lead") as caught:
            client.send(WRITES[verb])
        assert caught.value.status == 0
        assert api.requests == []
        is_open = True
        client.send(WRITES[verb])
        assert len(api.requests) == 1
        client.close()
        with pytest.raises(ApiError, match="does not lead"):
            client.send(WRITES[verb])

    @pytest.mark.parametrize("verb", READS)
    def test_reads_always_pass(self, api, verb):
        client = FencedClient(api, lambda: False)
        client.close()
        client.send(READS[verb])
        assert len(api.requests) == 1


class TestCountedConnection:
    @pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch"])
    def test_tells_of_what_went_well(self, api, verb):
        told = []
        client = MeteredClient(api, FakeClock(), lambda *what: told.append(what))
        client.send({**WRITES, **READS}[verb])
        assert told == [(verb, 200, 0.0)]

    @pytest.mark.parametrize("status", [0, 404, 409, 429, 500])
    def test_tells_of_what_did_not(self, api, status):
        told = []
        client = MeteredClient(api, FakeClock(), lambda *what: told.append(what))
        api.before = refuse(status)
        with pytest.raises(ApiError):
            client.send(READS["get"])
        assert told == [("get", status, 0.0)]
