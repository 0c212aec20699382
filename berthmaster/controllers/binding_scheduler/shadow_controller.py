"""The binding scheduler in shadow mode: it decides for the bindings of another scheduler, and writes nothing.

It decides in the thread of the informer: a decision is compared with the version of a binding that has the answer, and
the caches must have the state between the two. A slow estimator delays only the next comparison.
"""

import logging
import threading
from typing import Final

from prometheus_client import Counter, Gauge

from berthmaster.controllers.binding_scheduler import shadow
from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import eligible
from berthmaster.controllers.binding_scheduler.shadow import ShadowResult, ShadowResults
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.estimators.estimators import open_estimators
from berthmaster.controllers.metrics import ControllerLoad
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.decide import BindingDecision
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import Key, object_name
from berthmaster.model.move import move_of
from berthmaster.model.unsupported_placement import unsupported_parts
from berthmaster.runtime.feature_gates import SCHEDULING_OVERCOMMIT_PROTECTION
from berthmaster.runtime.logs import BurstFilter, fields
from berthmaster.runtime.stopping import RepeatingThread
from berthmaster.scheduling.karmada.trigger import Trigger

NAME: Final = "shadow-scheduler"
PAGE: Final = "/shadow"
SHADOW_DECISIONS: Final = Counter(
    "berthmaster_shadow_decisions", "Decisions that were compared, by result and reason.", ("result", "reason")
)
SHADOW_BINDINGS: Final = Gauge(
    "berthmaster_shadow_bindings", "Bindings by their latest result and reason.", ("result", "reason")
)
_TICK_S: Final = 1.0
_LOG: Final = logging.getLogger("berthmaster.shadow")
_LOG.addFilter(BurstFilter(per_s=100, burst=1000))


class ShadowScheduler:
    """Compares decisions. It implements ``Controller``."""

    name = NAME

    def __init__(self, context: ControllerContext, settings: ControllerSettings) -> None:
        """Subscribe to clusters and bindings.

        Raises:
            InputError: the settings of the estimators are invalid, or gRPC is not installed.
        """
        self._clock = context.clock
        self._scheduler_name = settings.scheduler_name
        self._estimators = (
            None if settings.estimators is None else open_estimators(settings.estimators, context.client, context.clock)
        )
        clusters = context.informer(*KARMADA_CLUSTERS)
        self._bindings = BindingCache(context, hold_unknown=settings.unknown_fields == "hold")
        self._clusters = ClusterCache(
            settings.profile,
            context.clock,
            FailoverOptions(settings.failover_after_s, settings.scheduler_name),
            None if self._estimators is None else self._estimators.max_available,
            overcommit_protection=settings.gates.on(SCHEDULING_OVERCOMMIT_PROTECTION),
        )
        self._since = context.clock.now()
        self._asked: dict[Key, Binding] = {}
        self._results = ShadowResults()
        self._lock = threading.Lock()
        self._ticker = RepeatingThread(
            f"{NAME}-ticker", self._housekeep, lambda: _TICK_S, _LOG, f"{NAME}: the ticker crashed"
        )
        clusters.subscribe(self._cluster_changed)
        self._bindings.subscribe(self._binding_changed)
        context.pages[PAGE] = self._page

    def load(self) -> ControllerLoad:
        return ControllerLoad()

    def start(self) -> None:
        self._ticker.start()

    def stop(self) -> None:
        self._ticker.stop()
        self._ticker.join(_TICK_S)
        if self._estimators is not None:
            self._estimators.close()

    def report(self) -> dict[str, object]:
        with self._lock:
            return {
                "scheduler": self._scheduler_name,
                "since": self._since.isoformat(timespec="seconds"),
                **self._results.report(),
            }

    def _page(self) -> tuple[str, bytes]:
        return "application/json", encode_json(self.report())

    def _cluster_changed(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        if after is None:
            if before is not None:
                self._clusters.remove_cluster(before.name)
                if self._estimators is not None:
                    self._estimators.remove(before.name)
            return
        if self._estimators is not None:
            self._estimators.add(after.name)
        self._clusters.update_cluster(after)

    def _binding_changed(self, key: Key, before: Binding | None, after: Binding | None) -> None:
        if before is not None and (after is None or before.metadata.uid != after.metadata.uid):
            self._clusters.remove_binding(key, before)
            self._drop(key)
            before = None
        if after is None:
            return
        # The answer is compared before its assignment counts.
        if not self._is_compared(after):
            self._drop(key)
        elif (asked := self._asked.get(key)) is not None and shadow.is_answered(asked, after):
            self._compare(key, self._clusters.preview(asked), asked, after)
        self._clusters.observe_assignment(key, before, after)
        if before is not None:
            self._clusters.observe_health(key, before, after)
        if self._is_compared(after):
            self._ask(key, after)

    def _is_compared(self, binding: Binding) -> bool:
        """Whether decisions for a binding are compared. While it moves, its assignment is no single decision."""
        move = move_of(binding)
        return (
            eligible(binding, self._scheduler_name)
            and binding.spec.placement is not None
            and binding.metadata.deletion_timestamp is None
            and (move is None or not move.under_way)
        )

    def _ask(self, key: Key, binding: Binding) -> None:
        """Remember a version of a binding for which a decision is due, until the scheduler has answered."""
        trigger = self._clusters.trigger(binding)
        if key not in self._asked and self._results.result_of(key) is None and shadow.is_settled(binding, trigger):
            self._compare(key, self._clusters.preview(binding), binding, binding)
        self._asked[key] = binding
        with self._lock:
            if trigger is not Trigger.NONE and self._results.result_of(key) is None:
                self._results.set(key, ShadowResult.WAITING)

    def _compare(self, key: Key, decision: BindingDecision, asked: Binding, after: Binding) -> None:
        held = bool(unsupported_parts(asked.spec.placement))
        found = shadow.difference(decision, after, self._clock.now(), held=held)
        due = decision.trigger is not Trigger.NONE or found is not None
        result = ShadowResult.DIFFERENT if found is not None else ShadowResult.SAME if due else ShadowResult.KEPT
        with self._lock:
            if not due and self._results.result_of(key) not in {None, ShadowResult.WAITING}:
                return  # a comparison of two decisions says more
            self._results.set(key, result, found, counts=due)
        if due:
            SHADOW_DECISIONS.labels(result.value, found.reason.value if found is not None else "").inc()
        if found is not None:
            _LOG.info(
                "the decision differs from that of the other scheduler",
                extra=fields(binding=object_name(*key), **shadow.summary(found)),
            )

    def _drop(self, key: Key) -> None:
        self._asked.pop(key, None)
        with self._lock:
            self._results.remove(key)

    def _housekeep(self) -> None:
        self._clusters.expire()
        with self._lock:
            bindings = self._results.bindings()
        SHADOW_BINDINGS.clear()
        for (result, reason), count in bindings.items():
            SHADOW_BINDINGS.labels(result.value, reason).set(count)
