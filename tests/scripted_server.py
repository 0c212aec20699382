"""An API server with scripted lists and watches of one collection, over real HTTP on loopback."""

import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

from kube_over_http import PromptHTTPServer
from werkzeug import Request, Response

HOLD = "hold"
"""A step of a watch: send nothing until the server closes or ``more`` has steps."""
CUT = "cut"
"""A step of a watch: break the connection in the middle of an event."""


def item(name: str, version: int = 1, **spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "resourceVersion": str(version)}, "spec": spec}


def event(kind: str, thing: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event(
        "BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}}
    )


def expired() -> bytes:
    """Make the line of a watch whose resource version is too old."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    return event("ERROR", status)


def page(items: Iterable[Mapping[str, Any]], version: int, token: str = "") -> bytes:
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return json.dumps({"kind": "ThingList", "metadata": metadata, "items": list(items)}).encode()


@dataclass
class ScriptedServer:
    """The server and its script.

    Attributes:
        lists: the responses to lists in order, each a body or a status. The last one repeats.
        watches: the responses to watches in order, each a list of steps or a status. Later watches hold.
        asked: the query of each request so far, with ``path``.
        more: more steps for the watch that holds.
    """

    lists: list[bytes | int] = field(default_factory=list)
    watches: list[list[bytes | str] | int] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    more: "Queue[bytes | str]" = field(default_factory=Queue)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.port = 0
        self.reopen()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def watched_from(self) -> list[str]:
        """The resource version of each watch so far."""
        return [query["resourceVersion"] for query in list(self.asked) if query.get("watch")]

    def close(self) -> None:
        """Stop listening and break open watches."""
        self._closing.set()
        self._http.stop()

    def reopen(self) -> None:
        self._closing = threading.Event()
        self._http = PromptHTTPServer("127.0.0.1", self.port, threaded=True)
        self._http.expect_request(re.compile(".*")).respond_with_handler(self._answer)
        self._http.start()
        self.port = self._http.port

    def _answer(self, http: Request) -> Response:
        with self._lock:
            self.asked.append({"path": http.path, "authorization": http.headers.get("Authorization", ""), **http.args})
            script: Any = self._next_watch() if "watch" in http.args else self._next_list()
        if isinstance(script, int):
            status = {"kind": "Status", "code": script, "reason": "Injected", "message": "injected"}
            return Response(json.dumps(status), script)
        if isinstance(script, bytes):
            return Response(script)
        return Response(self._sent(http, script), direct_passthrough=True)

    def _next_watch(self) -> list[bytes | str] | int:
        return self.watches.pop(0) if self.watches else [HOLD]

    def _next_list(self) -> bytes | int:
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]

    def _sent(self, http: Request, steps: list[bytes | str]) -> Iterator[bytes]:
        yield b"\n"  # sends the head before the first event, as an API server does
        for step in self._expanded(steps):
            if step == CUT:
                yield b"half"
                http.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                return
            assert isinstance(step, bytes)
            yield step

    def _expanded(self, steps: list[bytes | str]) -> Iterable[bytes | str]:
        closing = self._closing
        for step in steps:
            if step != HOLD:
                yield step
                continue
            while not closing.is_set():
                with suppress(Empty):
                    yield self.more.get(timeout=0.01)
            yield CUT
