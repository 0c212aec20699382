"""Records events (``events.k8s.io/v1``), which ``kubectl describe`` shows, in the background.

Repeats of an event are counted in its series, as by client-go's recorder, with two differences. The note is part of
what makes two events equal: a stored event keeps its note, so a new note in an old event would never be seen. And
repeats are written after ``REPEAT_S`` at the latest instead of every half hour.
"""

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
from berthmaster.kube.requests import Collection, create, merge_patch, micro_time
from berthmaster.model.errors import ApiError
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.token_bucket import TokenBucket

EVENTS: Final = Collection.of("events.k8s.io/v1", "events")
MAX_WAITING: Final = 16_384
"""How many events may wait: in a burst, controllers record more events than the rate limit lets through."""
MAX_SERIES: Final = 4096
MAX_OBJECTS: Final = 4096
NOTE_BYTES: Final = 1024
REPEAT_S: Final = 10.0
"""The shortest time between two writes of a series, except for its first repeat."""
IDLE_S: Final = 360.0
"""A repeat after this time begins a new event, as in client-go."""
BURST: Final = 25
PER_S: Final = 1 / 60
"""The rate limit of writes about one object, as in client-go's spam filter: 25 at once, then one a minute."""
_LOG: Final = logging.getLogger("berthmaster.events")
_POLL_S: Final = 1.0
_BATCH_SIZE: Final = 64
_TRIES: Final = 4
_TRANSIENT: Final = frozenset({0, 409, 429, 500, 502, 503, 504})
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")
_MAX_BASE_NAME: Final = 230

EventType = Literal["Normal", "Warning"]
EventResult = Literal["created", "repeated", "dropped", "failed"]


class Reference(NamedTuple):
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class EventContent(NamedTuple):
    """The content of an event; equal ones are repeats. Reason and action are one CamelCase word each."""

    regarding: Reference
    kind: EventType
    reason: str
    action: str
    note: str
    related: Reference | None = None


class Recorder(Protocol):
    """Records events in the background."""

    def record(self, event: EventContent) -> None:
        """Record an event. Never blocks."""


@dataclass(slots=True)
class Series:
    """An event and its repeats. ``stored`` is the count that the API server has: 0 before the object exists."""

    key: EventContent
    name: str
    first: datetime
    last: datetime
    observed_s: float
    count: int = 1
    stored: int = 0
    written_s: float = float("-inf")


class Correlator:
    """Correlates repeats and limits the rate of each object. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._series: OrderedDict[EventContent, Series] = OrderedDict()
        self._pending: dict[EventContent, Series] = {}
        self._buckets: OrderedDict[Reference, TokenBucket] = OrderedDict()
        self._last_ns = 0

    def observe(self, key: EventContent, at: datetime) -> bool:
        """Add an event. Return False if it is dropped because there are too many about this object, or in all."""
        now_s = self._clock.monotonic_s()
        series = self._series.get(key)
        if series is not None and now_s - series.observed_s > IDLE_S and key not in self._pending:
            series = None
        if series is not None:
            series.count += 1
            series.last, series.observed_s = max(at, series.last), now_s
        elif len(self._pending) < MAX_SERIES and self._bucket(key.regarding).take():
            series = self._series[key] = Series(key, self._name(key), at, at, now_s)
        else:
            return False
        self._series.move_to_end(key)
        self._pending[key] = series
        self._forget(now_s)
        return True

    def due(self, *, everything: bool = False) -> Iterator[Series]:
        """Yield the series to write now, or ``everything``. The caller passes each to ``written`` or ``failed``."""
        now_s = self._clock.monotonic_s()
        for key, series in list(self._pending.items()):
            ripe = series.stored < 2 or now_s - series.written_s >= REPEAT_S
            # The first write of a series took its token when it was observed.
            if everything or (ripe and (series.stored == 0 or self._bucket(key.regarding).take())):
                yield series

    def written(self, series: Series) -> None:
        """Note that the API server has the series with its count."""
        series.stored, series.written_s = series.count, self._clock.monotonic_s()
        self._pending.pop(series.key, None)

    def failed(self, series: Series) -> None:
        """Forget a series that cannot be written. The next repeat begins a new event."""
        self._pending.pop(series.key, None)
        self._series.pop(series.key, None)

    def _bucket(self, regarding: Reference) -> TokenBucket:
        bucket = self._buckets.get(regarding)
        if bucket is None:
            bucket = self._buckets[regarding] = TokenBucket(self._clock, PER_S, BURST)
            if len(self._buckets) > MAX_OBJECTS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(regarding)
        return bucket

    def _forget(self, now_s: float) -> None:
        while self._series:
            key, series = next(iter(self._series.items()))
            idle = now_s - series.observed_s > IDLE_S
            if key in self._pending or not (idle or len(self._series) > MAX_SERIES):
                return
            del self._series[key]

    def _name(self, key: EventContent) -> str:
        """Return a unique name: the object's name and a timestamp that this process never uses twice."""
        now_ns = int(self._clock.now().timestamp() * 1e9)
        self._last_ns = max(now_ns, self._last_ns + 1)
        return f"{event_base_name(key.regarding.name)}.{self._last_ns:x}"


