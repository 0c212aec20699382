"""Reconcile one key of the preemption controller, and build the controller."""

import logging
from typing import Final

from berthmaster.controllers.controller import Controller, QueueController, Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.preemption.claim_store import ClaimStore
from berthmaster.controllers.preemption.event_handlers import PolicyHandler, PreemptionKey
from berthmaster.controllers.preemption.policy_index import NamedKind, PolicyIndex
from berthmaster.controllers.preemption.takeover import PreemptionEvents, Takeover
from berthmaster.controllers.preemption.watches import ResourceWatches
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.kube.served_types import Discovery
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource, named_resources
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION, PriorityDrop, parse_priority_drop
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields

NAME: Final = "preemption"
NOT_CLEARED_WAIT_S: Final = 600.0
"""Seconds until a drop is handled again after admission has restored its record."""
UNSERVED_WAIT_S: Final = 30.0
"""Seconds between two requests for a kind that the API server does not serve."""
SERVED_WAIT_S: Final = 300.0
"""Seconds between two checks that the API server still serves a watched kind."""
_LOG: Final = logging.getLogger("berthmaster.preemption")


class PreemptionReconciler:
    """Reconciles a resource, the watch of a kind, or a recorded priority drop; see ``Reconciler``."""

    def __init__(
        self,
        store: ClaimStore,
        index: PolicyIndex,
        watches: ResourceWatches,
        takeover: Takeover,
        events: PreemptionEvents,
        clock: Clock,
    ) -> None:
        self._store = store
        self._index = index
        self._watches = watches
        self._takeover = takeover
        self._events = events
        self._clock = clock

    def reconcile(self, key: PreemptionKey) -> Requeue | None:
        match key:
            case Resource():
                return self._takeover.settle(key)
            case PolicyReference():
                return self._handle_drop(key)
            case NamedKind():
                return self._sync_watch(key)

    def _sync_watch(self, kind: NamedKind) -> Requeue | None:
        synced = self._watches.sync(kind)
        if not self._index.names_kind(kind):
            return None
        return Requeue(SERVED_WAIT_S if synced else UNSERVED_WAIT_S)

    def _handle_drop(self, reference: PolicyReference) -> Requeue | None:
        """Run preemption for newly eligible policies, then remove the record of the drop.

        The record is removed only if the policy has not changed since it was read. A later drop is not lost.
        """
        started_s = self._clock.monotonic_s()
        dropped = self._store.policy(reference)
        annotations = dropped.metadata.annotations if dropped is not None else {}
        drop = parse_priority_drop(annotations.get(PRIORITY_DROP_ANNOTATION))
        if dropped is None or drop is None:
            return None
        self._settle_eligible(drop, dropped)
        after = self._store.remove_annotation(dropped, PRIORITY_DROP_ANNOTATION)
        if after is None:
            return None
        if PRIORITY_DROP_ANNOTATION in after.metadata.annotations:
            self._events.not_cleared(dropped)
            return Requeue(NOT_CLEARED_WAIT_S)
        self._events.drop_handled(dropped, drop)
        duration_ms = round((self._clock.monotonic_s() - started_s) * 1000, 3)
        values = fields(policy=str(dropped), before=drop.from_, after=drop.to, duration_ms=duration_ms)
        _LOG.info("priority drop handled", extra=values)
        return None

    def _settle_eligible(self, drop: PriorityDrop, dropped: Policy) -> None:
        """Settle what newly eligible policies name, the strongest policy first.

        A failure does not stop the others, unless the API server is unavailable.
        """
        eligible = (named_resources(policy) for policy in self._index.newly_eligible(drop, dropped))
        failure: BerthmasterError | None = None
        for resource in dict.fromkeys(resource for resources in eligible for resource in resources):
            try:
                self._takeover.settle(resource)
            except BerthmasterError as error:
                failure = failure or error
                if isinstance(error, ApiError) and error.unavailable:
                    break
        if failure is not None:
            raise failure


class PreemptionController(QueueController[PreemptionKey]):
    """A queue controller that also stops its watches."""

    def __init__(
        self,
        context: ControllerContext,
        reconciler: PreemptionReconciler,
        queue: WorkQueue[PreemptionKey],
        watches: ResourceWatches,
    ) -> None:
        super().__init__(NAME, reconciler, queue, context.clock)
        self.watches = watches

    def stop(self, timeout_s: float = 10.0) -> None:
        super().stop(timeout_s)
        self.watches.stop()


def controller(context: ControllerContext, _settings: ControllerSettings) -> Controller:
    """Build the preemption controller. The caller checks the feature gate."""
    queue: WorkQueue[PreemptionKey] = WorkQueue(context.clock)
    index = PolicyIndex()
    handler = PolicyHandler(index, queue.add)
    informers = {kind: context.informer(watched.collection, watched.read) for kind, watched in POLICIES_BY_KIND.items()}
    for informer in informers.values():
        informer.subscribe(handler)

    def observed(policy: PolicyReference) -> Policy | None:
        return informers[policy.kind].get((policy.namespace, policy.name))

    store = ClaimStore(context.client, Discovery(context.client, context.clock))
    events = PreemptionEvents(context.recorder, context.decisions)
    takeover = Takeover(store, index, observed, events, context.clock)
    watches = ResourceWatches(store, context.clock, index, queue.add)
    reconciler = PreemptionReconciler(store, index, watches, takeover, events, context.clock)
    return PreemptionController(context, reconciler, queue, watches)
