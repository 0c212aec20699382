"""A worker for endpoints that a control plane waits for: a polling thread, and a pool of threads.

The polling thread waits for all clients and never for a single one. It does TLS handshakes, collects requests and sends
answers. If there are too many connections, the connection that is missed least is closed. ``dispatcher`` says which
thread answers a request.
"""

import errno
import math
import os
import random
import selectors
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, cast

from gunicorn.workers.base import Worker

from berthmaster.serving.connection import PIECE_BYTES, Connection, Phase
from berthmaster.serving.dispatcher import Dispatcher
from berthmaster.serving.request_parser import RequestParser
from berthmaster.serving.responses import WSGICaller

_HEARTBEAT_S: Final = 1.0
_POLL_S: Final = 0.1
_TRUST_S: Final = 1.0
"""The time between two checks whether the CAs of client certificates have changed."""
_LEFT_TO_OTHERS_S: Final = 0.005
_POLL_OTHERS_S: Final = 0.001
_HANDSHAKE_S: Final = 1.0
"""The time that a handshake has while other clients wait for a connection."""
_LEAVING_S: Final = 2.0
_CLOSING_S: Final = 0.5
_SWITCH_S: Final = 0.0001
"""Python's interval of thread switches: how long a thread that computes may hold up the polling thread each time."""
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_CLIENT: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EPERM, errno.EPROTO)
_MAX_CLOSING_BYTES: Final = 64 * 2**10
_YOUNGEST: Final = 0.8
"""The part of the longest age at which the first connections end."""


