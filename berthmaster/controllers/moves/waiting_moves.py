"""The moves that wait for capacity."""

import threading
from collections.abc import Iterable
from typing import Final

from berthmaster.model.meta import Key
from berthmaster.runtime.clock import Clock

INTERVAL_S: Final = 10.0
"""How often bindings that wait are looked at, at most."""
BINDINGS_PER_INTERVAL: Final = 500
"""How many of them are looked at in one interval."""


class WaitingMoves:
    """The bindings without a place, and the clusters that gained capacity since the last look. For several threads.

    A cluster gains capacity with almost every status. Without a limit, each of them would cost a full decision for
    every binding that waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[Key, None] = {}  # ordered: the binding that waits longest comes first
        self._gained: set[str] = set()
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._keys)

    def update(self, key: Key, *, waits: bool) -> None:
        """Record whether a binding has no place."""
        if not waits and key not in self._keys:
            return
        with self._lock:
            self._keys.pop(key, None)
            if waits:
                self._keys[key] = None

    def gained(self, clusters: Iterable[str]) -> None:
        if self._keys:
            with self._lock:
                self._gained.update(clusters)

    def take(self) -> tuple[list[Key], set[str]]:
        """Return the bindings to look at and the clusters that gained capacity; both are empty between intervals."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if not self._gained or now_s < self._next_s:
                return [], set()
            self._next_s = now_s + INTERVAL_S
            gained, self._gained = self._gained, set()
            return list(self._keys), gained
