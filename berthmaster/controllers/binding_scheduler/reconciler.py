"""Reconcile one binding: decide, write the assignment, write the status, record events, log the decision."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec.structs

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import eligible
from berthmaster.controllers.binding_scheduler.kept_quotas import KeptQuotas
from berthmaster.controllers.binding_scheduler.metrics import ATTEMPTS, DURATION
from berthmaster.controllers.binding_scheduler.scheduling_queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.scheduling_times import SchedulingTimes
from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.decide import BindingDecision, outcome_of
from berthmaster.deciding.decision_recorder import DecisionRecord
from berthmaster.deciding.writes import QUOTA_EXCEEDED, SCHEDULER_ERROR, SchedulingResult, Version, status_write
from berthmaster.kube.client import ask
from berthmaster.kube.events import NOTE_BYTES, EventContent, Reference, truncate
from berthmaster.kube.requests import ONLY_METADATA, binding_collection, merge_patch
from berthmaster.model.binding import Binding, short_assignment
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.model.meta import Key, object_name
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.runtime.logs import BurstFilter, bound_fields, fields
from berthmaster.runtime.traces import exemplar, inner_span
from berthmaster.scheduling.karmada.trigger import Trigger

MAX_PENDING: Final = 10_000
"""How many bindings may wait for their status. Each takes 4 KiB: the assignment, and the binding as it was written."""
_ACTION: Final = "Scheduling"
_SUCCEEDED: Final = "ScheduleBindingSucceed"
_FAILED: Final = "ScheduleBindingFailed"
_FAILOVER_BLOCKED: Final = "FailoverBlocked"

_LOG: Final = logging.getLogger("berthmaster.binding_scheduler")
_LOG.addFilter(BurstFilter(per_s=100, burst=1000))
_STEPS: Final = logging.getLogger("berthmaster.binding_scheduler.steps")
_STEPS.addFilter(BurstFilter(per_s=1000, burst=5000))


class _PatchResponse(msgspec.Struct, frozen=True):
    metadata: Version


class _PendingStatus(NamedTuple):
    """The status and events of an assignment that was written, and whose status was not.

    Attributes:
        at: the time of the decision. A retry after a lost response writes the same time.
    """

    binding: Binding
    decision: BindingDecision
    at: datetime


class _Written(NamedTuple):
    decision: BindingDecision
    refusal: ApiError | None = None


class BindingReconciler:
    """Reconciles bindings. It implements ``Reconciler``.

    While other bindings wait for an assignment, the status and the events of this one are delayed. In a burst that
    halves the time until every workload is assigned. A process that ends meanwhile loses only events: the binding
    itself records the group of its assignment, and the next process completes a stale status.
    """

    def __init__(
        self,
        bindings: BindingCache,
        clusters: ClusterCache,
        queue: SchedulingQueue,
        context: ControllerContext,
        scheduler_name: str,
        moves: MoveSupervisor,
        console: ConsoleLink | None = None,
    ) -> None:
        self._console = console
        self._moves = moves
        self._quotas = KeptQuotas(context, moves)
        self._bindings = bindings
        self._clusters = clusters
        self._queue = queue
        self._client = context.client
        self._recorder = context.recorder
        self._clock = context.clock
        self._decisions = context.decisions
        self._scheduler_name = scheduler_name
        self._pending: dict[Key, _PendingStatus] = {}
        self.times = SchedulingTimes()

    def reconcile(self, key: Key) -> Requeue | None:
        try:
            return self._reconcile(key)
        except ApiError as error:
            if not error.not_found:
                raise
        # The binding was deleted before a write. Its event may arrive later, so free its capacity now.
        self._clusters.observe(key, None)
        self._pending.pop(key, None)
        return None

    def _reconcile(self, key: Key) -> Requeue | None:
        # 1. Take the latest binding, and complete what the last reconcile could not write.
        binding = self._bindings.get(key)
        self._clusters.observe(key, binding)
        if binding is None:
            self._pending.pop(key, None)
        else:
            binding = self._complete(key, binding)
        if binding is None or not self._concerns(binding):
            self._queue.remove(key)
            self.times.forget(key)
            self._moves.waiting.update(key, waits=False)
            return None
        # 2. Decide, and assume the assignment, so that the next decision sees it.
        started_s = self._clock.monotonic_s()
        with inner_span("decide"):
            decision = self._clusters.decide_and_assume(key, binding, explain=_STEPS.isEnabledFor(logging.DEBUG))
        record = self._record_of(binding, decision)
        for attempt in decision.attempts:
            _STEPS.debug("group tried", extra=fields(binding=object_name(*key), **attempt))
        # 3. Write the assignment, the status and the events.
        try:
            written = self._write(key, binding, decision)
        except ApiError as error:
            pending = self._pending.get(key)
            assigned = pending is not None and pending.decision is decision  # only the status was not written
            self._finish("error", key, decision, started_s, error)
            self._record_decision(record, started_s, "" if assigned else str(error))
            raise
        if written.refusal is not None:
            self._finish("error", key, decision, started_s, written.refusal)
            self._record_decision(record, started_s, str(written.refusal))
            decision = written.decision
        else:
            self._record_decision(record, started_s)
        # 4. Say what came of it, and when to look again.
        if decision.attempted:
            self._finish("scheduled" if decision.result.ok else "unschedulable", key, decision, started_s)
        else:
            _STEPS.debug("unchanged", extra=fields(binding=object_name(*key), trigger=decision.trigger.value))
        if decision.waits_for_capacity:
            self._queue.add_unschedulable(key, binding.spec.placement)
        self._moves.waiting.update(key, waits=decision.waits_for_place)
        return Requeue(decision.requeue_after_s) if decision.requeue_after_s is not None else None

    def _concerns(self, binding: Binding) -> bool:
        return (
            eligible(binding, self._scheduler_name)
            and binding.metadata.deletion_timestamp is None
            and binding.spec.placement is not None
        )

    def _write(self, key: Key, binding: Binding, decision: BindingDecision, *, instead: bool = False) -> _Written:
        """Write a decision, or what is to be written instead if the API server refuses it.

        If a write fails otherwise, the next decision for the binding completes it.
        """
        now = self._clock.now()
        if decision.refresh:
            self.times.forget(key)
        if decision.write is None:
            due = self.times.due(key, now) if decision.has_same_result and not decision.refresh else None
            self._write_status(key, binding, decision, due or now, refresh=decision.refresh or due is not None)
            if due is not None:
                self.times.forget(key)
            self._record_events(binding, decision)
            return _Written(decision)
        try:
            self._quotas.check(key, binding, decision.write.annotated(binding))
            version = self._patch(key, decision.write.patch(binding))
        except BerthmasterError as error:  # a response that cannot be decoded counts as lost
            self._clusters.mark_unconfirmed(key, decision)
            refused = isinstance(error, ApiError) and (error.rejected or error.conflict)
            self._moves.refused(key) if refused else self._moves.lost(key)
            if isinstance(error, ApiError) and error.rejected and not instead:
                return self._refused(key, binding, decision, error)
            raise
        latest = decision.write.applied(binding, version)
        self._bindings.add_written(key, binding, latest)
        self._moves.written(key, binding, latest)
        self._pending[key] = _PendingStatus(latest, decision, now)
        if self._queue.busy and len(self._pending) <= MAX_PENDING:
            self._queue.add_late(key)
            _STEPS.debug("status delayed", extra=fields(binding=object_name(*key)))
        else:
            self._complete(key, latest)
        return _Written(decision)

    def _refused(self, key: Key, binding: Binding, decision: BindingDecision, error: ApiError) -> _Written:
        self._clusters.observe(key, binding)
        instead = self._clusters.decide_refused(key, decision, str(error))
        if instead is not None:
            try:
                self._write(key, binding, instead, instead=True)
            except ApiError as other:
                if not other.rejected:
                    raise
                self._clusters.observe(key, binding)
            else:
                return _Written(instead, error)
        reason = error.reason if error.reason == QUOTA_EXCEEDED else SCHEDULER_ERROR
        refused = msgspec.structs.replace(
            decision, result=SchedulingResult(reason, str(error)), write=None, warning="", move_note=""
        )
        with suppress(ApiError):  # the refusal itself is raised
            self._write_status(key, binding, refused, self._clock.now(), refresh=refused.refresh)
        self._record_events(binding, refused)
        raise error

    def _complete(self, key: Key, binding: Binding) -> Binding:
        """Write the pending status and events of the last assignment, and return the binding after that."""
        pending = self._pending.get(key)
        if pending is None:
            return binding
        after, written = binding, pending.binding
        if written.metadata.uid == binding.metadata.uid:  # else it was deleted and created again
            if written.spec.scheduler_name == binding.spec.scheduler_name:  # else the status is another scheduler's
                try:
                    decision = pending.decision
                    after = self._write_status(key, binding, decision, pending.at, refresh=decision.refresh, of=written)
                except ApiError as error:
                    if not error.rejected:
                        raise
                    # The refusal may be permanent. The next decision does not wait, and writes the status again.
            self._record_events(binding, pending.decision)
        del self._pending[key]
        return after

    def _write_status(
        self,
        key: Key,
        binding: Binding,
        decision: BindingDecision,
        now: datetime,
        *,
        refresh: bool,
        of: Binding | None = None,
    ) -> Binding:
        """Write a decision to the status if it changes, and return the binding after that.

        ``refresh``: whether the time of the last scheduling becomes ``now``.
        ``of`` is the binding that the decision was written to, if the binding has changed since. The group and the
        time of scheduling count for the next decision even then.
        """
        status = status_write(binding, decision.result, now, refresh=refresh, of=of)
        if not status:
            return binding
        after = status.applied(binding, self._patch(key, status.patch(binding), "status"))
        self._bindings.add_written(key, binding, after)
        return after

    def _patch(self, key: Key, patch: Mapping[str, Any], subresource: str = "") -> Version:
        """Patch the binding. The response holds only metadata, because the rest is known here."""
        request = merge_patch(binding_collection(key), key, patch, subresource)
        version = decode_json(_PatchResponse, ask(self._client, request._replace(accept=ONLY_METADATA))).metadata
        if _STEPS.isEnabledFor(logging.DEBUG):
            what = f"{subresource or 'assignment'} written"
            _STEPS.debug(what, extra=fields(binding=object_name(*key), resource_version=version.resource_version))
        return version

    def _record_events(self, binding: Binding, decision: BindingDecision) -> None:
        """Record events on the binding and on its workload, unless the condition has the same message already."""
        if decision.warning:
            self._record(binding, "Warning", _FAILOVER_BLOCKED, decision.warning)
        if (note := decision.move_note) and decision.write is not None:
            change = decision.change
            self._record(binding, change.urgency, change.reason, note)
            _LOG.info("move", extra=fields(binding=object_name(*binding.metadata.key), event=change.reason, note=note))
        known, result = binding.scheduled, decision.result
        if result.ok and (decision.attempted or (known is not None and known.status == "False")):
            self._record(binding, "Normal", _SUCCEEDED, result.message)
        elif not result.ok and (known is None or known.message != result.message):
            self._record(binding, "Warning", _FAILED, result.message)

    def _record(self, binding: Binding, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        meta, resource = binding.metadata, binding.spec.resource
        own = Reference(binding.api_version, binding.kind, meta.namespace, meta.name, meta.uid)
        workload = Reference(resource.api_version, resource.kind, resource.namespace, resource.name, resource.uid)
        if self._console is not None:
            note = _with_page(note, self._console.workload(meta.namespace, meta.name))
        for regarding, related in ((own, workload), (workload, own)):
            self._recorder.record(EventContent(regarding, kind, reason, _ACTION, note, related))

    def _record_of(self, binding: Binding, decision: BindingDecision) -> DecisionRecord | None:
        """Return what a ledger records of a decision before its write; None if it is not recorded.

        This costs least now: what it reads is still in the processor's cache.
        """
        if self._decisions is None or decision.inputs is None:
            return None
        reconcile_id = str(bound_fields().get("reconcile_id", ""))
        return DecisionRecord(self._clock.now(), reconcile_id, binding, decision.inputs, outcome_of(decision), 0.0)

    def _record_decision(self, record: DecisionRecord | None, started_s: float, error: str = "") -> None:
        """Hand a decision to the ledger. A write that fails again for the same reason is no news."""
        if self._decisions is None or record is None:
            return
        if error and (known := record.binding.scheduled) is not None and known.message == error:
            return
        duration_s = self._clock.monotonic_s() - started_s
        self._decisions.decided(msgspec.structs.replace(record, duration_s=duration_s, error=error))

    def _finish(
        self, outcome: str, key: Key, decision: BindingDecision, started_s: float, error: ApiError | None = None
    ) -> None:
        """Count a scheduling attempt and log it: one record per decision."""
        duration_s = self._clock.monotonic_s() - started_s
        count_attempt(outcome, decision.trigger, duration_s)
        if not _LOG.isEnabledFor(logging.INFO):
            return
        before = decision.binding.assignment
        after = before if decision.clusters is None else decision.clusters
        values: dict[str, object] = {
            "binding": object_name(*key),
            "trigger": decision.trigger.value,
            "group": decision.result.group,
            "before": short_assignment(before),
            "after": short_assignment(before if error is not None else after),
            "duration_ms": round(duration_s * 1000, 3),
            "reason": decision.result.reason if error is None else error.reason,
        }
        if error is not None or not decision.result.ok:
            values["problem"] = decision.result.message if error is None else str(error)
        if decision.warning:
            values["warning"] = decision.warning
        _LOG.info("not written" if outcome == "error" else outcome, extra=fields(**values))


def _with_page(note: str, page: str) -> str:
    """Return a note with the address of a page at its end, within the limit of a note. A long address is left out."""
    left_bytes = NOTE_BYTES - len(page) - len(" ()")
    return f"{truncate(note, left_bytes)} ({page})" if left_bytes >= NOTE_BYTES // 2 else note


def count_attempt(result: str, trigger: Trigger, seconds: float) -> None:
    """Count a scheduling attempt, by the results and types of karmada-scheduler's metrics, and by the trigger."""
    schedule_type = "ScaleSchedule" if trigger is Trigger.SCALE else "ReconcileSchedule"
    ATTEMPTS.labels(result, schedule_type, trigger.value).inc()
    DURATION.labels(result, schedule_type).observe(seconds, exemplar())