class PollingWorker(Worker):
    """The worker process. ``request_timeout_s`` of the application limits requests; ``cfg.timeout`` does not."""

    def run(self) -> None:
        """Serve until a signal, or until the arbiter ends. Then finish the running requests."""
        sys.setswitchinterval(_SWITCH_S)
        self._app = cast("Any", self.app)  # see berthmaster.serving.server
        self._limits_s = dict.fromkeys(Phase, self._app.request_timeout_s) | {
            Phase.IDLE: self.cfg.keepalive, Phase.LEAVING: _LEAVING_S, Phase.SERVED: math.inf,
            Phase.CLOSING: _CLOSING_S, Phase.CLOSED: math.inf,
        }  # fmt: skip
        self._caller = WSGICaller(cast("Any", self.wsgi), tls=self.cfg.is_ssl, processes=self.cfg.workers)
        self._dispatcher = Dispatcher(self, self._caller, self._app, self.cfg.threads)
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = cast("tuple[int, int]", self.PIPE)
        self._calls: deque[Callable[[], None]] = deque()
        self._listen(self._wake, self._make_calls)
        self._connections: set[Connection] = set()
        self._draw = random.Random()  # noqa: S311 - spreads load, guards nothing
        self._check_at = self._accept_at = self._trust_at = 0.0
        self._accepts = self._must_accept = False
        self._count()
        self._set_accepts(wanted=True)
        while self.alive and self.ppid == os.getppid():
            self.notify()
            self._poll(time.monotonic() + _HEARTBEAT_S)
        self.alive = False
        self._app.balance.ended(self.age)
        self._close_port()
        self._finish_requests()

    def _poll(self, until: float) -> None:
        """Handle events until a time, a stop, or, in a stopping worker, the end of the last connection."""
        stopping = not self.alive
        while (self._connections if stopping else self.alive) and (now := time.monotonic()) < until:
            if not stopping and not self._accepts:
                self._must_accept = now >= self._accept_at  # the other workers had time to accept
                self._set_accepts(wanted=self._must_accept or not self._others_have_fewer())
            wait_s = _POLL_S if self._accepts or stopping else _POLL_OTHERS_S
            self._handle_events(0.0 if self._dispatcher.busy else wait_s)
            self._dispatcher.go_on()
            self._must_accept = False
            if now >= self._check_at:
                self._check_deadlines(now)
                self._check_at = now + _POLL_S

    def _finish_requests(self) -> None:
        until = time.monotonic() + self.cfg.graceful_timeout
        while self._connections and (now := time.monotonic()) < until:
            self.notify()
            self._poll(now + _POLL_S)  # reads what has arrived
            self._dispatcher.dismiss_idle(time.monotonic())

    def keeps(self, conn: Connection) -> bool:
        """Return whether a connection stays open after a response.

        It does not while the server drains or stops, and not if it is old.
        """
        return self.alive and not self._app.is_draining() and time.monotonic() < conn.closes_at

    def _check_deadlines(self, now: float) -> None:
        overdue = [conn for conn in self._connections if now >= conn.until]
        for conn in overdue:
            if conn.phase is Phase.HANDSHAKING:
                self._app.metrics.handshake_failed("timeout")
        self._dispatcher.check_deadlines(overdue)
        if self._app.requires_client_certificates and now >= self._trust_at:
            self._trust_at = now + _TRUST_S
            for conn in self.waiting(Phase.IDLE, Phase.REQUESTING):
                if isinstance(conn.socket, ssl.SSLSocket) and not self._app.trusts(conn.socket):
                    self._dispatcher.close(conn)

    def _handle_events(self, wait_s: float) -> None:
        for key, event in self._selector.select(wait_s):
            conn = key.data
            if not isinstance(conn, Connection):
                conn()
            elif conn.waits_for == event:  # an earlier event may have changed the connection
                conn.step(conn)
            self._dispatcher.send_due_answers()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Let the polling thread call a function. Safe for several threads."""
        self._calls.append(call)
        with suppress(BlockingIOError):  # a full pipe ends the wait, too
            os.write(self._waker, b"\0")

    def _make_calls(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        while self._calls:
            self._calls.popleft()()

    def _listen(self, file: Any, call: Callable[[], None] | None) -> None:  # noqa: ANN401 - the pipe, or a socket of gunicorn's
        """Call a function whenever there is something to read from a file; with None, no longer."""
        if call is not None:
            self._selector.register(file, EVENT_READ, call)
        else:
            self._selector.unregister(file)

    # The start of a connection.

    def _set_accepts(self, *, wanted: bool) -> None:
        if wanted != self._accepts:
            for listener in self.sockets:
                listener.settimeout(0.0)
                self._listen(listener, partial(self._accept, listener) if wanted else None)
            self._accepts = wanted

    def _others_have_fewer(self) -> bool:
        return bool(self._app.balance.other_has_fewer(len(self._connections)))

    def _accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Accept a connection, unless another worker should, or there are too many."""
        full = len(self._connections) >= self.cfg.worker_connections
        try:
            if (self._must_accept or not self._others_have_fewer()) and (not full or self._make_room()):
                self._accept_one(listener)
                return
        except OSError as error:
            if error.errno in _NO_CLIENT:
                return
            if error.errno not in _TOO_MANY:
                raise
            self._make_room()
        self._set_accepts(wanted=False)
        self._accept_at = time.monotonic() + _LEFT_TO_OTHERS_S

    def _close_port(self) -> None:
        """Accept the clients that have connected already, and close the port: later clients are refused at once."""
        self._set_accepts(wanted=False)
        for listener in self.sockets:
            with suppress(OSError):  # no client is left, or no file descriptor
                while len(self._connections) < self.cfg.worker_connections:
                    self._accept_one(listener)
            listener.close()

    def _accept_one(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        client, address = listener.accept()
        environ = self._caller.connection_environ(address, listener.getsockname())
        environ["gunicorn.socket"] = client
        conn = Connection(client, environ, RequestParser(self._app.served.collection), self._limits_s)
        if self._app.connection_age_s:
            # Connections that began together end at different times.
            conn.closes_at = time.monotonic() + self._app.connection_age_s * self._draw.uniform(_YOUNGEST, 1.0)
        self._connections.add(conn)
        self._count()
        if self.cfg.is_ssl:
            conn.enter(Phase.HANDSHAKING, time.monotonic())
            self.wait(conn, EVENT_READ, self._shake_hands)
        else:
            self._await_first_request(conn)

    def _await_first_request(self, conn: Connection) -> None:
        # A new connection without a request is closed earlier than an idle one between requests.
        conn.enter(Phase.REQUESTING, time.monotonic())
        self.wait(conn, EVENT_READ, self._dispatcher.read)

    def _shake_hands(self, conn: Connection) -> None:
        try:
            client = conn.socket
            if not isinstance(client, ssl.SSLSocket):
                context: ssl.SSLContext = self.cfg.ssl_context(self.cfg, None)
                client = context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
                conn.socket = conn.environ["gunicorn.socket"] = client
            client.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            event = EVENT_READ if isinstance(error, ssl.SSLWantReadError) else EVENT_WRITE
            self.wait(conn, event, self._shake_hands)
        except OSError as error:
            self._handshake_failed(conn, error)
        else:
            self._await_first_request(conn)

    def _handshake_failed(self, conn: Connection, error: OSError) -> None:
        if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
            self._app.metrics.handshake_failed("disconnected")
            self.drop(conn)
            return
        self._app.metrics.handshake_failed("refused")
        if self._dispatcher.log_limit.take():
            self.log.warning("TLS handshake with %s failed: %s", conn.peer, error)
        self.end(conn)

    # The rest of a connection.

    def wait(self, conn: Connection, event: int, step: Callable[[Connection], None]) -> None:
        """Call ``step`` on every such event of a connection; with event 0, on none."""
        if conn.waits_for != event:
            if not event:
                self._selector.unregister(conn.fd)
            elif conn.waits_for:
                self._selector.modify(conn.fd, event, conn)
            else:
                self._selector.register(conn.fd, event, conn)
        conn.waits_for, conn.step = event, step

    def waiting(self, *phases: Phase) -> list[Connection]:
        """Return the connections in some phases, the one that has waited longest first."""
        return sorted((conn for conn in self._connections if conn.phase in phases), key=lambda conn: conn.since)

    def end(self, conn: Connection) -> None:
        """Close our direction, and give the client a moment to read the answer and to close its direction."""
        try:
            # If we closed both directions, bytes that the client still sends could cut off our answer.
            conn.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.drop(conn)
            return
        conn.arrived_bytes = 0
        conn.enter(Phase.CLOSING, time.monotonic())
        self.wait(conn, EVENT_READ, self._discard)

    def _discard(self, conn: Connection) -> None:
        try:
            piece = conn.take(PIECE_BYTES)
        except OSError:
            piece = b""
        conn.arrived_bytes += len(piece or b"")
        if piece == b"" or conn.arrived_bytes > _MAX_CLOSING_BYTES:
            self.drop(conn)

    def drop(self, conn: Connection) -> None:
        """Close a connection at once."""
        self.wait(conn, 0, self._discard)
        conn.enter(Phase.CLOSED)
        conn.socket.close()
        self._connections.discard(conn)
        self._count()

    def _count(self) -> None:
        if self.alive:
            self._app.balance.report(self.age, len(self._connections))

    def _make_room(self) -> bool:
        """Close the connection that is missed least. Return False if there is none.

        A handshake in progress is a new client, so it comes last, and only after it had some time.
        """
        for phase in (Phase.CLOSING, Phase.IDLE, Phase.REQUESTING, Phase.HANDSHAKING):
            for oldest in self.waiting(phase)[:1]:
                if phase is Phase.HANDSHAKING and oldest.since > time.monotonic() - _HANDSHAKE_S:
                    return False
                self._dispatcher.close(oldest)
                return True
        return False
