"""A worker for endpoints that a control plane waits for: gunicorn's threaded worker with a polling thread.

The polling thread waits for all clients and never for a single one. It does TLS handshakes, and collects requests and
sends answers (``dispatcher``). If there are too many connections, the connection that is missed least is closed.
"""

import errno
import ssl
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, cast

from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.rate_limit import TokenBucket
from berthmaster.serving.channel import Channel
from berthmaster.serving.connections import Connection, ConnectionPoller
from berthmaster.serving.dispatcher import Dispatcher
from berthmaster.serving.gunicorn_internals import TConn, ThreadWorker, ssl_wrap_socket
from berthmaster.serving.memory_budget import MemoryBudget
from berthmaster.serving.pool_queue import PoolSizes
from berthmaster.serving.wsgi import WSGICaller

_HEARTBEAT_S: Final = 1.0
_POLL_S: Final = 0.1
_TRUST_S: Final = 1.0
"""The time between two checks whether the CAs of client certificates have changed."""
_LEFT_TO_OTHERS_S: Final = 0.005
_POLL_OTHERS_S: Final = 0.001
_MAX_CLOSING_BYTES: Final = 64 * 2**10
_HANDSHAKE_S: Final = 1.0
"""The time that a handshake has while other clients wait for a connection."""
_SWITCH_S: Final = 0.0005
"""Python's interval of thread switches: how long a thread that computes may hold up the polling thread each time."""
_HANDSHAKES_PER_S: Final = 1.0
_HANDSHAKE_BURST: Final = 20
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_CLIENT: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EPERM, errno.EPROTO)


class _Handshakes:
    """Counts failed TLS handshakes, and logs them at a limited rate."""

    def __init__(self, log: Any, count: Callable[[str], None]) -> None:  # noqa: ANN401 - gunicorn's logger
        self._log = log
        self._count = count
        self._limit = TokenBucket(SystemClock(), _HANDSHAKES_PER_S, _HANDSHAKE_BURST)

    def failed(self, reason: str, client: object, problem: object) -> None:
        self._count(reason)
        if reason == "refused" and self._limit.take():
            self._log.warning("TLS handshake with %s failed: %s", client, problem)


