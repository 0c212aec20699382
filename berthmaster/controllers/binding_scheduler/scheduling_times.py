"""When bindings get a new ``status.lastScheduledTime`` although nothing else of them changes.

karmada-scheduler writes the time after each successful scheduling, also if the result is the same
(``patchBindingStatusCondition``). The label of one cluster can schedule 30,000 bindings again, so that these writes are
few in each second, and wait for all others. What is written is the time of the scheduling, not of the write: with a
later one, a WorkloadRebalancer that was created in between would find the binding scheduled after it.
"""

import threading
from datetime import datetime
from itertools import islice
from typing import Final

from berthmaster.model.meta import Key

PER_SECOND: Final = 5
"""How many bindings get only a new time each second."""


class SchedulingTimes:
    """The bindings whose time is older than their last scheduling, with the time of that. Safe for several threads."""

    def __init__(self) -> None:
        self._changed = threading.Lock()
        self._triggered: set[Key] = set()
        self._waiting: dict[Key, datetime] = {}
        self._due: dict[Key, datetime] = {}

    def __len__(self) -> int:
        """Return how many bindings wait."""
        with self._changed:
            return len(self._waiting)

    def triggered(self, key: Key) -> None:
        """Let the next scheduling of a binding count: an event causes it. Others complete or repeat an earlier one."""
        with self._changed:
            self._forget(key)
            self._triggered.add(key)

    def due(self, key: Key, now: datetime) -> datetime | None:
        """Return the time to write for a binding that is scheduled again now; None if it waits, or has its time.

        The caller passes the binding to ``forget`` after the write.
        """
        with self._changed:
            if key in self._triggered:
                self._triggered.discard(key)
                self._waiting[key] = now
            return self._due.get(key)

    def forget(self, key: Key) -> None:
        """Let a binding not wait any more: it has its time, it gets a later one, or it is gone."""
        with self._changed:
            self._forget(key)

    def next(self) -> list[Key]:
        """Return the bindings whose times are due now, those that waited longest first. Call it once in a second."""
        with self._changed:
            taken = list(islice(self._waiting, PER_SECOND))
            for key in taken:
                self._due[key] = self._waiting.pop(key)
            return taken

    def _forget(self, key: Key) -> None:
        self._triggered.discard(key)
        self._waiting.pop(key, None)
        self._due.pop(key, None)
