"""List, then watch: what there is of a kind, told to a mirror for as long as the reflector runs.

A watch goes on where the last one ended. Only when the server does not remember so far back (410) is everything listed
anew; bookmarks keep that rare. Whatever fails is tried again after a wait that grows; until it works the mirror keeps
what it has.
"""

import logging
import random
import threading
import time
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from berthmaster.kube.client import APIClient, APIResponse, read_body
from berthmaster.kube.requests import PAGE_SIZE, Collection, Key, page, watch
from berthmaster.kube.responses import MAX_MESSAGE_BYTES, WatchEvent, decode_identity, decode_page, decode_watch_event
from berthmaster.model.errors import ApiError
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.logs import log_exceptions

MAX_OBJECTS: Final = 2**18
_LOG: Final = logging.getLogger("berthmaster.kube")
_LIST_SILENCE_S: Final = 30.0
# The API server sends a bookmark about once a minute, so that longer silence means that nobody is there.
_WATCH_SILENCE_S: Final = 150.0
_SHORTEST_WATCH_S: Final = 240
_LONGEST_WATCH_S: Final = 360
_OVERTIME_S: Final = 30.0
# A watch that ends sooner, without a single event, did not work.
_WORTHWHILE_S: Final = 1.0


class Mirror(Protocol):
    """Holds what a reflector sees. Called from the reflector's thread only."""

    def replace(self, objects: dict[Key, msgspec.Raw]) -> None:
        """These are all there are."""

    def put(self, key: Key, raw: msgspec.Raw) -> None:
        """One is new, or has changed."""

    def drop(self, key: Key) -> None:
        """One is gone."""

    def confirm(self) -> None:
        """The server was heard: what the mirror holds is how things are."""

    def lose(self, problem: str) -> None:
        """The server is lost, or does not answer as it should."""


class Reflector:
    """Keeps one mirror right, from a thread of its own."""

    def __init__(
        self,
        client: APIClient,
        collection: Collection,
        mirror: Mirror,
        backoff: Backoff | None = None,
        draw: random.Random | None = None,
    ) -> None:
        self._client = client
        self._collection = collection
        self._mirror = mirror
        self._backoff = backoff or Backoff()
        self._draw = draw or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._version = ""
        self._stopping = threading.Event()
        self._answer: APIResponse | None = None
        self._thread = threading.Thread(target=self.run, name=f"reflect-{collection.what}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the thread; returns once it has ended or ``timeout_s`` is over."""
        self._stopping.set()
        if (answer := self._answer) is not None:
            answer.abort()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def run(self) -> None:
        """List and watch until told to stop."""
        while not self._stopping.is_set():
            # The thread's outermost edge: else a mirror would stand still unnoticed.
            if not log_exceptions(self._round, _LOG, "the watch of %s failed", self._collection.what):
                self._version = ""
                self._mirror.lose("the watch failed; the log says why")
                self._stopping.wait(self._backoff.next_s())

    def _round(self) -> None:
        """One watch, after a list where that is needed; or a wait after what went wrong."""
        try:
            if not self._version:
                self._version = self._list()
                self._mirror.confirm()
            self._version = self._watch(self._version)
        except ApiError as error:
            if self._stopping.is_set():
                return
            if error.expired and self._version:
                self._version = ""
            else:
                self._mirror.lose(str(error))
            self._stopping.wait(self._backoff.next_s())

    def _list(self) -> str:
        """List everything, page by page; the resource version of the list."""
        found: dict[Key, msgspec.Raw] = {}
        token = ""
        for _ in range(MAX_OBJECTS // PAGE_SIZE + 1):
            with self._sent(self._client.send(page(self._collection, token, _LIST_SILENCE_S))) as answer:
                part = decode_page(read_body(answer))
            for raw in part.items or ():
                found[decode_identity(bytes(raw)).key] = raw
            token = part.metadata.continue_
            if not token:
                self._mirror.replace(found)
                return part.metadata.resource_version
        raise ApiError(0, "", f"there are more than {MAX_OBJECTS} {self._collection.what}")

    def _watch(self, version: str) -> str:
        """Take in changes until the server ends the watch; the resource version that was reached.

        Raises:
            ApiError: the watch has failed; ``version`` is lost only where the server says so.
        """
        duration_s = self._draw.randint(_SHORTEST_WATCH_S, _LONGEST_WATCH_S)
        started_s = time.monotonic()
        request = watch(self._collection, version, duration_s, _WATCH_SILENCE_S)
        events = 0
        try:
            with self._sent(self._client.send(request)) as answer:
                self._mirror.confirm()
                for line in _lines(answer, started_s + duration_s + _OVERTIME_S):
                    version = self._take(decode_watch_event(line)) or version
                    events += 1
                    self._backoff.reset()
        except ApiError as error:
            if error.expired or not events:
                raise
            if self._stopping.is_set():
                return version  # it was ended here, and nobody is lost
            self._mirror.lose(str(error))
            self._stopping.wait(self._backoff.next_s())
            return version
        if not events and time.monotonic() - started_s < _WORTHWHILE_S and not self._stopping.is_set():
            raise ApiError(0, "", f"the watch of {self._collection.what} ended at once")
        return version

    def _take(self, event: WatchEvent) -> str:
        """Take in one event; the resource version it brings."""
        identity = decode_identity(bytes(event.object))
        match event.type:
            case "ADDED" | "MODIFIED":
                self._mirror.put(identity.key, event.object)
            case "DELETED":
                self._mirror.drop(identity.key)
            case "BOOKMARK":
                pass
            case _:
                raise ApiError(0, "", f"an event of unknown type {event.type[:32]!r}")
        self._mirror.confirm()
        return identity.resource_version

    def _sent(self, answer: APIResponse) -> APIResponse:
        """Remember the answer that is being read, so that ``stop`` can end it."""
        self._answer = answer
        if self._stopping.is_set():
            answer.abort()
        return answer


def _lines(answer: APIResponse, deadline_s: float) -> Iterator[bytes]:
    """The lines of a body, each of bounded size, until a monotonic time is over. A line that never ends is dropped."""
    rest = bytearray()
    for chunk in answer.chunks():
        *lines, last = chunk.split(b"\n")
        for line in lines:
            whole = bytes(rest) + line
            rest.clear()
            if whole.strip():
                yield whole
        rest += last
        if len(rest) > MAX_MESSAGE_BYTES:
            raise ApiError(0, "", f"an event of more than {MAX_MESSAGE_BYTES} bytes")
        if time.monotonic() > deadline_s:
            return
