"""The socket of a client, with or without TLS, for gunicorn and the applications.

Two kinds of threads use a channel. The polling thread never waits: it reads the bytes that have arrived, and keeps
here what a client does not accept at once. A thread of the pool serves one request. It waits for the client only if
the application reads the request while it arrives; else the polling thread has collected the whole request.
"""

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

PIECE_BYTES: Final = 16 * 2**10
"""The size of one read. It is the size of the largest TLS record: after a partial read, poll would not see the rest."""
_SEND_BYTES: Final = 64 * 2**10
_SENDS_IN_A_ROW: Final = 16
_ANSWER_GRACE_S: Final = 1.0
_BACKLOG_BYTES: Final = 8 * 2**20
"""The part of a streamed response that waits for a client that reads only after it has sent its whole request."""


class TooSlowError(ConnectionResetError, TimeoutError):
    """A client was too slow. gunicorn treats it like a client that disconnected, and logs nothing."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the client was too slow")


class ServerRefusal(NamedTuple):
    """Why the application must refuse a request without reading all of it.

    Attributes:
        status: the HTTP status.
        problem: the reason.
    """

    status: int
    problem: str


class Channel:
    """A client's socket with deadlines and an output buffer.

    Attributes:
        fd: the file descriptor of the socket. It stays the same while the channel is open.
        ended: the client will send no more bytes.
        refusal: why the application must refuse the current request; None if it need not.
        began_at: the monotonic time of the first byte of the current request.
        continued: the client has got ``100 Continue`` for the current request.
        receiving: a thread waits for bytes of the client.
        started_at: the monotonic time at which a thread began to wait for the request, or for its current piece.
        on_last_answer: makes the server close the connection after the answer to the current request.
    """

    def __init__(self, plain: socket.socket, limit_s: float) -> None:
        """Take over a socket.

        Args:
            plain: a connected socket without TLS.
            limit_s: the time limit for a request, and for its answer.
        """
        plain.settimeout(0.0)
        self.fd = plain.fileno()
        self.ended = self.receiving = self.continued = False
        self.refusal: ServerRefusal | None = None
        self.started_at = float("inf")
        self.began_at = 0.0
        self.on_last_answer: Callable[[], None] | None = None
        self._socket = plain
        self._limit_s = limit_s
        self._deadline = float("inf")
        self._waits = self._streams = False
        self._inbox = memoryview(b"")
        self._outbox = bytearray()
        self._backlog_bytes = 0

    # For the polling thread.

    def shake_hands(self, wrap: Callable[[socket.socket], ssl.SSLSocket]) -> None:
        """Continue the TLS handshake as far as possible without waiting.

        Raises:
            ssl.SSLWantReadError, ssl.SSLWantWriteError: the handshake needs the client to send, or to read.
            OSError: the handshake failed.
        """
        if not isinstance(self._socket, ssl.SSLSocket):
            self._socket = wrap(self._socket)
        self._socket.do_handshake()

    def take(self, size: int = PIECE_BYTES) -> bytes | None:
        """Return bytes that have arrived: None if there are none yet, b"" at the end of the connection.

        Args:
            size: the most bytes to return; at least ``PIECE_BYTES``.

        Raises:
            OSError: the connection is lost.
        """
        try:
            piece = self._socket.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        self.ended = not piece
        return piece

    def feed(self, data: bytes) -> None:
        """Let the parser read these bytes first. They have arrived already."""
        self._inbox = memoryview(data)

    def leftover(self) -> bytes:
        """Return the bytes of ``feed`` that the parser has not read."""
        data, self._inbox = bytes(self._inbox), memoryview(b"")
        return data

    @property
    def unsent_bytes(self) -> int:
        return len(self._outbox)

    def flush(self) -> bool:
        """Send what the client accepts at once, up to a limit. Return whether everything is sent.

        Raises:
            OSError: the connection is lost.
        """
        try:
            for _ in range(_SENDS_IN_A_ROW):
                if not self._outbox:
                    return True
                self._send_some()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return not self._outbox

    def finish(self) -> None:
        """Close our direction only. If we closed both, bytes that the client still sends could cut off our answer.

        Raises:
            OSError: the connection is lost.
        """
        self._socket.shutdown(socket.SHUT_WR)

    def interrupt(self) -> None:
        """End the wait of another thread for this client."""
        # Bypass TLS: its state belongs to the thread that waits.
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return  # the client has disconnected

    def close(self) -> None:
        self._socket.close()

    @property
    def tls(self) -> ssl.SSLSocket | None:
        """The socket, if it has TLS."""
        return self._socket if isinstance(self._socket, ssl.SSLSocket) else None

    # For a thread of the pool that serves a stream.

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Let this thread wait for the client until the end of the block. At the end, all output is sent.

        Raises:
            OSError: the connection is lost, or the client was too slow.
        """
        self._waits = True
        self.extend()
        try:
            yield
            self._drain(0)
        finally:
            self._waits = self._streams = False
            self._socket.settimeout(0.0)

    def extend(self) -> None:
        """Restart the deadline. A stream has the time limit for each piece instead of all pieces."""
        self.started_at = time.monotonic()
        self._deadline = self.started_at + self._limit_s

    def stream(self, backlog_bytes: int) -> None:
        """From now on send output as soon as the client accepts it, and buffer up to ``backlog_bytes``.

        Without the buffer, a client that reads only after it has sent everything would wait for us, and we for it.
        """
        self._streams, self._backlog_bytes = self._waits, backlog_bytes

    # For gunicorn, which takes the channel for a socket. Either kind of thread calls these.

    def recv(self, size: int) -> bytes:
        """Return bytes of the client within the deadline. The result may be longer than ``size``: see PIECE_BYTES.

        Raises:
            TooSlowError: nothing has arrived, and this thread may not wait any longer.
        """
        if self._inbox:
            piece = bytes(self._inbox[: max(size, PIECE_BYTES)])
            self._inbox = self._inbox[len(piece) :]
            return piece
        if self.ended:
            return b""
        if not self._waits:
            raise TooSlowError
        self._arm()
        self.receiving = True
        try:
            piece = self._socket.recv(max(size, PIECE_BYTES))
        except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise self._exceeded() from None
        finally:
            self.receiving = False
        self.ended = not piece
        return piece

    def sendall(self, data: bytes) -> None:
        """Buffer output until the answer is complete, so that it leaves in one packet. Streams send at once."""
        self._outbox += data
        if self._streams:
            self._drain(self._backlog_bytes)

    def send(self, data: bytes) -> int:
        """Send an interim response that the client waits for: 100 Continue, unless the client has got it."""
        if not self.continued:
            self._outbox += data
            if self._waits:
                self._drain(0)
        return len(data)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def setblocking(self, _flag: bool) -> None:  # noqa: FBT001 - a socket's signature
        """Do nothing: the channel decides about waiting."""

    def settimeout(self, _timeout_s: float | None) -> None:
        """Do nothing: the channel has its own deadline."""

    def gettimeout(self) -> float | None:
        return self._limit_s

    def fileno(self) -> int:
        return self.fd

    def _send_some(self) -> None:
        del self._outbox[: self._socket.send(bytes(self._outbox[:_SEND_BYTES]))]

    def _drain(self, leave_bytes: int) -> None:
        """Send what the client accepts now, and wait until at most ``leave_bytes`` are left.

        After the deadline, bytes are still sent if the client accepts them at once: they may say what was too slow.
        """
        while self._outbox:
            waits = len(self._outbox) > leave_bytes
            self._socket.settimeout(self._remaining_s() if waits else 0.0)
            try:
                self._send_some()
            except (BlockingIOError, ssl.SSLWantWriteError):
                if waits:
                    raise self._exceeded() from None
                return
            except TimeoutError:
                raise self._exceeded() from None
            if self._streams:
                self.extend()

    def _arm(self) -> None:
        if not (remaining_s := self._remaining_s()):
            raise self._exceeded()
        self._socket.settimeout(remaining_s)

    def _remaining_s(self) -> float:
        return min(max(0.0, self._deadline - time.monotonic()), self._limit_s)

    def _exceeded(self) -> TooSlowError:
        # The thread may still send an answer that explains the timeout.
        self._deadline = time.monotonic() + _ANSWER_GRACE_S
        return TooSlowError()


