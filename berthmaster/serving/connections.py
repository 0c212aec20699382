"""The connections of a worker: their deadlines, the poller that waits for them, and the streams of slow clients."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from selectors import BaseSelector
from typing import Any, Final, Generic, TypeVar, cast

from berthmaster.serving.channel import Channel
from berthmaster.serving.framing import Framing
from berthmaster.serving.gunicorn_internals import RequestParser, TConn
from berthmaster.serving.request_parser import PlainRequest

_CLOSING_S: Final = 0.5
_ANSWERING_S: Final = 1.0
_LEAVING_S: Final = 2.0
"""The time that a client has to close its idle connection when the server stops."""
_PATIENCE_S: Final = 0.25
"""The time that a client has for a piece of its stream while other clients wait for its thread."""

Client = TypeVar("Client")


class Deadlines(Generic[Client]):
    """Clients with the same time limit.

    Attributes:
        limit_s: the time limit of each client.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._since: dict[Client, float] = {}

    def add(self, client: Client, since: float) -> None:
        """Start the time limit of a client, or restart it."""
        self._since.pop(client, None)
        self._since[client] = since

    def discard(self, client: Client) -> None:
        self._since.pop(client, None)

    def overdue(self, now: float) -> list[Client]:
        """Return the clients whose time is over."""
        return self.older(now, self.limit_s)

    def older(self, now: float, age_s: float) -> list[Client]:
        """Return the clients whose time limit began ``age_s`` ago or earlier."""
        return [client for client, since in self._since.items() if now - since >= age_s]

    def oldest(self, until: float = float("inf")) -> Client | None:
        """Return the client that was added first, unless its time limit began after ``until``."""
        client = next(iter(self._since), None)
        return client if client is not None and self._since[client] <= until else None

    def __iter__(self) -> Iterator[Client]:
        """Iterate over the clients in the order in which they were added."""
        return iter(tuple(self._since))

    def __len__(self) -> int:
        return len(self._since)


class Connection(TConn):
    """A TCP connection of a client.

    Attributes:
        channel: the client's socket. ``sock`` is the same object, under the name that gunicorn uses.
        unreader: gunicorn's parser takes bytes from here before it reads from the channel.
        environ: the part of the WSGI environment that all requests of this connection share.
        arrived: bytes of requests that are not answered yet.
        read_at: the monotonic time of the last read. Bytes behind the current request arrived with it.
        size_bytes: how much memory the current request takes while it waits for a thread.
        framing: predicts the end of the current request, if it did not arrive at once.
        plain: the current request, if it is plain and complete.
        keep: whether the connection stays open after the current answer.
        knows_interim: whether the client may get interim responses. HTTP/1.0 has none.
        step: the event that the poller waits for, and what to do then. None while the poller does not wait.
        deadlines: the group whose time limit applies. None while a thread serves the connection, and after the end.
    """

    def __init__(self, cfg: Any, channel: Channel, client: Any, server: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(cfg, cast("Any", channel), client, server)
        self.channel = channel
        self.initialized = True
        self.parser = RequestParser(cfg, cast("Any", channel), client)
        self.unreader = self.parser.unreader
        self.environ: dict[str, Any] = {}
        self.arrived = bytearray()
        self.read_at = 0.0
        self.size_bytes = 0
        self.framing: Framing | None = None
        self.plain: PlainRequest | None = None
        self.keep = self.knows_interim = True
        self.step: tuple[int, Step] | None = None
        self.deadlines: Deadlines[Connection] | None = None


Step = Callable[[Connection], None]


class ConnectionPoller:
    """Wait for the connections that no thread serves.

    A connection is in one of these groups, or a thread serves it.

    Attributes:
        handshaking: connections whose TLS handshake is not complete.
        idle: connections after an answer.
        leaving: connections without a request, whose clients should close them.
        requesting: connections with an incomplete request, or without a first one.
        queued: connections with a complete request that waits for a thread.
        answering: connections with an answer that the client has not read.
        closing: connections after their last answer.
    """

    def __init__(self, selector: BaseSelector, *, idle_s: float, requesting_s: float) -> None:
        self._selector = selector
        self.idle: Deadlines[Connection] = Deadlines(idle_s)
        self.leaving: Deadlines[Connection] = Deadlines(_LEAVING_S)
        self.handshaking: Deadlines[Connection] = Deadlines(requesting_s)
        self.requesting: Deadlines[Connection] = Deadlines(requesting_s)
        self.queued: Deadlines[Connection] = Deadlines(requesting_s)
        self.answering: Deadlines[Connection] = Deadlines(requesting_s)
        self.closing: Deadlines[Connection] = Deadlines(_CLOSING_S)

    def on(self, event: int, conn: Connection, step: Step) -> None:
        """Call ``step`` on every such event of a connection. It replaces the previous step."""
        if conn.step == (event, step):
            return
        change = self._selector.register if conn.step is None else self._selector.modify
        conn.step = current = (event, step)

        def call(_fd: object) -> None:
            # The selector returns several events at once. An earlier one may have changed this connection.
            if conn.step is current:
                step(conn)

        change(conn.channel.fd, event, call)

    def start_deadline(self, conn: Connection, deadlines: Deadlines[Connection], since: float) -> None:
        """Move a connection to a group, and apply the time limit of the group from a time on."""
        if conn.deadlines is not None:
            conn.deadlines.discard(conn)
        conn.deadlines = deadlines
        deadlines.add(conn, since)

    def await_reader(self, conn: Connection, now: float) -> None:
        """Apply the time limit of the current request to its answer. A late answer has a moment."""
        if conn.deadlines is not self.answering:
            since = max(conn.channel.began_at, now - self.answering.limit_s + _ANSWERING_S)
            self.start_deadline(conn, self.answering, since)

    def pause(self, conn: Connection) -> None:
        """Stop waiting for a connection. Its time limit goes on."""
        if conn.step is not None:
            self._selector.unregister(conn.channel.fd)
            conn.step = None

    def release(self, conn: Connection) -> None:
        """Stop waiting for a connection, and end its time limit."""
        self.pause(conn)
        if conn.deadlines is not None:
            conn.deadlines.discard(conn)
            conn.deadlines = None


class StreamUsage:
    """The streams that have a thread of the pool. Safe for several threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._served: set[Channel] = set()
        self._lock = threading.Lock()

    @contextmanager
    def serving(self, client: Channel) -> Iterator[None]:
        """Record that a client has a thread until the end of the block."""
        with self._lock:
            self._served.add(client)
        try:
            yield
        finally:
            with self._lock:
                self._served.discard(client)

    def drop_slowest(self, waiting: int) -> None:
        """If all threads are taken, interrupt as many slow clients as there are waiting ones.

        A client is slow if its thread has waited for a piece of the stream longer than ``_PATIENCE_S``.

        Args:
            waiting: the number of streams that wait for a thread.
        """
        with self._lock:
            if not waiting or len(self._served) < self._threads:
                return
            slow_before = time.monotonic() - _PATIENCE_S
            slow = [each for each in self._served if each.receiving and each.started_at < slow_before]
        for client in sorted(slow, key=lambda each: each.started_at)[:waiting]:
            client.interrupt()
