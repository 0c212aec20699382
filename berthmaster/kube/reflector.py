"""Lists and watches one collection, as client-go's reflector does.

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

from berthmaster.kube.client import APIClient, APIResponse, read_body
from berthmaster.kube.requests import PAGE_SIZE, Collection, page, watch
from berthmaster.kube.responses import (
    MAX_MESSAGE_BYTES,
    ListPage,
    WatchEvent,
    decode_identity,
    decode_response,
    decode_watch_event,
)
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Key
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.logs import log_exceptions

MAX_OBJECTS: Final = 2**18
_LOG: Final = logging.getLogger("berthmaster.kube")
_LIST_READ_TIMEOUT_S: Final = 30.0
# The API server sends a bookmark about once a minute. A longer silence means that the connection is dead.
_WATCH_READ_TIMEOUT_S: Final = 150.0
_MIN_WATCH_S: Final = 240
_MAX_WATCH_S: Final = 360
_WATCH_GRACE_S: Final = 30.0
# A watch that ends sooner and without an event has failed.
_MIN_USEFUL_WATCH_S: Final = 1.0


class ObjectStore(Protocol):
    """Holds the objects of a reflector. Called from the reflector's thread only."""

    def replace(self, objects: Iterable[tuple[Key, msgspec.Raw]]) -> None:
        """Replace all objects by a complete list.

        Args:
            objects: the list, which is requested page by page. It raises if a page cannot be read; then nothing is
                replaced.
        """

    def put(self, key: Key, raw: msgspec.Raw) -> None:
        """Add or update an object."""

    def delete(self, key: Key) -> None:
        """Delete an object."""

    def mark_fresh(self) -> None:
        """Note that the server sent a message: the objects are up to date."""

    def mark_stale(self, problem: str) -> None:
        """Note that the server does not respond as expected: the objects may be out of date."""


class Reflector:
    """Keeps one store up to date in its own thread."""

    def __init__(
        self,
        client: APIClient,
        collection: Collection,
        store: ObjectStore,
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
        """Stop the thread and wait up to ``timeout_s`` for its end."""
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
        """List if necessary, then watch once. Wait after an error."""
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
                self._store.mark_stale(str(error))
            self._stopping.wait(self._backoff.next_s())

    def _list(self) -> Iterator[tuple[Key, msgspec.Raw]]:
        """Yield all objects, and set the resource version. No more than one page is in memory."""
        continue_token = ""
        for _ in range(MAX_OBJECTS // PAGE_SIZE + 1):
            request = page(self._collection, continue_token, _LIST_READ_TIMEOUT_S)
            with self._opened(self._client.send(request)) as response:
                part = decode_response(ListPage, read_body(response), "a list page")
            for raw in part.items or ():
                yield decode_identity(bytes(raw)).key, raw
            continue_token = part.metadata.continue_
            if not continue_token:
                self._version = part.metadata.resource_version
                return
        raise ApiError(0, "", f"more than {MAX_OBJECTS} {self._collection.plural}")

    def _watch(self, version: str) -> str:
        """Process changes until the server ends the watch. Return the last resource version.

        Raises:
            ApiError: the watch failed. ``version`` is still valid unless the error is ``expired``.
        """
        duration_s = self._draw.randint(_MIN_WATCH_S, _MAX_WATCH_S)
        started_s = time.monotonic()
        request = watch(self._collection, version, duration_s, _WATCH_READ_TIMEOUT_S)
        events = 0
        try:
            with self._opened(self._client.send(request)) as response:
                self._store.mark_fresh()
                for line in _lines(response, started_s + duration_s + _WATCH_GRACE_S):
                    version = self._process(decode_watch_event(line)) or version
                    events += 1
                    self._backoff.reset()
        except ApiError as error:
            if error.expired or not events:
                raise
            if self._stopping.is_set():
                return version  # ``stop`` ended the watch
            self._store.mark_stale(str(error))
            self._stopping.wait(self._backoff.next_s())
            return version
        if not events and time.monotonic() - started_s < _MIN_USEFUL_WATCH_S and not self._stopping.is_set():
            raise ApiError(0, "", f"the watch of {self._collection.plural} ended at once")
        return version

    def _process(self, event: WatchEvent) -> str:
        """Process one event. Return its resource version."""
        identity = decode_identity(bytes(event.object))
        match event.type:
            case "ADDED" | "MODIFIED":
                self._store.put(identity.key, event.object)
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
            raise ApiError(0, "", f"a watch event is larger than {MAX_MESSAGE_BYTES} bytes")
        if time.monotonic() > deadline_s:
            return
