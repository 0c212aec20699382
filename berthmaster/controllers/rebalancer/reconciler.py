"""Reconcile a WorkloadRebalancer: mark bindings, write the status, delete the object after its time to live."""

import logging
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from berthmaster.controllers.controller import Controller, QueueController, Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer.progress import (
    BindingMissing,
    Marked,
    MarkOutcome,
    MarkOutcomes,
    NotMarked,
    RebalanceProgress,
    decide_progress,
    working_list,
)
from berthmaster.controllers.rebalancer.rebalance_events import mark_event, progress_events
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import APIRequest, Collection, binding_collection, delete, get, merge_patch
from berthmaster.model.binding import MINIMAL, REBALANCE, binding_name, minimal_mark
from berthmaster.model.decode import builtins, decode_json
from berthmaster.model.errors import ApiError, FieldError, shown
from berthmaster.model.meta import Key, ObjectMeta, Timestamp, Value
from berthmaster.model.rebalancer import FAILED, SUCCESSFUL, RebalancedWorkload, RebalancerStatus, WorkloadRebalancer
from berthmaster.model.selector import is_dns_subdomain
from berthmaster.runtime.logs import BurstFilter, fields

NAME: Final = "workload-rebalancer"
REBALANCERS: Final = Collection.of("apps.karmada.io/v1alpha1", "workloadrebalancers")
MAX_ATTEMPTS: Final = 5
"""How often an object is read and written again after conflicts. Then the queue delays further attempts."""
LONGEST_WAIT_S: Final = 3600.0
"""The longest wait for a deletion. The clock of the machine may be adjusted in the meantime."""
LONGEST_PASS_S: Final = 60.0
"""How long one pass marks bindings. Then the status is written, and the health check sees that the worker is alive."""
_API_VERSION: Final = "work.karmada.io/v1alpha2"
_LOG: Final = logging.getLogger("berthmaster.rebalancer")
_LOG.addFilter(BurstFilter(per_s=100, burst=1000))
_STEPS: Final = logging.getLogger("berthmaster.rebalancer.steps")
_STEPS.addFilter(BurstFilter(per_s=1000, burst=5000))


def controller(context: ControllerContext, settings: ControllerSettings) -> Controller:
    """Build the controller of WorkloadRebalancers.

    It reconciles a rebalancer that is new, whose spec has changed, or whose time to live is over. A changed status does
    not requeue it. Otherwise two running controllers would requeue each other's objects forever.
    """
    queue: WorkQueue[Key] = WorkQueue(context.clock)

    def handle(key: Key, before: WorkloadRebalancer | None, after: WorkloadRebalancer | None) -> None:
        if after is not None and (before is None or _relevant(before) != _relevant(after)):
            queue.add(key)

    context.informer(REBALANCERS, _decode).subscribe(handle)
    reconciler = RebalancerReconciler(context)
    return QueueController(NAME, reconciler, queue, context.clock, settings.concurrent_rebalancers)


