"""One binding at a time: decide, write where it goes, write its status, tell people."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from berthmaster.controllers.binding_scheduler.bindings import Bindings, collection_of
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.eligibility import eligible
from berthmaster.controllers.binding_scheduler.plan import QUOTA_EXCEEDED, SCHEDULED, SCHEDULER_ERROR, Verdict, Version
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.step import Step
from berthmaster.controllers.controller import Requeue
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import Recorder, Reference
from berthmaster.kube.requests import ONLY_METADATA, Key, merge_patch
from berthmaster.model.binding import Binding
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.karmada.trigger import Trigger

_ACTION: Final = "Scheduling"
_SUCCEEDED: Final = "ScheduleBindingSucceed"
_FAILED: Final = "ScheduleBindingFailed"
_FAILOVER_BLOCKED: Final = "FailoverBlocked"


class SchedulingMeter(Protocol):
    """Counts what the binding scheduler does."""

    def attempted(self, result: str, schedule_type: str, seconds: float) -> None:
        """A binding was scheduled, or could not be; the names are those of karmada-scheduler's metrics."""


class _Answer(msgspec.Struct, frozen=True):
    metadata: Version


class _Report(NamedTuple):
    """What a binding's status is to say of an assignment that was written.

    Attributes:
        binding: as it was written.
        step: what was decided.
        at: when; a second try, after an answer was lost, says the same.
    """

    binding: Binding
    step: Step
    at: datetime


