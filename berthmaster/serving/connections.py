"""The connections of a worker: their deadlines, the poller that waits for them, and the threads that serve them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from selectors import BaseSelector
from typing import Any, Final, Generic, TypeVar, cast

from berthmaster.serving.channel import Channel
from berthmaster.serving.gunicorn_internals import RequestParser, TConn

_CLOSING_S: Final = 0.5
_PATIENCE_S: Final = 0.25
"""The time that a client has for its request while other clients wait for its thread."""

Client = TypeVar("Client")


class Deadlines(Generic[Client]):
    """Clients with the same time limit, in the order in which they become overdue.

    Attributes:
        limit_s: the time limit of each client.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._since: dict[Client, float] = {}

    def add(self, client: Client, now: float) -> None:
        """Start the time limit of a client, or restart it."""
        self._since.pop(client, None)
        self._since[client] = now

    def discard(self, client: Client) -> None:
        self._since.pop(client, None)

    def overdue(self, now: float) -> list[Client]:
        """Return the clients whose time is over."""
        found = []
        for client, since in self._since.items():
            if now - since < self.limit_s:
                break
            found.append(client)
        return found

    def oldest(self) -> Client | None:
        return next(iter(self._since), None)


class Connection(TConn):
    """A TCP connection of a client.

    Attributes:
        channel: the client's socket. ``sock`` is the same object, under the name that gunicorn uses.
        unreader: gunicorn's parser takes bytes from here before it reads from the channel.
        environ: the part of the WSGI environment that all requests of this connection share.
        arrived: bytes of requests that are not answered yet.
        keep: whether the connection stays open after the current answer.
        step: the event that the poller waits for, and what to do then. None while a thread serves the connection, and
            after it is closed.
        deadlines: the group whose time limit applies; None if none applies.
    """

    def __init__(self, cfg: Any, channel: Channel, client: Any, server: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(cfg, cast("Any", channel), client, server)
        self.channel = channel
        self.initialized = True
        self.parser = RequestParser(cfg, cast("Any", channel), client)
        self.unreader = self.parser.unreader
        self.environ: dict[str, Any] = {}
        self.arrived = bytearray()
        self.keep = True
        self.step: tuple[int, Step] | None = None
        self.deadlines: Deadlines[Connection] | None = None


Step = Callable[[Connection], None]


class ConnectionPoller:
    """Wait for the connections that no thread serves.

    Attributes:
        idle: connections after an answer.
        requesting: connections with an incomplete request, or with an answer that the client has not read.
        closing: connections after their last answer.
    """

    def __init__(self, selector: BaseSelector, *, idle_s: float, requesting_s: float) -> None:
        self._selector = selector
        self.idle: Deadlines[Connection] = Deadlines(idle_s)
        self.requesting: Deadlines[Connection] = Deadlines(requesting_s)
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

    def start_deadline(self, conn: Connection, deadlines: Deadlines[Connection]) -> None:
        """Apply the time limit of a group from now on."""
        if conn.deadlines is not None:
            conn.deadlines.discard(conn)
        conn.deadlines = deadlines
        deadlines.add(conn, time.monotonic())

    def release(self, conn: Connection) -> None:
        """Stop waiting for a connection, and end its time limit."""
        if conn.step is not None:
            self._selector.unregister(conn.channel.fd)
            conn.step = None
        if conn.deadlines is not None:
            conn.deadlines.discard(conn)
            conn.deadlines = None


class PoolUsage:
    """The clients that have a thread of the pool, and the number that waits for one. Safe for several threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._served: set[Channel] = set()
        self._queued = 0
        self._lock = threading.Lock()

    def queue(self) -> None:
        """Count one more client that waits for a thread."""
        with self._lock:
            self._queued += 1

    @contextmanager
    def serving(self, client: Channel) -> Iterator[None]:
        """Give a thread to a client that waited, until the end of the block."""
        with self._lock:
            self._queued -= 1
            self._served.add(client)
        try:
            yield
        finally:
            with self._lock:
                self._served.discard(client)

    def drop_slowest(self) -> None:
        """If all threads are taken and clients wait, interrupt as many slow clients as there are waiting ones.

        A client is slow if its thread has waited for the request longer than ``_PATIENCE_S``.
        """
        with self._lock:
            if not self._queued or len(self._served) < self._threads:
                return
            slow_before, wanted = time.monotonic() - _PATIENCE_S, self._queued
            slow = [each for each in self._served if each.receiving and each.started_at < slow_before]
        for client in sorted(slow, key=lambda each: each.started_at)[:wanted]:
            client.interrupt()
