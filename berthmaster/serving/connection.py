"""A connection of a client, with or without TLS.

Two kinds of threads use it. The polling thread never waits: it takes the bytes that have arrived, and keeps here what
a client does not accept at once. A thread of the pool serves one streamed request, and waits for its client.
"""

import errno
import math
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from berthmaster.serving.request_parser import ClientRequest, RequestParser

SMALL_BYTES: Final = 64 * 2**10
"""Up to this size a request never waits for memory."""

Job = TypeVar("Job", bound=Hashable)


class FairQueue(Generic[Job]):
    """Jobs of several peers that share a number of threads.

    The peer with the fewest jobs in progress comes first, so no peer can take all threads while another one waits.
    Jobs of one peer keep their order, except that a job that does not fit does not block those behind it.
    """

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._running: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, peer: Hashable, job: Job) -> None:
        self._waiting.setdefault(peer, deque()).append(job)

    def take(self, fits: Callable[[Job], bool]) -> Job | None:
        """Give a thread to the next job that fits now. Return None if no thread is free, or no job fits."""
        if not self._free:
            return None
        for peer in sorted(self._waiting, key=self._running.__getitem__):
            job = next(filter(fits, self._waiting[peer]), None)
            if job is not None:
                jobs = self._waiting[peer]
                self.discard(peer, job)
                if self._waiting.pop(peer, None):  # the peer goes to the end of its equals
                    self._waiting[peer] = jobs
                self._free -= 1
                self._running[peer] += 1
                return job
        return None

    def finish(self, peer: Hashable) -> None:
        """Take a thread back."""
        self._free += 1
        self._running[peer] -= 1
        if not self._running[peer]:
            del self._running[peer]

    def discard(self, peer: Hashable, job: Job) -> None:
        self._waiting[peer].remove(job)
        if not self._waiting[peer]:
            del self._waiting[peer]


class MemoryUse(Enum):
    """What memory is used for.

    Attributes:
        ARRIVED: requests that arrive, or wait for a thread.
        UNREAD: answers that clients have not read.
    """

    ARRIVED = auto()
    PROCESSED = auto()
    UNREAD = auto()