def refusal_of(environ: "WSGIEnvironment") -> ServerRefusal | None:
    """Return why the application must refuse a request; None if it need not, and without a channel."""
    channel = _channel(environ)
    return channel.refusal if channel is not None else None


def begun_at(environ: "WSGIEnvironment") -> float | None:
    """Return the monotonic time of the first byte of a request; None without a channel."""
    channel = _channel(environ)
    return channel.began_at if channel is not None else None


def answer_last(environ: "WSGIEnvironment") -> None:
    """Close the connection after the response to this request, because part of the request may be unread.

    WSGI has no way to say so. Without a channel, as in gunicorn's own workers, this does nothing: gunicorn reads a
    small rest of the request and closes the connection if the rest is larger.
    """
    if (channel := _channel(environ)) is not None and channel.on_last_answer is not None:
        channel.on_last_answer()


def extend_deadline(environ: "WSGIEnvironment") -> None:
    """Restart the deadline of a streamed request. Does nothing without a channel."""
    if (channel := _channel(environ)) is not None:
        channel.extend()


def streamed(pieces: Iterator[bytes], environ: "WSGIEnvironment") -> Iterator[bytes]:
    """Yield the pieces of a response. With a channel, each piece is sent at once and has its own deadline."""
    channel = _channel(environ)
    if channel is not None:
        channel.stream(_BACKLOG_BYTES)
    for piece in pieces:
        if channel is not None:
            channel.extend()
        yield piece


def _channel(environ: "WSGIEnvironment") -> Channel | None:
    channel = environ.get("gunicorn.socket")
    return channel if isinstance(channel, Channel) else None
