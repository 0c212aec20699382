"""A queue of keys: each key once, never with two workers at the same time, failed keys after a backoff.

Only keys are queued. A worker reads the latest state, so that any number of events for a key become one reconcile.
"""

import heapq
import threading
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from berthmaster.runtime.clock import Clock
from berthmaster.runtime.traces import began_ns

K = TypeVar("K", bound=Hashable)
FIRST_WAIT_S: Final = 0.005
LONGEST_WAIT_S: Final = 60.0


class WorkQueue(Generic[K]):
    """Safe for several threads.

    Args:
        first_wait_s, longest_wait_s: the backoff after a key's first failure, and its limit. It doubles in between.
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
        self._added_ns: dict[K, int] = {}

    def __len__(self) -> int:
        """Return the number of waiting keys, including those that wait for a time."""
        with self._changed:
            return len(self._dirty) + len(self._due_s)

    def add(self, key: K) -> None:
        """Queue a key. If a worker has it, it is queued again when the worker is done."""
        with self._changed:
            self._due_s.pop(key, None)
            self._add(key)

    def add_after(self, key: K, wait_s: float) -> None:
        """Queue a key after some seconds. If it is due earlier already, nothing changes."""
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

    def retry(self, key: K, at_least_s: float = 0.0) -> float:
        """Queue a failed key with backoff, and return the wait in seconds, at least ``at_least_s``."""
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait_s = max(min(self._longest_wait_s, self._first_wait_s * 2.0 ** min(failures - 1, 62)), at_least_s)
        self.add_after(key, wait_s)
        return wait_s

    def forget(self, key: K) -> None:
        with self._changed:
            self._failures.pop(key, None)

    def take(self, *, wait: bool = True) -> K | None:
        """Wait for a key and take it; None once the queue is closed. The caller must call ``done``.

        Without ``wait`` the result is also None if no key is ready.
        """
        with self._changed:
            while not self._closed:
                wait_s = self._promote()
                if (key := self._pop()) is not None:
                    self._dirty.discard(key)
                    self._taken.add(key)
                    return key
                if not wait:
                    break
                self._changed.wait(wait_s)
            return None

    def added_ns(self, key: K) -> int | None:
        """Return when a taken key was added, for its span; None if there are no traces."""
        with self._changed:
            return self._added_ns.pop(key, None)

    def next_due_s(self) -> float | None:
        """Return the seconds until the next key that waits for a time is due; None if none waits."""
        with self._changed:
            return min(self._due_s.values()) - self._clock.monotonic_s() if self._due_s else None

    def done(self, key: K) -> None:
        with self._changed:
            self._taken.discard(key)
            if key in self._dirty:
                self._push(key)
                self._changed.notify()

    def close(self) -> None:
        """Return no more keys, and release the threads that wait in ``take``."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, key: K) -> None:
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        added_ns = began_ns()
        if added_ns is not None:
            self._added_ns[key] = added_ns
        if key not in self._taken:
            self._push(key)
            self._changed.notify()

    def _push(self, key: K) -> None:
        self._ready.append(key)

    def _pop(self) -> K | None:
        """Remove and return the next key; None if none is ready."""
        return self._ready.popleft() if self._ready else None

    def _promote(self) -> float | None:
        """Queue the keys that are due, and return the seconds until the next one is; None if none waits."""
        now_s = self._clock.monotonic_s()
        while self._later:
            due_s, _, key = self._later[0]
            if self._due_s.get(key) != due_s:  # the key was added, or its time changed
                heapq.heappop(self._later)
            elif due_s <= now_s:
                heapq.heappop(self._later)
                del self._due_s[key]
                self._add(key)
            else:
                return due_s - now_s
        return None
