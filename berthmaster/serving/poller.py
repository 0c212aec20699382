"""The connections of a worker that no thread serves, and the one thread that waits for all of them."""

import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from selectors import EVENT_READ
from typing import Any, Final

from berthmaster.serving.connection import Connection, Phase

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
