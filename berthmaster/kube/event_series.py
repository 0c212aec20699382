"""Which of the things that happen become events: repeats are counted in a series, and nobody floods.

As client-go's recorder of ``events.k8s.io/v1`` does, with two differences. The note belongs to what makes two events
alike: an event that was stored keeps its note, and a new story in an old event would never be read. And repeats are
written soon, at most every ``REPEAT_S``, instead of every half hour.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

from berthmaster.kube.events import Reference
from berthmaster.kube.rate import TokenBucket
from berthmaster.runtime.clock import Clock

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