class RebalancerReconciler:
    """Reconciles one rebalancer at a time; see ``Reconciler``."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._informer = context.informer(REBALANCERS, _decode)

    def reconcile(self, key: Key) -> Requeue | None:
        """Reconcile a rebalancer.

        The first pass uses the informer's object, because every write is valid only for the version that it was decided
        on. The deletion requires a fresh read after which nothing was left to do.
        """
        observed, fresh = self._informer.get(key), False
        outcomes: dict[RebalancedWorkload, MarkOutcome] = {}
        for _ in range(MAX_ATTEMPTS):
            if observed is None or observed.metadata.deletion_timestamp is not None:
                return None
            progress = self._advance(key, observed, outcomes)
            if progress is not None:
                if progress.open:
                    if (error := _retry_error(progress, outcomes)) is not None:
                        raise error
                    return Requeue(0.0)
                if progress.remaining_s is None:
                    return None
                if progress.remaining_s > 0:
                    return Requeue(min(progress.remaining_s, LONGEST_WAIT_S))
                if fresh and not progress.changed and self._delete(key, observed):
                    return None
            latest = self._read(key)
            if latest is not None and latest.metadata.uid != observed.metadata.uid:
                outcomes = {}
            observed, fresh = latest, True
        raise ApiError(
            HTTPStatus.CONFLICT, "Conflict", f"{REBALANCERS.plural} {key[1]}: other clients keep changing it"
        )

    def _advance(
        self, key: Key, rebalancer: WorkloadRebalancer, outcomes: dict[RebalancedWorkload, MarkOutcome]
    ) -> RebalanceProgress | None:
        """Mark the open workloads and write the status. Return None if the rebalancer has changed since."""
        started_s = self._clock.monotonic_s()
        self._mark(rebalancer, outcomes)
        progress = decide_progress(rebalancer, outcomes, self._clock.now())
        if not progress.changed:
            _STEPS.debug("the status is up to date", extra=fields(rebalancer=key[1], open=len(progress.open)))
            return progress
        patch = _status_patch(rebalancer, progress.status)
        if not self._sent(merge_patch(REBALANCERS, key, patch, "status")):
            _STEPS.debug("the rebalancer has changed", extra=fields(rebalancer=key[1]))
            return None
        events = list(progress_events(rebalancer, progress, outcomes))
        for event in events:
            self._recorder.record(event)
        reasons = [event.reason for event in events]
        duration_s = self._clock.monotonic_s() - started_s
        _LOG.info("rebalance", extra=fields(rebalancer=key[1], **_summary(rebalancer, progress, reasons, duration_s)))
        return progress

    def _mark(self, rebalancer: WorkloadRebalancer, outcomes: dict[RebalancedWorkload, MarkOutcome]) -> None:
        """Mark the bindings of open workloads until the API server is unavailable or the pass takes too long."""
        at = rebalancer.metadata.creation_timestamp
        if at is None:
            raise FieldError(
                "metadata.creationTimestamp", f"{rebalancer.metadata.name} has none: no binding can be marked"
            )
        way = rebalancer.metadata.annotations.get(REBALANCE)
        if way not in {None, MINIMAL}:  # without it more replicas would move than the user wants
            raise FieldError(
                f"metadata.annotations[{REBALANCE}]", f"{shown(way)} is not accepted; use {MINIMAL}, or no annotation"
            )
        until_s = self._clock.monotonic_s() + LONGEST_PASS_S
        for item in working_list(rebalancer):
            if not item.open or item.workload in outcomes:
                continue
            if self._clock.monotonic_s() >= until_s:
                return
            outcome = outcomes[item.workload] = mark(self._client, item.workload, at, minimal=way is not None)
            _STEPS.debug("workload tried", extra=fields(workload=str(item.workload), outcome=type(outcome).__name__))
            match outcome:
                case Marked():
                    if (event := mark_event(rebalancer, at, outcome)) is not None:
                        self._recorder.record(event)
                case NotMarked(error) if error.unavailable:
                    return

    def _delete(self, key: Key, rebalancer: WorkloadRebalancer) -> bool:
        """Delete the rebalancer if it has not changed since it was read. Return whether it was deleted."""
        metadata = rebalancer.metadata
        deleted = self._sent(delete(REBALANCERS, key, uid=metadata.uid, resource_version=metadata.resource_version))
        if deleted:
            _LOG.info("deleted", extra=fields(rebalancer=key[1], reason="ttlSecondsAfterFinished has passed"))
        return deleted

    def _sent(self, request: APIRequest) -> bool:
        """Send a write. Return False if its object has changed or was deleted."""
        try:
            ask(self._client, request)
        except ApiError as error:
            if error.conflict or is_gone(error):
                return False
            raise
        return True

    def _read(self, key: Key) -> WorkloadRebalancer | None:
        try:
            return _decode(ask(self._client, get(REBALANCERS, key)))
        except ApiError as error:
            if is_gone(error):
                return None
            raise


def _decode(document: bytes) -> WorkloadRebalancer:
    return decode_json(WorkloadRebalancer, document)


def _relevant(rebalancer: WorkloadRebalancer) -> tuple[object, ...]:
    return rebalancer.spec, rebalancer.metadata.uid


def _status_patch(rebalancer: WorkloadRebalancer, status: RebalancerStatus) -> dict[str, Any]:
    """Return the patch of the whole status. It is valid only for the version that it was decided on."""
    metadata = rebalancer.metadata
    guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return {"metadata": guard, "status": builtins(status)}


def _summary(
    rebalancer: WorkloadRebalancer, progress: RebalanceProgress, reasons: list[str], duration_s: float
) -> dict[str, object]:
    """Return the fields of a log record: how many workloads had and have each result."""
    before = [item.result for item in rebalancer.status.observed_workloads]
    after = [item.result for item in progress.status.observed_workloads]
    return {
        "before": {"successful": before.count(SUCCESSFUL), "failed": before.count(FAILED)},
        "after": {"successful": after.count(SUCCESSFUL), "failed": after.count(FAILED)},
        "open": len(progress.open),
        "reason": ", ".join(reasons),
        "duration_ms": round(duration_s * 1000, 3),
    }


def _retry_error(progress: RebalanceProgress, outcomes: MarkOutcomes) -> ApiError | None:
    """Return the error that requeues a rebalancer with backoff, or None if only the time of the pass was over."""
    errors = [outcome.error for outcome in outcomes.values() if isinstance(outcome, NotMarked)]
    if not errors:
        return None
    first = errors[0]
    total = len(progress.status.observed_workloads)
    message = f"{len(progress.open)} of {total} workloads are not marked yet: {first}"
    return ApiError(first.status, first.reason, message, max(error.retry_after_s for error in errors))


class _MarkableSpec(Value, frozen=True):
    reschedule_triggered_at: Timestamp | None = None


class _MarkableStatus(Value, frozen=True):
    last_scheduled_time: Timestamp | None = None


class MarkableBinding(Value, frozen=True):
    """The fields of a binding that this controller reads. Other fields may be invalid."""

    metadata: ObjectMeta
    spec: _MarkableSpec = _MarkableSpec()
    status: _MarkableStatus = _MarkableStatus()


def is_gone(error: ApiError) -> bool:
    """Return whether an error says that the object does not exist.

    A 404 without the reason ``NotFound`` is not enough: it also means that the kind is not served, or not yet. A
    permanent failure must not be concluded from that.
    """
    return error.status == HTTPStatus.NOT_FOUND and error.reason == "NotFound"


def binding_of(workload: RebalancedWorkload) -> tuple[Collection, Key] | None:
    """Return the collection and the key of a workload's binding, or None if no binding can have that name.

    Users write the names, and the names become parts of URL paths. Only valid names pass.
    """
    name = binding_name(workload.kind, workload.name)
    if not is_dns_subdomain(name) or not (workload.namespace == "" or is_dns_subdomain(workload.namespace)):
        return None
    key = (workload.namespace, name)
    return binding_collection(key), key


def mark(client: APIClient, workload: RebalancedWorkload, at: datetime, *, minimal: bool = False) -> MarkOutcome:
    """Mark the binding of a workload, unless it has the same mark or a later one.

    The scheduler reschedules a binding whose mark is later than its last scheduling. The write is valid only for the
    version that was read. After a conflict the binding is read again.
    """
    where = binding_of(workload)
    if where is None:
        return BindingMissing()
    conflict: ApiError
    for _ in range(MAX_ATTEMPTS):
        try:
            return _mark_once(client, where, at, minimal=minimal)
        except FieldError as error:
            message = f"the binding {'/'.join(filter(None, where[1]))} is unreadable: {error}"
            return NotMarked(ApiError(HTTPStatus.OK, "", message))  # the API server works: continue with other bindings
        except ApiError as error:
            if is_gone(error):
                return BindingMissing()
            if not error.conflict:
                return NotMarked(error)
            conflict = error
    return NotMarked(conflict)


def _mark_once(client: APIClient, where: tuple[Collection, Key], at: datetime, *, minimal: bool) -> Marked:
    """Read a binding and mark it if needed. A mark is never replaced by an earlier one."""
    collection, key = where
    binding = decode_json(MarkableBinding, ask(client, get(collection, key)))
    marked_at, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
    if marked_at is not None and marked_at >= at:
        return Marked()
    metadata: dict[str, Any] = {"uid": binding.metadata.uid, "resourceVersion": binding.metadata.resource_version}
    if minimal:
        metadata["annotations"] = {REBALANCE: minimal_mark(at)}
    ask(client, merge_patch(collection, key, {"metadata": metadata, "spec": {"rescheduleTriggeredAt": at}}))
    scheduled_later_at = last if last is not None and last >= at else None
    kind = "ResourceBinding" if key[0] else "ClusterResourceBinding"
    return Marked(Reference(_API_VERSION, kind, *key, binding.metadata.uid), scheduled_later_at)
