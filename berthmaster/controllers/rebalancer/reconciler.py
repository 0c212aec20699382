"""Reads and writes what the plan for a WorkloadRebalancer asks for."""

import logging
from http import HTTPStatus
from typing import Any, Final

from berthmaster.controllers.controller import Controller, QueueController, Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer.marking import TRIES, is_gone, mark
from berthmaster.controllers.rebalancer.notices import Notice, of_mark, of_plan
from berthmaster.controllers.rebalancer.plan import Marked, Outcome, Outcomes, Plan, Unsettled, plan, working_list
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.client import ask
from berthmaster.kube.requests import APIRequest, Collection, Key, delete, get, merge_patch
from berthmaster.model.decode import builtins, decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.rebalancer import RebalancedWorkload, RebalancerStatus, WorkloadRebalancer
from berthmaster.runtime.logs import fields

NAME: Final = "workload-rebalancer"
REBALANCERS: Final = Collection.of("apps.karmada.io/v1alpha1", "workloadrebalancers")
LONGEST_WAIT_S: Final = 3600.0
"""How long a rebalancer's deletion is waited for at a stretch: the clock of the machine may be set meanwhile."""
LONGEST_PASS_S: Final = 60.0
"""How long workloads are marked at a stretch: what is done is written down, and the process is seen to be alive."""
_LOG: Final = logging.getLogger("berthmaster.controllers")


def controller(context: ControllerContext, workers: int = 1) -> Controller:
    """The controller of WorkloadRebalancers.

    It works on a rebalancer that is new or whose spec has changed, and when its time to live is over. A changed status
    wakes nobody: that is what two controllers beside each other would keep each other awake with.
    """
    queue: WorkQueue[Key] = WorkQueue(context.clock)

    def told(key: Key, before: WorkloadRebalancer | None, after: WorkloadRebalancer | None) -> None:
        if after is not None and (before is None or _wish(before) != _wish(after)):
            queue.add(key)

    context.informer(REBALANCERS, _decode).subscribe(told)
    return QueueController(NAME, RebalancerReconciler(context), queue, context.metrics, context.clock, workers)


class RebalancerReconciler:
    """Brings one rebalancer to its end."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._informer = context.informer(REBALANCERS, _decode)

    def reconcile(self, key: Key) -> Requeue | None:
        """See ``Reconciler``.

        What the informer knows is good enough to begin with, as every write holds only for the version it was decided
        on. To delete, it is not: that is decided on a fresh read in which nothing was left to do.
        """
        known, fresh = self._informer.get(key), False
        outcomes: dict[RebalancedWorkload, Outcome] = {}
        for _ in range(TRIES):
            if known is None or known.metadata.deletion_timestamp is not None:
                return None
            done = self._bring_about(key, known, outcomes)
            if done is not None:
                if done.open:
                    if (trouble := _trouble(done, outcomes)) is not None:
                        raise trouble
                    return Requeue(0.0)
                if done.remaining_s is None:
                    return None
                if done.remaining_s > 0:
                    return Requeue(min(done.remaining_s, LONGEST_WAIT_S))
                if fresh and not done.changed and self._delete(key, known):
                    return None
            latest = self._read(key)
            if latest is not None and latest.metadata.uid != known.metadata.uid:
                outcomes = {}
            known, fresh = latest, True
        raise ApiError(HTTPStatus.CONFLICT, "Conflict", f"{REBALANCERS.what} {key[1]}: somebody else writes to it too")

    def _bring_about(
        self, key: Key, rebalancer: WorkloadRebalancer, outcomes: dict[RebalancedWorkload, Outcome]
    ) -> Plan | None:
        """Mark what is not marked, and write the status; None if the rebalancer is not what it was any more."""
        self._mark(rebalancer, outcomes)
        wanted = plan(rebalancer, outcomes, self._clock.now())
        if not wanted.changed:
            return wanted
        patch = _status_patch(rebalancer, wanted.status)
        if not self._sent(merge_patch(REBALANCERS, key, patch, "status")):
            return None
        for notice in of_plan(rebalancer, wanted, outcomes):
            self._tell(notice)
        return wanted

    def _mark(self, rebalancer: WorkloadRebalancer, outcomes: dict[RebalancedWorkload, Outcome]) -> None:
        """Mark the bindings of the workloads that are open; once the server is lost, or time is up, others wait."""
        at = rebalancer.metadata.creation_timestamp
        if at is None:
            raise FieldError(
                "metadata.creationTimestamp", f"{rebalancer.metadata.name} has none: nothing can be marked"
            )
        until_s = self._clock.monotonic_s() + LONGEST_PASS_S
        for item in working_list(rebalancer):
            if not item.open or item.workload in outcomes:
                continue
            if self._clock.monotonic_s() >= until_s:
                return
            outcome = outcomes[item.workload] = mark(self._client, item.workload, at)
            match outcome:
                case Marked():
                    for notice in of_mark(rebalancer, at, outcome):
                        self._tell(notice)
                case Unsettled(error) if error.unavailable:
                    return

    def _delete(self, key: Key, rebalancer: WorkloadRebalancer) -> bool:
        """Delete the object if it is still the one that was read, to the last field; whether it was."""
        metadata = rebalancer.metadata
        request = delete(REBALANCERS, key, uid=metadata.uid, resource_version=metadata.resource_version)
        done = self._sent(request)
        if done:
            _LOG.info("%s: its time to live is over: deleted", NAME, extra=fields(key=key))
        return done

    def _sent(self, request: APIRequest) -> bool:
        """Send a write; False if its object has changed, or gone, meanwhile."""
        try:
            ask(self._client, request)
        except ApiError as error:
            if error.conflict or is_gone(error):
                return False
            raise
        return True

    def _read(self, key: Key) -> WorkloadRebalancer | None:
        """The rebalancer as it is now; None if it is gone."""
        try:
            return _decode(ask(self._client, get(REBALANCERS, key)))
        except ApiError as error:
            if is_gone(error):
                return None
            raise

    def _tell(self, notice: Notice) -> None:
        self._recorder.record(*notice)


def _decode(document: bytes) -> WorkloadRebalancer:
    return decode_json(WorkloadRebalancer, document)


def _wish(rebalancer: WorkloadRebalancer) -> tuple[object, ...]:
    """What has to be worked on anew when it changes: the spec, and the object behind the name."""
    return rebalancer.spec, rebalancer.metadata.uid


def _status_patch(rebalancer: WorkloadRebalancer, status: RebalancerStatus) -> dict[str, Any]:
    """The whole status, for the version that it was decided on."""
    metadata = rebalancer.metadata
    guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return {"metadata": guard, "status": builtins(status)}


def _trouble(wanted: Plan, outcomes: Outcomes) -> ApiError | None:
    """Why a rebalancer has to be tried again; not before the time that the server asked for. None for want of time."""
    errors = [outcome.error for outcome in outcomes.values() if isinstance(outcome, Unsettled)]
    if not errors:
        return None
    first = errors[0]
    message = f"{len(wanted.open)} of {len(wanted.status.observed_workloads)} workloads not marked yet: {first}"
    return ApiError(first.status, first.reason, message, max(error.retry_after_s for error in errors))
