"""The queue of bindings: it orders them by priority, and takes turns between namespaces.

It has an active, a backoff and an unschedulable part, as that of karmada-scheduler (``scheduling_queue.go``).
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.model.meta import Key
from berthmaster.model.placement import Placement
from berthmaster.runtime.clock import Clock

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0
LATE_SHARE: Final = 32
"""Of this many keys that are taken, at least one is a late key. Late keys so progress during a long burst."""
RETRIES: Final = 200
"""How many failed keys of a namespace are retried each second. Retries of many refused writes leave room for others."""
LONGEST_UNSCHEDULABLE_S: Final = 300.0
"""An unschedulable binding is tried again after this time even if no cluster changes."""
_Entry = tuple[int, int, int, Key]
"""The negative priority, the turn of the namespace, the order, and the key."""
PlacementKeys = tuple[Placement | None, list[Key]]


class _Alike(NamedTuple):
    """Unschedulable keys of a namespace whose bindings share a placement: what one could use, all could use."""

    placement: Placement | None
    keys: dict[Key, None]


class SchedulingQueue(WorkQueue[Key]):
    """A work queue that returns the key with the highest priority first.

    karmada-scheduler has three queues (``internal/queue``): active, backoff and unschedulable. Three things differ
    here. A changed priority counts at once. Namespaces of equal priority take turns: of one namespace the key that
    waited longest comes first, and a namespace with many keys does not delay another one. A cluster that gains capacity
    activates unschedulable bindings; they do not wait for the next five-minute flush.
    """

    def __init__(self, clock: Clock, priority_of: Callable[[Key], int]) -> None:
        super().__init__(clock, FIRST_WAIT_S, LONGEST_WAIT_S)
        self._priority_of = priority_of
        self._heap: list[_Entry] = []
        self._entry: dict[Key, _Entry] = {}
        self._turn = 0
        self._last_turns: dict[str, int] = {}
        self._failing: Counter[str] = Counter()
        self._unschedulable: dict[Key, tuple[float, _Alike]] = {}
        self._alike: dict[tuple[str, int], _Alike] = {}
        self._order = 0
        self._late: set[Key] = set()
        self._late_order: deque[Key] = deque()
        self._taken_count = 0

    def add(self, key: Key) -> None:
        """Queue a key. If it waits already, it moves to the position of its current priority."""
        with self._changed:
            self._release(key)
            if key in self._late:
                self._late.discard(key)
                if key not in self._taken:
                    self._push(key)
            super().add(key)
            if key in self._entry and self._entry[key][0] != -self._priority_of(key):
                self._push(key)

    def retry(self, key: Key, at_least_s: float = 0.0) -> float:
        """Queue a failed key with backoff. With many failed keys in its namespace it waits longer, up to 5 minutes."""
        with self._changed:
            self._failing[key[0]] += key not in self._failures
            paced_s = min(self._failing[key[0]] / RETRIES, LONGEST_UNSCHEDULABLE_S)
            return super().retry(key, max(at_least_s, paced_s))

    def forget(self, key: Key) -> None:
        with self._changed:
            if key in self._failures:
                self._failing[key[0]] -= 1
                self._failing += Counter()  # without namespaces that have none
            super().forget(key)

    def add_late(self, key: Key) -> None:
        """Queue a key behind all keys that are not late, present and future ones."""
        with self._changed:
            if key not in self._dirty:
                self._late.add(key)
                super().add(key)

    @property
    def busy(self) -> bool:
        """Whether keys that are not late wait for a worker."""
        return len(self._dirty) > len(self._late)

    def add_unschedulable(self, key: Key, placement: Placement | None) -> None:
        """Hold a key back until it is activated or added, at most five minutes."""
        with self._changed:
            if key not in self._dirty:
                self._release(key)  # the keys stay in the order of their times
                alike = self._alike.setdefault((key[0], id(placement)), _Alike(placement, {}))
                alike.keys[key] = None
                self._unschedulable[key] = self._clock.monotonic_s(), alike

    def activate(self, keys: Iterable[Key]) -> int:
        """Queue those of the keys that are unschedulable or being reconciled; return how many that are.

        A key that is being reconciled is queued once more: its decision may have missed the change.
        """
        with self._changed:
            activated = [key for key in keys if key in self._unschedulable or key in self._taken]
            for key in activated:
                self.add(key)
            return len(activated)

    def activate_expired(self) -> None:
        """Queue the keys that were unschedulable for five minutes."""
        with self._changed:
            before_s = self._clock.monotonic_s() - LONGEST_UNSCHEDULABLE_S
            since_s = ((key, held_s) for key, (held_s, _) in self._unschedulable.items())
            self.activate([key for key, _ in takewhile(lambda each: each[1] <= before_s, since_s)])

    def unschedulable(self) -> list[PlacementKeys]:
        """Return the unschedulable keys of each namespace by their placement."""
        with self._changed:
            return [(each.placement, list(each.keys)) for each in self._alike.values()]

    def taken(self) -> list[Key]:
        """Return the keys that are being reconciled: they may be unschedulable next."""
        with self._changed:
            return list(self._taken)

    def backing_off(self) -> list[Key]:
        """Return the keys that wait for a time, as after a failed write, and those that are being reconciled."""
        with self._changed:
            return list(self._due_s.keys() | self._taken)

    def remove(self, key: Key) -> None:
        """Forget a key that needs no more work: its wait, its backoff and its failures."""
        with self._changed:
            self._release(key)
            self._due_s.pop(key, None)
            self.forget(key)

    def lengths(self) -> dict[str, int]:
        """Return the number of waiting keys, by Karmada's names of the queues."""
        with self._changed:
            return {"active": len(self._dirty), "backoff": len(self._due_s), "unschedulable": len(self._unschedulable)}

    def _push(self, key: Key) -> None:
        if key in self._late:
            self._late_order.append(key)
            return
        self._order += 1
        namespace = key[0]
        turn = self._last_turns[namespace] = max(self._turn, self._last_turns.get(namespace, 0)) + 1
        entry = self._entry[key] = (-self._priority_of(key), turn, self._order, key)
        heapq.heappush(self._heap, entry)

    def _pop(self) -> Key | None:
        self._taken_count += 1
        first, second = self._pop_first, self._pop_late
        if self._taken_count % LATE_SHARE == 0:
            first, second = second, first
        key = first() or second()
        if key is not None:
            self._release(key)
        return key

    def _release(self, key: Key) -> None:
        if key in self._unschedulable:
            _, alike = self._unschedulable.pop(key)
            del alike.keys[key]
            if not alike.keys:
                del self._alike[key[0], id(alike.placement)]

    def _pop_first(self) -> Key | None:
        while self._heap:
            entry = heapq.heappop(self._heap)
            _, turn, _, key = entry
            self._turn = max(self._turn, turn)
            if self._last_turns.get(key[0]) == turn:
                del self._last_turns[key[0]]
            if self._entry.get(key) is entry:  # else it has a newer entry
                del self._entry[key]
                return key
        return None

    def _pop_late(self) -> Key | None:
        while self._late_order:
            key = self._late_order.popleft()
            if key in self._late:  # else it is not late any more
                self._late.discard(key)
                return key
        return None