class EventRecorder:
    """The ``Recorder`` of one reporting controller. Drops and counts the events that it cannot keep up with."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        controller: str,
        instance: str,
        count: Callable[[EventResult], None] = lambda _result: None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """Prepare a recorder, which cuts ``instance`` at 128 characters and drops events above ``max_waiting``."""
        self._client = client
        self._clock = clock
        self._controller = controller
        self._instance = instance[:128]
        self._count = count
        self._waiting: queue.Queue[tuple[EventContent, datetime] | None] = queue.Queue(max_waiting)
        self._correlator = Correlator(clock)
        self._stopping = threading.Event()
        self._deadline_s = float("inf")
        self._thread = threading.Thread(target=self.run, name="events", daemon=True)

    def record(self, event: EventContent) -> None:
        try:
            self._waiting.put_nowait((event._replace(note=truncate(event.note, NOTE_BYTES)), self._clock.now()))
        except queue.Full:
            self._count("dropped")

    def start(self) -> None:
        self._thread.start()

    def stop(self, limit_s: float = 3.0) -> None:
        self._deadline_s = self._clock.monotonic_s() + limit_s
        self._stopping.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(None)  # wakes the thread
        if self._thread.is_alive():
            self._thread.join(limit_s + 1.0)

    def run(self) -> None:
        while not self._is_late():
            self._take_batch()
            for series in self._correlator.due(everything=self._stopping.is_set()):
                if self._is_late():
                    break
                self._store(series)
            if self._stopping.is_set() and self._waiting.empty():
                return
        left = self._waiting.qsize()
        if left:
            _LOG.warning("dropped %d events: no time left to write them", left)
        for _ in range(left):
            self._count("dropped")

    def _is_late(self) -> bool:
        return self._clock.monotonic_s() >= self._deadline_s

    def _take_batch(self) -> None:
        """Correlate waiting events. Wait for the first one, but not for long: a series may become due."""
        block = not self._stopping.is_set()
        for _ in range(_BATCH_SIZE):
            try:
                event = self._waiting.get(block=block, timeout=_POLL_S if block else None)
            except queue.Empty:
                return
            block = False
            if event is not None and not self._correlator.observe(*event):
                self._count("dropped")

    def _store(self, series: Series) -> None:
        backoff = Backoff(first_s=0.2, longest_s=5.0)
        for tried in range(1, _TRIES + 1):
            try:
                created = self._write(series)
            except ApiError as error:
                if error.status in _TRANSIENT and tried < _TRIES and not self._is_late():
                    self._stopping.wait(max(backoff.next_s(), min(error.retry_after_s, 30.0)))
                    continue
                _LOG.warning("failed to write an event: %s", error)
                self._correlator.failed(series)
                self._count("failed")
                return
            self._correlator.written(series)
            self._count("created" if created else "repeated")
            return

    def _write(self, series: Series) -> bool:
        namespace = series.key.regarding.namespace or DEFAULT_NAMESPACE
        if series.stored:
            patch = {"series": _series_content(series)}
            try:
                ask(self._client, merge_patch(EVENTS, (namespace, series.name), patch))
            except ApiError as error:
                if not error.not_found:
                    raise
                # The API server keeps events for an hour. A series may last longer.
            else:
                return False
        try:
            ask(self._client, create(EVENTS, namespace, self._content(series, namespace)))
        except ApiError as error:
            if not error.already_exists:
                raise
            # The response to an earlier try was lost. The name is unique to this series.
        return True

    def _content(self, series: Series, namespace: str) -> dict[str, Any]:
        key = series.key
        content: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": micro_time(series.first),
            "type": key.kind,
            "reason": key.reason,
            "action": key.action,
            "note": key.note,
            "regarding": _reference_content(key.regarding),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
        }
        if key.related is not None:
            content["related"] = _reference_content(key.related)
        if series.count > 1:
            content["series"] = _series_content(series)
        return content


def truncate(text: str, size: int) -> str:
    """Cut a text to at most ``size`` bytes, between characters, with an ellipsis at the end."""
    data = text.encode()
    if len(data) <= size:
        return text
    return data[: size - len("…".encode())].decode(errors="ignore") + "…"


def event_base_name(name: str) -> str:
    """Turn an object's name into the first part of an event's name: a DNS subdomain of bounded length."""
    kept = "".join(letter if letter in _NAME_CHARACTERS else "-" for letter in name.lower())[:_MAX_BASE_NAME]
    labels = [label.strip("-") for label in kept.split(".")]
    return ".".join(filter(None, labels)) or "event"


def _reference_content(reference: Reference) -> dict[str, str]:
    content = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }
    return {name: value for name, value in content.items() if value}


def _series_content(series: Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": micro_time(series.last)}
