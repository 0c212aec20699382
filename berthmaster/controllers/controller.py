"""A controller: a queue of keys, and workers that reconcile one after the other."""

import logging
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from berthmaster.controllers.metrics import ControllerMetrics
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)
_LOG: Final = logging.getLogger("berthmaster.controllers")


@dataclass(frozen=True, slots=True)
class Requeue:
    """Work that went well, and is to be looked at again in a while."""

    after_s: float


class Reconciler(Protocol[K_contra]):
    """Brings about what should be."""

    def reconcile(self, key: K_contra) -> Requeue | None:
        """Look at the latest state of what ``key`` names, and write what is missing.

        Raises:
            ApiError: a write or a read failed: it is tried again.
        """


class ControllerLoad(NamedTuple):
    """How much a controller has to do.

    Attributes:
        waiting: keys that wait, for their time or a worker.
        longest_s: how long the work that began first is under way; 0 if nothing is.
        dead_workers: workers that have ended although nobody stopped them.
    """

    waiting: int = 0
    longest_s: float = 0.0
    dead_workers: int = 0


class Controller(Protocol):
    """Something that runs while this process leads.

    Attributes:
        name: as ``--controllers`` and metrics call it.
    """

    name: str

    def load(self) -> ControllerLoad:
        """How much there is to do; for metrics and health. Called from any thread, also before the start."""

    def start(self) -> None:
        """Start working. Informers have listed everything by then, and what they told is queued."""

    def stop(self) -> None:
        """Finish what is being worked on, and work on nothing any more. Returns when that is so, or given up."""


class QueueController(Generic[K]):
    """The workers of one queue.

    Attributes:
        name: as ``--controllers`` and metrics call it.
        queue: the keys that wait; informers' handlers add to it.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[K],
        queue: WorkQueue[K],
        metrics: ControllerMetrics,
        clock: Clock,
        workers: int = 1,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconciler = reconciler
        self._metrics = metrics
        self._clock = clock
        self._began_s: dict[str, float] = {}
        self._running = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(workers)
        ]

    def start(self) -> None:
        """See ``Controller``."""
        for thread in self._threads:
            thread.start()
        self._running = True

    def load(self) -> ControllerLoad:
        """See ``Controller``."""
        now_s = self._clock.monotonic_s()
        longest_s = max((now_s - began_s for began_s in list(self._began_s.values())), default=0.0)
        dead = sum(not thread.is_alive() for thread in self._threads) if self._running else 0
        return ControllerLoad(len(self.queue), longest_s, dead)

    def stop(self, timeout_s: float = 10.0) -> None:
        """See ``Controller``."""
        self._running = False
        self.queue.close()
        deadline_s = self._clock.monotonic_s() + timeout_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline_s - self._clock.monotonic_s()))

    def _work(self) -> None:
        worker = threading.current_thread().name
        while (key := self.queue.take()) is not None:
            started_s = self._began_s[worker] = self._clock.monotonic_s()
            result = self._reconcile(key)
            self.queue.done(key)
            del self._began_s[worker]
            self._metrics.reconciled(self.name, result, self._clock.monotonic_s() - started_s)

    def _reconcile(self, key: K) -> str:
        """Work on one key; how that went, in a word."""
        try:
            again = self._reconciler.reconcile(key)
        except ApiError as error:
            self.queue.retry(key, error.retry_after_s)
            level = logging.DEBUG if error.conflict else logging.WARNING
            _LOG.log(level, "%s: to be tried again: %s", self.name, error, extra=fields(key=key))
            return "conflict" if error.conflict else "error"
        except BerthmasterError as error:
            self.queue.retry(key)
            _LOG.warning("%s: to be tried again: %s", self.name, error, extra=fields(key=key))
            return "error"
        except Exception:  # noqa: BLE001 - the outermost edge: a key that crashes must not end the others' worker
            self.queue.retry(key)
            _LOG.exception("%s: crashed", self.name, extra=fields(key=key))
            return "crash"
        self.queue.forget(key)
        if again is None:
            return "success"
        self.queue.add_after(key, again.after_s)
        return "requeued"
