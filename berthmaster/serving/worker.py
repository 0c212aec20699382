"""A worker for endpoints that a control plane waits for: gunicorn's threaded worker with a polling thread.

The polling thread waits for all clients and never for a single one. It does TLS handshakes, collects plain requests
until they are complete (``request_parser``), and answers them itself (``wsgi``): to hand such a request to another
thread takes longer than to answer it. A thread of the pool serves every other request, with gunicorn's parser. If all
threads are taken and clients wait, the slowest clients are dropped. If there are too many connections, a connection
without a request is closed.
"""

import errno
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, cast

from berthmaster.serving.channel import Channel
from berthmaster.serving.connections import Connection, ConnectionPoller, PoolUsage
from berthmaster.serving.gunicorn_internals import TConn, ThreadWorker, ssl_wrap_socket
from berthmaster.serving.request_parser import PlainRequest, Stage, plain_request
from berthmaster.serving.wsgi import WSGICaller

_HEARTBEAT_S: Final = 1.0
_POLL_S: Final = 0.1
_LEFT_TO_OTHERS_S: Final = 0.005
_POLL_OTHERS_S: Final = 0.001
_MAX_CLOSING_BYTES: Final = 64 * 2**10
_STOP_KEEPALIVE_S: Final = 2.0
"""The time for which a stopping worker keeps idle connections: a client may have sent a request already."""
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_CLIENT: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EPERM, errno.EPROTO)


