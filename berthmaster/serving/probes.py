"""The plain port with ``/livez``, ``/readyz`` and ``/metrics``: one thread, and bounds on what a client can use.

The port is separate from the one that serves requests over TLS. Functions supply the answers, so this module does not
depend on the service.

The port needs no credentials, so any client that reaches it may open connections and be slow. Kubelet's probes must be
answered all the same, since a failed liveness probe restarts the pod. Therefore one thread serves all clients and never
waits for a single one. A connection has one request, and one time limit for all of it. If there are too many
connections, the address with the most of them loses its oldest one. If the process has no more file descriptors, the
server uses a small reserve.
"""

import asyncio
import errno
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.logs import log_exceptions
from berthmaster.serving.listening import listen

_LOG: Final = logging.getLogger("berthmaster.probes")
_TEXT: Final = "text/plain; charset=utf-8"
_METHODS: Final = frozenset({"GET", "HEAD"})
_PATHS: Final = "the paths are /livez, /readyz and /metrics"
_NO_PAGES: Final[Mapping[str, Callable[[], tuple[str, bytes]]]] = MappingProxyType({})
METRICS_KEPT_S: Final = 1.0
"""The time for which the text of the metrics is used again. To render it takes milliseconds."""

Response = tuple[bytes, bytes]
"""The head of a response, with the empty line at its end, and the body."""


class Readiness(NamedTuple):
    """The state of a service for ``/readyz``.

    Attributes:
        problem: the reason why the service should get no requests; empty if it is ready.
    """

    problem: str = ""
    note: str = ""


class Probes(NamedTuple):
    """The functions that supply the answers.

    Attributes:
        metrics: returns the content type and the text of all metrics.
        dead: returns the reason why the process must be restarted; empty if it need not.
    """

    readiness: Callable[[], Readiness]
    metrics: Callable[[], tuple[str, bytes]]
    dead: Callable[[], str] = lambda: ""
    pages: Mapping[str, Callable[[], tuple[str, bytes]]] = _NO_PAGES


class ProbeResponder:
    """Answers requests. One thread uses it.

    ``/livez`` succeeds whenever the server can answer, unless ``Probes.dead`` returns a reason.
    """

    def __init__(self, probes: Probes, clock: Clock) -> None:
        self._probes = probes
        self._clock = clock
        self._metrics: tuple[str, bytes] = (_TEXT, b"")
        self._metrics_until_s = float("-inf")

    def answer(self, head: bytes) -> Response:
        """Return the response to a request.

        Args:
            head: the request up to the empty line after its header fields. A body is ignored.
        """
        answers: list[Response] = []
        if not log_exceptions(lambda: answers.append(self._answer(head)), _LOG, "a probe cannot be answered"):
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR, "an internal error; the log has the reason")
        return answers[0]

    def refuse_long_head(self) -> Response:
        return _text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long")

    def _answer(self, head: bytes) -> Response:
        words = head.split(b"\n", 1)[0].decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _text(HTTPStatus.BAD_REQUEST, "the request line must be: GET <path> HTTP/1.1")
        method, target, _version = words
        if method not in _METHODS:
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "the methods are GET and HEAD", "Allow: GET, HEAD")
        response = self._get(target.partition("?")[0].rstrip("/"))
        return response if method == "GET" else (response[0], b"")

    def _get(self, path: str) -> Response:
        if path == "/livez":
            problem = self._probes.dead()
            return _state(problem, problem or "ok")
        if path == "/readyz":
            problem, note = self._probes.readiness()
            return _state(problem, problem or "ok", *filter(None, [note]))
        if path == "/metrics":
            content_type, text = self._recent_metrics()
            return _response(HTTPStatus.OK, text, content_type)
        page = self._probes.pages.get(path)
        if page is not None:
            content_type, text = page()
            return _response(HTTPStatus.OK, text, content_type)
        return _text(HTTPStatus.NOT_FOUND, _PATHS)

    def _recent_metrics(self) -> tuple[str, bytes]:
        if self._clock.monotonic_s() >= self._metrics_until_s:
            self._metrics = self._probes.metrics()
            self._metrics_until_s = self._clock.monotonic_s() + METRICS_KEPT_S
        return self._metrics


def _state(problem: str, *lines: str) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return _response(status, "".join(f"{line}\n" for line in lines).encode(errors="replace"), _TEXT)


def _text(status: HTTPStatus, line: str, *fields: str) -> Response:
    return _response(status, f"{line}\n".encode(), _TEXT, *fields)


def _response(status: HTTPStatus, body: bytes, content_type: str, *fields: str) -> Response:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Server: berthmaster",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *fields,
    ]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode(), body