class MemoryBudget(Generic[Job]):
    """Counts the memory of requests. Each use has a share of the limit, so that none can block another."""

    FACTOR: Final = 13
    """A request in progress needs at most this many times its size: JSON becomes objects, and objects become an answer.

    ``make bench-hostile`` measures 10 for labels and 12.7 for nodes of kube-scheduler.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limits = {
            MemoryUse.ARRIVED: limit_bytes / 4,
            MemoryUse.PROCESSED: limit_bytes / 2,
            MemoryUse.UNREAD: limit_bytes / 4,
        }
        self._used = dict.fromkeys(MemoryUse, 0)
        self._held: dict[Job, tuple[MemoryUse, int]] = {}

    def hold(self, client: Job, use: MemoryUse, size_bytes: int) -> None:
        """Record the only memory that a client uses from now on."""
        self.release(client)
        self._held[client] = use, size_bytes
        self._used[use] += size_bytes

    def process(self, client: Job, size_bytes: int) -> None:
        """Record that a request is in progress from now on."""
        self.hold(client, MemoryUse.PROCESSED, size_bytes * self.FACTOR if size_bytes > SMALL_BYTES else 0)

    def release(self, client: Job) -> None:
        """Record that a client uses no memory: its request is answered, or its connection is closed."""
        if (held := self._held.pop(client, None)) is not None:
            self._used[held[0]] -= held[1]

    def exhausted(self, use: MemoryUse) -> bool:
        """Return whether a share is used up."""
        return self._used[use] >= self._limits[use]

    def may_process(self, size_bytes: int) -> bool:
        """Return whether a request may begin. One may always: else one larger than the share would wait forever."""
        if size_bytes <= SMALL_BYTES or not self._used[MemoryUse.PROCESSED]:
            return True
        return self._used[MemoryUse.PROCESSED] + size_bytes * self.FACTOR <= self._limits[MemoryUse.PROCESSED]


if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

PIECE_BYTES: Final = 16 * 2**10
"""The size of one read. It is the size of the largest TLS record: after a partial read, poll would not see the rest."""
_SEND_BYTES: Final = 64 * 2**10
_SENDS_IN_A_ROW: Final = 16
_LAST_PIECE_S: Final = 1.0
"""The time for an answer that says that the client was too slow."""
_BACKLOG_BYTES: Final = 8 * 2**20
"""The part of a streamed response that waits for a client that reads only after it has sent its whole request."""
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Phase(IntEnum):
    """What a connection waits for. Each phase but ``SERVED`` has a time limit."""

    HANDSHAKING = auto()
    IDLE = auto()  # for the next request
    LEAVING = auto()  # for the client to close it, because the server stops
    REQUESTING = auto()  # for the first request, or for the rest of a request
    QUEUED = auto()  # for a thread
    SERVED = auto()  # for the application
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
        read_at: the monotonic time of the last read. Bytes behind the current request arrived with it.
        knows_interim: whether the client may get interim responses. HTTP/1.0 has none.
        held_since: the monotonic time since which a thread waits for the client; infinite if none does.
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
        self.waits_for = self.arrived_bytes = 0
        self.step: Callable[[Connection], None]
        self.queue: FairQueue[Connection]
        self.keep = self.knows_interim = True
        self.ended = False
        self.held_since = math.inf
        self._limits_s = limits_s
        self._wait_s = limits_s[Phase.REQUESTING]
        self.out = bytearray()

    def enter(self, phase: Phase, since: float) -> None:
        self.phase, self.since, self.until = phase, since, since + self._limits_s[phase]

    # For the polling thread.

    def take(self, size: int = PIECE_BYTES) -> bytes | None:
        """Return bytes that have arrived: None if there are none yet, b"" at the end of the connection.

        Args:
            size: the most bytes to return; at least ``PIECE_BYTES``.
        """
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

    def interrupt(self) -> None:
        """End the wait of another thread for this client."""
        # Bypass TLS: its state belongs to the thread that waits.
        try:
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            return  # the client has disconnected

    # For a thread of the pool that serves a stream.

    def send(self, data: bytes, *, leave_bytes: int = _BACKLOG_BYTES) -> None:
        """Send data as soon as the client accepts it, and keep up to ``leave_bytes``.

        If nothing were kept, a client that reads only after it has sent everything would wait for us, and we for it.

        Raises:
            OSError: the connection is lost, or the client was too slow.
        """
        self.out += data
        while self.out:
            waits = len(self.out) > leave_bytes
            self.socket.settimeout(self._wait_s if waits else 0.0)
            try:
                self._send_some()
            except (TimeoutError, *_NOT_NOW):
                if waits:
                    raise self._too_slow() from None
                return

    def receive(self) -> bytes:
        """Wait for bytes of the client. Return b"" at the end of the connection.

        Raises:
            TimeoutError: the client was too slow.
        """
        self.socket.settimeout(self._wait_s)
        self.held_since = time.monotonic()
        try:
            piece = self.socket.recv(PIECE_BYTES)
        except (TimeoutError, *_NOT_NOW):
            raise self._too_slow() from None
        finally:
            self.held_since = math.inf
        self.ended = not piece
        return piece

    def _send_some(self) -> None:
        del self.out[: self.socket.send(self.out[:_SEND_BYTES])]

    def _too_slow(self) -> TimeoutError:
        self._wait_s = _LAST_PIECE_S
        return TimeoutError(errno.ETIMEDOUT, "the client was too slow")


class ArrivingBody:
    """The body of a request that an application reads while it arrives, in a thread of the pool."""

    def __init__(self, conn: Connection, request: ClientRequest) -> None:
        self._conn = conn
        self._request = request

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces as they arrive. Each piece has the time limit of a request.

        Raises:
            OSError: the connection is lost, or the client was too slow.
            ValueError: the body is malformed.
        """
        conn, request = self._conn, self._request
        while True:
            if request.body:
                yield self.read()
            if request.refusal is not None:
                raise ValueError(request.refusal.problem)
            if request.complete:
                return
            piece = conn.receive()
            if not piece:
                raise ConnectionResetError
            conn.read_at = time.monotonic()
            conn.rest = conn.parser.feed(piece)

    def read(self, _size: int = -1) -> bytes:
        """Return the bytes that have arrived: an application that refuses the request needs no more."""
        body, self._request.body = bytes(self._request.body), b""
        return body
