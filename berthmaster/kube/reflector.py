"""A reflector lists and watches one collection, as that of client-go does.

A watch continues where the last one ended. The reflector lists again only when the server has forgotten that version
(410); bookmarks make that rare. It retries failures with backoff. Until a retry succeeds, the store keeps its objects.
"""

import logging
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, APIResponse, read_body
from berthmaster.kube.listing import Listed, Unread, bounded, pages
from berthmaster.kube.responses import MAX_MESSAGE_BYTES, WatchEvent, decode_identity, decode_watch_event
from berthmaster.model.errors import ApiError, ResponseTooLargeError, UnlistableError
from berthmaster.model.meta import Key
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.logs import log_exceptions

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


class ReflectedStore(Protocol):
    """Where a reflector puts what it reads. Its thread calls all methods."""

    def replace(self, objects: Iterable[Listed]) -> None:
        """Replace all objects by a complete list; none if a page raises."""

    def put(self, key: Key, content: msgspec.Raw | Unread) -> None:
        """Add or change an object."""

    def delete(self, key: Key) -> None:
        """Remove an object."""

    def mark_fresh(self) -> None:
        """Note that the server sent a message: the objects are up to date."""

    def mark_stale(self, problem: str, *, unlistable: bool = False) -> None:
        """Note that the server does not respond as expected, or that the objects are ``unlistable``."""


class Reflector:
    """Keeps an informer up to date in its own thread."""

    def __init__(
        self,
        client: APIClient,
        collection: requests.Collection,
        store: "ReflectedStore",
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
                    version = self._process(decode_watch_event(line)) or version
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

    def _process(self, event: WatchEvent) -> str:
        identity = decode_identity(bytes(event.object))
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
        if len(rest) > MAX_MESSAGE_BYTES:
            raise ResponseTooLargeError(MAX_MESSAGE_BYTES, "a watch event")
        if time.monotonic() > deadline_s:
            return
