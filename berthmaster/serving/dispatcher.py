"""The way of a request: collected by the polling thread, answered by it or by a thread of the pool, and sent.

The polling thread answers a request itself if it is known to be cheap: to hand it to another thread takes longer than
to answer it. Everything else waits until it is complete, and then for a thread. While a request of a connection is
unanswered, nothing is read from that connection.
"""

import io
import logging
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final

from berthmaster.runtime.clock import SystemClock, TokenBucket
from berthmaster.serving.connection import (
    PIECE_BYTES,
    SMALL_BYTES,
    ArrivingBody,
    Connection,
    FairQueue,
    MemoryBudget,
    MemoryUse,
    Phase,
)
from berthmaster.serving.request_parser import REFUSED_BODY_BYTES, ClientRequest, ServerRefusal
from berthmaster.serving.responses import RefusalForm, WSGICaller, refusal_response

_MAX_CLOSING_BYTES: Final = 64 * 2**10


class Poller:
    """Waits for connections and listeners."""

    def __init__(self, pipe: tuple[int, int], changed: Callable[[], None]) -> None:
        """Start to wait.

        Args:
            pipe: both ends of a pipe that does not block. A byte in it ends a wait.
        """
        self.open: set[Connection] = set()
        self._wake, self._waker = pipe
        self._changed = changed
        self._calls: deque[Callable[[], None]] = deque()
        self._selector = selectors.DefaultSelector()
        self.listen(self._wake)

    def handle_events(self, wait_s: float) -> Iterator[Any]:
        """Call the steps of connections, and yield each listener that has a new one."""
        for key, event in self._selector.select(wait_s):
            conn: Connection | None = key.data
            if conn is not None:
                if conn.waits_for == event:  # an earlier event may have changed the connection
                    conn.step(conn)
            elif key.fd != self._wake:
                yield key.fileobj
            else:
                with suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                while self._calls:
                    self._calls.popleft()()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Let the polling thread call a function. Safe for several threads."""
        self._calls.append(call)
        with suppress(BlockingIOError):  # a full pipe ends the wait, too
            os.write(self._waker, b"\0")

    def listen(self, listener: Any, *, wanted: bool = True) -> None:  # noqa: ANN401 - a socket of gunicorn's, or the pipe
        if wanted:
            self._selector.register(listener, EVENT_READ)
        else:
            self._selector.unregister(listener)

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
        return sorted((conn for conn in self.open if conn.phase in phases), key=lambda conn: conn.since)

    def overdue(self, now: float) -> list[Connection]:
        """Return the connections whose time limit is over."""
        return [conn for conn in self.open if now >= conn.until]

    def add(self, conn: Connection) -> None:
        self.open.add(conn)
        self._changed()

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
            piece = conn.take()
        except OSError:
            piece = b""
        if piece is None:
            return
        conn.arrived_bytes += len(piece)
        if not piece or conn.arrived_bytes > _MAX_CLOSING_BYTES:
            self.drop(conn)

    def drop(self, conn: Connection) -> None:
        """Close a connection at once."""
        self.wait(conn, 0, self._discard)
        conn.enter(Phase.CLOSED, 0.0)
        conn.socket.close()
        self.open.discard(conn)
        self._changed()


_LOG: Final = logging.getLogger("berthmaster.server")
_LOGGED_PER_S: Final = 1.0
_LOGGED_BURST: Final = 20
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_COMPUTING: Final = 2
"""With two threads that compute, the polling thread waits for the interpreter half as long as with four."""
_FIRST_REQUEST_S: Final = 1.0
"""The time that a new connection has for its first request while the worker stops."""
_ANSWERING_S: Final = 1.0
"""The time that a client has at least to read its answer."""
_LARGE_PIECE_BYTES: Final = 256 * 2**10
_PATIENCE_S: Final = 1.0
"""The time that a client has for a large request while other clients wait for memory."""
_STREAM_PATIENCE_S: Final = 0.25
"""The time that a client has for a piece of its stream while other clients wait for its thread."""
_LATE: Final = ServerRefusal(408, "the body did not arrive in time")
_BUSY: Final = ServerRefusal(503, "the server is busy with other requests; retry later, or send a smaller request")


class Dispatcher:
    """Serves the requests of all connections of a worker. The polling thread calls all public methods.

    ``keeps`` says whether connections stay open after a response: not while the server drains or stops.
    """

    def __init__(self, poller: Poller, caller: WSGICaller, app: Any, threads: int, keeps: Callable[[], bool]) -> None:  # noqa: ANN401 - see server
        self._poller = poller
        self._caller = caller
        self._keeps = keeps
        self._limit_s: float = app.request_timeout_s
        self._form: RefusalForm = app.refusals
        self._log_limit = TokenBucket(SystemClock(), _LOGGED_PER_S, _LOGGED_BURST)
        self._cheap, self._waiting_paths = app.cheap, app.waiting
        self._budget: MemoryBudget[Connection] = MemoryBudget(app.request_memory_bytes)
        self._stream_threads = streams = max(1, threads // 2)
        rest = max(1, threads - streams)
        # Python runs one thread at a time: more threads that compute only delay the polling thread. Threads that wait
        # for another service compute little.
        computing = rest if app.answers_wait else min(_COMPUTING, rest)
        self._requests: FairQueue[Connection] = FairQueue(computing)
        self._streams: FairQueue[Connection] = FairQueue(streams)
        self._waiting: FairQueue[Connection] = FairQueue(streams)
        self._pool = ThreadPoolExecutor(computing + 2 * streams)
        self._streaming: set[Connection] = set()
        self._ready: deque[Connection] = deque()
        self._paused: dict[Connection, None] = {}
        self._exempt: Connection | None = None

    @property
    def busy(self) -> bool:
        """Whether ``go_on`` has work."""
        return bool(self._ready)

    # The arrival of a request.

    def read(self, conn: Connection) -> None:
        """Read bytes that have arrived, and answer or queue a request."""
        large = conn.arrived_bytes > SMALL_BYTES
        if large and self._budget.exhausted(MemoryUse.ARRIVED) and conn is not self._exempt:
            self._poller.wait(conn, 0, self.read)
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
        """Continue connections whose next request has arrived already, and those that waited for memory."""
        for _ in range(len(self._ready)):
            conn = self._ready.popleft()
            if conn.phase is Phase.REQUESTING and not conn.waits_for:  # else it has been closed
                self._parse(conn, conn.rest)
        while self._paused and not self._budget.exhausted(MemoryUse.ARRIVED):
            self._resume(next(iter(self._paused)))

    def _parse(self, conn: Connection, data: bytes) -> None:
        parser = conn.parser
        conn.rest = parser.feed(data)
        request = parser.requests[0] if parser.requests else None
        if request is not None and (request.ready or (request.has_head and conn.ended)):
            self._begin(conn, request)
        elif parser.problem is not None:
            if self._log_limit.take():
                _LOG.warning("request of %s refused with status %d: %s", conn.peer, *parser.problem)
            self._finish_answer(conn, refusal_response(parser.problem, self._form), keep=False)
        elif conn.ended:
            self.close(conn)
        else:
            self._await_rest(conn, request)

    def _await_rest(self, conn: Connection, request: ClientRequest | None) -> None:
        conn.enter(Phase.REQUESTING, conn.began_at)
        self._poller.wait(conn, EVENT_READ, self.read)
        self._budget.hold(conn, MemoryUse.ARRIVED, conn.arrived_bytes)
        if self._budget.exhausted(MemoryUse.ARRIVED) and conn.arrived_bytes <= SMALL_BYTES:
            self._drop_slowest(conn)
        if request is not None and request.expects:
            request.expects = False
            self._send_interim(conn)

    def _begin(self, conn: Connection, request: ClientRequest) -> None:
        """Answer a request in this thread if it is cheap, else queue it. To refuse a request is cheap."""
        request.began_at, conn.knows_interim = conn.began_at, request.knows_chunks
        if request.streamed:
            self._enqueue(conn, self._streams)
            return
        cheap = self._cheap.get(request.path) if request.method == "POST" else None
        small = len(request.body) <= SMALL_BYTES
        if small and (not request.complete or (cheap is not None and cheap(bytes(request.body)))):
            self._answer(conn, request)
        else:
            waits = cheap is not None and request.path in self._waiting_paths
            self._enqueue(conn, self._waiting if waits else self._requests)

    # The answer.

    def _answer(self, conn: Connection, request: ClientRequest) -> None:
        conn.enter(Phase.SERVED, 0.0)
        self._finish_answer(conn, *self._call(conn, request))

    def _call(self, conn: Connection, request: ClientRequest) -> tuple[bytes, bool]:
        """Return the answer of the application, and whether the connection stays open."""
        keep = self._keeps() and request.keep and request.complete
        try:
            return self._caller.answer(request, conn.environ, io.BytesIO(request.body), keep=keep), keep
        except Exception as error:  # noqa: BLE001 - the worker's crash handler, as in gunicorn's own threads
            _LOG.error("error in %s %s", request.method, request.path[:256], exc_info=error)
            return refusal_response(ServerRefusal(500, ""), self._form), False

    def _finish_answer(self, conn: Connection, answer: bytes, keep: bool) -> None:  # noqa: FBT001 - a result of _call
        conn.out += answer
        conn.keep = keep
        if conn.parser.requests:
            conn.parser.requests.popleft()
        conn.arrived_bytes = len(conn.rest)
        self._budget.release(conn)
        self.send(conn)

    def send(self, conn: Connection) -> None:
        """Send the rest of an answer. After that, keep the connection or end it."""
        try:
            sent = conn.flush()
        except OSError:
            self.close(conn)
            return
        if sent:
            self._go_on_with(conn)
            return
        self._poller.wait(conn, EVENT_WRITE, self.send)
        if conn.phase is not Phase.ANSWERING:  # a late answer has a moment
            conn.enter(Phase.ANSWERING, max(conn.began_at, time.monotonic() - self._limit_s + _ANSWERING_S))
        self._budget.hold(conn, MemoryUse.UNREAD, len(conn.out))
        while self._budget.exhausted(MemoryUse.UNREAD) and (slow := self._poller.waiting(Phase.ANSWERING)):
            self.close(slow[0])

    def _go_on_with(self, conn: Connection) -> None:
        """Wait for the next request of a connection, unless it has arrived, or there is none."""
        self._budget.release(conn)
        if not conn.keep:
            self._poller.end(conn)
        elif conn.rest or conn.parser.requests or conn.parser.problem is not None:
            conn.began_at = conn.read_at
            conn.enter(Phase.REQUESTING, conn.read_at)
            self._poller.wait(conn, 0, self.read)
            self._ready.append(conn)  # other connections come first
        else:
            self._poller.wait(conn, EVENT_READ, self.read)
            conn.enter(Phase.IDLE, time.monotonic())

    # The thread pool.

    def _enqueue(self, conn: Connection, queue: FairQueue[Connection]) -> None:
        self._forget_reading(conn)
        self._poller.wait(conn, 0, self.read)
        conn.enter(Phase.QUEUED, conn.began_at)
        conn.queue = queue
        self._budget.hold(conn, MemoryUse.ARRIVED, conn.arrived_bytes)
        queue.put(conn.peer, conn)
        self._give_threads()

    def _give_threads(self) -> None:
        for queue in (self._requests, self._streams, self._waiting):
            while (conn := queue.take(lambda each: self._budget.may_process(each.arrived_bytes))) is not None:
                conn.enter(Phase.SERVED, 0.0)
                self._budget.process(conn, conn.arrived_bytes)
                serve = self._serve_stream if queue is self._streams else self._call
                task = self._pool.submit(serve, conn, conn.parser.requests[0])
                task.add_done_callback(partial(self._done, conn))
        self._drop_slow_streams()

    def _serve_stream(self, conn: Connection, request: ClientRequest) -> tuple[bytes, bool]:
        """Answer a streamed request, and return the end of the answer and whether the connection stays open."""
        keep = self._keeps() and request.keep and request.knows_chunks
        self._streaming.add(conn)
        try:
            if request.expects:
                conn.send(_CONTINUE, leave_bytes=0)
            for piece in self._caller.stream(request, conn.environ, ArrivingBody(conn, request), keep=keep):
                conn.send(piece)
            conn.send(b"", leave_bytes=0)
        finally:
            self._streaming.discard(conn)
            conn.socket.settimeout(0.0)
        return b"", keep and request.complete

    def _done(self, conn: Connection, task: Future[tuple[bytes, bool]]) -> None:
        self._poller.call_soon(partial(self._finish, conn, task))

    def _finish(self, conn: Connection, done: Future[tuple[bytes, bool]]) -> None:
        conn.queue.finish(conn.peer)
        try:
            answer, keep = done.result()
        except Exception as error:  # noqa: BLE001 - the same
            if not isinstance(error, OSError):  # the client has gone
                _LOG.error("error in a streamed answer", exc_info=error)
            self.close(conn)
        else:
            self._finish_answer(conn, answer, keep)
        self._give_threads()

    def _drop_slow_streams(self) -> None:
        """If all threads of streams are taken, interrupt as many slow clients as there are waiting ones."""
        if (waiting := len(self._streams)) and len(self._streaming) >= self._stream_threads:
            slow_before = time.monotonic() - _STREAM_PATIENCE_S
            slow = [(each.held_since, id(each), each) for each in tuple(self._streaming)]
            for held_since, _, conn in sorted(slow)[:waiting]:
                if held_since < slow_before:
                    conn.interrupt()

    # Refusals.

    def check_deadlines(self, overdue: Sequence[Connection]) -> None:
        """Refuse overdue requests, and close the other overdue connections."""
        for conn in overdue:
            if conn.phase in {Phase.QUEUED, Phase.REQUESTING} and conn.parser.requests:
                self._refuse(conn, conn.parser.requests[0], _LATE if conn.waits_for else _BUSY)
            else:
                self.close(conn)
        if self._paused and self._budget.exhausted(MemoryUse.ARRIVED):
            self._make_way()
        self._drop_slow_streams()

    def _make_way(self) -> None:
        """Drop a slow client while others wait for memory. If all wait, let one read on."""
        if self._drop_slowest(None) or (self._exempt is not None and self._exempt not in self._paused):
            return
        self._exempt = next(iter(self._paused))
        self._resume(self._exempt)

    def _drop_slowest(self, spared: Connection | None) -> bool:
        """Refuse the slowest of the requests that have been arriving for some time. Return whether there is one."""
        now = time.monotonic()
        slow = [
            (conn.arrived_bytes / (now - conn.began_at), id(conn), conn)
            for conn in self._poller.waiting(Phase.REQUESTING)
            if conn.parser.requests and conn.waits_for and conn is not spared and now - conn.began_at > _PATIENCE_S
        ]
        if not slow:
            return False
        conn = min(slow)[2]
        self._refuse(conn, conn.parser.requests[0], _BUSY)
        return True

    def _refuse(self, conn: Connection, request: ClientRequest, refusal: ServerRefusal) -> None:
        """Let the application refuse a request. It reads little of the request, so this thread can call it."""
        if not request.has_head:
            self.close(conn)
            return
        self.forget(conn)
        self._poller.wait(conn, 0, self.read)
        if request.method != "POST":  # the application would answer it, which may take long
            conn.enter(Phase.SERVED, 0.0)
            self._finish_answer(conn, refusal_response(refusal, self._form), keep=False)
            return
        if request.enough_bytes is None or "CONTENT_LENGTH" not in request.fields:
            request.refusal = request.refusal or refusal  # else the application refuses the length
        request.body = request.body[:REFUSED_BODY_BYTES]
        self._answer(conn, request)

    # The end of a connection.

    def dismiss_idle(self, now: float) -> None:
        """Let clients close their connections without a request. Those that do not are closed after a time limit.

        If the server closed such a connection, a request that is under way could get no answer, and clients do not
        repeat a POST. An interim response avoids that. A client that has just sent a request ignores it (RFC 9110,
        15.2), and the request is answered. A client without a request closes the connection (RFC 9112, 9.2).

        A client may be about to send the first request of a new connection, and would not repeat that one elsewhere.
        """
        for conn in self._poller.waiting(Phase.IDLE, Phase.REQUESTING):
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
        self.forget(conn)
        self._poller.drop(conn)

    def forget(self, conn: Connection) -> None:
        self._forget_reading(conn)
        if conn.phase is Phase.QUEUED:
            conn.queue.discard(conn.peer, conn)
        self._budget.release(conn)

    def _forget_reading(self, conn: Connection) -> None:
        self._paused.pop(conn, None)
        if self._exempt is conn:
            self._exempt = None

    def _resume(self, conn: Connection) -> None:
        del self._paused[conn]
        self._poller.wait(conn, EVENT_READ, self.read)