class BindingReconciler:
    """See ``Reconciler``.

    While others wait to be assigned, what one's status and events have to say of its own assignment waits until they
    are: in a burst that halves the time until everything is where it should be. A process that ends meanwhile loses
    nothing but events: the binding itself says which group it is of, and a status that lags behind is completed.
    """

    def __init__(
        self,
        bindings: Bindings,
        desk: Desk,
        queue: SchedulingQueue,
        client: APIClient,
        recorder: Recorder,
        meter: SchedulingMeter,
        clock: Clock,
        scheduler_name: str,
    ) -> None:
        self._bindings = bindings
        self._desk = desk
        self._queue = queue
        self._client = client
        self._recorder = recorder
        self._meter = meter
        self._clock = clock
        self._scheduler_name = scheduler_name
        self._reports: dict[Key, _Report] = {}

    def reconcile(self, key: Key) -> Requeue | None:
        """See ``Reconciler``."""
        binding = self._bindings.get(key)
        self._desk.settle(key, binding)
        if binding is None:
            self._reports.pop(key, None)
        else:
            binding = self._reported(key, binding)
        if binding is None or not self._concerns(binding):
            self._queue.leave(key)
            return None
        started_s = self._clock.monotonic_s()
        step = self._desk.decide(key, binding)
        try:
            self._write(key, binding, step)
        except ApiError as error:
            self._attempted("error", step, started_s)
            if error.not_found:
                self._desk.settle(key, None)
                return None
            raise
        if step.tried:
            self._attempted("scheduled" if step.verdict.ok else "unschedulable", step, started_s)
        if step.waits_for_room:
            self._queue.park(key)
        return Requeue(step.again_s) if step.again_s is not None else None

    def _concerns(self, binding: Binding) -> bool:
        """Whether there is anything to decide for a binding, now that its turn has come."""
        return (
            eligible(binding, self._scheduler_name)
            and binding.metadata.deletion_timestamp is None
            and binding.spec.placement is not None
        )

    def _write(self, key: Key, binding: Binding, step: Step) -> None:
        """Bring a step about. What fails half way is completed by the next step for the binding."""
        now = self._clock.now()
        if step.write is None:
            self._write_status(key, binding, step, now)
            self._tell(binding, step)
            return
        try:
            version = self._patched(key, step.write.patch(binding))
        except BerthmasterError as error:  # an answer that cannot be read is as good as none
            self._desk.unsure(key, step)
            if isinstance(error, ApiError) and error.rejected:
                self._refused(key, binding, step, error)
            raise
        latest = step.write.applied(binding, version)
        self._bindings.written(key, binding, latest)
        self._reports[key] = _Report(latest, step, now)
        if self._queue.busy:
            self._queue.add_late(key)
        else:
            self._reported(key, latest)

    def _refused(self, key: Key, binding: Binding, step: Step, error: ApiError) -> None:
        """Say why an assignment is not taken, by a quota for one; others may have its room until it is tried again."""
        self._desk.settle(key, binding)
        reason = error.reason if error.reason == QUOTA_EXCEEDED else SCHEDULER_ERROR
        told = replace(step, verdict=Verdict(reason, str(error)), warning="")
        with suppress(ApiError):  # the refusal counts, and is tried again
            self._write_status(key, binding, told, self._clock.now())
        self._tell(binding, told)

    def _reported(self, key: Key, binding: Binding) -> Binding:
        """The binding, after what there is to say of its last assignment was said, in its status and to people."""
        report = self._reports.get(key)
        if report is None:
            return binding
        after, written = binding, report.binding
        if written.metadata.uid == binding.metadata.uid:  # else it was deleted and made anew meanwhile
            if written.spec.scheduler_name == binding.spec.scheduler_name:  # else another scheduler says how it is
                try:
                    after = self._write_status(key, binding, report.step, report.at, of=written)
                except ApiError as error:
                    if not error.rejected:
                        raise
                    # It may be refused for good: what is to be decided next does not wait for it, and says it again.
            self._tell(binding, report.step)
        del self._reports[key]
        return after

    def _write_status(
        self, key: Key, binding: Binding, step: Step, now: datetime, of: Binding | None = None
    ) -> Binding:
        """Write what a step has to say in the status, if anything; the binding as it is then.

        With ``of`` it is said of an earlier binding, as that step had written it: the group and the time of scheduling
        count for the next decision, whatever has come of the binding since.
        """
        status = step.status_write(binding, now, of or binding)
        if not status:
            return binding
        after = status.applied(binding, self._patched(key, status.patch(binding), "status"))
        self._bindings.written(key, binding, after)
        return after

    def _patched(self, key: Key, patch: Mapping[str, Any], subresource: str = "") -> Version:
        """Patch the binding; the rest of what it is afterwards is known here, and need not be sent back."""
        request = merge_patch(collection_of(key), key, patch, subresource)
        return decode_json(_Answer, ask(self._client, request._replace(accept=ONLY_METADATA))).metadata

    def _tell(self, binding: Binding, step: Step) -> None:
        """Say it on the binding and on its workload, if it is news."""
        if step.warning:
            self._record(binding, "Warning", _FAILOVER_BLOCKED, step.warning)
        if step.verdict.ok and (step.tried or _failed(binding)):
            self._record(binding, "Normal", _SUCCEEDED, step.verdict.message)
        elif not step.verdict.ok and not _says(binding, step.verdict.message):
            self._record(binding, "Warning", _FAILED, step.verdict.message)

    def _record(self, binding: Binding, kind: str, reason: str, note: str) -> None:
        meta, resource = binding.metadata, binding.spec.resource
        own = Reference(binding.api_version, binding.kind, meta.namespace, meta.name, meta.uid)
        workload = Reference(resource.api_version, resource.kind, resource.namespace, resource.name, resource.uid)
        for regarding, related in ((own, workload), (workload, own)):
            self._recorder.record(
                regarding, "Normal" if kind == "Normal" else "Warning", reason, _ACTION, note, related
            )

    def _attempted(self, result: str, step: Step, started_s: float) -> None:
        schedule_type = "ScaleSchedule" if step.trigger is Trigger.SCALE else "ReconcileSchedule"
        self._meter.attempted(result, schedule_type, self._clock.monotonic_s() - started_s)


def _failed(binding: Binding) -> bool:
    """Whether the binding's condition says that it could not be scheduled."""
    return any(each.type == SCHEDULED and each.status == "False" for each in binding.status.conditions)


def _says(binding: Binding, message: str) -> bool:
    """Whether the binding's condition says so already."""
    return any(each.type == SCHEDULED and each.message == message for each in binding.status.conditions)
