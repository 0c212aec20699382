"""The way of a request: collected by the polling thread, answered by it or by a thread of the pool, and sent.

The polling thread answers a request itself if it is plain and known to be cheap: to hand it to another thread takes
longer than to answer it. Everything else waits until it is complete, and then for a thread. While a request of a
connection is unanswered, nothing is read from that connection.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, Protocol

from berthmaster.serving.channel import PIECE_BYTES, ServerRefusal
from berthmaster.serving.connections import Connection, ConnectionPoller, StreamUsage
from berthmaster.serving.framing import BodyCollection, Framing
from berthmaster.serving.memory_budget import SMALL_BYTES, MemoryBudget
from berthmaster.serving.pool_queue import PoolQueue, PoolSizes
from berthmaster.serving.request_parser import PlainRequest, plain_request
from berthmaster.serving.wsgi import WSGICaller

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FIRST_REQUEST_S: Final = 1.0
"""The time that a new connection has for its first request while the worker stops."""
_LARGE_PIECE_BYTES: Final = 256 * 2**10
_PATIENCE_S: Final = 1.0
"""The time that a client has for a large request while other clients wait for memory."""
_REFUSED_BYTES: Final = 600 * 2**10
"""Of a request that is refused, the parser gets the head and the beginning of the body."""
_LATE: Final = ServerRefusal(408, "the body did not arrive in time")
_BUSY: Final = ServerRefusal(503, "the server is busy with other requests; retry later, or send a smaller request")


class WorkerProcess(Protocol):
    """The worker, as the dispatcher sees it.

    Attributes:
        keeps_connections: whether connections stay open after a response. False while the server drains or stops.
    """

    @property
    def keeps_connections(self) -> bool: ...

    def start(self, conn: Connection) -> None:
        """Let a thread of the pool call ``Dispatcher.serve``, and the polling thread ``Dispatcher.finish`` after it."""

    def parse_and_answer(self, conn: Connection) -> bool:
        """Answer a request with gunicorn's parser. Return whether to keep the connection."""

    def crashed(self, conn: Connection, error: Exception) -> None:
        """Log an error of the application, and buffer an answer."""

    def close(self, conn: Connection) -> None:
        """Close a connection at once."""

    def end(self, conn: Connection) -> None:
        """Close a connection after the client had a moment to read the answer."""


