"""A controller: workers that take keys from a queue and reconcile them."""

import logging
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from berthmaster.controllers.metrics import RECONCILE_SECONDS, RECONCILES, RETRIES, ControllerLoad
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import BurstFilter, bound, fields, new_reconcile_id
from berthmaster.runtime.traces import span

K = TypeVar("K", bound=Hashable)
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
