"""When each binding is looked at for drift."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from berthmaster.model.meta import Key
from berthmaster.runtime.clock import Clock

ROUND_S: Final = 30.0
"""How often a binding is looked at for drift, at most."""
LOOKS_PER_S: Final = 25
"""How many bindings are looked at for drift each second. A look takes a millisecond, and five in a large fleet."""
_SKIPPED_PER_LOOK: Final = 40
_LONGEST_GAP_S: Final = 10.0


class DriftLooks:
    """The bindings that are due to be looked at for drift: all in turn, and few each second. For several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: set[Key] = set()
        self._round: Iterator[Key] = iter(())
        self._round_s = self._looked_s = float("-inf")

    def next(self, keys: Callable[[], Iterable[Key]], rebalances: Callable[[Key], bool]) -> list[Key]:
        """Return the bindings that become due now. Call it every second or so, from one thread.

        Args:
            keys: returns all bindings. It is called at the start of a round.
            rebalances: whether drift asks for moves of a binding.
        """
        now_s = self._clock.monotonic_s()
        passed_s = min(now_s - self._looked_s, _LONGEST_GAP_S)
        self._looked_s = now_s
        looks = int(passed_s * LOOKS_PER_S)
        found: list[Key] = []
        for _ in range(looks * _SKIPPED_PER_LOOK):
            key = next(self._round, None)
            if key is None:
                if now_s >= self._round_s + ROUND_S:
                    self._round_s, self._round = now_s, iter(list(keys()))
                break
            if rebalances(key):
                found.append(key)
                if len(found) == looks:
                    break
        with self._lock:
            self._due.update(found)
        return found

    def take(self, key: Key) -> bool:
        """Return whether a binding is due, and count it as looked at."""
        if key not in self._due:
            return False
        with self._lock:
            self._due.discard(key)
        return True
