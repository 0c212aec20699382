"""When bindings get a new ``status.lastScheduledTime`` although nothing else of them changes.

karmada-scheduler writes the time after each successful scheduling, also if the result is the same
(``patchBindingStatusCondition``). The label of one cluster can schedule 30,000 bindings again, so that these writes are
few in each second, and wait for all others.
"""

import threading
from itertools import islice
from typing import Final

from berthmaster.model.meta import Key

PER_SECOND: Final = 5
"""How many bindings get only a new time each second."""


class SchedulingTimes:
    """The bindings whose time is older than their last scheduling. Safe for several threads."""

    def __init__(self) -> None:
        self._changed = threading.Lock()
        self._waiting: dict[Key, None] = {}
        self._due: set[Key] = set()

    def __len__(self) -> int:
        """Return how many bindings wait."""
        with self._changed:
            return len(self._waiting)

    def is_due(self, key: Key) -> bool:
        """Return whether the time of a binding that was scheduled again is written now. If not, it waits."""
        with self._changed:
            if key in self._due:
                self._due.discard(key)
                return True
            self._waiting[key] = None
            return False

    def forget(self, key: Key) -> None:
        """Let a binding that is gone not wait any more."""
        with self._changed:
            self._waiting.pop(key, None)
            self._due.discard(key)

    def next(self) -> list[Key]:
        """Return the bindings whose times are due now, those that waited longest first. Call it once in a second."""
        with self._changed:
            taken = list(islice(self._waiting, PER_SECOND))
            for key in taken:
                del self._waiting[key]
            self._due.update(taken)
            return taken
