"""Clients that wrap another client: they limit, fence and meter requests, or ask for metadata only."""

import threading
import time
from collections.abc import Callable
from typing import Final

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.requests import ONLY_METADATA, ONLY_METADATA_OF_MANY, APIRequest
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock

LONGEST_WAIT_S: Final = 10.0


class TokenBucket:
    """So many at once, and so many a second in the long run. Safe for several threads."""

    def __init__(self, clock: Clock, per_s: float, burst: int) -> None:
        """A full bucket.

        Args:
            clock: tells how much has flowed in.
            per_s: tokens that flow in; more than 0.
            burst: how many it holds; at least 1.
        """
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._seen_s = clock.monotonic_s()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token if there is one."""
        return self.reserve(0.0) is not None

    def reserve(self, longest_wait_s: float) -> float | None:
        """Take a token now or in advance.

        Returns:
            How long to wait until it is there; None if that were longer than ``longest_wait_s``: none was taken.
        """
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._tokens = min(self._burst, self._tokens + (now_s - self._seen_s) * self._per_s)
            self._seen_s = now_s
            wait_s = max(0.0, (1.0 - self._tokens) / self._per_s)
            if wait_s > longest_wait_s:
                return None
            self._tokens -= 1.0
            return wait_s


class RateLimitedClient:
    """A connection whose requests wait for tokens; lists and watches, which are few and long, do not."""

    def __init__(
        self,
        client: APIClient,
        bucket: TokenBucket,
        longest_wait_s: float = LONGEST_WAIT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._longest_wait_s = longest_wait_s
        self._sleep = sleep

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``; an ``ApiError`` without a status also where the wait would be too long."""
        if not request.of_many:
            wait_s = self._bucket.reserve(self._longest_wait_s)
            if wait_s is None:
                raise ApiError(0, "", f"{request.method} {request.path}: held back by our own limit of requests")
            if wait_s:
                self._sleep(wait_s)
        return self._client.send(request)


def rate_limited(client: APIClient, clock: Clock, qps: float, burst: int) -> APIClient:
    """A connection of at most ``qps`` requests a second after the first ``burst``; 0 sets no limit."""
    return RateLimitedClient(client, TokenBucket(clock, qps, max(1, burst))) if qps > 0 else client


class FencedClient:
    """A connection that writes only as long as ``open`` says so; reads always pass.

    A thread that stood still - the machine was paused, the process was stopped - learns here, before its next write,
    that it leads no more. What was sent before is the API server's: the lease outlives the renew deadline by some
    seconds for that, and every write carries a guard of its own.
    """

    def __init__(self, client: APIClient, is_open: Callable[[], bool]) -> None:
        self._client = client
        self._is_open = is_open
        self._closed = False

    def close(self) -> None:
        """Let no write pass any more."""
        self._closed = True

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``; an ``ApiError`` without a status where a write may not pass."""
        if not request.reads and (self._closed or not self._is_open()):
            raise ApiError(0, "", f"{request.method} {request.path}: not sent: this process does not lead (any more)")
        return self._client.send(request)


class MeteredClient:
    """Tells of each request its verb, its status (0 for no answer, 200 for any success), and the time to its head."""

    def __init__(self, client: APIClient, clock: Clock, told: Callable[[str, int, float], None]) -> None:
        self._client = client
        self._clock = clock
        self._told = told

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``."""
        started_s = self._clock.monotonic_s()
        status = 200
        try:
            return self._client.send(request)
        except ApiError as error:
            status = error.status
            raise
        finally:
            self._told(request.verb, status, self._clock.monotonic_s() - started_s)


class MetadataOnlyClient:
    """A connection over which objects come as ``PartialObjectMetadata``; see ``APIClient``.

    A server that cannot take objects apart, as some behind the aggregation layer, sends them whole.
    """

    def __init__(self, client: APIClient) -> None:
        self._client = client

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request; see ``APIClient``. The server refuses one object as a list, and a list as one object."""
        accept = ONLY_METADATA_OF_MANY if request.verb == "list" else ONLY_METADATA
        return self._client.send(request._replace(accept=accept))
