"""The binding scheduler put together."""

import logging
import threading
from dataclasses import dataclass, field
from typing import Final, Protocol

from berthmaster.controllers.binding_scheduler.bindings import Bindings
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.estimating import Estimating
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.reconciler import BindingReconciler, SchedulingMeter
from berthmaster.controllers.binding_scheduler.watching import IncomingMeter, Watching
from berthmaster.controllers.controller import ControllerLoad, QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.requests import Key
from berthmaster.runtime.logs import log_exceptions
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile

NAME: Final = "binding-scheduler"
_TICK_S: Final = 1.0
_LOG: Final = logging.getLogger("berthmaster.controllers")


class Meter(SchedulingMeter, IncomingMeter, Protocol):
    """All that the binding scheduler counts."""

    def waiting(self, lengths: dict[str, int], assumptions: int) -> None:
        """How many bindings wait, by the name of the queue, and how many assumptions hold."""


@dataclass(frozen=True, slots=True)
class Options:
    """How bindings are scheduled.

    Attributes:
        scheduler_name: the ``spec.schedulerName`` of the bindings that are taken.
        workers: how many are worked on at the same time; most of that time is waiting for the API server.
        profile: how decisions are made.
        priorities: more important bindings go first (gate ``PriorityBasedScheduling``).
        failover: what happens to workloads on clusters that are not ready.
    """

    scheduler_name: str = "berthmaster"
    workers: int = 16
    profile: Profile = field(default_factory=karmada_profile)
    priorities: bool = True
    failover: FailoverOptions = field(default_factory=FailoverOptions)


class BindingScheduler:
    """See ``Controller``."""

    name = NAME

    def __init__(
        self, context: ControllerContext, options: Options, meter: Meter, estimating: Estimating | None = None
    ) -> None:
        self._meter = meter
        self._estimating = estimating
        # The first informer is the first to tell: what bindings have on its way counts on clusters that are known.
        clusters = context.informer(*KARMADA_CLUSTERS)
        self._bindings = Bindings(context)
        self._desk = Desk(
            options.profile, context.clock, options.failover, estimating.ask if estimating is not None else None
        )
        self._queue = SchedulingQueue(context.clock, self._priority if options.priorities else lambda _: 0)
        self._watching = Watching(self._bindings, self._desk, self._queue, meter, options.scheduler_name)
        reconciler = BindingReconciler(
            self._bindings,
            self._desk,
            self._queue,
            context.client,
            context.recorder,
            meter,
            context.clock,
            options.scheduler_name,
        )
        self._workers: QueueController[Key] = QueueController(
            NAME, reconciler, self._queue, context.metrics, context.clock, options.workers
        )
        self._stopping = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name=f"{NAME}-ticker", daemon=True)
        if estimating is not None:
            clusters.subscribe(estimating.cluster_changed)
        clusters.subscribe(self._watching.cluster_changed)
        self._bindings.subscribe(self._watching.binding_changed)

    def load(self) -> ControllerLoad:
        """See ``Controller``."""
        return self._workers.load()

    def start(self) -> None:
        """See ``Controller``."""
        self._workers.start()
        self._ticker.start()

    def stop(self) -> None:
        """See ``Controller``."""
        self._stopping.set()
        self._workers.stop()
        self._ticker.join(_TICK_S)
        if self._estimating is not None:
            self._estimating.close()

    def _priority(self, key: Key) -> int:
        binding = self._bindings.get(key)
        priority = binding.spec.schedule_priority if binding is not None else None
        return priority.priority if priority is not None else 0

    def _tick(self) -> None:
        while not self._stopping.wait(_TICK_S):
            # The thread's outermost edge: without it nothing would be woken any more.
            log_exceptions(self._look, _LOG, "%s: the ticker crashed", NAME)

    def _look(self) -> None:
        self._desk.expire()
        self._watching.wake()
        self._meter.waiting(self._queue.lengths(), self._desk.assumptions())
