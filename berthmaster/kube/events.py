"""Events: what a person sees under ``kubectl describe`` (``events.k8s.io/v1``)."""

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Protocol

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.client_wrappers import TokenBucket
from berthmaster.kube.requests import Collection, create, merge_patch, micro_time
from berthmaster.model.errors import ApiError
from berthmaster.model.policy import DEFAULT_NAMESPACE
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.clock import Clock


class Reference(NamedTuple):
    """What an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class Recorder(Protocol):
    """Records events: soon, in the background, and only if nothing more important is held up by it."""

    def record(
        self,
        regarding: Reference,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        related: Reference | None = None,
    ) -> None:
        """Something happened.

        Args:
            regarding: to what.
            kind: whether people should worry.
            reason: why, in one CamelCase word, as ``ScheduleBindingSucceed``.
            action: what was done, in one CamelCase word, as ``Scheduling``.
            note: the whole story, for people; cut at 1,024 bytes.
            related: what else has to do with it.
        """


MAX_SERIES: Final = 4096
MAX_OBJECTS: Final = 4096
REPEAT_S: Final = 10.0
"""A series is written again after this at the earliest, but for its first repeat."""
IDLE_S: Final = 360.0
"""What has not happened for so long begins a new event when it happens again; client-go says the same."""
BURST: Final = 25
PER_S: Final = 1 / 60
"""Writes about one object: so many at once (as client-go's filter of spam), and one a minute in the long run."""


class Happening(NamedTuple):
    """What happened. Equal ones are one event."""

    regarding: Reference
    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: Reference | None


@dataclass(slots=True)
class Series:
    """A happening and its repeats.

    Attributes:
        happening: what happened.
        name: of the event.
        began: when it happened first.
        last: when it happened last.
        count: how often it has.
        stored: which count the API server has; 0 before the event is there.
    """

    happening: Happening
    name: str
    began: datetime
    last: datetime
    seen_s: float
    count: int = 1
    stored: int = 0
    _written_s: float = float("-inf")

    @property
    def pending(self) -> bool:
        """Whether the API server does not know of all of it."""
        return self.count > self.stored

    def ripe(self, now_s: float) -> bool:
        """Whether it is time to write it."""
        return self.pending and (self.stored < 2 or now_s - self._written_s >= REPEAT_S)

    def written(self, now_s: float) -> None:
        """The API server has it."""
        self.stored, self._written_s = self.count, now_s


class Correlator:
    """Remembers what happened lately. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._series: OrderedDict[Happening, Series] = OrderedDict()
        self._pending: dict[Happening, Series] = {}
        self._buckets: OrderedDict[Reference, TokenBucket] = OrderedDict()
        self._last_ns = 0

    def take(self, happening: Happening, at: datetime) -> bool:
        """Something happened; False if too much happens to that object, and this one is passed over."""
        now_s = self._clock.monotonic_s()
        series = self._series.get(happening)
        if series is not None and now_s - series.seen_s > IDLE_S and not series.pending:
            del self._series[happening]
            series = None
        if series is None:
            if len(self._pending) >= MAX_SERIES or not self._bucket(happening.regarding).take():
                return False
            series = self._series[happening] = Series(happening, self._name(happening), at, at, now_s)
        else:
            series.count += 1
            series.last, series.seen_s = max(at, series.last), now_s
        self._series.move_to_end(happening)
        self._pending[happening] = series
        self._forget(now_s)
        return True

    def due(self) -> Iterator[Series]:
        """What is to be written now; each has to be told ``written``, or ``given_up``."""
        now_s = self._clock.monotonic_s()
        for happening, series in list(self._pending.items()):
            if not series.ripe(now_s):
                continue
            # The first write of a series was paid when it was taken.
            if series.stored == 0 or self._bucket(happening.regarding).take():
                yield series

    def rest(self) -> Iterator[Series]:
        """All that is not written, whatever it takes: the end is near."""
        yield from list(self._pending.values())

    def written(self, series: Series) -> None:
        """The API server has it."""
        series.written(self._clock.monotonic_s())
        self._pending.pop(series.happening, None)

    def given_up(self, series: Series) -> None:
        """It could not be written; what happens next begins a new event."""
        self._pending.pop(series.happening, None)
        self._series.pop(series.happening, None)

    def _bucket(self, regarding: Reference) -> TokenBucket:
        bucket = self._buckets.get(regarding)
        if bucket is None:
            bucket = self._buckets[regarding] = TokenBucket(self._clock, PER_S, BURST)
            if len(self._buckets) > MAX_OBJECTS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(regarding)
        return bucket

    def _forget(self, now_s: float) -> None:
        """Forget what is long ago, or was written and is too much to remember."""
        while self._series:
            happening, series = next(iter(self._series.items()))
            idle = now_s - series.seen_s > IDLE_S
            if series.pending or not (idle or len(self._series) > MAX_SERIES):
                return
            del self._series[happening]

    def _name(self, happening: Happening) -> str:
        """A name that no other event has: the object's, and a time that this process never says twice."""
        now_ns = int(self._clock.now().timestamp() * 1e9)
        self._last_ns = max(now_ns, self._last_ns + 1)
        return f"{event_base_name(happening.regarding.name)}.{self._last_ns:x}"


def event_base_name(name: str) -> str:
    """The beginning of an event's name: what of an object's name may stand in one, and leaves room for more."""
    kept = "".join(letter if letter in _LETTERS else "-" for letter in name.lower())[:_LONGEST_BASE]
    parts = [part.strip("-") for part in kept.split(".")]
    return ".".join(filter(None, parts)) or "event"


_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")
_LONGEST_BASE: Final = 230


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
        client: APIClient,
        clock: Clock,
        controller: str,
        instance: str,
        told: Callable[[EventResult], None] = lambda _result: None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """A recorder that has not begun.

        Args:
            client: where events are written.
            clock: tells the time.
            controller: ``reportingController``, as ``berthmaster.io/controllers``.
            instance: ``reportingInstance``, as the name of the pod; cut at 128 characters.
            told: hears what became of each happening.
            max_waiting: how many may wait to be looked at; beyond them the newest are dropped.
        """
        self._client = client
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
                ask(self._client, merge_patch(EVENTS, (namespace, series.name), {"series": _series(series)}))
            except ApiError as error:
                if not error.not_found:
                    raise
                # Events live for an hour, series longer.
            else:
                return False
        try:
            ask(self._client, create(EVENTS, namespace, self._content(series, namespace)))
        except ApiError as error:
            if not error.conflict:
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
