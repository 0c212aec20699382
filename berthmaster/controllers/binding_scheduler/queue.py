"""The bindings that wait: the most important first, and those that fit nowhere apart until there is more room.

What karmada-scheduler does with three queues (``internal/queue``): active, backoff, unschedulable. Unlike there, a
priority that changes counts at once, and what fits nowhere is woken when a cluster gains room, not every five minutes.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.requests import Key
from berthmaster.runtime.clock import Clock

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0
LATE_TURN: Final = 32
"""Of so many keys that are taken at least one is a late one, so that these do not wait for the end of all work."""
LONGEST_PARKING_S: Final = 300.0
"""How long a binding that fits nowhere is left alone at most, even if no cluster is seen to change."""


class SchedulingQueue(WorkQueue[Key]):
    """A work queue that gives the key of the highest priority first; among equals, the one that waited longest."""

    def __init__(self, clock: Clock, priority_of: Callable[[Key], int]) -> None:
        super().__init__(clock, FIRST_WAIT_S, LONGEST_WAIT_S)
        self._priority_of = priority_of
        self._heap: list[tuple[int, int, Key]] = []
        self._entry: dict[Key, tuple[int, int, Key]] = {}
        self._parked: dict[Key, float] = {}
        self._order = 0
        self._late: set[Key] = set()
        self._late_order: deque[Key] = deque()
        self._turn = 0

    def add(self, key: Key) -> None:
        """See ``WorkQueue``; a key that waits already is moved to where its priority of now puts it."""
        with self._changed:
            self._parked.pop(key, None)
            if key in self._late:
                self._late.discard(key)
                if key not in self._taken:
                    self._push(key)
            super().add(key)
            if key in self._entry and self._entry[key][0] != -self._priority_of(key):
                self._push(key)

    def add_late(self, key: Key) -> None:
        """Have a key worked on after those that wait now and come later; at once if there are none."""
        with self._changed:
            if key not in self._dirty:
                self._late.add(key)
                super().add(key)

    @property
    def busy(self) -> bool:
        """Whether keys wait to be worked on, late ones aside."""
        return len(self._dirty) > len(self._late)

    def park(self, key: Key) -> None:
        """Leave a key alone until it is woken, added, or five minutes have passed."""
        with self._changed:
            if key not in self._dirty:
                self._parked[key] = self._clock.monotonic_s()

    def wake(self, keys: Iterable[Key] | None = None) -> int:
        """Have parked keys worked on, all of them or those of ``keys``; how many that are.

        Those being worked on are looked at once more: what was decided for them may have missed why they are woken.
        """
        with self._changed:
            asleep = self._parked.keys() | self._taken
            woken = list(asleep) if keys is None else [key for key in keys if key in asleep]
            for key in woken:
                self.add(key)
            return len(woken)

    def wake_old(self) -> None:
        """Wake the keys that were parked long ago."""
        with self._changed:
            before_s = self._clock.monotonic_s() - LONGEST_PARKING_S
            self.wake([key for key, since_s in self._parked.items() if since_s <= before_s])

    def asleep(self) -> list[Key]:
        """The keys that are left alone, or are just being worked on and may be left alone next."""
        with self._changed:
            return list(self._parked.keys() | self._taken)

    def leave(self, key: Key) -> None:
        """A key means nothing any more."""
        with self._changed:
            self._parked.pop(key, None)
            self._due_s.pop(key, None)
            self._failures.pop(key, None)

    def lengths(self) -> dict[str, int]:
        """How many keys wait, by Karmada's names for where."""
        with self._changed:
            return {"active": len(self._dirty), "backoff": len(self._due_s), "unschedulable": len(self._parked)}

    def _push(self, key: Key) -> None:
        if key in self._late:
            self._late_order.append(key)
            return
        self._order += 1
        entry = self._entry[key] = (-self._priority_of(key), self._order, key)
        heapq.heappush(self._heap, entry)

    def _pop(self) -> Key | None:
        self._turn += 1
        first, second = self._pop_first, self._pop_late
        if self._turn % LATE_TURN == 0:
            first, second = second, first
        key = first() or second()
        if key is not None:
            self._parked.pop(key, None)  # its time came by itself
        return key

    def _pop_first(self) -> Key | None:
        while self._heap:
            entry = heapq.heappop(self._heap)
            key = entry[2]
            if self._entry.get(key) is entry:  # else it was moved
                del self._entry[key]
                return key
        return None

    def _pop_late(self) -> Key | None:
        while self._late_order:
            key = self._late_order.popleft()
            if key in self._late:  # else it was added as any other
                self._late.discard(key)
                return key
        return None
