"""Bindings that a FederatedResourceQuota refused are tried again when their quota becomes looser.

karmada-webhook checks quotas when an assignment is written. The kind and the right to watch it are optional: without
them, a refused binding is only tried again with backoff.
"""

from typing import Final

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.metrics import SchedulingMetrics
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.deciding.writes import QUOTA_EXCEEDED
from berthmaster.kube.kinds import FEDERATED_QUOTAS
from berthmaster.model.binding import SCHEDULED, Binding
from berthmaster.model.meta import Key
from berthmaster.model.quota import FederatedResourceQuota, is_looser

SETTLE_S: Final = 0.25
"""How long a binding waits after a change: karmada-webhook watches quotas as well, and must see the change first."""
_WITHOUT_QUOTAS: Final = (
    "a binding that a FederatedResourceQuota refused is retried with backoff, and not as soon as the quota allows it"
)


class QuotaWatch:
    """Queues refused bindings. Only those that wait for their backoff can be refused ones, so no other is looked at."""

    def __init__(
        self, context: ControllerContext, bindings: BindingCache, queue: SchedulingQueue, metrics: SchedulingMetrics
    ) -> None:
        self._bindings = bindings
        self._queue = queue
        self._metrics = metrics
        context.optional_informer(*FEDERATED_QUOTAS, _WITHOUT_QUOTAS).subscribe(self._quota_changed)

    def _quota_changed(
        self, key: Key, before: FederatedResourceQuota | None, after: FederatedResourceQuota | None
    ) -> None:
        if before is None or not is_looser(before, after):
            return
        for each in self._queue.backing_off():
            if each[0] != key[0]:
                continue
            binding = self._bindings.get(each)
            if binding is not None and _was_refused(binding):
                self._metrics.incoming("QuotaChanged")
                self._queue.add_after(each, SETTLE_S)


def _was_refused(binding: Binding) -> bool:
    return any(each.type == SCHEDULED and each.reason == QUOTA_EXCEEDED for each in binding.status.conditions)
