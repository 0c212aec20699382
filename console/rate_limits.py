"""Rate limits for each visitor, with a bound on the visitors that are remembered."""

import threading
from collections import OrderedDict
from typing import Final

from berthmaster.runtime.clock import Clock
from berthmaster.runtime.token_bucket import TokenBucket

_MAX_KEYS: Final = 10_000


class RateLimits:
    """One rate limit for each key. Safe for several threads. The key that was not used for longest is forgotten."""

    def __init__(self, clock: Clock, per_s: float, burst: int, max_keys: int = _MAX_KEYS) -> None:
        self._clock, self._per_s, self._burst, self._max_keys = clock, per_s, burst, max_keys
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> bool:
        """Count one use of a key. Return False if it is too much."""
        with self._lock:
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = TokenBucket(self._clock, self._per_s, self._burst)
                if len(self._buckets) > self._max_keys:
                    self._buckets.popitem(last=False)
            else:
                self._buckets.move_to_end(key)
        return bucket.take()
