"""Keys that wait for work: each once, never two workers at the same one, those that failed after a growing wait.

Only keys are queued: whoever takes one reads the latest state, so that any number of changes in between are one piece
of work.
"""

import heapq
import threading
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from berthmaster.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
FIRST_WAIT_S: Final = 0.005
LONGEST_WAIT_S: Final = 60.0


class WorkQueue(Generic[K]):
    """Safe for several threads.

    Args:
        clock: tells when a wait is over.
        first_wait_s, longest_wait_s: after a key's first failure it waits the first of them, and twice as long after
            each further one, up to the second.
    """

    def __init__(
        self, clock: Clock, first_wait_s: float = FIRST_WAIT_S, longest_wait_s: float = LONGEST_WAIT_S
    ) -> None:
        self._clock = clock
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._changed = threading.Condition(threading.RLock())
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._taken: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        self._due_s: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._count = 0
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait, those that wait for their time among them."""
        with self._changed:
            return len(self._dirty) + len(self._due_s)

    def add(self, key: K) -> None:
        """Have a key worked on; if it is just being worked on, once more afterwards."""
        with self._changed:
            self._due_s.pop(key, None)
            self._add(key)

    def add_after(self, key: K, wait_s: float) -> None:
        """Have a key worked on when some time has passed; what is due earlier stays so."""
        if wait_s <= 0:
            self.add(key)
            return
        with self._changed:
            due_s = self._clock.monotonic_s() + wait_s
            if self._closed or key in self._dirty or self._due_s.get(key, due_s + 1) <= due_s:
                return
            self._due_s[key] = due_s
            self._count += 1
            heapq.heappush(self._later, (due_s, self._count, key))
            self._changed.notify()

    def retry(self, key: K, at_least_s: float = 0.0) -> None:
        """Work on a key has failed: have it worked on again, the later the more often it failed."""
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait_s = min(self._longest_wait_s, self._first_wait_s * 2 ** min(failures - 1, 62))
        self.add_after(key, max(wait_s, at_least_s))

    def forget(self, key: K) -> None:
        """Work on a key went well: its next failure is a first one again."""
        with self._changed:
            self._failures.pop(key, None)

    def take(self) -> K | None:
        """Wait for a key and take it; None once the queue is closed. ``done`` has to follow."""
        with self._changed:
            while not self._closed:
                wait_s = self._promote()
                if (key := self._pop()) is not None:
                    self._dirty.discard(key)
                    self._taken.add(key)
                    return key
                self._changed.wait(wait_s)
            return None

    def done(self, key: K) -> None:
        """A key that was taken is not being worked on any more."""
        with self._changed:
            self._taken.discard(key)
            if key in self._dirty:
                self._push(key)
                self._changed.notify()

    def close(self) -> None:
        """Give no more keys out, and let go whoever waits for one."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, key: K) -> None:
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._taken:
            self._push(key)
            self._changed.notify()

    def _push(self, key: K) -> None:
        """A key is ready to be worked on."""
        self._ready.append(key)

    def _pop(self) -> K | None:
        """The key to be worked on next; None if none is ready."""
        return self._ready.popleft() if self._ready else None

    def _promote(self) -> float | None:
        """Move what is due to those that are ready; how long until the next one is, None for no next one."""
        now_s = self._clock.monotonic_s()
        while self._later:
            due_s, _, key = self._later[0]
            if self._due_s.get(key) != due_s:  # it was added, or put to an earlier time, meanwhile
                heapq.heappop(self._later)
            elif due_s <= now_s:
                heapq.heappop(self._later)
                del self._due_s[key]
                self._add(key)
            else:
                return due_s - now_s
        return None
