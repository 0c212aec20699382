"""Informers: the objects of a collection as typed values, and handlers for their changes."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from berthmaster.kube.client import APIClient
from berthmaster.kube.reflector import Reflector
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import InputError
from berthmaster.model.meta import Key
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields, log_exceptions

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
MAX_UNDELIVERED: Final = 2**16
"""For how many objects one handler may have an undelivered change. Above that, the oldest change is dropped."""
_LOG: Final = logging.getLogger("berthmaster.kube")


class Handler(Protocol[T_contra]):
    """An event handler. It runs in the informer's thread and must be quick.

    A call that raises does not count and is repeated later with the state of that time. Among the calls that return,
    the ``before`` of an object is always the ``after`` of the previous call.
    """

    def __call__(self, key: Key, before: T_contra | None, after: T_contra | None, /) -> None:
        """Handle a change of an object. ``before`` is None for a new object, ``after`` for a deleted one."""


class Informer(Generic[T]):
    """The objects of one collection, kept up to date by a reflector.

    An object that cannot be decoded is skipped with a warning, or with an error and its traceback if the decoder
    crashes. Its last readable state stays. A handler that raises is called again after the next message of the server,
    and then with backoff. Other handlers are not affected.
    """

    def __init__(self, collection: Collection, read: Callable[[bytes], T], clock: Clock) -> None:
        self.collection = collection
        self.problem = ""
        self.stale_since: datetime | None = None
        self._read = read
        self._clock = clock
        self._values: dict[Key, T] = {}
        self._deliveries: list[_Delivery[T]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._listed = threading.Event()
        self._reflector: Reflector | None = None
        self._delivering = threading.RLock()
        self._muted = False

    def subscribe(self, handler: Handler[T]) -> None:
        """Call ``handler`` for each change. Subscribe before the start."""
        self._deliveries.append(_Delivery(handler, self.collection.plural, self._clock))

    def on_contact(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each message of the server, once all handlers have run, and when contact is lost.

        Register callbacks before the start. ``problem`` tells the two cases apart. A whole list is one message. If the
        callback raises after a message, the reflector lists again and calls it again. It must not raise when contact
        is lost.
        """
        self._callbacks.append(callback)

    def mute(self) -> None:
        """Call no handler until ``unmute``, as in a standby process."""
        self._muted = True

    def unmute(self) -> None:
        """Call the handlers for all objects as new ones, and for each change from now on."""
        with self._delivering:
            if self._muted:
                self._muted = False
                for key, value in self.items():
                    self._deliver(key, None, value)

    def start(self, client: APIClient) -> None:
        self._reflector = Reflector(client, self.collection, self)
        self._reflector.start()

    def stop(self) -> None:
        """Stop watching. The objects stay."""
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
        """Wait until ``listed``. Return whether it is."""
        return self._listed.wait(timeout_s)

    def get(self, key: Key) -> T | None:
        return self._values.get(key)

    def items(self) -> Iterator[tuple[Key, T]]:
        """Iterate over a snapshot of all objects."""
        return iter(list(self._values.items()))

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, objects: Iterable[tuple[Key, msgspec.Raw]]) -> None:
        """See ``ObjectStore``. Readers see the old list or the new one, never a mixture."""
        after = {key: value for key, raw in objects if (value := self._value(key, raw)) is not None}
        with self._delivering:
            before, self._values = self._values, after
            for key, value in before.items():
                if key not in after:
                    self._deliver(key, value, None)
            for key, value in after.items():
                if (known := before.get(key)) is not value:
                    self._deliver(key, known, value)
        self._listed.set()

    def put(self, key: Key, raw: msgspec.Raw) -> None:
        before, after = self._values.get(key), self._value(key, raw)
        if after is not None and after is not before:
            with self._delivering:
                self._values[key] = after
                self._deliver(key, before, after)

    def delete(self, key: Key) -> None:
        with self._delivering:
            before = self._values.pop(key, None)
            if before is not None:
                self._deliver(key, before, None)

    def mark_fresh(self) -> None:
        if self.problem:
            _LOG.info("watching %s again", self.collection.plural)
        self.problem, self.stale_since = "", None
        with self._delivering:
            for each in self._deliveries:
                each.retry(self._values.get)
        for callback in self._callbacks:
            callback()

    def mark_stale(self, problem: str) -> None:
        if not self.problem:
            self.stale_since = self._clock.now()
            _LOG.warning("failed to watch %s: %s", self.collection.plural, problem)
        self.problem = problem
        for callback in self._callbacks:
            callback()

    def _value(self, key: Key, raw: msgspec.Raw) -> T | None:
        """Decode an object. Return the known value if it is equal, or if the object cannot be decoded."""
        known = self._values.get(key)
        value = known
        names = _names(self.collection.plural, key)

        def read() -> None:
            nonlocal value
            try:
                value = self._read(bytes(raw))
            except InputError as error:
                _LOG.warning("skipping an object: %s", error, extra=fields(**names))

        # A bug in a decoder must affect one object, not the watch of all others.
        log_exceptions(read, _LOG, "skipping an object: the decoder crashed", **names)
        return known if value == known else value

    def _deliver(self, key: Key, before: T | None, after: T | None) -> None:
        if not self._muted:
            for each in self._deliveries:
                each.deliver(key, before, after)


class _Delivery(Generic[T]):
    """The delivery of changes to one handler. The caller holds a lock.

    ``len`` is the number of objects with an undelivered change.
    """

    def __init__(self, handler: Handler[T], plural: str, clock: Clock) -> None:
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
    """Return the fields that identify an object in log records."""
    return {"kind": plural, "namespace": key[0], "name": key[1]}
