"""The storm brake of a process: it follows clusters and bindings, and reports to the Lease."""

import logging
import threading
from datetime import datetime
from typing import Final, Literal

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves import metrics
from berthmaster.deciding import lease_record
from berthmaster.deciding.storm_brake import BrakeSettings, BrakeState, StormBrake
from berthmaster.kube.informer import Informer
from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import Key
from berthmaster.runtime.logs import fields

_LOG: Final = logging.getLogger("berthmaster.moves")
_NEVER_READY_S: Final = 60.0
"""A cluster whose condition turned this soon after its creation was never ready: it begins as unready."""


class StormWatch:
    """Keeps the storm brake up to date. Safe for several threads."""

    def __init__(self, context: ControllerContext, settings: BrakeSettings) -> None:
        self._context = context
        self._clock = context.clock
        self._brake = StormBrake(settings)
        self._lock = threading.Lock()
        self._record = lease_record.BrakeRecord()
        self._begun = False

    def follow(self, clusters: Informer[Cluster]) -> None:
        """Observe clusters. Call it before the informer starts, and before handlers that act on lost clusters."""

        def contact() -> None:
            with self._lock:
                now_s = self._clock.monotonic_s()
                if clusters.problem:
                    self._brake.out_of_reach(now_s)
                else:
                    self._brake.in_reach(now_s)

        clusters.subscribe(self._cluster_changed)
        clusters.on_contact(contact)

    def configure(self, settings: BrakeSettings) -> None:
        with self._lock:
            self._brake.configure(settings)

    def begin(self) -> None:
        """Judge the clusters, with the record of the previous leader. Call it when this process leads."""
        lease = self._context.lease
        self._record = lease_record.brake_record(lease.annotation(lease_record.BRAKE) if lease is not None else None)
        with self._lock:
            now_s = self._clock.monotonic_s()
            resumed_at = self._record.resumed_at
            resumed_s = None if resumed_at is None else now_s - max(0.0, self._age_s(resumed_at))
            outage_s = 0.0 if lease is None else lease.unled_s - lease.options.lease_s
            self._brake.begin(now_s, engaged=bool(self._record.reason), resumed_s=resumed_s, outage_s=outage_s)
        self._begun = True
        self.tick()

    def reason(self) -> str | None:
        """Return why no move may begin or end now; None if moves may."""
        with self._lock:
            return self._brake.engaged(self._clock.monotonic_s())

    def tick(self) -> None:
        """Obey a user, and report a change of the state. Call it every second or so."""
        if not self._begun:
            return
        lease = self._context.lease
        if lease is not None and (request := lease.annotation(lease_record.RESUME)) is not None:
            self._resume(request)
        with self._lock:
            state = self._brake.state(self._clock.monotonic_s())
        self._report(state)

    def _cluster_changed(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        with self._lock:
            now_s = self._clock.monotonic_s()
            if after is not None:
                since_s = None if after.ready else self._unready_since_s(after, now_s)
                self._brake.observe(after.name, now_s, ready=after.ready, unready_since_s=since_s)
            elif before is not None:
                self._brake.remove(before.name, now_s)

    def _unready_since_s(self, cluster: Cluster, now_s: float) -> float | None:
        """Return since when a cluster is unready, on the monotonic clock; None if it was never ready."""
        if cluster.readiness is None:
            return None
        if (turned := cluster.ready_transition) is None:
            return now_s
        created = cluster.metadata.creation_timestamp
        if created is not None and (turned - created).total_seconds() < _NEVER_READY_S:
            return None
        return now_s - max(0.0, self._age_s(turned))

    def _age_s(self, moment: datetime) -> float:
        return (self._clock.now() - moment).total_seconds()

    def _resume(self, text: str) -> None:
        """End the brake for a user, once for each request."""
        lease = self._context.lease
        if lease is None:
            return
        now = self._clock.now().replace(microsecond=0)
        request = lease_record.resume_request(text, now)
        with self._lock:
            engaged = self._brake.engaged(self._clock.monotonic_s())
            accepted = self._brake.resume()
        lease.annotate(lease_record.RESUME, None)
        if engaged is None and self._record.resumed_at is not None and self._record.resumed_at >= request.at:
            return  # the annotation is observed once more before its removal
        self._record = lease_record.BrakeRecord(resumed_at=now)
        lease.annotate(lease_record.BRAKE, lease_record.text_of(self._record))
        was = f"was engaged: {engaged}" if engaged is not None else "was not engaged"
        why = f"; {request.message}" if request.message else ""
        note = f"a user ended the storm brake, which {was}; the loss of {accepted} clusters is accepted{why}"
        self._announce("Warning", "StormBrakeResumed", note)

    def _report(self, state: BrakeState) -> None:
        metrics.BRAKE.set(bool(state.reason))
        metrics.BRAKE_UNREADY.set(state.unready)
        before = self._record
        if (before.reason, before.unready) == (state.reason, state.unready):
            return
        begun = before.since if before.reason else self._clock.now().replace(microsecond=0)
        since = begun if state.reason else None
        self._record = lease_record.BrakeRecord(state.reason, since, state.unready, before.resumed_at)
        if (lease := self._context.lease) is not None:
            quiet = not state.reason and before.resumed_at is None
            lease.annotate(lease_record.BRAKE, None if quiet else lease_record.text_of(self._record))
        if state.reason and not before.reason:
            self._announce("Warning", "StormBrakeEngaged", f"nothing is moved or evicted: {state.reason}")
        elif before.reason and not state.reason:
            self._announce("Normal", "StormBrakeReleased", f"moves continue; the storm brake ended: {before.reason}")

    def _announce(self, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        _LOG.log(logging.WARNING if kind == "Warning" else logging.INFO, note, extra=fields(reason=reason))
        self._context.record_on_lease(kind, reason, "Moving", note)
