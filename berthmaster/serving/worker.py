"""A worker for endpoints that a control plane waits for: a polling thread, and a pool of threads.

The polling thread waits for all clients and never for a single one. It does TLS handshakes, collects requests and sends
answers. If there are too many connections, the connection that is missed least is closed.

The polling thread answers a request itself if it is known to be cheap: to hand it to another thread takes longer than
to answer it. It sends the answers to requests that arrived at the same time together: each answer wakes a client, which
may take the processor at once. Everything else waits until it is complete, and then for a thread. While a request of a
connection is unanswered, nothing is read from that connection.
"""

import errno
import io
import logging
import math
import os
import random
import selectors
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, cast

from gunicorn.workers.base import Worker

from berthmaster.runtime.clock import SystemClock, TokenBucket
from berthmaster.serving.connection import PIECE_BYTES, Connection, FairQueue, MemoryShare, Phase
from berthmaster.serving.request_parser import REFUSED_BODY_BYTES, ClientRequest, RequestParser, ServerRefusal
from berthmaster.serving.responses import RefusalForm, WSGICaller, refusal_response
from berthmaster.serving.server import ServedApp

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


_LOG: Final = logging.getLogger("berthmaster.server")
_LOGGED_PER_S: Final = 1.0
_LOGGED_BURST: Final = 20
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_COMPUTING: Final = 2
"""With two threads that compute, the polling thread waits for the interpreter half as long as with four."""
_FIRST_REQUEST_S: Final = 1.0
"""The time that a new connection has for its first request while the worker stops."""
_TOGETHER_S: Final = 0.001
"""How long after a request is read its answer may wait for those that are sent together with it."""
_ANSWERING_S: Final = 1.0
"""The time that a client has at least to read its answer."""
_SMALL_BYTES: Final = 64 * 2**10
"""Up to this size a request never waits for memory."""
_LARGE_PIECE_BYTES: Final = 256 * 2**10
_PROCESSING_FACTOR: Final = 13
"""A request in progress needs at most this many times its size: JSON becomes objects, and objects become an answer.

``make bench-hostile`` measures 10 for labels and 12.7 for nodes of kube-scheduler.
"""
_PATIENCE_S: Final = 1.0
"""The time that a client has for a large request while other clients wait for memory."""
_LATE: Final = ServerRefusal(408, "the body did not arrive in time")
_BUSY: Final = ServerRefusal(503, "the server is busy with other requests; retry later, or send a smaller request")