class FastWorker(ThreadWorker):
    """The worker process. ``request_timeout_s`` of the application limits requests; ``cfg.timeout`` does not."""

    def run(self) -> None:
        """Serve until a signal, or until the arbiter ends. Then finish the running requests."""
        app = cast("Any", self.app)  # see berthmaster.serving.server
        self._limit_s: float = app.request_timeout_s
        self._cheap: Mapping[str, Callable[[bytes], bool]] = app.cheap
        self._balance = app.balance
        self._caller = WSGICaller(self.wsgi, self.cfg)
        self._connections = ConnectionPoller(self.poller, idle_s=self.cfg.keepalive, requesting_s=self._limit_s)
        self._check_at = self._accept_at = 0.0
        self._leaves_to_others = self._must_accept = False
        self._pool = PoolUsage(self.cfg.threads)
        self.poller.register(cast("int", self.method_queue.fileno()), EVENT_READ, self.method_queue.run_callbacks)
        self._count(0)
        self.set_accept_enabled(True)
        while self.alive and self.is_parent_alive():
            self.notify()
            self._poll(time.monotonic() + _HEARTBEAT_S)
        self.alive = self._leaves_to_others = False
        self._balance.ended(self.age)
        self.set_accept_enabled(False)
        self._finish_requests()
        self.tpool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()
        for listener in self.sockets:
            listener.close()

    def _poll(self, until: float) -> None:
        """Handle events until a time, a stop, or, in a stopping worker, the end of the last connection."""
        stopping = not self.alive
        while (self.nr_conns if stopping else self.alive) and (now := time.monotonic()) < until:
            if self._leaves_to_others:
                self._must_accept = now >= self._accept_at  # the other workers had time to accept
                self._leaves_to_others = not self._must_accept and self._balance.other_has_fewer(self.nr_conns)
                self.set_accept_enabled(not self._leaves_to_others)
            for key, _ in self.poller.select(_POLL_OTHERS_S if self._leaves_to_others else _POLL_S):
                key.data(key.fileobj)
            self._must_accept = False
            if now >= self._check_at:
                self._check_deadlines()
                self._check_at = now + _POLL_S

    def _finish_requests(self) -> None:
        begun = time.monotonic()
        while self.nr_conns and (since := time.monotonic() - begun) < self.cfg.graceful_timeout:
            if since >= _STOP_KEEPALIVE_S:
                self._connections.idle.limit_s = 0.0
            self.notify()
            self._poll(time.monotonic() + _POLL_S)

    def _check_deadlines(self) -> None:
        """Close overdue connections, and answer overdue requests."""
        now = time.monotonic()
        for conn in (*self._connections.idle.overdue(now), *self._connections.closing.overdue(now)):
            self._close(conn)
        for conn in self._connections.requesting.overdue(now):
            if conn.arrived and self._reads(conn):
                conn.channel.late = True
                self._hand_over(conn)  # the application answers that the request came too late
            else:
                self._close(conn)
        self._pool.drop_slowest()

    # The start of a connection.

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Accept a connection, unless another worker should."""
        if not self._must_accept and self._balance.other_has_fewer(self.nr_conns):
            self._leave_to_others()
            return
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in _TOO_MANY:
                self._drop_oldest()
                self._leave_to_others()
            elif error.errno not in _NO_CLIENT:
                raise
            return
        if self.nr_conns >= self.worker_connections and not self._drop_oldest():
            client.close()
            return
        self._count(1)
        conn = Connection(self.cfg, Channel(client, self._limit_s), address, listener.getsockname())
        conn.environ = self._caller.connection_environ(conn.client, conn.server)
        # A new connection without a request is closed earlier than an idle one between requests.
        self._connections.start_deadline(conn, self._connections.requesting)
        self._connections.on(EVENT_READ, conn, self._shake_hands if self.cfg.is_ssl else self._read)

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
        except ssl.SSLEOFError:
            self._close(conn)
        except ssl.SSLError as error:
            self.log.warning("TLS handshake with %s failed: %s", conn.client, error)
            self._end(conn)
        except OSError:
            self._close(conn)
        else:
            self._connections.start_deadline(conn, self._connections.requesting)
            self._connections.on(EVENT_READ, conn, self._read)

    # A request and its answer.

    def _read(self, conn: Connection) -> None:
        try:
            piece = conn.channel.take()
        except OSError:
            self._close(conn)
            return
        if piece is None:
            return
        if not conn.arrived:
            self._connections.start_deadline(conn, self._connections.requesting)
        conn.arrived += piece
        self._parse(conn)

    def _parse(self, conn: Connection) -> None:
        """Answer a complete plain request, or hand over a request that is not plain or will never be complete."""
        if not conn.arrived:
            if conn.channel.ended:
                self._close(conn)
            return
        request = plain_request(conn.arrived, self._cheap)
        if isinstance(request, PlainRequest) and self._cheap[request.path](request.body):
            del conn.arrived[: request.size_bytes]
            self._answer(conn, request)
        elif request is not Stage.INCOMPLETE or conn.channel.ended:
            self._hand_over(conn)

    def _answer(self, conn: Connection, request: PlainRequest) -> None:
        """Answer a request in this thread."""
        try:
            answer, conn.keep = self._caller.answer(request, conn.environ, conn.channel, keep=self.alive)
            conn.channel.sendall(answer)
        except Exception as error:  # noqa: BLE001 - the worker's crash handler, as in gunicorn's own threads
            self.handle_error(None, conn.sock, conn.client, error)
            conn.keep = False
        self._send(conn)

    def _send(self, conn: Connection) -> None:
        """Send the rest of an answer. After that, keep the connection or end it."""
        try:
            sent = conn.channel.flush()
        except OSError:
            self._close(conn)
            return
        if not sent:
            self._connections.on(EVENT_WRITE, conn, self._send)
        elif conn.keep:
            self._keep(conn)
        else:
            self._end(conn)

    def _keep(self, conn: Connection) -> None:
        """Wait for the next request. Part of it may have arrived."""
        self._connections.on(EVENT_READ, conn, self._read)
        if conn.arrived:
            self._connections.start_deadline(conn, self._connections.requesting)
            self.method_queue.defer(self._go_on, conn)  # other connections come first
        else:
            self._connections.start_deadline(conn, self._connections.idle)

    def _go_on(self, conn: Connection) -> None:
        if self._reads(conn):  # else it was closed, or has gone on
            self._parse(conn)

    def _reads(self, conn: Connection) -> bool:
        return conn.step == (EVENT_READ, self._read)

    # The end of a connection.

    def _end(self, conn: Connection) -> None:
        """Close our direction, and give the client a moment to read the answer and to close its direction."""
        try:
            conn.channel.finish()
        except OSError:
            self._close(conn)
            return
        conn.arrived.clear()
        self._connections.start_deadline(conn, self._connections.closing)
        self._connections.on(EVENT_READ, conn, self._discard)

    def _discard(self, conn: Connection) -> None:
        try:
            piece = conn.channel.take()
        except OSError:
            piece = b""
        if piece is None:
            return
        conn.arrived += piece
        if not piece or len(conn.arrived) > _MAX_CLOSING_BYTES:
            self._close(conn)

    def _drop_oldest(self) -> bool:
        """Close a connection without a complete request. Return False if there is none."""
        conn = self._connections.requesting.oldest() or self._connections.idle.oldest()
        if conn is None:
            return False
        self._close(conn)
        return True

    def _close(self, conn: Connection) -> None:
        self._connections.release(conn)
        conn.close()
        self._count(-1)

    def _count(self, change: int) -> None:
        self.nr_conns += change
        if self.alive:
            self._balance.report(self.age, self.nr_conns)

    # The thread pool.

    def _hand_over(self, conn: Connection) -> None:
        """Let a thread of the pool serve one request."""
        self._connections.release(conn)
        conn.unreader.unread(bytes(conn.arrived))
        conn.arrived.clear()
        self._pool.queue()
        self._pool.drop_slowest()
        self.enqueue_req(conn)

    def handle(self, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Serve a request in a thread of the pool. Return whether to keep the connection."""
        channel = cast("Connection", conn).channel
        with self._pool.serving(channel), channel.waited_for():
            return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Call the application for a request that gunicorn has parsed."""
        cast("Connection", conn).channel.on_last_answer = req.force_close
        return super().handle_request(req, conn)

    def finish_request(self, conn: TConn, fs: "Future[Any]") -> None:
        """Take the connection back from the pool."""
        conn = cast("Connection", conn)
        try:
            conn.keep = bool(fs.result())
        except OSError:
            self._close(conn)
            return
        if conn.unreader.buf.getvalue():
            conn.arrived += conn.unreader.read()  # the beginning of the next request
        self._send(conn)
