"""Informers: the objects of a collection as typed values, and handlers for their changes."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient
from berthmaster.kube.listing import Listed, Unread
from berthmaster.kube.reflector import Reflector
from berthmaster.model.errors import InputError
from berthmaster.model.meta import Key
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields, log_exceptions

_LOG: Final = logging.getLogger("berthmaster.kube")
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
MAX_IN_NAMESPACE: Final = 2**18
"""The most objects of a namespace. The others of a collection are read, however many are in this one."""
_TOO_MANY: Final = Unread(f"is not read: its namespace has more than {MAX_IN_NAMESPACE}")
MAX_UNDELIVERED: Final = 2**16
"""For how many objects one handler may have an undelivered change. Above that, the oldest change is dropped."""


class Handler(Protocol[T_contra]):
    """An event handler. It runs in the informer's thread and must be quick.

    A call that raises does not count and is repeated later with the state of that time. Among the calls that return,
    the ``before`` of an object is always the ``after`` of the previous call.
    """

    def __call__(self, key: Key, before: T_contra | None, after: T_contra | None, /) -> None:
        """Handle a change of an object. ``before`` is None for a new object, ``after`` for a deleted one."""


class Informer(Generic[T]):
    """The objects of one collection, kept up to date by a reflector.

    An object that is too large or cannot be decoded is skipped with a warning, or with an error and its traceback if
    the decoder crashes. Its last readable state stays. A handler that raises is called again after the next message of
    the server, and then with backoff. Other handlers are not affected.

    Attributes:
        problem: why the objects may be out of date; empty if they are current.
        stale_since: since when.
        unlistable: whether the objects themselves are the problem, and not the server.
    """

    def __init__(self, collection: requests.Collection, read: Callable[[bytes], T], clock: Clock) -> None:
        self.collection = collection
        self.problem = ""
        self.stale_since: datetime | None = None
        self.unlistable = False
        self._unread: dict[Key, str] = {}
        self._counts: Counter[str] = Counter()
        self._read = read
        self._clock = clock
        self._values: dict[Key, T] = {}
        self._deliveries: list[_Delivery[T]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._listed = threading.Event()
        self._reflector: Reflector | None = None
        self._delivering = threading.RLock()

    def subscribe(self, handler: Handler[T], *, standby: bool = False) -> None:
        """Call ``handler`` for each change, with ``standby`` also in a standby process. Subscribe before the start."""
        self._deliveries.append(_Delivery(handler, self.collection.plural, self._clock, standby=standby))

    def on_contact(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each message of the server, once all handlers have run, and when contact is lost.

        Register callbacks before the start. ``problem`` tells the two cases apart. A whole list is one message. If the
        callback raises after a message, the reflector lists again and calls it again. It must not raise when contact
        is lost.
        """
        self._callbacks.append(callback)

    def mute(self) -> None:
        for each in self._deliveries:
            each.muted = True

    def unmute(self, *, standby: bool = False) -> None:
        """Call the muted handlers for all objects as new ones. ``standby`` calls only those of a standby process."""
        with self._delivering:
            found = [each for each in self._deliveries if each.muted and (each.standby or not standby)]
            for each in found:
                each.muted = False
            for key, value in self.items() if found else ():
                for each in found:
                    each.deliver(key, None, value)

    def start(self, client: APIClient) -> None:
        self._reflector = Reflector(client, self.collection, self)
        self._reflector.start()

    def stop(self) -> None:
        if self._reflector is not None:
            self._reflector.stop()

    @property
    def listed(self) -> bool:
        """Whether the handlers have been called for a complete list."""
        return self._listed.is_set()

    @property
    def undelivered(self) -> int:
        """The number of changes for which a handler raised and is to be called again."""
        return sum(map(len, self._deliveries))

    def wait(self, timeout_s: float) -> bool:
        return self._listed.wait(timeout_s)

    def get(self, key: Key) -> T | None:
        return self._values.get(key)

    def items(self) -> Iterator[tuple[Key, T]]:
        return iter(list(self._values.items()))

    def __len__(self) -> int:
        return len(self._values)

    def unread(self) -> list[tuple[Key, str]]:
        """Return the objects whose present state is not read, and why. A problem follows the name of its object."""
        return sorted(self._unread.copy().items())

    def replace(self, objects: Iterable[Listed]) -> None:
        """Replace all objects by a complete list; none if a page raises. Readers never see a mixture."""
        after: dict[Key, T] = {}
        unread: dict[Key, str] = {}
        counts: Counter[str] = Counter()
        for key, content in objects:
            counts[key[0]] += 1
            value, problem = self._value(key, _TOO_MANY if counts[key[0]] > MAX_IN_NAMESPACE else content)
            if value is not None:
                after[key] = value
            if problem:
                unread[key] = problem
        with self._delivering:
            before, self._values, self._unread, self._counts = self._values, after, unread, counts
            for key, value in before.items():
                if key not in after:
                    self._deliver(key, value, None)
            for key, value in after.items():
                if (known := before.get(key)) is not value:
                    self._deliver(key, known, value)
        self._listed.set()

    def put(self, key: Key, content: msgspec.Raw | Unread) -> None:
        before = self._values.get(key)
        if before is None and key not in self._unread:
            self._counts[key[0]] += 1
            if self._counts[key[0]] > MAX_IN_NAMESPACE:
                content = _TOO_MANY
        after, problem = self._value(key, content)
        if problem:
            self._unread[key] = problem
        else:
            self._unread.pop(key, None)
        if after is not None and after is not before:
            with self._delivering:
                self._values[key] = after
                self._deliver(key, before, after)

    def delete(self, key: Key) -> None:
        unread = self._unread.pop(key, None)
        with self._delivering:
            before = self._values.pop(key, None)
            self._counts[key[0]] -= before is not None or unread is not None
            if before is not None:
                self._deliver(key, before, None)

    def mark_fresh(self) -> None:
        """Note that the server sent a message: the objects are up to date."""
        if self.problem:
            _LOG.info("watching %s again", self.collection.plural)
        self.problem, self.stale_since, self.unlistable = "", None, False
        with self._delivering:
            for each in self._deliveries:
                each.retry(self._values.get)
        for callback in self._callbacks:
            callback()

    def mark_stale(self, problem: str, *, unlistable: bool = False) -> None:
        """Note that the server does not respond as expected, or that the objects are ``unlistable``."""
        if not self.problem:
            self.stale_since = self._clock.now()
            _LOG.warning("failed to watch %s: %s", self.collection.plural, problem)
        self.problem, self.unlistable = problem, unlistable
        for callback in self._callbacks:
            callback()

    def _value(self, key: Key, content: msgspec.Raw | Unread) -> tuple[T | None, str]:
        """Decode an object. Return the known value if it is equal, or if the object is not read, and then why."""
        known = self._values.get(key)
        names = _names(self.collection.plural, key)
        if isinstance(content, Unread):
            _LOG.warning("skipping an object: it %s", content.problem, extra=fields(**names))
            return known, content.problem
        value, problem = known, "makes its decoder crash; the log says why"

        def read() -> None:
            nonlocal value, problem
            try:
                value, problem = self._read(bytes(content)), ""
            except InputError as error:
                problem = f"cannot be decoded: {error}"
                _LOG.warning("skipping an object: %s", error, extra=fields(**names))

        # A bug in a decoder must affect one object, not the watch of all others.
        log_exceptions(read, _LOG, "skipping an object: the decoder crashed", **names)
        return known if value == known else value, problem

    def _deliver(self, key: Key, before: T | None, after: T | None) -> None:
        for each in self._deliveries:
            if not each.muted:
                each.deliver(key, before, after)


