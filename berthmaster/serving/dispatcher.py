"""Answers the requests of a worker: at once in the polling thread, or in a thread of the pool.

The polling thread answers a request itself if it is known to be cheap: to hand it to another thread takes longer than
to answer it. It sends the answers to requests that arrived at the same time together: each answer wakes a client, which
may take the processor at once. Everything else waits until it is complete, and then for a thread. While a request of a
connection is unanswered, nothing is read from that connection.
"""

import io
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, Protocol

from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.token_bucket import TokenBucket
from berthmaster.serving.connection import PIECE_BYTES, Connection, FairQueue, MemoryShare, Phase
from berthmaster.serving.request_parser import REFUSED_BODY_BYTES, ClientRequest, ServerRefusal
from berthmaster.serving.responses import RefusalForm, WSGICaller, refusal_response
from berthmaster.serving.server import ServedApp

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


class PolledConnections(Protocol):
    """The connections of a worker. The polling thread calls all methods except ``call_soon``."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Let the polling thread call a function. Safe for several threads."""

    def keeps(self, conn: Connection) -> bool:
        """Return whether a connection stays open after a response."""

    def wait(self, conn: Connection, event: int, step: Callable[[Connection], None]) -> None:
        """Call ``step`` on every such event of a connection; with event 0, on none."""

    def waiting(self, *phases: Phase) -> list[Connection]:
        """Return the connections in some phases, the one that has waited longest first."""

    def end(self, conn: Connection) -> None:
        """Close our direction, and give the client a moment to read the answer and to close its direction."""

    def drop(self, conn: Connection) -> None:
        """Close a connection at once."""


class Dispatcher:
    """Serves the requests of all connections of a worker. The polling thread calls all public methods."""

    def __init__(self, connections: "PolledConnections", caller: WSGICaller, app: Any, threads: int) -> None:  # noqa: ANN401 - see server
        self._polled = connections
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
            self._polled.wait(conn, 0, self.read)
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
        self._polled.wait(conn, EVENT_READ, self.read)

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
        self._polled.wait(conn, EVENT_READ, self.read)
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
        keep = self._polled.keeps(conn) and request.keep and request.complete
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
        self._polled.wait(conn, EVENT_WRITE, self._send)
        if conn.phase is not Phase.ANSWERING:  # a late answer has a moment
            conn.enter(Phase.ANSWERING, max(conn.began_at, time.monotonic() - self._limit_s + _ANSWERING_S))
        conn.hold(self._unread, len(conn.out))
        while self._unread.exhausted and (slow := self._polled.waiting(Phase.ANSWERING)):
            self.close(slow[0])

    def _go_on_with(self, conn: Connection) -> None:
        """Wait for the next request of a connection, unless it has arrived, or there is none."""
        if conn.phase is Phase.ANSWERING:
            conn.hold(self._unread, 0)
        if not conn.keep:
            self._polled.end(conn)
        elif conn.rest or conn.parser.requests or conn.parser.problem is not None:
            conn.began_at = conn.read_at
            conn.enter(Phase.REQUESTING, conn.read_at)
            self._polled.wait(conn, 0, self.read)
            self._ready.append(conn)  # other connections come first
        else:
            self._polled.wait(conn, EVENT_READ, self.read)
            conn.enter(Phase.IDLE, time.monotonic())

    # The thread pool.

    def _enqueue(self, conn: Connection, queue: FairQueue) -> None:
        self._forget(conn)
        self._polled.wait(conn, 0, self.read)
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
        keep = self._polled.keeps(conn) and request.keep and request.knows_chunks
        try:
            for piece in self._caller.answer(request, conn.environ, io.BytesIO(request.body), keep=keep):
                conn.send(piece)
        finally:
            conn.socket.settimeout(0.0)
        return b"", keep

    def _done(self, conn: Connection, task: Future[tuple[bytes, bool]]) -> None:
        self._polled.call_soon(partial(self._finish, conn, task))

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
            for conn in self._polled.waiting(Phase.REQUESTING)
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
        self._polled.wait(conn, 0, self.read)
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
        for conn in self._polled.waiting(Phase.IDLE, Phase.REQUESTING):
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
        self._polled.drop(conn)

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
