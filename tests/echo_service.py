"""A service on Berthmaster's server whose answers show what the worker does: ``echo_service.py OPTIONS``.

``OPTIONS`` is a JSON object with options of ``ServerOptions``. Each answer has the field ``X-Thread``: ``polling`` or
``pool``.

| Request | Answer |
|---|---|
| ``POST /cheap`` | the body; the polling thread answers a body that does not begin with ``slow`` |
| ``POST /hold``, ``/waits`` | the body, the path of a file, once that file exists; ``PATH.begun`` is made first |
| ``POST /stall`` | the same, in the polling thread |
| ``POST /big`` | as many bytes as the body says |
| ``POST /stream`` | the body in capitals, streamed in two pieces |
| ``POST /crash`` | an error |
| ``GET /events`` | ``one`` and ``two``, streamed |
| ``GET /endless`` | ``more`` without end, streamed; the file of the query is made once the application may end |
| others | the WSGI environment as JSON |
"""

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from berthmaster.serving.bodies import BodyError, read_body
from berthmaster.serving.probes import Readiness
from berthmaster.serving.request_parser import BodyCollection
from berthmaster.serving.server import ServedApp, ServerOptions, serve

BODY_BYTES = 2**21
HOLD_S = 60


def application(environ, start_response):
    path = environ["PATH_INFO"]
    thread = "polling" if threading.current_thread() is threading.main_thread() else "pool"
    fields = [("Content-Type", "text/plain"), ("X-Thread", thread)]
    try:
        body = read_body(environ, BODY_BYTES) if environ["REQUEST_METHOD"] == "POST" else b""
    except BodyError as error:
        start_response(f"{error.status} Refused", [*fields, *error.headers])
        return [str(error).encode()]
    if path == "/crash":
        raise RuntimeError("a test wants this error")
    if path in {"/hold", "/waits", "/stall"}:
        hold(Path(body.strip().decode()))
    elif path == "/big":
        body = b"x" * int(body)
    elif path == "/stream":
        start_response("200 OK", fields)
        return iter([body.upper()[:1], body.upper()[1:]])
    elif path == "/events":
        start_response("200 OK", fields)
        return iter([b"one", b"two"])
    elif path == "/endless":
        start_response("200 OK", fields)
        return endless(Path(environ["QUERY_STRING"]))
    elif path != "/cheap":
        body = json.dumps({key: value for key, value in environ.items() if isinstance(value, str)}).encode()
    start_response("200 OK", [*fields, ("Content-Length", str(len(body)))])
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


def endless(file):
    try:
        while True:
            yield b"more"
            time.sleep(0.01)
    finally:
        file.touch()


def hold(file):
    file.with_suffix(".begun").touch()
    until = time.monotonic() + HOLD_S
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)


class Service:
    """The service as the server sees it."""

    def application(self, _metrics):
        cheap = {"/cheap": lambda body: not body.startswith(b"slow"), "/stall": bool, "/waits": lambda _body: False}
        collection = BodyCollection(
            BODY_BYTES, {"/stream", "/events", "/endless"}, lambda fields: "HTTP_X_STRANGER" not in fields
        )
        return ServedApp(application, cheap, collection, frozenset({"/waits"}))

    def started(self, report):
        report(Readiness())


DEFAULTS = {
    "name": "echo", "host": "127.0.0.1", "probe_host": "127.0.0.1", "tls": None, "workers": 1,
    "threads": 4, "connections": 100, "request_memory_bytes": 2**26, "request_timeout_s": 60.0, "keepalive_s": 60,
    "drain_s": 0.0, "grace_s": 10,
}  # fmt: skip

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve(ServerOptions(**{**DEFAULTS, **json.loads(sys.argv[1])}), Service())
