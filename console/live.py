"""Live updates: one thread watches the version of the extender's state, and open pages compare it with their own.

Each page carries the mark of the state that it shows. A stream begins with the mark of the present state and repeats
it. So a page notices a change that happened while it had no stream.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain, repeat
from typing import Final

import msgspec
from werkzeug.wsgi import ClosingIterator

from berthmaster.native_api.fleet import StateVersion
from berthmaster.native_api.wire import Staleness
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.stopping import RepeatingThread
from console import context, metrics
from console.source import ExtenderState, SourceError

EVENTS: Final = "/events"
_LOG: Final = logging.getLogger("berthmaster.console")
_POLL_S: Final = 1.0
_SETTLED_S: Final = 3.0
"""How long after a change pages update once more: the processes of an extender see a change one after the other."""
_HEARTBEAT_S: Final = 10.0
_CHECK_S: Final = 1.0
_SEE_LOG: Final = "The log of the extender says why."
_LEAST_OF_VISITOR: Final = 6
"""A browser opens six connections to one host."""


class StateWatcher:
    """Polls the version of the extender's state. Safe for several threads.

    Attributes:
        seen: what is known about the extender now.
    """

    def __init__(self, ask: Callable[[], StateVersion], clock: Clock, *, shows_cause: bool = True) -> None:
        """Prepare the watcher. ``start`` begins to poll.

        Args:
            shows_cause: whether the notice has the words of the extender about its source. They can name objects of
                any namespace.
        """
        self._ask, self._clock, self._shows_cause = ask, clock, shows_cause
        self.seen = ExtenderState()
        self._changed = threading.Condition()
        self._lost_since: datetime | None = None
        self._settled_at = 0.0
        self.stopping = False

    def start(self) -> None:
        """Poll in a thread each second, also while the extender is lost: pages show errors until it is back."""
        pauses_s = chain((0.0,), repeat(_POLL_S))
        RepeatingThread("state-watcher", self.poll, pauses_s.__next__, _LOG, "the version cannot be read").start()

    def poll(self) -> None:
        """Ask for the version once."""
        try:
            found = self._ask()
        except SourceError as error:
            self._failed(error)
            return
        if self._lost_since is not None:
            _LOG.info("the extender answers again")
            self._lost_since = None
        metrics.SOURCE_LOST.set(0)
        now_s = self._clock.monotonic_s()
        if found.version != self.seen.version:
            self._settled_at = now_s + _SETTLED_S
        self._publish(ExtenderState(found.version, now_s < self._settled_at, None, self._stale(found.staleness)))

    def await_change(self, known: ExtenderState | None, timeout_s: float) -> ExtenderState:
        """Return what pages must know, once it differs from what they know, or after a time."""
        with self._changed:
            self._changed.wait_for(lambda: self.seen != known, timeout_s)
            return self.seen

    def _failed(self, error: SourceError) -> None:
        now = self._clock.now()
        if self._lost_since is None:
            self._lost_since = now
            _LOG.warning("the extender cannot be asked: %s", error)
        metrics.SOURCE_LOST.set(1)
        notice = f"The extender cannot be asked since {_time(self._lost_since, now)}: {error}"
        self._publish(self.seen._replace(lost=error, notice=notice))

    def _stale(self, found: Staleness) -> str:
        """Return the notice about a source that is out of date; empty if it is not."""
        since = found.stale_since
        if since is None:
            return ""
        shown = f"; the pages show the state of {_time(found.loaded_at, since)}" if found.loaded_at else ""
        cause = found.problem if self._shows_cause else _SEE_LOG
        return f"The extender lost its source at {_time(since, since)}{shown}. {cause}".strip()

    def _publish(self, seen: ExtenderState) -> None:
        if seen == self.seen:
            return
        with self._changed:
            self.seen = seen
            self._changed.notify_all()


class EventStreams:
    """The open streams of events, at most a number of them. Safe for several threads."""

    def __init__(self, watcher: StateWatcher, clock: Clock, limit: int) -> None:
        self._watcher, self._clock, self._limit = watcher, clock, limit
        self._open: dict[object, str] = {}
        self._limit_of_visitor = max(_LEAST_OF_VISITOR, limit // 4)
        self._lock = threading.Lock()

    def open(self, visitor: str) -> ClosingIterator | None:
        """Return a new stream, or None if there are too many. Close the stream to make room for others.

        Args:
            visitor: who opens it. One visitor has at most a quarter of all streams.
        """
        stream = object()
        with self._lock:
            own = sum(each == visitor for each in self._open.values())
            if len(self._open) >= self._limit or own >= self._limit_of_visitor or self._watcher.stopping:
                return None
            self._open[stream] = visitor
            metrics.STREAMS.set(len(self._open))
        return ClosingIterator(self._events(), lambda: self._closed(stream))

    def _events(self) -> Iterator[bytes]:
        """Yield events: ``state`` with the mark of the present state, ``notice`` with what is wrong with the source.

        The mark is repeated now and then. A page that hears nothing for some time knows that its stream is dead.
        """
        watcher, begun_s = self._watcher, self._clock.monotonic_s()
        life_s = context.STREAM_LIFE_S * random.uniform(0.8, 1.2)  # noqa: S311 - so that streams do not end together
        seen = watcher.await_change(None, 0.0)
        yield f"retry: 2000\n\n{_event('notice', seen.notice)}{_event('state', seen.mark)}".encode()
        sent_s = begun_s
        while not watcher.stopping and (now_s := self._clock.monotonic_s()) - begun_s < life_s:
            before, seen = seen, watcher.await_change(seen, _CHECK_S)
            text = _event("notice", seen.notice) if seen.notice != before.notice else ""
            if seen.mark != before.mark or now_s - sent_s >= _HEARTBEAT_S:
                text += _event("state", seen.mark)
            if text:
                sent_s = now_s
                yield text.encode()

    def _closed(self, stream: object) -> None:
        with self._lock:
            self._open.pop(stream, None)
            metrics.STREAMS.set(len(self._open))


def _event(name: str, data: str) -> str:
    """Return one event. Its data is a JSON string, which has no line ends."""
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"


def _time(moment: datetime, now: datetime) -> str:
    same = moment.date() == now.date()
    return moment.strftime("%H:%M:%S UTC" if same else "%Y-%m-%d %H:%M:%S UTC")
