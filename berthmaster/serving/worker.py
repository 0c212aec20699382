"""gunicorn's threaded worker, made fit for an endpoint that a control plane waits for.

One thread watches all clients, and never waits for any of them: it shakes hands, collects plain requests until they are
whole (``request_parser``) and answers them itself (``wsgi``). Threads that take turns at the
interpreter's lock cost more than such an answer. Everything else goes to a thread of the pool and through gunicorn's
parser; when all are taken and others wait, the clients that are slowest to say what they want are dropped. When there
are too many connections, one that has not asked goes.
"""

import errno
import ssl
import time
from concurrent.futures import Future
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, cast

from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

from berthmaster.serving.channel import Channel
from berthmaster.serving.pool import Pool
from berthmaster.serving.request_parser import PlainRequest, Stage, plain_request
from berthmaster.serving.watch import Connection, Watch
from berthmaster.serving.wsgi import Gateway

_HEARTBEAT_S: Final = 1.0
_LOOK_S: Final = 0.1
_LEFT_TO_OTHERS_S: Final = 0.005
_LOOK_AT_OTHERS_S: Final = 0.001
_ENDING_BYTES: Final = 64 * 2**10
_STOP_KEEPALIVE_S: Final = 2.0
"""How long a worker that stops keeps idle connections: a request may be on its way already."""
_CROWDED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOBODY: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EPERM, errno.EPROTO)


