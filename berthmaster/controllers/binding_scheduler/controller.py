"""The binding scheduler as a controller: its parts, its workers and its ticker.

Bindings that a FederatedResourceQuota refused are tried again when their quota becomes looser.

karmada-webhook checks quotas when an assignment is written. The kind and the right to watch it are optional: without
them, a refused binding is only tried again with backoff.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import EventHandlers
from berthmaster.controllers.binding_scheduler.ignored_gates import IgnoredGates
from berthmaster.controllers.binding_scheduler.kept_quotas import WITHOUT, KeptQuotas
from berthmaster.controllers.binding_scheduler.metrics import ASSUMPTIONS, INCOMING, PENDING
from berthmaster.controllers.binding_scheduler.reconciler import BindingReconciler
from berthmaster.controllers.binding_scheduler.scheduling_queue import SchedulingQueue
from berthmaster.controllers.controller import QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.estimators.estimators import open_estimators
from berthmaster.controllers.metrics import ControllerLoad
from berthmaster.controllers.moves.control import LiveControl
from berthmaster.controllers.moves.copies_reader import read_copies
from berthmaster.controllers.moves.policy_annotations import PolicyAnnotations
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import QUOTA_EXCEEDED
from berthmaster.kube.kinds import FEDERATED_QUOTAS, KARMADA_CLUSTERS
from berthmaster.model.binding import Binding, names_scheduler
from berthmaster.model.meta import Key
from berthmaster.model.work import FederatedResourceQuota, is_looser
from berthmaster.runtime.feature_gates import PRIORITY_BASED_SCHEDULING, SCHEDULING_OVERCOMMIT_PROTECTION
from berthmaster.runtime.stopping import RepeatingThread

SETTLE_S: Final = 0.25
"""How long a binding waits after a change: karmada-webhook watches quotas as well, and must see the change first."""
NAME: Final = "binding-scheduler"
_TICK_S: Final = 1.0
_LOG: Final = logging.getLogger("berthmaster.controllers")


def _watch_quotas(context: ControllerContext, bindings: BindingCache, queue: SchedulingQueue) -> None:
    """Queue refused bindings. Looks at keys in backoff only: a refused write is always there."""

    def changed(key: Key, before: FederatedResourceQuota | None, after: FederatedResourceQuota | None) -> None:
        if before is None or not is_looser(before, after):
            return
        for each in queue.backing_off():
            if each[0] == key[0] and (binding := bindings.get(each)) is not None and _was_refused(binding):
                INCOMING.labels("QuotaChanged").inc()
                queue.add_after(each, SETTLE_S)

    context.optional_informer(*FEDERATED_QUOTAS, WITHOUT).subscribe(changed)


def _was_refused(binding: Binding) -> bool:
    return binding.scheduled is not None and binding.scheduled.reason == QUOTA_EXCEEDED


class BindingScheduler:
    """Schedules bindings. It implements ``Controller``."""

    name = NAME

    def __init__(
        self,
        context: ControllerContext,
        settings: ControllerSettings,
        control: LiveControl | None = None,
    ) -> None:
        """Subscribe to clusters and bindings; nothing runs before ``start``.

        Args:
            control: the configuration of moves and the storm brake; None for those of the settings.

        Raises:
            InputError: the settings of the estimators are invalid, gRPC is not installed, or a file is missing.
        """
        self._scheduler_name = settings.scheduler_name
        self._estimators = (
            None if settings.estimators is None else open_estimators(settings.estimators, context.client, context.clock)
        )
        # Clusters come first: replicas that are assumed for a binding count only on known clusters.
        clusters = context.informer(*KARMADA_CLUSTERS)
        # The storm brake observes a lost cluster before the caches do, so that no failover is faster.
        self._control = LiveControl(context, settings.moves_config, settings.scheduler_name)
        self._control.storm.follow(clusters)
        self._bindings = BindingCache(context, hold_unknown=settings.unknown_fields == "hold")
        # Without a configuration of moves no right to read policies is needed.
        annotations = PolicyAnnotations(context) if control is not None or settings.moves_config is not None else None
        self._moves = MoveSupervisor(control or self._control, context.clock, settings.scheduler_name, annotations)
        quotas = KeptQuotas(context, self._moves)
        self._clusters = ClusterCache(
            settings.profile,
            context.clock,
            FailoverOptions(settings.failover_after_s, settings.scheduler_name),
            None if self._estimators is None else self._estimators.max_available,
            keeps_inputs=context.decisions is not None,
            moves=self._moves,
            read_copies=partial(read_copies, context.client, self._bindings.needs.needing, quotas.of),
            overcommit_protection=settings.gates.on(SCHEDULING_OVERCOMMIT_PROTECTION),
        )
        by_priority = settings.gates.on(PRIORITY_BASED_SCHEDULING)
        self.queue = SchedulingQueue(context.clock, self._bindings.priority if by_priority else lambda _: 0)
        reconciler = BindingReconciler(
            self._bindings, self._clusters, self.queue, context, settings.scheduler_name, self._moves, settings.console
        )
        self._times = reconciler.times
        self._handlers = EventHandlers(
            self._bindings, self._clusters, self.queue, settings.scheduler_name, self._moves, self._times,
            self._estimators,
        )  # fmt: skip
        self.workers = QueueController(NAME, reconciler, self.queue, context.clock, settings.concurrent_bindings)
        # Without the ticker no unschedulable binding would be activated any more.
        self._ticker = RepeatingThread(
            f"{NAME}-ticker", self.housekeep, lambda: _TICK_S, _LOG, f"{NAME}: the ticker crashed"
        )
        clusters.subscribe(self._handlers.keep_cluster, standby=True)
        clusters.subscribe(self._handlers.cluster_changed)
        ignored = IgnoredGates(settings.gates)
        self._bindings.subscribe(
            self._handlers.binding_changed, ignored.binding_changed, standby=self._handlers.keep_binding
        )
        _watch_quotas(context, self._bindings, self.queue)
        if annotations is not None:
            annotations.subscribe(self._handlers.policy_changed)

    def load(self) -> ControllerLoad:
        return self.workers.load()

    def start(self) -> None:
        self._moves.begin()
        self._clusters.expire()  # a standby does not
        self.workers.start()
        self._ticker.start()

    def stop(self) -> None:
        self._ticker.stop()
        self.workers.stop()
        self._ticker.join(_TICK_S)
        if self._estimators is not None:
            self._estimators.close()

    def _own(self, bindings: Iterator[tuple[Key, Binding]]) -> Iterator[tuple[Key, Binding]]:
        return (each for each in bindings if names_scheduler(each[1], self._scheduler_name))

    def housekeep(self) -> None:
        """Do what is due every second: expire assumed replicas, activate unschedulable bindings, look at the brake."""
        self._clusters.expire()
        self._handlers.activate_unschedulable()
        self._handlers.look_for_drift()
        for key in self._times.next():
            self.queue.add_late(key)
        if self._control.tick(self._own(self._bindings.items()), self._own(self._bindings.moving())):
            self._handlers.moves_changed()
        for part, count in self.queue.lengths().items():
            PENDING.labels(part).set(count)
        ASSUMPTIONS.set(self._clusters.assumed_count())
