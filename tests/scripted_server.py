"""An API server with scripted lists and watches of one collection, over real HTTP on loopback."""

import json
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

HOLD = "hold"
"""A step of a watch: send nothing until the server closes or ``more`` has steps."""
CUT = "cut"
"""A step of a watch: break the connection in the middle of a chunk."""


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
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._http = self._listen(0)
        self.port = self._http.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def watched_from(self) -> list[str]:
        """The resource version of each watch so far."""
        return [query["resourceVersion"] for query in list(self.asked) if query.get("watch")]

    def close(self) -> None:
        """Stop listening and break open connections."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()

    def reopen(self) -> None:
        self._closing = threading.Event()
        self._http = self._listen(self.port)

    def _listen(self, port: int) -> ThreadingHTTPServer:
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                script.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                pass

        http = Http(("127.0.0.1", port), Handler)
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return http

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self._lock:
            self.asked.append({"path": parts.path, "authorization": handler.headers.get("Authorization", ""), **query})
            watching = bool(query.get("watch"))
            script: Any = (
                self.watches.pop(0) if watching and self.watches else [HOLD] if watching else self._next_list()
            )
        if isinstance(script, int):
            body = json.dumps({"kind": "Status", "code": script, "reason": "Injected", "message": "injected"}).encode()
            self._send(handler, script, body)
        elif isinstance(script, bytes):
            self._send(handler, 200, script)
        else:
            self._stream(handler, script)

    def _next_list(self) -> bytes | int:
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _stream(self, handler: BaseHTTPRequestHandler, steps: list[bytes | str]) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.flush()
        handler.close_connection = True
        with suppress(OSError):
            for step in self._expanded(steps):
                if step == CUT:
                    handler.wfile.write(b"ff\r\nhalf")
                    handler.wfile.flush()
                    handler.connection.shutdown(2)
                    return
                assert isinstance(step, bytes)
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
                handler.wfile.flush()
            handler.wfile.write(b"0\r\n\r\n")

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
