"""A rate limit."""

import threading

from berthmaster.runtime.clock import Clock


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