class DeadlineWorker(ThreadWorker):
    """The worker process. ``cfg.timeout`` is no request's deadline: see ``request_timeout_s`` of the application."""

    def run(self) -> None:
        """Serve until a signal or the arbiter's end, then what is under way."""
        settings = cast("Any", self.app)  # see berthmaster.serving.server
        self._limit_s: float = settings.request_timeout_s
        self._prompt_paths: frozenset[str] = settings.prompt_paths
        self._crew = settings.crew
        self._gateway = Gateway(self.wsgi, self.cfg)
        self._watch = Watch(self.poller, idle_s=self.cfg.keepalive, asking_s=self._limit_s)
        self._look_at = self._accept_at = 0.0
        self._leaves_to_others = self._insists = False
        self._pool = Pool(self.cfg.threads)
        self.poller.register(cast("int", self.method_queue.fileno()), EVENT_READ, self.method_queue.run_callbacks)
        self._count(0)
        self.set_accept_enabled(True)
        while self.alive and self.is_parent_alive():
            self.notify()
            self._attend(time.monotonic() + _HEARTBEAT_S)
        self.alive = self._leaves_to_others = False
        self._crew.ended(self.age)
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
            if self._leaves_to_others:
                self._insists = now >= self._accept_at  # the others had their chance
                self._leaves_to_others = not self._insists and self._crew.others_should(self.nr_conns)
                self.set_accept_enabled(not self._leaves_to_others)
            for key, _ in self.poller.select(_LOOK_AT_OTHERS_S if self._leaves_to_others else _LOOK_S):
                key.data(key.fileobj)
            self._insists = False
            if now >= self._look_at:
                self._look_after()
                self._look_at = now + _LOOK_S

    def _bring_to_an_end(self) -> None:
        begun = time.monotonic()
        while self.nr_conns and (since := time.monotonic() - begun) < self.cfg.graceful_timeout:
            if since >= _STOP_KEEPALIVE_S:
                self._watch.idle.span_s = 0.0
            self.notify()
            self._attend(time.monotonic() + _LOOK_S)

    def _look_after(self) -> None:
        """See to those for whom the time is over."""
        now = time.monotonic()
        for conn in (*self._watch.idle.overdue(now), *self._watch.ending.overdue(now)):
            self._close(conn)
        for conn in self._watch.asking.overdue(now):
            if conn.arrived and self._reads(conn):
                conn.channel.late = True
                self._hand_over(conn)  # that it came too late is the application's to say
            else:
                self._close(conn)
        self._pool.drop_slowest()

    # A connection's beginning.

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Take a connection, unless another worker should."""
        if not self._insists and self._crew.others_should(self.nr_conns):
            self._leave_to_others()
            return
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in _CROWDED:
                self._drop_longest()
                self._leave_to_others()
            elif error.errno not in _NOBODY:
                raise
            return
        if self.nr_conns >= self.worker_connections and not self._drop_longest():
            client.close()
            return
        self._count(1)
        conn = Connection(self.cfg, Channel(client, self._limit_s), address, listener.getsockname())
        conn.surroundings = self._gateway.surroundings(conn.client, conn.server)
        # Who connects wants something: silence is not kept as long as between requests.
        self._watch.wait(conn, self._watch.asking)
        self._watch.on(EVENT_READ, conn, self._shake_hands if self.cfg.is_ssl else self._read)

    def _leave_to_others(self) -> None:
        self.set_accept_enabled(False)
        self._leaves_to_others = True
        self._accept_at = time.monotonic() + _LEFT_TO_OTHERS_S

    def _shake_hands(self, conn: Connection) -> None:
        try:
            conn.channel.shake_hands(partial(ssl_wrap_socket, conf=self.cfg))
        except ssl.SSLWantReadError:
            self._watch.on(EVENT_READ, conn, self._shake_hands)
        except ssl.SSLWantWriteError:
            self._watch.on(EVENT_WRITE, conn, self._shake_hands)
        except ssl.SSLEOFError:
            self._close(conn)
        except ssl.SSLError as error:
            self.log.warning("no TLS connection with %s: %s", conn.client, error)
            self._end(conn)
        except OSError:
            self._close(conn)
        else:
            self._watch.wait(conn, self._watch.asking)
            self._watch.on(EVENT_READ, conn, self._read)

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
            self._watch.wait(conn, self._watch.asking)
        conn.arrived += piece
        self._consider(conn)

    def _consider(self, conn: Connection) -> None:
        """Begin with a request once it is whole, or goes to a thread, or will never be whole."""
        if not conn.arrived:
            if conn.channel.ended:
                self._close(conn)
            return
        request = plain_request(conn.arrived, self._prompt_paths)
        if isinstance(request, PlainRequest):
            del conn.arrived[: request.size_bytes]
            self._answer(conn, request)
        elif request is Stage.OTHER or conn.channel.ended:
            self._hand_over(conn)

    def _answer(self, conn: Connection, request: PlainRequest) -> None:
        """Answer a request in this thread."""
        try:
            answer, conn.keep = self._gateway.answer(request, conn.surroundings, conn.channel, keep=self.alive)
            conn.channel.sendall(answer)
        except Exception as error:  # noqa: BLE001 - the worker's crash handler, as gunicorn's own for its threads
            self.handle_error(None, conn.sock, conn.client, error)
            conn.keep = False
        self._send(conn)

    def _send(self, conn: Connection) -> None:
        """Send what is left of an answer; after it keep the connection, or end it."""
        try:
            sent = conn.channel.flush()
        except OSError:
            self._close(conn)
            return
        if not sent:
            self._watch.on(EVENT_WRITE, conn, self._send)
        elif conn.keep:
            self._keep(conn)
        else:
            self._end(conn)

    def _keep(self, conn: Connection) -> None:
        """Wait for the next request, of which something may be there already."""
        self._watch.on(EVENT_READ, conn, self._read)
        if conn.arrived:
            self._watch.wait(conn, self._watch.asking)
            self.method_queue.defer(self._go_on, conn)  # after the others' turn
        else:
            self._watch.wait(conn, self._watch.idle)

    def _go_on(self, conn: Connection) -> None:
        if self._reads(conn):  # else it is closed by now, or went on already
            self._consider(conn)

    def _reads(self, conn: Connection) -> bool:
        return conn.step == (EVENT_READ, self._read)

    # A connection's end.

    def _end(self, conn: Connection) -> None:
        """Say that it is over, and leave the client a moment to read the answer and say the same."""
        try:
            conn.channel.finish()
        except OSError:
            self._close(conn)
            return
        conn.arrived.clear()
        self._watch.wait(conn, self._watch.ending)
        self._watch.on(EVENT_READ, conn, self._discard)

    def _discard(self, conn: Connection) -> None:
        try:
            piece = conn.channel.take()
        except OSError:
            piece = b""
        if piece is None:
            return
        conn.arrived += piece
        if not piece or len(conn.arrived) > _ENDING_BYTES:
            self._close(conn)

    def _drop_longest(self) -> bool:
        """Close a connection that has not asked, if there is one."""
        conn = self._watch.asking.longest() or self._watch.idle.longest()
        if conn is None:
            return False
        self._close(conn)
        return True

    def _close(self, conn: Connection) -> None:
        self._watch.leave(conn)
        conn.close()
        self._count(-1)

    def _count(self, change: int) -> None:
        self.nr_conns += change
        if self.alive:
            self._crew.tell(self.age, self.nr_conns)

    # The pool.

    def _hand_over(self, conn: Connection) -> None:
        """Let a thread of the pool have the connection for one request."""
        self._watch.leave(conn)
        conn.unreader.unread(bytes(conn.arrived))
        conn.arrived.clear()
        self._pool.queue()
        self._pool.drop_slowest()
        self.enqueue_req(conn)

    def handle(self, conn: TConn) -> Any:  # noqa: ANN401 - a mark of gunicorn's
        """Answer a request in a thread of the pool: whether to keep the connection."""
        channel = cast("Connection", conn).channel
        with self._pool.serving(channel), channel.waited_for():
            return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Answer what the parser has found."""
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
            conn.arrived += conn.unreader.read()  # of the next request
        self._send(conn)
