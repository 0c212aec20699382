"""gunicorn's threaded worker, made fit for an endpoint that a control plane waits for.

One thread watches all clients, and never waits for any of them: it shakes hands, collects plain requests until they
are whole (``fleet.ops.intake``) and answers them itself (``fleet.ops.gateway``). Threads that take turns at the
interpreter's lock cost more than such an answer. Everything else goes to a thread of the pool and through gunicorn's
parser; when all are taken and others wait, the clients that are slowest to say what they want are dropped. When there
are too many connections, one that has not asked goes.
"""

import errno
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final

from gunicorn.http import get_parser
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

from fleet.ops.channel import Channel
from fleet.ops.gateway import Gateway
from fleet.ops.intake import PlainRequest, Stage, plain_request
from fleet.ops.waiting import Waiting

_HEARTBEAT_S: Final = 1.0
_LOOK_S: Final = 0.1
_ENDING_S: Final = 0.5
_ENDING_BYTES: Final = 2**20
_PATIENCE_S: Final = 0.25
"""How long a client may take to say what it wants while others wait for its thread."""
_STOP_KEEPALIVE_S: Final = 2.0
"""How long a worker that stops keeps idle connections: a request may be on its way already."""
_CROWDED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOBODY: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EPERM, errno.EPROTO)


