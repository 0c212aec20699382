"""The plain port: ``/livez``, ``/readyz`` and ``/metrics``, apart from what is served over TLS.

It runs wherever ``serve_forever`` is called. Answers come from two functions, so that it knows nothing of the service.
"""

import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

_TEXT: Final = "text/plain; charset=utf-8"
_CLIENT_TIMEOUT_S: Final = 5.0


class Health(NamedTuple):
    """How a service is.

    Attributes:
        problem: why it should get no requests now; empty when it should.
        note: what people should know although requests are welcome; empty if nothing.
    """

    problem: str = ""
    note: str = ""


class Probes(NamedTuple):
    """What the port answers from.

    Attributes:
        health: how the service is.
        metrics: the content type and the text of all metrics.
        dead: why the process has to be started anew; empty while it need not.
    """

    health: Callable[[], Health]
    metrics: Callable[[], tuple[str, bytes]]
    dead: Callable[[], str] = lambda: ""


class ProbeServer(ThreadingHTTPServer):
    """A plain HTTP server for probes. Unless a service knows better, being able to answer makes ``/livez`` succeed."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        """Bind the port.

        Raises:
            OSError: it cannot be bound.
        """
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.probes = probes
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base class's types
        """A client that goes away early is no event."""


class _Handler(BaseHTTPRequestHandler):
    server: ProbeServer
    timeout = _CLIENT_TIMEOUT_S
    server_version = "berthmaster"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path == "/livez":
            problem = self.server.probes.dead()
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            self._answer(status, f"{problem or 'ok'}\n".encode(), _TEXT)
        elif path == "/readyz":
            problem, note = self.server.probes.health()
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            lines = f"{problem or 'ok'}\n{note}\n" if note else f"{problem or 'ok'}\n"
            self._answer(status, lines.encode(), _TEXT)
        elif path == "/metrics":
            content_type, text = self.server.probes.metrics()
            self._answer(HTTPStatus.OK, text, content_type)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there are /livez, /readyz and /metrics\n", _TEXT)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Probes come every few seconds: they are not logged."""