class Dispatcher:
    """Serves the requests of all connections of a worker. The polling thread calls all methods, except ``serve``."""

    def __init__(
        self,
        worker: WorkerProcess,
        connections: ConnectionPoller,
        caller: WSGICaller,
        cheap: Mapping[str, Callable[[bytes], bool]],
        collection: BodyCollection,
        budget: MemoryBudget[Connection],
        sizes: PoolSizes,
        waiting: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._worker = worker
        self._connections = connections
        self._caller = caller
        self._cheap = cheap
        self._collection = collection
        self._budget = budget
        self._requests: PoolQueue[Connection] = PoolQueue(sizes.requests)
        self._streams: PoolQueue[Connection] = PoolQueue(sizes.streams)
        self._waiting: PoolQueue[Connection] = PoolQueue(sizes.waiting)
        self._waiting_paths = frozenset(waiting)
        self._stream_usage = StreamUsage(sizes.streams)
        self._ready: deque[Connection] = deque()
        self._paused: dict[Connection, None] = {}
        self._exempt: Connection | None = None

    @property
    def busy(self) -> bool:
        """Whether ``go_on`` has work."""
        return bool(self._ready)

    # The arrival of a request.

    def read(self, conn: Connection) -> None:
        """Read bytes that have arrived, and answer or queue a complete request."""
        large = len(conn.arrived) > SMALL_BYTES
        if large and not self._budget.may_arrive and conn is not self._exempt:
            self._connections.pause(conn)
            self._paused[conn] = None
            return
        try:
            piece = conn.channel.take(_LARGE_PIECE_BYTES if large else PIECE_BYTES)
        except OSError:
            self.close(conn)
            return
        if piece is None:
            return
        conn.read_at = time.monotonic()
        if not conn.arrived:
            conn.channel.began_at = conn.read_at
        conn.arrived += piece
        self._parse(conn)

    def go_on(self) -> None:
        """Continue connections whose next request has arrived already, and those that waited for memory."""
        for _ in range(len(self._ready)):
            conn = self._ready.popleft()
            if conn.deadlines is self._connections.requesting and conn.step is None:  # else it has been closed
                self._parse(conn)
        while self._paused and self._budget.may_arrive:
            self._resume(next(iter(self._paused)))

    def _parse(self, conn: Connection) -> None:
        if not conn.arrived:
            if conn.channel.ended:
                self.close(conn)
            return
        if conn.framing is None:
            request = plain_request(conn.arrived, self._cheap)
            if isinstance(request, PlainRequest):
                self._begin(conn, request)
                return
            conn.framing = Framing(self._collection)
            self._connections.start_deadline(conn, self._connections.requesting, conn.channel.began_at)
        if conn.channel.ended or conn.framing.complete(conn.arrived):
            self._complete(conn, conn.framing)
        else:
            self._await_rest(conn, conn.framing)

    def _await_rest(self, conn: Connection, framing: Framing) -> None:
        self._budget.arrived(conn, len(conn.arrived))
        if not self._budget.may_arrive and len(conn.arrived) <= SMALL_BYTES:
            self._drop_slowest(conn)
        self._connections.on(EVENT_READ, conn, self.read)
        if framing.expects and not conn.channel.continued:
            self._interim(conn)
            conn.channel.continued = True

    def _complete(self, conn: Connection, framing: Framing) -> None:
        """Answer or queue a request that needs no more bytes."""
        if not framing.streamed:
            request = plain_request(conn.arrived, self._cheap, self._collection.body_bytes)
            if isinstance(request, PlainRequest):
                self._begin(conn, request)
                return
        self._enqueue(conn, len(conn.arrived))

    def _begin(self, conn: Connection, request: PlainRequest) -> None:
        """Answer a plain request in this thread if it is cheap, else queue it."""
        del conn.arrived[: request.size_bytes]
        if len(request.body) <= SMALL_BYTES and self._cheap[request.path](request.body):
            if conn.framing is not None:
                self._budget.release(conn)
                conn.framing = None
            self._answer(conn, request)
        else:
            conn.plain = request
            self._enqueue(conn, request.size_bytes + len(conn.arrived))

    # The answer.

    def _answer(self, conn: Connection, request: PlainRequest) -> None:
        try:
            conn.keep = self._call(conn, request)
        except Exception as error:  # noqa: BLE001 - the worker's crash handler, as in gunicorn's own threads
            self._worker.crashed(conn, error)
            conn.keep = False
        self.send(conn)

    def _call(self, conn: Connection, request: PlainRequest) -> bool:
        answer, keep = self._caller.answer(request, conn.environ, conn.channel, keep=self._worker.keeps_connections)
        conn.channel.sendall(answer)
        return keep

    def send(self, conn: Connection) -> None:
        """Send the rest of an answer. After that, keep the connection or end it."""
        try:
            sent = conn.channel.flush()
        except OSError:
            self.close(conn)
            return
        if sent:
            self._sent(conn)
            return
        self._connections.on(EVENT_WRITE, conn, self.send)
        self._connections.await_reader(conn, time.monotonic())
        self._budget.unread(conn, conn.channel.unsent_bytes)
        while self._budget.too_much_unread and (slow := self._connections.answering.oldest()) is not None:
            self.close(slow)

    def _sent(self, conn: Connection) -> None:
        if conn.deadlines is self._connections.answering:
            self._budget.release(conn)
        if not conn.keep:
            self._worker.end(conn)
        elif conn.arrived:
            conn.channel.began_at = conn.read_at
            self._connections.pause(conn)
            self._connections.start_deadline(conn, self._connections.requesting, conn.read_at)
            self._ready.append(conn)  # other connections come first
        else:
            self._connections.on(EVENT_READ, conn, self.read)
            self._connections.start_deadline(conn, self._connections.idle, time.monotonic())

    # The thread pool.

    def _enqueue(self, conn: Connection, size_bytes: int) -> None:
        """Let a complete request wait for a thread."""
        self._forget_reading(conn)
        self._connections.pause(conn)
        self._connections.start_deadline(conn, self._connections.queued, conn.channel.began_at)
        self._budget.arrived(conn, size_bytes)
        conn.size_bytes = size_bytes
        self._queue_of(conn).put(conn.environ["REMOTE_ADDR"], conn)
        self._dispatch()

    def _dispatch(self) -> None:
        """Give threads to the requests that can begin."""
        for queue in (self._requests, self._streams, self._waiting):
            while (conn := queue.take(self._fits)) is not None:
                self._connections.release(conn)
                self._budget.process(conn, conn.size_bytes)
                if conn.plain is None:
                    conn.channel.feed(bytes(conn.arrived))
                    conn.arrived.clear()
                self._worker.start(conn)
        self._stream_usage.drop_slowest(len(self._streams))

    def _fits(self, conn: Connection) -> bool:
        return self._budget.may_process(conn.size_bytes)

    def _queue_of(self, conn: Connection) -> PoolQueue[Connection]:
        if conn.plain is not None and conn.plain.path in self._waiting_paths:
            return self._waiting
        return self._streams if conn.framing is not None and conn.framing.streamed else self._requests

    def serve(self, conn: Connection) -> bool:
        """Answer a request in a thread of the pool. Return whether to keep the connection."""
        if conn.plain is not None:
            try:
                return self._call(conn, conn.plain)
            except Exception as error:  # noqa: BLE001 - the worker's crash handler, as in gunicorn's own threads
                self._worker.crashed(conn, error)
                return False
        if conn.framing is not None and conn.framing.streamed:
            with self._stream_usage.serving(conn.channel), conn.channel.waited_for():
                return self._worker.parse_and_answer(conn)
        return self._worker.parse_and_answer(conn)

    def finish(self, conn: Connection, result: "Future[Any]") -> None:
        """Take a connection back from the pool."""
        self._queue_of(conn).finish(conn)
        self._budget.release(conn)
        try:
            conn.keep = bool(result.result())
        except OSError:
            self.close(conn)
        else:
            self._take_back(conn)
            self.send(conn)
        self._dispatch()

    def _take_back(self, conn: Connection) -> None:
        """Reset what belongs to the last request. Bytes behind it are the beginning of the next one."""
        rest = conn.channel.leftover()
        if conn.plain is None:
            if conn.unreader.buf.getvalue():
                conn.arrived += conn.unreader.read()
            conn.arrived += rest
            conn.read_at = time.monotonic() if conn.framing is not None and conn.framing.streamed else conn.read_at
        conn.framing = conn.plain = None
        conn.channel.continued = False

    # Refusals.

    def check_deadlines(self, now: float) -> None:
        """Refuse overdue requests, and close connections that do not read their answers."""
        for conn in self._connections.requesting.overdue(now):
            if conn.arrived:
                self._refuse(conn, _reason(conn))
            else:
                self.close(conn)
        for conn in self._connections.queued.overdue(now):
            self._refuse(conn, _BUSY)
        for conn in self._connections.answering.overdue(now):
            self.close(conn)
        if self._paused and not self._budget.may_arrive:
            self._make_way()
        self._stream_usage.drop_slowest(len(self._streams))

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
            (len(conn.arrived) / (now - conn.channel.began_at), id(conn), conn)
            for conn in self._connections.requesting
            if conn.arrived and conn.step is not None and conn is not spared
            and now - conn.channel.began_at > _PATIENCE_S
        ]  # fmt: skip
        if not slow:
            return False
        self._refuse(min(slow)[2], _BUSY)
        return True

    def _refuse(self, conn: Connection, refusal: ServerRefusal | None) -> None:
        """Let the application refuse a request. It reads little of the request, so this thread can call it."""
        self._queue_of(conn).discard(conn)
        self._connections.release(conn)
        self._budget.release(conn)
        self._forget_reading(conn)
        conn.channel.refusal = refusal
        if conn.plain is not None:
            self._answer(conn, conn.plain)
            return
        conn.channel.feed(bytes(conn.arrived[:_REFUSED_BYTES]))
        conn.arrived.clear()
        self._worker.parse_and_answer(conn)
        conn.keep = False
        self.send(conn)

    # The end of a connection.

    def dismiss_idle(self, now: float) -> None:
        """Let clients close their connections without a request. Those that do not are closed after a time limit.

        If the server closed such a connection, a request that is under way could get no answer, and clients do not
        repeat a POST. An interim response avoids that. A client that has just sent a request ignores it (RFC 9110,
        15.2), and the request is answered. A client without a request closes the connection (RFC 9112, 9.2).

        A client may be about to send the first request of a new connection, and would not repeat that one elsewhere.
        """
        quiet = (conn for conn in self._connections.requesting.older(now, _FIRST_REQUEST_S) if not conn.arrived)
        for conn in (*self._connections.idle, *quiet):
            self._connections.start_deadline(conn, self._connections.leaving, now)
            if conn.knows_interim:
                self._interim(conn)

    def _interim(self, conn: Connection) -> None:
        conn.channel.send(_CONTINUE)
        try:
            conn.channel.flush()
        except OSError:
            self.close(conn)

    def close(self, conn: Connection) -> None:
        """Close a connection at once."""
        self.forget(conn)
        self._worker.close(conn)

    def forget(self, conn: Connection) -> None:
        """Release what a connection holds."""
        self._forget_reading(conn)
        if conn.deadlines is self._connections.queued:
            self._queue_of(conn).discard(conn)
        self._budget.release(conn)

    def _forget_reading(self, conn: Connection) -> None:
        self._paused.pop(conn, None)
        if self._exempt is conn:
            self._exempt = None

    def _resume(self, conn: Connection) -> None:
        del self._paused[conn]
        self._connections.on(EVENT_READ, conn, self.read)


def _reason(conn: Connection) -> ServerRefusal | None:
    """Return why an overdue request is refused; None if the application has a reason of its own."""
    if conn.framing is not None and conn.framing.refused:
        return None
    return _LATE if conn.step is not None else _BUSY
