"""The clock as an argument: production code passes ``SystemClock``, tests pass a fake clock."""

import random
import threading
import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time of day in UTC."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary start. The value never decreases."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()


FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0


class Backoff:
    """Waits that double, with jitter, so that the clients of a failed server do not retry at the same time."""

    def __init__(
        self, first_s: float = FIRST_S, longest_s: float = LONGEST_S, draw: random.Random | None = None
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._draw = draw or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._ceiling_s = first_s

    def next_s(self) -> float:
        """Return the next wait in seconds: between half of a ceiling and the ceiling, which doubles each time."""
        ceiling_s = self._ceiling_s
        self._ceiling_s = min(self._longest_s, 2 * ceiling_s)
        return self._draw.uniform(ceiling_s / 2, ceiling_s)

    def reset(self) -> None:
        self._ceiling_s = self._first_s


class TokenBucket:
    """A rate limit: a burst at once, and a steady rate in the long run. Safe for several threads."""

    def __init__(self, clock: Clock, per_s: float, burst: int) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._refilled_s = clock.monotonic_s()
        self._lock = threading.Lock()

    def take(self) -> bool:
        return self.reserve(0.0) is not None

    def reserve(self, max_wait_s: float) -> float | None:
        """Take a token now or in advance. Return the wait in seconds, or None for a wait above ``max_wait_s``."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._tokens = min(self._burst, self._tokens + (now_s - self._refilled_s) * self._per_s)
            self._refilled_s = now_s
            wait_s = max(0.0, (1.0 - self._tokens) / self._per_s)
            if wait_s > max_wait_s:
                return None
            self._tokens -= 1.0
            return wait_s
