"""The protocol of API clients."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

from berthmaster.kube.requests import ONLY_METADATA, ONLY_METADATA_LIST, APIRequest
from berthmaster.kube.responses import MAX_MESSAGE_BYTES
from berthmaster.model.errors import ApiError, ResponseTooLargeError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.token_bucket import TokenBucket

MAX_WAIT_S: Final = 10.0


class APIResponse(AbstractContextManager["APIResponse", None], Protocol):
    """A successful response, read as a stream inside a ``with`` block.

    The end of the block keeps the connection for the next request if the whole body was read, else closes it.
    """

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises ``ApiError`` if the connection breaks or nothing comes in time."""

    def header(self, name: str) -> list[str]:
        """Return all values of a header in order."""

    def abort(self) -> None:
        """End a read that is under way in another thread."""


class APIClient(Protocol):
    """A client of one API server. Safe for several threads."""

    def send(self, request: APIRequest) -> APIResponse:
        """Return the response when its head is there. Raises ``ApiError`` if there is none, or if it is an error."""


def ask(client: APIClient, request: APIRequest) -> bytes:
    """Return the whole body of the response. Raises ``ApiError``, also for a body that is too large."""
    with client.send(request) as response:
        return read_body(response)


def ask_if_found(client: APIClient, request: APIRequest) -> bytes | None:
    try:
        return ask(client, request)
    except ApiError as error:
        if error.not_found:
            return None
        raise


def read_body(response: APIResponse) -> bytes:
    parts, size = [], 0
    for chunk in response.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            raise ResponseTooLargeError(MAX_MESSAGE_BYTES)
    return b"".join(parts)


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

    def __init__(
        self, client: APIClient, is_leading: Callable[[], bool], otherwise: str = "this process is not the leader"
    ) -> None:
        self._client = client
        self._is_leading = is_leading
        self._otherwise = otherwise
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def send(self, request: APIRequest) -> APIResponse:
        if not request.is_read and (self._closed or not self._is_leading()):
            raise ApiError(0, "", f"{request}: not sent: {self._otherwise}")
        return self._client.send(request)


class MeteredClient:
    """Reports the verb, the status (200 for any success, 0 for no response) and the seconds until the head."""

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