class Dispatcher:
    """Serves the requests of all connections of a worker. The polling thread calls all public methods."""

    def __init__(self, worker: "PollingWorker", caller: WSGICaller, app: Any, threads: int) -> None:  # noqa: ANN401 - see server
        self._worker = worker
        self._caller = caller
        served: ServedApp = app.served
        self._cheap, self._waiting_paths = served.cheap, served.waiting
        self._form: RefusalForm = served.refusals
        self._limit_s: float = app.request_timeout_s
        self.log_limit = TokenBucket(SystemClock(), _LOGGED_PER_S, _LOGGED_BURST)
        memory_bytes: int = app.request_memory_bytes
        self._arrived = MemoryShare(memory_bytes / 4)  # requests that arrive, or wait for a thread
        self._processed = MemoryShare(memory_bytes / 2)
        self._unread = MemoryShare(memory_bytes / 4)  # answers that clients have not read
        streams = max(1, threads // 2)
        rest = max(1, threads - streams)
        # Python runs one thread at a time: more threads that compute only delay the polling thread. Threads that wait
        # for another service compute little.
        computing = rest if served.answers_wait else min(_COMPUTING, rest)
        self._requests, self._streams, self._waiting = FairQueue(computing), FairQueue(streams), FairQueue(streams)
        self._pool = ThreadPoolExecutor(computing + 2 * streams)
        self._ready: deque[Connection] = deque()
        self._answered: deque[Connection] = deque()
        self._at_work = 0  # threads of the pool
        self._paused: dict[Connection, None] = {}
        self._exempt: Connection | None = None

    @property
    def busy(self) -> bool:
        """Whether ``go_on`` has work."""
        return bool(self._ready)

    # The arrival of a request.

    def read(self, conn: Connection) -> None:
        """Read bytes that have arrived, and answer or queue a request."""
        large = conn.arrived_bytes > _SMALL_BYTES
        if large and self._arrived.exhausted and conn is not self._exempt:
            self._worker.wait(conn, 0, self.read)
            self._paused[conn] = None
            return
        try:
            piece = conn.take(_LARGE_PIECE_BYTES if large else PIECE_BYTES)
        except OSError:
            self.close(conn)
            return
        if piece is None:
            return
        conn.read_at = time.monotonic()
        if not conn.arrived_bytes:
            conn.began_at = conn.read_at
        conn.arrived_bytes += len(piece)
        self._parse(conn, piece)

    def go_on(self) -> None:
        """Continue connections whose next request has arrived, or that waited for memory. Then send all answers."""
        for _ in range(len(self._ready)):
            conn = self._ready.popleft()
            if conn.phase is Phase.REQUESTING and not conn.waits_for:  # else it has been closed
                self._parse(conn, conn.rest)
                self.send_due_answers()
        while self._paused and not self._arrived.exhausted:
            self._resume(next(iter(self._paused)))
        self._send_answers()

    def _resume(self, conn: Connection) -> None:
        del self._paused[conn]
        self._worker.wait(conn, EVENT_READ, self.read)

    def _parse(self, conn: Connection, data: bytes) -> None:
        parser = conn.parser
        conn.rest = parser.feed(data)
        request = parser.requests[0] if parser.requests else None
        if request is not None and (request.ready or (request.has_head and conn.ended)):
            self._begin(conn, request)
        elif parser.problem is not None:
            if self.log_limit.take():
                _LOG.warning("request of %s refused with status %d: %s", conn.peer, *parser.problem)
            self._finish_answer(conn, refusal_response(parser.problem, self._form), keep=False)
        elif conn.ended:
            self.close(conn)
        else:
            self._await_rest(conn, request)

    def _await_rest(self, conn: Connection, request: ClientRequest | None) -> None:
        conn.enter(Phase.REQUESTING, conn.began_at)
        self._worker.wait(conn, EVENT_READ, self.read)
        conn.hold(self._arrived, conn.arrived_bytes)
        if self._arrived.exhausted and conn.arrived_bytes <= _SMALL_BYTES:
            self._drop_slowest(conn)
        if request is not None and request.expects:
            request.expects = False
            self._send_interim(conn)

    def _begin(self, conn: Connection, request: ClientRequest) -> None:
        """Answer a request in this thread if it is cheap, else queue it. To refuse a request is cheap."""
        request.began_at, conn.knows_interim = conn.began_at, request.knows_chunks
        cheap = self._cheap.get(request.path) if request.method == "POST" else None
        if request.streamed and request.complete:
            self._enqueue(conn, self._streams)
            return
        small = len(request.body) <= _SMALL_BYTES
        if small and (not request.complete or (cheap is not None and cheap(bytes(request.body)))):
            self._keep_answer(conn, *self._answer(conn, request))
            conn.phase = Phase.ANSWERED
            self._answered.append(conn)
        else:
            waits = cheap is not None and request.path in self._waiting_paths
            self._enqueue(conn, self._waiting if waits else self._requests)

    # The answer.

    def _answer(self, conn: Connection, request: ClientRequest) -> tuple[bytes, bool]:
        """Return the answer of the application, and whether the connection stays open."""
        keep = self._worker.keeps(conn) and request.keep and request.complete
        request.body = bytes(request.body)  # the application shares this copy
        try:
            answer = self._caller.answer(request, conn.environ, io.BytesIO(request.body), keep=keep)
            return b"".join(answer), keep
        except Exception as error:  # noqa: BLE001 - the worker's crash handler, as in gunicorn's own threads
            _LOG.error("error in %s %s", request.method, request.path[:256], exc_info=error)
            return refusal_response(ServerRefusal(500, ""), self._form), False

    def _finish_answer(self, conn: Connection, answer: bytes, keep: bool) -> None:  # noqa: FBT001 - a result of _answer
        self._keep_answer(conn, answer, keep)
        self._send(conn)

    def _keep_answer(self, conn: Connection, answer: bytes, keep: bool) -> None:  # noqa: FBT001 - the same
        conn.out += answer
        conn.keep = keep
        if conn.parser.requests:
            conn.parser.requests.popleft()
        conn.arrived_bytes = len(conn.rest)
        self._forget(conn)

    def send_due_answers(self) -> None:
        """Send the answers that this thread has made, unless they can wait for more of them."""
        # Each read may give the interpreter to a thread that computes: an answer would wait for that thread.
        if self._answered and (self._at_work or time.monotonic() - self._answered[0].read_at > _TOGETHER_S):
            self._send_answers()

    def _send_answers(self) -> None:
        while self._answered:
            self._send(self._answered.popleft())

    def _send(self, conn: Connection) -> None:
        """Send the rest of an answer. After that, keep the connection or end it."""
        try:
            sent = conn.flush()
        except OSError:
            self.close(conn)
            return
        if sent:
            self._go_on_with(conn)
            return
        self._worker.wait(conn, EVENT_WRITE, self._send)
        if conn.phase is not Phase.ANSWERING:  # a late answer has a moment
            conn.enter(Phase.ANSWERING, max(conn.began_at, time.monotonic() - self._limit_s + _ANSWERING_S))
        conn.hold(self._unread, len(conn.out))
        while self._unread.exhausted and (slow := self._worker.waiting(Phase.ANSWERING)):
            self.close(slow[0])

    def _go_on_with(self, conn: Connection) -> None:
        """Wait for the next request of a connection, unless it has arrived, or there is none."""
        if conn.phase is Phase.ANSWERING:
            conn.hold(self._unread, 0)
        if not conn.keep:
            self._worker.end(conn)
        elif conn.rest or conn.parser.requests or conn.parser.problem is not None:
            conn.began_at = conn.read_at
            conn.enter(Phase.REQUESTING, conn.read_at)
            self._worker.wait(conn, 0, self.read)
            self._ready.append(conn)  # other connections come first
        else:
            self._worker.wait(conn, EVENT_READ, self.read)
            conn.enter(Phase.IDLE, time.monotonic())

    # The thread pool.

    def _enqueue(self, conn: Connection, queue: FairQueue) -> None:
        self._forget(conn)
        self._worker.wait(conn, 0, self.read)
        conn.enter(Phase.QUEUED, conn.began_at)
        conn.hold(self._arrived, conn.arrived_bytes)
        conn.queue = queue
        queue.put(conn)
        self._give_threads()

    def _give_threads(self) -> None:
        for queue in (self._requests, self._streams, self._waiting):
            while (conn := queue.take(lambda each: self._processed.fits(_needed_bytes(each)))) is not None:
                conn.enter(Phase.SERVED)
                conn.hold(self._processed, _needed_bytes(conn))
                serve = self._serve_stream if queue is self._streams else self._answer
                self._at_work += 1
                task = self._pool.submit(serve, conn, conn.parser.requests[0])
                task.add_done_callback(partial(self._done, conn))

    def _serve_stream(self, conn: Connection, request: ClientRequest) -> tuple[bytes, bool]:
        """Answer a streamed request, and return the end of the answer and whether the connection stays open."""
        keep = self._worker.keeps(conn) and request.keep and request.knows_chunks
        try:
            for piece in self._caller.answer(request, conn.environ, io.BytesIO(request.body), keep=keep):
                conn.send(piece)
        finally:
            conn.socket.settimeout(0.0)
        return b"", keep

    def _done(self, conn: Connection, task: Future[tuple[bytes, bool]]) -> None:
        self._worker.call_soon(partial(self._finish, conn, task))

    def _finish(self, conn: Connection, done: Future[tuple[bytes, bool]]) -> None:
        conn.queue.finish(conn)
        self._at_work -= 1
        try:
            answer, keep = done.result()
        except Exception as error:  # noqa: BLE001 - the same
            if not isinstance(error, OSError):  # the client has gone
                _LOG.error("error in a streamed answer", exc_info=error)
            self.close(conn)
        else:
            self._finish_answer(conn, answer, keep)
        self._give_threads()

    # Refusals.

    def check_deadlines(self, overdue: Sequence[Connection]) -> None:
        """Refuse overdue requests, and close the other overdue connections."""
        for conn in overdue:
            if conn.phase in {Phase.QUEUED, Phase.REQUESTING} and conn.parser.requests:
                self._refuse(conn, conn.parser.requests[0], _LATE if conn.waits_for else _BUSY)
            else:
                self.close(conn)
        if self._paused and self._arrived.exhausted:
            self._make_way()

    def _make_way(self) -> None:
        """Drop a slow client while others wait for memory. If all wait, let one read on."""
        if not self._drop_slowest(None) and (self._exempt is None or self._exempt in self._paused):
            self._exempt = next(iter(self._paused))
            self._resume(self._exempt)

    def _drop_slowest(self, spared: Connection | None) -> bool:
        """Refuse the slowest of the requests that have been arriving for some time. Return whether there is one."""
        now = time.monotonic()
        slow = [
            conn
            for conn in self._worker.waiting(Phase.REQUESTING)
            if conn.parser.requests and conn.waits_for and conn is not spared and now - conn.began_at > _PATIENCE_S
        ]
        if slow:
            slowest = min(slow, key=lambda conn: conn.arrived_bytes / (now - conn.began_at))
            self._refuse(slowest, slowest.parser.requests[0], _BUSY)
        return bool(slow)

    def _refuse(self, conn: Connection, request: ClientRequest, refusal: ServerRefusal) -> None:
        """Let the application refuse a request. It reads little of the request, so this thread can call it."""
        if not request.has_head:
            self.close(conn)
            return
        self._forget(conn)
        self._worker.wait(conn, 0, self.read)
        conn.enter(Phase.SERVED)
        if request.method != "POST":  # the application would answer it, which may take long
            self._finish_answer(conn, refusal_response(refusal, self._form), keep=False)
            return
        if request.enough_bytes is None or "CONTENT_LENGTH" not in request.fields:
            request.refusal = request.refusal or refusal  # else the application refuses the length
        request.body = request.body[:REFUSED_BODY_BYTES]
        self._finish_answer(conn, *self._answer(conn, request))

    # The end of a connection.

    def dismiss_idle(self, now: float) -> None:
        """Let clients close their connections without a request. Those that do not are closed after a time limit.

        If the server closed such a connection, a request that is under way could get no answer, and clients do not
        repeat a POST. An interim response avoids that. A client that has just sent a request ignores it (RFC 9110,
        15.2), and the request is answered. A client without a request closes the connection (RFC 9112, 9.2).

        A client may be about to send the first request of a new connection, and would not repeat that one elsewhere.
        """
        for conn in self._worker.waiting(Phase.IDLE, Phase.REQUESTING):
            if conn.phase is Phase.IDLE or (not conn.arrived_bytes and now - conn.since >= _FIRST_REQUEST_S):
                conn.enter(Phase.LEAVING, now)
                if conn.knows_interim:
                    self._send_interim(conn)

    def _send_interim(self, conn: Connection) -> None:
        conn.out += _CONTINUE
        try:
            conn.flush()
        except OSError:
            self.close(conn)

    def close(self, conn: Connection) -> None:
        """Close a connection at once."""
        self._forget(conn)
        self._worker.drop(conn)

    def _forget(self, conn: Connection) -> None:
        """Release the memory and the place in queues of a connection whose request is answered, refused or lost."""
        self._paused.pop(conn, None)
        if self._exempt is conn:
            self._exempt = None
        if conn.phase is Phase.QUEUED:
            conn.queue.discard(conn)
        conn.hold(self._arrived, 0)


def _needed_bytes(conn: Connection) -> int:
    """Return the memory that a request needs while it is in progress; 0 for a small one, which always may begin."""
    return conn.arrived_bytes * _PROCESSING_FACTOR if conn.arrived_bytes > _SMALL_BYTES else 0
