"""Informers: the objects of a collection as typed values, and handlers for their changes.

A ``Reflector`` lists and watches one collection, as that of client-go does.
A watch continues where the last one ended. The reflector lists again only when the server has forgotten that version
(410); bookmarks make that rare. It retries failures with backoff. Until a retry succeeds, the store keeps its objects.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, APIResponse, ask, read_body
from berthmaster.kube.listing import Listed, Unread, bounded, pages
from berthmaster.model.errors import ApiError, InputError, ResponseTooLargeError, UnlistableError
from berthmaster.model.meta import Key
from berthmaster.runtime.clock import Backoff, Clock
from berthmaster.runtime.logs import fields, log_exceptions
from berthmaster.runtime.stopping import RepeatingThread

_LOG: Final = logging.getLogger("berthmaster.kube")
_LIST_READ_TIMEOUT_S: Final = 30.0
# A watch is short, so that the API server must say something, its end at least: a longer silence means that the
# connection is dead. A bookmark comes only about once a minute, and a proxy may keep a connection to a dead server.
_MIN_WATCH_S: Final = 30
_MAX_WATCH_S: Final = 45
_WATCH_GRACE_S: Final = 10.0
_WATCH_READ_TIMEOUT_S: Final = _MAX_WATCH_S + _WATCH_GRACE_S
# A watch that ends sooner and without an event has failed.
_MIN_USEFUL_WATCH_S: Final = 1.0


class Reflector:
    """Keeps an informer up to date in its own thread."""

    def __init__(
        self,
        client: APIClient,
        collection: requests.Collection,
        store: "Informer[Any]",
        backoff: Backoff | None = None,
        draw: random.Random | None = None,
    ) -> None:
        self._client = client
        self._collection = collection
        self._store = store
        self._backoff = backoff or Backoff()
        self._draw = draw or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._version = ""
        self._stopping = threading.Event()
        self._response: APIResponse | None = None
        self._thread = threading.Thread(target=self.run, name=f"reflect-{collection.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        self._stopping.set()
        if (response := self._response) is not None:
            response.abort()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def run(self) -> None:
        while not self._stopping.is_set():
            # The outermost edge of the thread: without it the store would become stale unnoticed.
            if not log_exceptions(self._round, _LOG, "the reflector of %s crashed", self._collection.plural):
                self._version = ""
                self._store.mark_stale("the reflector crashed; the log says why")
                self._stopping.wait(self._backoff.next_s())

    def _round(self) -> None:
        try:
            if not self._version:
                self._store.replace(self._list())
                self._store.mark_fresh()
            self._version = self._watch(self._version)
        except ApiError as error:
            if self._stopping.is_set():
                return
            if error.expired and self._version:
                self._version = ""
            else:
                self._mark_stale(error)
            if isinstance(error, ResponseTooLargeError):
                self._version = ""  # a list names the object that was in the event
            self._stopping.wait(self._backoff.next_s())

    def _mark_stale(self, error: ApiError) -> None:
        self._store.mark_stale(str(error), unlistable=isinstance(error, UnlistableError))

    def _list(self) -> Iterator[Listed]:
        """Yield all objects, and set the resource version. No more than one page is in memory."""
        version = ""
        for page in pages(self._page, self._collection, read_timeout_s=_LIST_READ_TIMEOUT_S):
            yield from page.objects
            version = page.version
        self._version = version

    def _page(self, request: requests.APIRequest) -> bytes:
        with self._opened(self._client.send(request)) as response:
            return read_body(response)

    def _watch(self, version: str) -> str:
        """Process changes until the watch ends. Return the last version, which stays valid unless it ``expired``."""
        duration_s = self._draw.randint(_MIN_WATCH_S, _MAX_WATCH_S)
        started_s = time.monotonic()
        request = requests.watch(self._collection, version, duration_s, _WATCH_READ_TIMEOUT_S)
        events = 0
        try:
            with self._opened(self._client.send(request)) as response:
                self._store.mark_fresh()
                for line in _lines(response, started_s + duration_s + _WATCH_GRACE_S):
                    version = self._process(requests.decode_watch_event(line)) or version
                    events += 1
                    self._backoff.reset()
        except ApiError as error:
            if error.expired or not events or isinstance(error, ResponseTooLargeError):
                raise
            if self._stopping.is_set():
                return version  # ``stop`` ended the watch
            self._mark_stale(error)
            self._stopping.wait(self._backoff.next_s())
            return version
        if not events and time.monotonic() - started_s < _MIN_USEFUL_WATCH_S and not self._stopping.is_set():
            raise ApiError(0, "", f"the watch of {self._collection.plural} ended at once")
        return version

    def _process(self, event: requests.WatchEvent) -> str:
        identity = requests.decode_identity(bytes(event.object))
        match event.type:
            case "ADDED" | "MODIFIED":
                self._store.put(identity.key, bounded(event.object))
            case "DELETED":
                self._store.delete(identity.key)
            case "BOOKMARK":
                pass
            case _:
                raise ApiError(0, "", f"unknown type of a watch event: {event.type[:32]!r}")
        self._store.mark_fresh()
        return identity.resource_version

    def _opened(self, response: APIResponse) -> APIResponse:
        """Remember the response that is being read, so that ``stop`` can abort it."""
        self._response = response
        if self._stopping.is_set():
            response.abort()
        return response


def _lines(response: APIResponse, deadline_s: float) -> Iterator[bytes]:
    """Yield the lines of a body, of bounded size, until a monotonic time. An incomplete last line is dropped."""
    rest = bytearray()
    for chunk in response.chunks():
        *lines, last = chunk.split(b"\n")
        for line in lines:
            whole = bytes(rest) + line
            rest.clear()
            if whole.strip():
                yield whole
        rest += last
        if len(rest) > requests.MAX_MESSAGE_BYTES:
            raise ResponseTooLargeError(requests.MAX_MESSAGE_BYTES, "a watch event")
        if time.monotonic() > deadline_s:
            return


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


INTERVAL_S: Final = 15.0
"""The mean pause between two checks."""
READ_TIMEOUT_S: Final = 15.0
RETRY_S: Final = 2.0
UNCONFIRMED_S: Final = 30.0
"""Checks must fail for this long. One lost connection says nothing about etcd."""


class SourceCheck:
    """Finds out whether watched objects can still be current, which a watch cannot show.

    An API server that cannot reach etcd keeps watches open, sends bookmarks and starts new watches, all from its
    memory. Only a read that etcd must confirm fails. The check reads one object per API group at intervals, in a thread
    of its own. The reads bypass the API server's memory.

    It checks each API group once, because the aggregation layer can serve a group by another server.

    A read can also show that the API server has gone back: its resource versions only rise, except after a restore of
    etcd. Watches of later versions then wait in silence, and writes conflict. Only a restart of this process ends that.

    Attributes:
        problem: why watched objects may be out of date although they are watched; empty if they are current.
        stale_since: when the last successful check began, if there is a problem; else None.
        went_back: whether the API server has gone back to a lower resource version.
    """

    def __init__(
        self,
        collections: Iterable[requests.Collection],
        clock: Clock,
        report: Callable[[], None] | None = None,
        restored: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare the check of collections that the client may list.

        Args:
            report: called after the problem has changed. It must not raise.
            restored: called with the reason when the API server has gone back. It must not raise.
        """
        self.problem = ""
        self.stale_since: datetime | None = None
        self._collections = list({each.path.removesuffix(each.plural): each for each in collections}.values())
        self._clock = clock
        self._report = report
        self._restored = restored
        self._versions: dict[str, int] = {}
        self.went_back = False
        self._confirmed_at, self._confirmed_s = clock.now(), clock.monotonic_s()
        self._failed = False
        self._thread: RepeatingThread | None = None

    def start(self, client: APIClient) -> None:
        self._confirmed_at, self._confirmed_s = self._clock.now(), self._clock.monotonic_s()
        self._thread = RepeatingThread(
            "source-check", lambda: self.check(client), self._pause_s, _LOG, "the API server could not be checked"
        )
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()

    def check(self, client: APIClient) -> None:
        began_at, began_s = self._clock.now(), self._clock.monotonic_s()
        try:
            for collection in self._collections:
                self._compare(collection, ask(client, requests.probe(collection, READ_TIMEOUT_S)))
        except ApiError as error:
            self._fail(error)
        else:
            self._failed = False
            if self.went_back:
                return
            self._confirmed_at, self._confirmed_s = began_at, began_s
            if self.problem:
                _LOG.info("the API server returns current objects again")
                self._set("", None)

    def _compare(self, collection: requests.Collection, body: bytes) -> None:
        """Compare the version of a collection with the last one. What is no number cannot be compared."""
        version = requests.decode_response(requests.ProbedList, body, collection.plural).metadata.resource_version
        if not version.isdecimal():
            return
        before, now = self._versions.get(collection.path, 0), int(version)
        self._versions[collection.path] = now
        if now >= before or self.went_back:
            return
        self.went_back = True
        problem = (
            f"the API server has gone back from version {before} to {now} of {collection.plural}, as after a restore "
            "of etcd; this process must start again"
        )
        _LOG.error("watched objects are from a time that is lost: %s", problem)
        self._set(problem, self._confirmed_at)
        if self._restored is not None:
            self._restored(problem)

    def _fail(self, error: ApiError) -> None:
        self._failed = True
        if self.went_back or self._clock.monotonic_s() - self._confirmed_s < UNCONFIRMED_S:
            return
        problem = f"the API server does not return current objects; check it and its etcd: {error}"
        if not self.problem:
            _LOG.warning("watched objects may be out of date: %s", problem)
        if problem != self.problem:
            self._set(problem, self._confirmed_at)

    def _set(self, problem: str, since: datetime | None) -> None:
        self.problem, self.stale_since = problem, since
        if self._report is not None:
            self._report()

    def _pause_s(self) -> float:
        """Return the pause before the next check, with jitter: many processes start at once."""
        return RETRY_S if self._failed else INTERVAL_S * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
