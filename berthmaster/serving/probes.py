"""The plain HTTP port for ``/livez``, ``/readyz`` and ``/metrics``.

It is separate from the port that serves requests over TLS. Functions supply the answers, so this module does not
depend on the service.
"""

import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from berthmaster.model.errors import InputError

_TEXT: Final = "text/plain; charset=utf-8"
_CLIENT_TIMEOUT_S: Final = 5.0


class Readiness(NamedTuple):
    """The state of a service for ``/readyz``.

    Attributes:
        problem: the reason why the service should get no requests; empty if it is ready.
        note: a remark about a ready service; empty if there is none.
    """

    problem: str = ""
    note: str = ""


class Probes(NamedTuple):
    """The functions that supply the answers.

    Attributes:
        readiness: returns the state of the service.
        metrics: returns the content type and the text of all metrics.
        dead: returns the reason why the process must be restarted; empty if it need not.
    """

    readiness: Callable[[], Readiness]
    metrics: Callable[[], tuple[str, bytes]]
    dead: Callable[[], str] = lambda: ""


class ProbeServer(ThreadingHTTPServer):
    """An HTTP server for probes. Call ``serve_forever`` to run it.

    ``/livez`` succeeds whenever the server can answer, unless ``Probes.dead`` returns a reason.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        """Bind the port.

        Raises:
            InputError: the port cannot be bound.
        """
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.probes = probes
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot serve probes on {host}:{port}: {error}") from None

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base class's types
        """Ignore clients that disconnect early."""


class _Handler(BaseHTTPRequestHandler):
    server: ProbeServer
    timeout = _CLIENT_TIMEOUT_S
    server_version = "berthmaster"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path == "/livez":
            problem = self.server.probes.dead()
            self._answer_text(problem, problem or "ok")
        elif path == "/readyz":
            problem, note = self.server.probes.readiness()
            self._answer_text(problem, problem or "ok", *filter(None, [note]))
        elif path == "/metrics":
            content_type, text = self.server.probes.metrics()
            self._answer(HTTPStatus.OK, text, content_type)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"the paths are /livez, /readyz and /metrics\n", _TEXT)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def _answer_text(self, problem: str, *lines: str) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
        self._answer(status, "".join(f"{line}\n" for line in lines).encode(), _TEXT)

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Do not log probes: they come every few seconds."""
