"""How often the API server is asked: a token bucket, and a connection behind one.

The API server protects itself with priority and fairness; this keeps one process from taking all of its share in a
burst, which the other clients of the same priority level would feel.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from berthmaster.kube.requests import Request
from berthmaster.kube.transport import Answer, Connection
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


class LimitedConnection:
    """A connection whose requests wait for tokens; lists and watches, which are few and long, do not."""

    def __init__(
        self,
        connection: Connection,
        bucket: TokenBucket,
        longest_wait_s: float = LONGEST_WAIT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._bucket = bucket
        self._longest_wait_s = longest_wait_s
        self._sleep = sleep

    def send(self, request: Request) -> Answer:
        """See ``Connection``; an ``ApiError`` without a status also where the wait would be too long."""
        if not request.of_many:
            wait_s = self._bucket.reserve(self._longest_wait_s)
            if wait_s is None:
                raise ApiError(0, "", f"{request.method} {request.path}: held back by our own limit of requests")
            if wait_s:
                self._sleep(wait_s)
        return self._connection.send(request)


def limited(connection: Connection, clock: Clock, qps: float, burst: int) -> Connection:
    """A connection of at most ``qps`` requests a second after the first ``burst``; 0 sets no limit."""
    return LimitedConnection(connection, TokenBucket(clock, qps, max(1, burst))) if qps > 0 else connection
