"""A controller: a queue of keys, and workers that reconcile them.

A queue of keys: each key once, never with two workers at the same time, failed keys after a backoff.

Only keys are queued. A worker reads the latest state, so that any number of events for a key become one reconcile.
"""

import heapq
import logging
import threading
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from berthmaster.controllers.metrics import RECONCILE_SECONDS, RECONCILES, RETRIES, ControllerLoad
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import BurstFilter, began_ns, bound, fields, new_reconcile_id, span

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


K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

_SUCCESSES: Final = frozenset({"success", "requeued"})
_LOG: Final = logging.getLogger("berthmaster.controllers")
_STEPS: Final = logging.getLogger("berthmaster.controllers.steps")
_STEPS.addFilter(BurstFilter(per_s=1000, burst=5000))


def count_reconcile(controller: str, result: str, seconds: float) -> None:
    """Count a reconcile; ``result`` is ``success``, ``requeued``, ``conflict``, ``error`` or ``crash``."""
    RECONCILES.labels(controller, result).inc()
    RECONCILE_SECONDS.labels(controller, result).observe(seconds)
    if result not in _SUCCESSES:
        RETRIES.labels(controller).inc()


@dataclass(frozen=True, slots=True)
class Requeue:
    """The result of a successful reconcile whose key must be reconciled again after some time."""

    after_s: float


class Reconciler(Protocol[K_contra]):
    """Brings the actual state to the desired state."""

    def reconcile(self, key: K_contra) -> Requeue | None:
        """Read the latest state of the object with this key, and write what is missing.

        Raises:
            ApiError: a read or a write failed. The key is retried with backoff.
        """


class Controller(Protocol):
    """A component that works while this process leads."""

    name: str

    def load(self) -> ControllerLoad:
        """Return how much there is to do. Any thread may call it, also before ``start``."""

    def start(self) -> None:
        """Start the workers. By then the informers are synced, and their events are queued."""

    def stop(self) -> None:
        """Start no further reconcile, and wait until running ones end or a timeout passes."""


class QueueController(Generic[K]):
    """The workers of one queue. It implements ``Controller``.

    Every record that is logged during a reconcile carries its ``reconcile_id``.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[K],
        queue: WorkQueue[K],
        clock: Clock,
        workers: int = 1,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconciler = reconciler
        self._clock = clock
        self._began_s: dict[str, float] = {}
        self._running = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._running = True

    def load(self) -> ControllerLoad:
        now_s = self._clock.monotonic_s()
        longest_s = max((now_s - began_s for began_s in list(self._began_s.values())), default=0.0)
        dead = sum(not thread.is_alive() for thread in self._threads) if self._running else 0
        return ControllerLoad(len(self.queue), longest_s, dead)

    def stop(self, timeout_s: float = 10.0) -> None:
        self._running = False
        self.queue.close()
        deadline_s = self._clock.monotonic_s() + timeout_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline_s - self._clock.monotonic_s()))

    def step(self, *, wait: bool = False) -> str | None:
        """Reconcile the next key. Return the result as metrics name it.

        Returns None if the queue is closed, or, without ``wait``, if no key is ready.
        """
        if (key := self.queue.take(wait=wait)) is None:
            return None
        worker = threading.current_thread().name
        started_s = self._began_s[worker] = self._clock.monotonic_s()
        added_ns = self.queue.added_ns(key)
        with bound(reconcile_id=new_reconcile_id()), span(self.name, since_ns=added_ns, key=str(key)):
            result = self.reconcile(key)
        self.queue.done(key)
        del self._began_s[worker]
        count_reconcile(self.name, result, self._clock.monotonic_s() - started_s)
        return result

    def _work(self) -> None:
        while self.step(wait=True) is not None:
            pass

    def reconcile(self, key: K) -> str:
        try:
            requeue = self._reconciler.reconcile(key)
        except ApiError as error:
            level = logging.DEBUG if error.conflict else logging.WARNING
            self._retry(key, error, level, error.retry_after_s)
            return "conflict" if error.conflict else "error"
        except BerthmasterError as error:
            self._retry(key, error, logging.WARNING)
            return "error"
        except Exception:  # noqa: BLE001 - the outermost edge: a crash must not end the worker
            _LOG.exception("%s: reconcile crashed", self.name, extra=fields(key=key, retry_s=self.queue.retry(key)))
            return "crash"
        self.queue.forget(key)
        if requeue is None:
            return "success"
        self.queue.add_after(key, requeue.after_s)
        if _STEPS.isEnabledFor(logging.DEBUG):
            _STEPS.debug("%s: requeued", self.name, extra=fields(key=key, after_s=requeue.after_s))
        return "requeued"

    def _retry(self, key: K, error: BerthmasterError, level: int, at_least_s: float = 0.0) -> None:
        retry_s = self.queue.retry(key, at_least_s)
        log = _LOG if level > logging.DEBUG else _STEPS
        log.log(
            level, "%s: reconcile failed, will be retried: %s", self.name, error, extra=fields(key=key, retry_s=retry_s)
        )