MAX_CONNECTIONS: Final = 128
MAX_HEAD_BYTES: Final = 8 * 2**10
EXCHANGE_S: Final = 10.0
"""The time limit for a connection, from its start to its end. Prometheus waits as long for a scrape."""
RESERVED_DESCRIPTORS: Final = 8
_BACKLOG: Final = 1024
_PIECE_BYTES: Final = 4 * 2**10
_MAX_REST_BYTES: Final = 64 * 2**10
_POLL_S: Final = 0.1
_PAUSE_S: Final = 0.1
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ProbeServer:
    """An HTTP server for probes."""

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        """Bind the port.

        Args:
            port: the port; 0 lets the system choose one.
            probes: the functions that supply the answers. The thread that serves calls them.

        Raises:
            InputError: the port cannot be bound.
        """
        self._responder = ProbeResponder(probes, SystemClock())
        self._clients: dict[asyncio.Task[None], str] = {}  # the address of each connection, the oldest first
        try:
            self._listener = listen(host, port, _BACKLOG)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot serve probes on {host}:{port}: {error}") from None
        self._listener.settimeout(0.0)
        self.port: int = self._listener.getsockname()[1]
        self._reserve = [os.dup(self._listener.fileno()) for _ in range(RESERVED_DESCRIPTORS)]

    def serve(self, stopped: Callable[[], bool]) -> None:
        """Serve until ``stopped`` returns true; it is called ten times a second. Then close all connections."""
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve(stopped))

    def close(self) -> None:
        """Close the port in this process. Not while another thread serves."""
        self._listener.close()
        while self._reserve:
            os.close(self._reserve.pop())

    async def _serve(self, stopped: Callable[[], bool]) -> None:
        accepting = asyncio.create_task(self._accept())
        while not stopped():
            await asyncio.sleep(_POLL_S)
        accepting.cancel()

    async def _accept(self) -> None:
        while True:
            await asyncio.sleep(0)  # requests that have arrived come before new clients
            try:
                sock, address = await asyncio.get_running_loop().sock_accept(self._listener)
            except OSError as error:  # or the client has disconnected
                if error.errno in _TOO_MANY:
                    await self._free_descriptor()
                continue
            self._clients[asyncio.create_task(self._exchange(sock))] = str(address[0])
            if len(self._clients) > MAX_CONNECTIONS:
                self._close_dispensable()

    async def _free_descriptor(self) -> None:
        """Free a descriptor of the reserve. Else wait for a moment: the listener stays ready, and would spin."""
        if not self._reserve and self._clients:
            self._close_dispensable()
            await asyncio.sleep(0)  # it fills the reserve
        if self._reserve:
            os.close(self._reserve.pop())
        else:
            await asyncio.sleep(_PAUSE_S)

    def _close_dispensable(self) -> None:
        """Close the oldest connection of the address with the most connections."""
        connections = Counter(self._clients.values())
        oldest = max(self._clients, key=lambda each: connections[self._clients[each]])  # the first one of several
        del self._clients[oldest]
        oldest.cancel()

    async def _exchange(self, sock: socket.socket) -> None:
        try:
            with sock, suppress(OSError):  # such as a reset by the client, or the end of its time
                async with asyncio.timeout(EXCHANGE_S):
                    await self._answer(sock)
        finally:
            self._clients.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
            with suppress(OSError):  # the next connection that ends fills the reserve
                while len(self._reserve) < RESERVED_DESCRIPTORS:
                    self._reserve.append(os.dup(self._listener.fileno()))

    async def _answer(self, sock: socket.socket) -> None:
        """Read the request, send the answer, and wait for the client to close."""
        loop = asyncio.get_running_loop()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = b""
        while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) <= MAX_HEAD_BYTES:
            piece = await loop.sock_recv(sock, _PIECE_BYTES)
            if not piece:
                return
            head += piece
        complete = b"\r\n\r\n" in head or b"\n\n" in head
        for part in self._responder.answer(head) if complete else self._responder.refuse_long_head():
            await loop.sock_sendall(sock, part)  # all clients share the text of the metrics
        # If both directions were closed, bytes that the client still sends could cut off the answer.
        sock.shutdown(socket.SHUT_WR)
        rest_bytes = 0
        while rest_bytes <= _MAX_REST_BYTES and (piece := await loop.sock_recv(sock, _PIECE_BYTES)):
            rest_bytes += len(piece)


@contextmanager
def serving_probes(host: str, port: int, probes: Probes) -> Iterator[ProbeServer]:
    """Serve probes in a thread until the end of the block."""
    server = ProbeServer(host, port, probes)
    stopped = threading.Event()
    thread = threading.Thread(target=server.serve, args=(stopped.is_set,), name="probes", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        stopped.set()
        thread.join()
        server.close()