class Connection(TConn):
    """A client's connection.

    Attributes:
        arrived: what was read of requests that have not begun to be answered.
        surroundings: what the WSGI environments of its requests have in common.
        waiting: where it stands among those that are waited for; None while a thread has it.
        keep: whether it stays after the answer at hand.
        gone: it is closed.
    """

    sock: Channel

    def __init__(self, cfg: Any, channel: Channel, client: Any, server: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(cfg, channel, client, server)
        self.arrived = bytearray()
        self.surroundings: dict[str, Any] = {}
        self.waiting: Waiting[Connection] | None = None
        self.watched: tuple[int, Callable[[Connection], None]] | None = None
        self.keep = True
        self.gone = False


_Step = Callable[[Connection], None]


class DeadlineWorker(ThreadWorker):
    """The worker process. ``cfg.timeout`` is no request's deadline: see ``request_timeout_s`` of the application."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(*args, **kwargs)
        self._limit_s = float(self.app.request_timeout_s)  # type: ignore[attr-defined]  # see fleet.ops.server
        self._idle: Waiting[Connection] = Waiting(self.cfg.keepalive)
        self._asking: Waiting[Connection] = Waiting(self._limit_s)
        self._ending: Waiting[Connection] = Waiting(_ENDING_S)
        self._look_at = 0.0
        self._active: set[Connection] = set()
        self._queued = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        """Serve until a signal or the arbiter's end, then what is under way."""
        self._prompt_paths: frozenset[str] = self.app.prompt_paths  # type: ignore[attr-defined]  # see fleet.ops.server
        self._gateway = Gateway(self.wsgi, self.cfg)
        self.poller.register(self.method_queue.fileno(), EVENT_READ, self.method_queue.run_callbacks)
        self.set_accept_enabled(True)
        while self.alive and self.is_parent_alive():
            self.notify()
            self._attend(time.monotonic() + _HEARTBEAT_S)
        self.alive = False
        self.set_accept_enabled(False)
        self._bring_to_an_end()
        self.tpool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()
        for listener in self.sockets:
            listener.close()

    def _attend(self, until: float) -> None:
        """Do what there is to do until then, or until the worker shall stop, or nobody is left of one that stops."""
        stopping = not self.alive
        while (self.nr_conns if stopping else self.alive) and (now := time.monotonic()) < until:
            for key, _ in self.poller.select(_LOOK_S):
                key.data(key.fileobj)
            if now >= self._look_at:
                self._look_after()
                self._look_at = now + _LOOK_S

    def _bring_to_an_end(self) -> None:
        begun = time.monotonic()
        while self.nr_conns and (since := time.monotonic() - begun) < self.cfg.graceful_timeout:
            if since >= _STOP_KEEPALIVE_S:
                self._idle.span_s = 0.0
            self.notify()
            self._attend(time.monotonic() + _LOOK_S)

    def _look_after(self) -> None:
        """See to those for whom the time is over."""
        now = time.monotonic()
        for conn in (*self._idle.overdue(now), *self._ending.overdue(now)):
            self._close(conn)
        for conn in self._asking.overdue(now):
            if conn.arrived:
                conn.sock.late = True
                self._hand_over(conn)  # that it came too late is the application's to say
            else:
                self._close(conn)
        if self._queued:
            self._drop_slowest()

    # From a connection's first byte to its last.

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Take a connection."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in _CROWDED:
                self._drop_longest()
            elif error.errno not in _NOBODY:
                raise
            return
        if self.nr_conns >= self.worker_connections and not self._drop_longest():
            client.close()
            return
        self.nr_conns += 1
        conn = Connection(self.cfg, Channel(client, self._limit_s), address, listener.getsockname())
        if self.cfg.is_ssl:
            # Who connects wants something: silence is not kept as long as between requests.
            self._wait(conn, self._asking)
            self._watch(conn, EVENT_READ, self._shake_hands)
        else:
            self._listen(conn)

    def _shake_hands(self, conn: Connection) -> None:
        try:
            conn.sock.shake_hands(partial(ssl_wrap_socket, conf=self.cfg))
        except ssl.SSLWantReadError:
            self._watch(conn, EVENT_READ, self._shake_hands)
        except ssl.SSLWantWriteError:
            self._watch(conn, EVENT_WRITE, self._shake_hands)
        except ssl.SSLError as error:
            self.log.warning("no TLS connection with %s: %s", conn.client[0], error)
            self._end(conn)
        except OSError:
            self._close(conn)
        else:
            self._listen(conn)

    def _listen(self, conn: Connection) -> None:
        """Wait for the first request."""
        conn.parser = get_parser(self.cfg, conn.sock, conn.client)
        conn.initialized = True
        conn.surroundings = self._gateway.surroundings(conn.client, conn.server)
        self._wait(conn, self._asking)
        self._watch(conn, EVENT_READ, self._read)

    def _read(self, conn: Connection) -> None:
        try:
            piece = conn.sock.take()
        except OSError:
            self._close(conn)
            return
        if piece is None:
            return
        if not conn.arrived:
            self._wait(conn, self._asking)
        conn.arrived += piece
        self._consider(conn)

    def _consider(self, conn: Connection) -> None:
        """Begin with a request once it is whole, or goes to a thread, or will never be whole."""
        if conn.gone:
            return
        if not conn.arrived:
            if conn.sock.ended:
                self._close(conn)
            return
        request = plain_request(conn.arrived, self._prompt_paths)
        if isinstance(request, PlainRequest):
            del conn.arrived[: request.size_bytes]
            self._answer(conn, request)
        elif request is Stage.OTHER or conn.sock.ended:
            self._hand_over(conn)

    def _answer(self, conn: Connection, request: PlainRequest) -> None:
        """Answer a request in this thread."""
        try:
            answer, conn.keep = self._gateway.answer(request, conn.surroundings, conn.sock, keep=self.alive)
            conn.sock.sendall(answer)
        except Exception as error:  # noqa: BLE001 - the worker's crash handler, as gunicorn's own for its threads
            self.handle_error(None, conn.sock, conn.client, error)
            conn.keep = False
        self._send(conn)

    def _send(self, conn: Connection) -> None:
        """Send what is left of an answer; after it keep the connection, or end it."""
        try:
            sent = conn.sock.flush()
        except OSError:
            self._close(conn)
            return
        if not sent:
            self._watch(conn, EVENT_WRITE, self._send)
        elif conn.keep:
            self._keep(conn)
        else:
            self._end(conn)

    def _keep(self, conn: Connection) -> None:
        """Wait for the next request, of which something may be there already."""
        self._watch(conn, EVENT_READ, self._read)
        if conn.arrived:
            self._wait(conn, self._asking)
            self.method_queue.defer(self._consider, conn)  # after the others' turn
        else:
            self._wait(conn, self._idle)

    def _end(self, conn: Connection) -> None:
        """Say that it is over, and leave the client a moment to read the answer and say the same."""
        try:
            conn.sock.finish()
        except OSError:
            self._close(conn)
            return
        conn.arrived.clear()
        self._wait(conn, self._ending)
        self._watch(conn, EVENT_READ, self._discard)

    def _discard(self, conn: Connection) -> None:
        try:
            piece = conn.sock.take()
        except OSError:
            piece = b""
        if piece is None:
            return
        conn.arrived += piece
        if not piece or len(conn.arrived) > _ENDING_BYTES:
            self._close(conn)

    def _close(self, conn: Connection) -> None:
        self._release(conn)
        conn.gone = True
        self.nr_conns -= 1
        conn.close()

    def _drop_longest(self) -> bool:
        """Close a connection that has not asked, if there is one."""
        conn = self._asking.longest() or self._idle.longest()
        if conn is None:
            return False
        self._close(conn)
        return True

    def _wait(self, conn: Connection, where: Waiting[Connection]) -> None:
        if conn.waiting is not None:
            conn.waiting.discard(conn)
        conn.waiting = where
        where.add(conn, time.monotonic())

    def _watch(self, conn: Connection, event: int, step: _Step) -> None:
        """Take this step with every such event of the connection."""
        if conn.watched == (event, step):
            return

        def take(_fd: Any) -> None:  # noqa: ANN401 - the poller's
            if not conn.gone:  # one event before this one may have been its end
                step(conn)

        change = self.poller.register if conn.watched is None else self.poller.modify
        change(conn.sock.fd, event, take)
        conn.watched = (event, step)

    def _release(self, conn: Connection) -> None:
        """Neither watch the connection nor wait for it."""
        if conn.watched is not None:
            self.poller.unregister(conn.sock.fd)
            conn.watched = None
        if conn.waiting is not None:
            conn.waiting.discard(conn)
            conn.waiting = None

    # The pool.

    def _hand_over(self, conn: Connection) -> None:
        """Let a thread of the pool have the connection for one request."""
        self._release(conn)
        conn.parser.unreader.unread(bytes(conn.arrived))
        conn.arrived.clear()
        with self._lock:
            self._queued += 1
        self._drop_slowest()
        self.enqueue_req(conn)

    def handle(self, conn: TConn) -> Any:  # noqa: ANN401 - a mark of gunicorn's
        """Answer a request in a thread of the pool: whether to keep the connection."""
        assert isinstance(conn, Connection)  # noqa: S101 - for the type checker; ``accept`` makes no others
        with self._lock:
            self._queued -= 1
            self._active.add(conn)
        try:
            with conn.sock.waited_for():
                return super().handle(conn)
        finally:
            with self._lock:
                self._active.discard(conn)

    def finish_request(self, conn: TConn, fs: "Future[Any]") -> None:
        """Take the connection back from the pool."""
        assert isinstance(conn, Connection)  # noqa: S101 - as in ``handle``
        try:
            conn.keep = bool(fs.result())
        except OSError:
            self._close(conn)
            return
        conn.arrived += conn.parser.unreader.take_buffered()
        self._send(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Answer what the parser has found."""
        assert isinstance(conn, Connection)  # noqa: S101 - as in ``handle``
        conn.sock.on_last_answer = req.force_close
        return super().handle_request(req, conn)

    def _drop_slowest(self) -> None:
        """If every thread is taken, take back as many as others wait for, from who was given one and has not asked."""
        with self._lock:
            if len(self._active) < self.cfg.threads:
                return
            impatient_at, wanted = time.monotonic() - _PATIENCE_S, self._queued
            clients = [conn.sock for conn in self._active]
        slow = [each for each in clients if each.receiving and each.started_at < impatient_at]
        for client in sorted(slow, key=lambda each: each.started_at)[:wanted]:
            client.interrupt()