class _Delivery(Generic[T]):
    """The delivery of changes to one handler. The caller holds a lock.

    ``len`` is the number of objects with an undelivered change.
    """

    def __init__(self, handler: Handler[T], plural: str, clock: Clock, *, standby: bool) -> None:
        self.standby = standby
        self.muted = False
        self._handler = handler
        self._plural = plural
        self._clock = clock
        self._backoff = Backoff()
        self._retry_at_s = clock.monotonic_s()
        # The state that the handler was last called with, for each object with a later state.
        self._undelivered: dict[Key, T | None] = {}

    def __len__(self) -> int:
        return len(self._undelivered)

    def deliver(self, key: Key, before: T | None, after: T | None) -> None:
        """Deliver a change together with the undelivered changes of the same object."""
        delivered = before
        if key in self._undelivered and (delivered := self._undelivered.pop(key)) == after:
            return  # nothing changed since the last call, or a new object was deleted before the first call
        # A crash of one handler must not keep changes from the other handlers, or later changes from this one.
        call = partial(self._handler, key, delivered, after)
        if log_exceptions(call, _LOG, "a handler crashed and will be called again", **_names(self._plural, key)):
            return
        if len(self._undelivered) >= MAX_UNDELIVERED:
            oldest = next(iter(self._undelivered))
            del self._undelivered[oldest]
            _LOG.error(
                "a change is lost: a handler keeps crashing, and too many changes wait for it",
                extra=fields(**_names(self._plural, oldest)),
            )
        self._undelivered[key] = delivered

    def retry(self, latest: Callable[[Key], T | None]) -> None:
        """Deliver all undelivered changes if the backoff is over. The first retry is immediate."""
        if not self._undelivered or self._clock.monotonic_s() < self._retry_at_s:
            return
        for key in list(self._undelivered):
            self.deliver(key, None, latest(key))
        if self._undelivered:
            self._retry_at_s = self._clock.monotonic_s() + self._backoff.next_s()
        else:
            self._backoff.reset()


def _names(plural: str, key: Key) -> dict[str, str]:
    return {"kind": plural, "namespace": key[0], "name": key[1]}
