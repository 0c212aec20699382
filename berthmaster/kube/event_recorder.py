"""Writes events in the background. Nothing waits for it, and what it cannot keep up with is dropped and counted."""

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Literal

from berthmaster.kube.backoff import Backoff
from berthmaster.kube.event_series import Correlator, Happening, Series
from berthmaster.kube.events import Reference
from berthmaster.kube.micro_time import micro_time
from berthmaster.kube.requests import Collection, create, merge_patch
from berthmaster.kube.transport import Connection, ask
from berthmaster.model.errors import ApiError
from berthmaster.model.policy import DEFAULT_NAMESPACE
from berthmaster.runtime.clock import Clock

EVENTS: Final = Collection.of("events.k8s.io/v1", "events")
MAX_WAITING: Final = 16_384
"""Some minutes' worth: controllers may do more than a recorder is allowed to write in the same time."""
NOTE_BYTES: Final = 1024
_LOG: Final = logging.getLogger("berthmaster.events")
_LOOK_EVERY_S: Final = 1.0
_AT_ONCE: Final = 64
_TRIES: Final = 4
_TRANSIENT: Final = frozenset({0, 409, 429, 500, 502, 503, 504})

EventResult = Literal["created", "repeated", "dropped", "failed"]


class EventRecorder:
    """``Recorder`` of one reporting controller."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        controller: str,
        instance: str,
        told: Callable[[EventResult], None] = lambda _result: None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """A recorder that has not begun.

        Args:
            connection: where events are written.
            clock: tells the time.
            controller: ``reportingController``, as ``berthmaster.io/controllers``.
            instance: ``reportingInstance``, as the name of the pod; cut at 128 characters.
            told: hears what became of each happening.
            max_waiting: how many may wait to be looked at; beyond them the newest are dropped.
        """
        self._connection = connection
        self._clock = clock
        self._controller = controller
        self._instance = instance[:128]
        self._told = told
        self._waiting: queue.Queue[tuple[Happening, datetime] | None] = queue.Queue(max_waiting)
        self._correlator = Correlator(clock)
        self._stopping = threading.Event()
        self._deadline_s = float("inf")
        self._thread = threading.Thread(target=self.run, name="events", daemon=True)

    def record(
        self,
        regarding: Reference,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        related: Reference | None = None,
    ) -> None:
        """See ``Recorder``. Never waits."""
        happening = Happening(regarding, kind, reason, action, cut(note, NOTE_BYTES), related)
        try:
            self._waiting.put_nowait((happening, self._clock.now()))
        except queue.Full:
            self._told("dropped")

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, limit_s: float = 3.0) -> None:
        """Write what waits, for as long as ``limit_s``, and end."""
        self._deadline_s = self._clock.monotonic_s() + limit_s
        self._stopping.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(None)  # wakes who waits for the next one
        if self._thread.is_alive():
            self._thread.join(limit_s + 1.0)

    def run(self) -> None:
        """Write until told to stop and nothing waits any more."""
        while not self._over():
            self._take_in()
            for series in self._correlator.rest() if self._stopping.is_set() else self._correlator.due():
                if self._over():
                    break
                self._store(series)
            if self._stopping.is_set() and self._waiting.empty():
                return
        left = self._waiting.qsize()
        if left:
            _LOG.warning("%d events are dropped: there is no time left to write them", left)
        for _ in range(left):
            self._told("dropped")

    def _over(self) -> bool:
        """Whether there is no more time to write anything."""
        return self._clock.monotonic_s() >= self._deadline_s

    def _take_in(self) -> None:
        """Take some of what waits; without waiting for ever, because a series may be due."""
        patient = not self._stopping.is_set()
        for _ in range(_AT_ONCE):
            try:
                told = self._waiting.get(block=patient, timeout=_LOOK_EVERY_S if patient else None)
            except queue.Empty:
                return
            patient = False
            if told is not None and not self._correlator.take(*told):
                self._told("dropped")

    def _store(self, series: Series) -> None:
        """Write an event, or its count; tries a few times."""
        backoff = Backoff(first_s=0.2, longest_s=5.0)
        for tried in range(1, _TRIES + 1):
            try:
                created = self._write(series)
            except ApiError as error:
                if error.status in _TRANSIENT and tried < _TRIES and not self._over():
                    self._stopping.wait(max(backoff.next_s(), min(error.retry_after_s, 30.0)))
                    continue
                _LOG.warning("an event is lost: %s", error)
                self._correlator.given_up(series)
                self._told("failed")
                return
            self._correlator.written(series)
            self._told("created" if created else "repeated")
            return

    def _write(self, series: Series) -> bool:
        """Write it; whether the event is new."""
        namespace = series.happening.regarding.namespace or DEFAULT_NAMESPACE
        if series.stored:
            try:
                ask(self._connection, merge_patch(EVENTS, (namespace, series.name), {"series": _series(series)}))
            except ApiError as error:
                if not error.absent:
                    raise
                # Events live for an hour, series longer.
            else:
                return False
        try:
            ask(self._connection, create(EVENTS, namespace, self._content(series, namespace)))
        except ApiError as error:
            if not error.conflicting:
                raise
            # It is there: an answer to an earlier try was lost. Nobody else has such a name.
        return True

    def _content(self, series: Series, namespace: str) -> dict[str, Any]:
        happening = series.happening
        content: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": micro_time(series.began),
            "type": happening.kind,
            "reason": happening.reason,
            "action": happening.action,
            "note": happening.note,
            "regarding": _reference(happening.regarding),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
        }
        if happening.related is not None:
            content["related"] = _reference(happening.related)
        if series.count > 1:
            content["series"] = _series(series)
        return content


def cut(text: str, size: int) -> str:
    """A text of at most ``size`` bytes; what is cut off is never half a character, and an ellipsis stands for it."""
    data = text.encode()
    if len(data) <= size:
        return text
    return data[: size - len("…".encode())].decode(errors="ignore") + "…"


def _reference(thing: Reference) -> dict[str, str]:
    found = {
        "apiVersion": thing.api_version,
        "kind": thing.kind,
        "namespace": thing.namespace,
        "name": thing.name,
        "uid": thing.uid,
    }
    return {name: value for name, value in found.items() if value}


def _series(series: Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": micro_time(series.last)}