class FastWorker(ThreadWorker):
    """The worker process. ``request_timeout_s`` of the application limits requests; ``cfg.timeout`` does not."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:  # noqa: ANN401 - gunicorn's own
        """Do nothing: here, connections do not need a thread each, which gunicorn would warn about."""

    def run(self) -> None:
        """Serve until a signal, or until the arbiter ends. Then finish the running requests."""
        app = cast("Any", self.app)  # see berthmaster.serving.server
        sys.setswitchinterval(_SWITCH_S)
        self.max_keepalived = self.worker_connections
        self._limit_s: float = app.request_timeout_s
        self._balance = app.balance
        self._is_draining: Callable[[], bool] = app.is_draining
        self._handshakes = _Handshakes(self.log, app.handshake_failed)
        self._caller = WSGICaller(self.wsgi, self.cfg)
        self._connections = ConnectionPoller(self.poller, idle_s=self.cfg.keepalive, requesting_s=self._limit_s)
        self._dispatcher = Dispatcher(
            self, self._connections, self._caller, app.cheap, app.collection, MemoryBudget(app.request_memory_bytes),
            PoolSizes.of(self.cfg.threads, answers_wait=app.answers_wait), app.waiting,
        )  # fmt: skip
        self._limits_clients, self._trusts = app.requires_client_certificates, app.trusts
        self._check_at = self._accept_at = self._trust_at = 0.0
        self._leaves_to_others = self._must_accept = False
        self.poller.register(cast("int", self.method_queue.fileno()), EVENT_READ, self.method_queue.run_callbacks)
        self._count(0)
        self.set_accept_enabled(True)
        while self.alive and self.is_parent_alive():
            self.notify()
            self._poll(time.monotonic() + _HEARTBEAT_S)
        self.alive = self._leaves_to_others = False
        self._balance.ended(self.age)
        self._close_port()
        self._finish_requests()
        self.tpool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()

    def _poll(self, until: float) -> None:
        """Handle events until a time, a stop, or, in a stopping worker, the end of the last connection."""
        stopping = not self.alive
        while (self.nr_conns if stopping else self.alive) and (now := time.monotonic()) < until:
            if self._leaves_to_others:
                self._must_accept = now >= self._accept_at  # the other workers had time to accept
                self._leaves_to_others = not self._must_accept and self._balance.other_has_fewer(self.nr_conns)
                self.set_accept_enabled(not self._leaves_to_others)
            wait_s = 0.0 if self._dispatcher.busy else _POLL_OTHERS_S if self._leaves_to_others else _POLL_S
            for key, _ in self.poller.select(wait_s):
                key.data(key.fileobj)
            self._dispatcher.go_on()
            self._must_accept = False
            if now >= self._check_at:
                self._check_deadlines()
                self._check_at = now + _POLL_S

    def _finish_requests(self) -> None:
        until = time.monotonic() + self.cfg.graceful_timeout
        while self.nr_conns and (now := time.monotonic()) < until:
            self.notify()
            self._poll(now + _POLL_S)  # reads what has arrived
            self._dispatcher.dismiss_idle(time.monotonic())

    def _check_deadlines(self) -> None:
        """Close overdue connections, and answer overdue requests."""
        now = time.monotonic()
        for group in (self._connections.idle, self._connections.leaving, self._connections.closing):
            for conn in group.overdue(now):
                self.close(conn)
        for conn in self._connections.handshaking.overdue(now):
            self._handshakes.failed("timeout", conn.client, "the client was too slow")
            self.close(conn)
        self._dispatcher.check_deadlines(now)
        if self._limits_clients and now >= self._trust_at:
            self._trust_at = now + _TRUST_S
            self._close_distrusted()

    def _close_distrusted(self) -> None:
        """Close connections of clients whose certificate may come from a CA that is no longer trusted."""
        for conn in (*self._connections.idle, *self._connections.requesting):
            if (client := conn.channel.tls) is not None and not self._trusts(client):
                self._dispatcher.close(conn)

    # The start of a connection.

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Accept a connection, unless another worker should, or there are too many."""
        if not self._must_accept and self._balance.other_has_fewer(self.nr_conns):
            self._leave_to_others()
            return
        if self.nr_conns >= self.worker_connections and not self._make_room():
            self._leave_to_others()
            return
        try:
            self._accept_one(listener)
        except OSError as error:
            if error.errno in _TOO_MANY:
                self._make_room()
                self._leave_to_others()
            elif error.errno not in _NO_CLIENT:
                raise

    def _close_port(self) -> None:
        """Accept the clients that have connected already, and close the port: later clients are refused at once."""
        self.set_accept_enabled(False)
        for listener in self.sockets:
            with suppress(OSError):  # no client is left, or no file descriptor
                while self.nr_conns < self.worker_connections:
                    self._accept_one(listener)
            listener.close()

    def _accept_one(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        client, address = listener.accept()
        self._count(1)
        conn = Connection(self.cfg, Channel(client, self._limit_s), address, listener.getsockname())
        conn.environ = self._caller.connection_environ(conn.client, conn.server)
        if self.cfg.is_ssl:
            self._connections.start_deadline(conn, self._connections.handshaking, time.monotonic())
            self._connections.on(EVENT_READ, conn, self._shake_hands)
        else:
            self._connections.start_deadline(conn, self._connections.requesting, time.monotonic())
            self._connections.on(EVENT_READ, conn, self._dispatcher.read)

    def _leave_to_others(self) -> None:
        self.set_accept_enabled(False)
        self._leaves_to_others = True
        self._accept_at = time.monotonic() + _LEFT_TO_OTHERS_S

    def _shake_hands(self, conn: Connection) -> None:
        try:
            conn.channel.shake_hands(partial(ssl_wrap_socket, conf=self.cfg))
        except ssl.SSLWantReadError:
            self._connections.on(EVENT_READ, conn, self._shake_hands)
        except ssl.SSLWantWriteError:
            self._connections.on(EVENT_WRITE, conn, self._shake_hands)
        except ssl.SSLEOFError as error:
            self._handshakes.failed("disconnected", conn.client, error)
            self.close(conn)
        except ssl.SSLError as error:
            self._handshakes.failed("refused", conn.client, error)
            self.end(conn)
        except OSError as error:
            self._handshakes.failed("disconnected", conn.client, error)
            self.close(conn)
        else:
            # A new connection without a request is closed earlier than an idle one between requests.
            self._connections.start_deadline(conn, self._connections.requesting, time.monotonic())
            self._connections.on(EVENT_READ, conn, self._dispatcher.read)

    # The end of a connection.

    def end(self, conn: Connection) -> None:
        """Close our direction, and give the client a moment to read the answer and to close its direction."""
        try:
            conn.channel.finish()
        except OSError:
            self._dispatcher.close(conn)
            return
        conn.arrived.clear()
        conn.size_bytes = 0
        self._connections.start_deadline(conn, self._connections.closing, time.monotonic())
        self._connections.on(EVENT_READ, conn, self._discard)

    def _discard(self, conn: Connection) -> None:
        try:
            piece = conn.channel.take()
        except OSError:
            piece = b""
        if piece is None:
            return
        conn.size_bytes += len(piece)
        if not piece or conn.size_bytes > _MAX_CLOSING_BYTES:
            self.close(conn)

    def _make_room(self) -> bool:
        """Close the connection that is missed least. Return False if there is none.

        A handshake in progress is a new client, so it comes last, and only after it had some time.
        """
        groups = self._connections
        conn = groups.closing.oldest() or groups.idle.oldest() or groups.requesting.oldest()
        conn = conn or groups.handshaking.oldest(time.monotonic() - _HANDSHAKE_S)
        if conn is None:
            return False
        self._dispatcher.close(conn)
        return True

    def close(self, conn: Connection) -> None:
        """Close a connection at once."""
        self._connections.release(conn)
        conn.close()
        self._count(-1)

    def _count(self, change: int) -> None:
        self.nr_conns += change
        if self.alive:
            self._balance.report(self.age, self.nr_conns)

    @property
    def keeps_connections(self) -> bool:
        """Whether connections stay open after a response."""
        return self.alive and not self._is_draining()

    # The thread pool.

    def get_thread_pool(self) -> ThreadPoolExecutor:
        """Create the pool. Streams, complete requests and those that wait each have a share of it."""
        # The application is not loaded yet. The pool starts a thread only for a request that needs one.
        return ThreadPoolExecutor(max_workers=sum(PoolSizes.of(self.cfg.threads, answers_wait=True)))

    def start(self, conn: Connection) -> None:
        """Let a thread of the pool serve a request."""
        self.enqueue_req(conn)

    def handle(self, conn: TConn) -> bool:
        """Serve a request in a thread of the pool. Return whether to keep the connection."""
        return self._dispatcher.serve(cast("Connection", conn))

    def parse_and_answer(self, conn: Connection) -> bool:
        """Answer a request with gunicorn's parser. Return whether to keep the connection."""
        return bool(super().handle(conn))

    def handle_request(self, req: Any, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Call the application for a request that gunicorn has parsed."""
        client = cast("Connection", conn)
        client.knows_interim = req.version >= (1, 1)
        client.channel.on_last_answer = req.force_close
        return super().handle_request(req, conn)

    def crashed(self, conn: Connection, error: Exception) -> None:
        """Log an error of the application, and buffer an answer."""
        self.handle_error(None, conn.sock, conn.client, error)

    def finish_request(self, conn: TConn, fs: "Future[Any]") -> None:
        """Take the connection back from the pool."""
        self._dispatcher.finish(cast("Connection", conn), fs)
