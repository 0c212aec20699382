"""API clients around another client: rate limit, fence, reads only, metrics, metadata only."""

import time
from collections.abc import Callable
from typing import Final

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.requests import ONLY_METADATA, ONLY_METADATA_LIST, APIRequest
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.rate_limit import TokenBucket

MAX_WAIT_S: Final = 10.0


class RateLimitedClient:
    """Delays requests above a rate. Lists and watches, which are few and long, pass at once.

    The API server protects itself with API Priority and Fairness. This limit keeps one process from taking the whole
    share of its priority level in a burst.
    """

    def __init__(
        self,
        client: APIClient,
        bucket: TokenBucket,
        max_wait_s: float = MAX_WAIT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._max_wait_s = max_wait_s
        self._sleep = sleep

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``. Also raises an ``ApiError`` with status 0 if the wait would be too long."""
        if request.verb not in {"list", "watch"}:
            wait_s = self._bucket.reserve(self._max_wait_s)
            if wait_s is None:
                raise ApiError(0, "", f"{request}: the client-side rate limit is exceeded")
            if wait_s:
                self._sleep(wait_s)
        return self._client.send(request)


def rate_limited(client: APIClient, clock: Clock, qps: float, burst: int) -> APIClient:
    """Limit a client to ``qps`` requests per second after the first ``burst``. 0 means no limit."""
    return RateLimitedClient(client, TokenBucket(clock, qps, max(1, burst))) if qps > 0 else client


class FencedClient:
    """Writes only while ``is_leading`` returns true. Reads always pass.

    A thread that did not run for some time, because the machine or the process was paused, finds out before its next
    write that it lost leadership. The fence cannot stop requests that were sent before. The lease outlives the renew
    deadline by some seconds for them, and each write carries its own guard.
    """

    def __init__(self, client: APIClient, is_leading: Callable[[], bool]) -> None:
        self._client = client
        self._is_leading = is_leading
        self._closed = False

    def close(self) -> None:
        """Stop all writes permanently."""
        self._closed = True

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``. Also raises an ``ApiError`` with status 0 instead of a write that must not be sent."""
        if not request.is_read and (self._closed or not self._is_leading()):
            raise ApiError(0, "", f"{request}: not sent: this process is not the leader")
        return self._client.send(request)


class ReadOnlyClient:
    """Sends only reads: get, list and watch."""

    def __init__(self, client: APIClient) -> None:
        self._client = client

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``. Also raises an ``ApiError`` with status 0 instead of a write."""
        if not request.is_read:
            raise ApiError(0, "", f"{request}: not sent: this process only reads")
        return self._client.send(request)


class MeteredClient:
    """Reports the verb, the status and the seconds until the head of the response for each request.

    The status is 200 for any success and 0 if there was no response.
    """

    def __init__(self, client: APIClient, clock: Clock, observe: Callable[[str, int, float], None]) -> None:
        self._client = client
        self._clock = clock
        self._observe = observe

    def send(self, request: APIRequest) -> APIResponse:
        started_s = self._clock.monotonic_s()
        status = 200
        try:
            return self._client.send(request)
        except ApiError as error:
            status = error.status
            raise
        finally:
            self._observe(request.verb, status, self._clock.monotonic_s() - started_s)


class MetadataOnlyClient:
    """Asks for ``PartialObjectMetadata`` instead of whole objects.

    Some servers behind the aggregation layer do not support this and send whole objects.
    """

    def __init__(self, client: APIClient) -> None:
        self._client = client

    def send(self, request: APIRequest) -> APIResponse:
        # The API server rejects the media type of a list for a single object, and the other way round.
        accept = ONLY_METADATA_LIST if request.verb == "list" else ONLY_METADATA
        return self._client.send(request._replace(accept=accept))
