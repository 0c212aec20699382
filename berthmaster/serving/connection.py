"""A connection of a client, with or without TLS, and what connections share: threads, and memory.

Two kinds of threads use a connection. The polling thread never waits: it takes the bytes that have arrived, and keeps
here what a client does not accept at once. A thread of the pool sends one streamed answer, and waits for its client.
"""

import errno
import math
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum, auto
from typing import TYPE_CHECKING, Final

from berthmaster.serving.request_parser import RequestParser

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

PIECE_BYTES: Final = 16 * 2**10
"""The size of one read. It is the size of the largest TLS record: after a partial read, poll would not see the rest."""
_SEND_BYTES: Final = 64 * 2**10
_SENDS_IN_A_ROW: Final = 16
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class MemoryShare:
    """The part of the memory for requests that one use has, so that no use can block another."""

    def __init__(self, limit_bytes: float) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self._limit_bytes

    def fits(self, size_bytes: int) -> bool:
        """Return whether there is room. One always fits: else one larger than the share would wait forever."""
        return not size_bytes or not self.used_bytes or self.used_bytes + size_bytes <= self._limit_bytes


class Phase(IntEnum):
    """What a connection waits for. Each phase but ``SERVED`` has a time limit."""

    HANDSHAKING = auto()
    IDLE = auto()  # for the next request
    LEAVING = auto()  # for the client to close it, because the server stops
    REQUESTING = auto()  # for the first request, or for the rest of a request
    QUEUED = auto()  # for a thread
    SERVED = auto()  # for the application
    ANSWERED = auto()  # for the answers that are sent together with its own
    ANSWERING = auto()  # for the client to read its answer
    CLOSING = auto()  # for the client to close it after its last answer
    CLOSED = auto()


class Connection:
    """A TCP connection.

    Attributes:
        socket: the socket. The TLS handshake replaces it.
        environ: the part of the WSGI environment that all requests share.
        rest: bytes behind the current request, which are not parsed yet.
        waits_for, step: the event that the poller waits for, and what to do then; 0 for none.
        queue: the queue in which it waits for a thread, or from which it has one.
        closes_at: the monotonic time from which on a response closes the connection.
        read_at: the monotonic time of the last read. Bytes behind the current request arrived with it.
        knows_interim: whether the client may get interim responses. HTTP/1.0 has none.
    """

    def __init__(
        self,
        client: socket.socket,
        environ: "WSGIEnvironment",
        parser: RequestParser,
        limits_s: Mapping[Phase, float],
    ) -> None:
        client.settimeout(0.0)
        self.socket = client
        self.fd = client.fileno()
        self.peer: str = environ["REMOTE_ADDR"]
        self.parser = parser
        self.environ = environ
        self.rest = b""
        self.phase = Phase.CLOSED
        self.since = self.until = self.began_at = self.read_at = 0.0
        self.waits_for = self.arrived_bytes = self._held_bytes = 0
        self.step: Callable[[Connection], None]
        self.queue: FairQueue
        self.keep = self.knows_interim = True
        self.closes_at = math.inf
        self.ended = False
        self.out = bytearray()
        self._limits_s = limits_s
        self._wait_s = limits_s[Phase.REQUESTING]
        self._share = MemoryShare(0)

    def enter(self, phase: Phase, since: float = 0.0) -> None:
        self.phase, self.since, self.until = phase, since, since + self._limits_s[phase]

    def hold(self, share: MemoryShare, size_bytes: int) -> None:
        """Record the only memory that the connection uses from now on."""
        self._share.used_bytes -= self._held_bytes
        self._share, self._held_bytes = share, size_bytes
        share.used_bytes += size_bytes

    # For the polling thread.

    def take(self, size: int) -> bytes | None:
        """Return bytes that have arrived, at most ``size``: None if there are none yet, b"" at the end."""
        try:
            piece = self.socket.recv(size)
        except _NOT_NOW:
            return None
        self.ended = not piece
        return piece

    def flush(self) -> bool:
        """Send what the client accepts at once, up to a limit. Return whether everything is sent."""
        try:
            for _ in range(_SENDS_IN_A_ROW):
                if not self.out:
                    return True
                self._send_some()
        except _NOT_NOW:
            return False
        return not self.out

    # For a thread of the pool that serves a stream.

    def send(self, data: bytes) -> None:
        """Send data, and wait until the client has accepted it.

        Raises:
            OSError: the connection is lost, or the client was too slow.
        """
        self.out += data
        self.socket.settimeout(self._wait_s)
        while self.out:
            try:
                self._send_some()
            except (TimeoutError, *_NOT_NOW):
                raise TimeoutError(errno.ETIMEDOUT, "the client was too slow") from None

    def _send_some(self) -> None:
        del self.out[: self.socket.send(self.out[:_SEND_BYTES])]


class FairQueue:
    """Connections whose requests wait for a number of threads.

    The peer with the fewest requests in progress comes first, so no peer can take all threads while another one waits.
    Requests of one peer keep their order, except that one that does not fit does not block those behind it.
    """

    def __init__(self, threads: int) -> None:
        self.free_threads = threads
        self._waiting: dict[Hashable, deque[Connection]] = {}
        self._running: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, conn: Connection) -> None:
        self._waiting.setdefault(conn.peer, deque()).append(conn)

    def take(self, fits: Callable[[Connection], bool]) -> Connection | None:
        """Give a thread to the next connection that fits now. Return None if no thread is free, or none fits."""
        if not self.free_threads:
            return None
        for peer in sorted(self._waiting, key=self._running.__getitem__):
            conn = next(filter(fits, self._waiting[peer]), None)
            if conn is not None:
                self.discard(conn)
                if (others := self._waiting.pop(peer, None)) is not None:  # the peer goes to the end of its equals
                    self._waiting[peer] = others
                self.free_threads -= 1
                self._running[peer] += 1
                return conn
        return None

    def finish(self, conn: Connection) -> None:
        """Take the thread of a connection back."""
        self.free_threads += 1
        self._running[conn.peer] -= 1
        self._running += Counter()  # drops peers with none

    def discard(self, conn: Connection) -> None:
        self._waiting[conn.peer].remove(conn)
        if not self._waiting[conn.peer]:
            del self._waiting[conn.peer]
