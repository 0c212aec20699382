"""A client's socket, over TLS or not, as gunicorn and the applications see it.

Two kinds of threads use it. The one that watches all clients never waits: it takes what has come, and what a client
does not take at once stays here. A thread of the pool has one client to itself and may wait for it, within a deadline.
"""

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

PIECE_BYTES: Final = 16 * 2**10
"""The most that is taken at once. No TLS record holds more: of one read in part, no poll would see the rest."""
_SEND_BYTES: Final = 64 * 2**10
_ANSWER_GRACE_S: Final = 1.0


class TooSlowError(ConnectionResetError, TimeoutError):
    """A client was too slow. To gunicorn it looks like one that went away, which is no news."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the client was too slow")


class Channel:
    """What stands between a client's socket and everybody else.

    Attributes:
        fd: the socket's descriptor, the same for as long as the channel is open.
        ended: the client will send no more.
        late: it had its time to send what is asked for now.
        receiving: a thread waits for the client's bytes right now.
        started_at: since when a thread waits for the request, or the piece of it that is due, on the monotonic clock.
        on_last_answer: what makes the server close the connection after the answer to the request at hand.
    """

    def __init__(self, plain: socket.socket, limit_s: float) -> None:
        """Take a socket over.

        Args:
            plain: connected, without TLS.
            limit_s: how long a thread may wait for a request and for its answer to be taken.
        """
        plain.settimeout(0.0)
        self.fd = plain.fileno()
        self.ended = self.late = self.receiving = False
        self.started_at = float("inf")
        self.on_last_answer: Callable[[], None] | None = None
        self._socket = plain
        self._limit_s = limit_s
        self._deadline = float("inf")
        self._waits = self._streams = False
        self._outbox = bytearray()
        self._backlog_bytes = 0

    # What the thread does that watches all clients.

    def shake_hands(self, wrap: Callable[[socket.socket], ssl.SSLSocket]) -> None:
        """Go on with the TLS handshake as far as that is possible without waiting.

        Raises:
            ssl.SSLWantReadError, ssl.SSLWantWriteError: it goes on when the client has sent, or taken, something.
            OSError: it failed.
        """
        if not isinstance(self._socket, ssl.SSLSocket):
            self._socket = wrap(self._socket)
        self._socket.do_handshake()

    def take(self) -> bytes | None:
        """What has come; empty once there will be no more, None if nothing has.

        Raises:
            OSError: the connection is lost.
        """
        try:
            piece = self._socket.recv(PIECE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        self.ended = not piece
        return piece

    def flush(self) -> bool:
        """Send what the client takes at once; whether that is all there is to send.

        Raises:
            OSError: the connection is lost.
        """
        try:
            while self._outbox:
                self._send_some()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def finish(self) -> None:
        """End our side, and leave the client's open: what it still sends must not cut our answer short.

        Raises:
            OSError: the connection is lost.
        """
        self._socket.shutdown(socket.SHUT_WR)

    def interrupt(self) -> None:
        """End whatever another thread waits for here."""
        # Not through TLS, whose state belongs to the thread that waits.
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return  # it went away by itself

    def close(self) -> None:
        """Close it at once."""
        self._socket.close()

    # What a thread of the pool does.

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Let this thread wait for the client until the end of the block, where all that was sent is taken.

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
        """Start the deadline anew: a stream is allowed its time for each piece, not for all of them."""
        self.started_at = time.monotonic()
        self._deadline = self.started_at + self._limit_s

    def stream(self, backlog_bytes: int) -> None:
        """From now on send what the client takes, and keep up to so many bytes that it does not take yet.

        A client that reads only once it has sent everything would otherwise wait for us, and we for it.
        """
        self._streams, self._backlog_bytes = self._waits, backlog_bytes

    # What gunicorn calls, in either kind of thread.

    def recv(self, size: int) -> bytes:
        """What has come, within the deadline; it may be more than was asked for, see ``PIECE_BYTES``."""
        if self.ended:
            return b""
        if self.late:
            raise self._exceeded()
        self._arm()
        self.receiving = True
        try:
            piece = self._socket.recv(max(size, PIECE_BYTES))
        except TimeoutError:
            raise self._exceeded() from None
        finally:
            self.receiving = False
        self.ended = not piece
        return piece

    def sendall(self, data: bytes) -> None:
        """Keep it until the answer is whole, so that head and body leave as one packet; or send it as it comes."""
        self._outbox += data
        if self._streams:
            self._drain(self._backlog_bytes)

    def send(self, data: bytes) -> int:
        """Send something now that the client waits for before it goes on."""
        self._outbox += data
        if self._waits:
            self._drain(0)
        return len(data)

    def shutdown(self, how: int) -> None:
        """End a side, or both."""
        self._socket.shutdown(how)

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - a socket's signature
        """The start of a request, to gunicorn. Whether there is waiting is not its to say."""
        if flag:
            self.extend()

    def settimeout(self, _timeout_s: float | None) -> None:
        """Nothing: the deadline holds."""

    def gettimeout(self) -> float | None:
        """See ``settimeout``."""
        return self._limit_s

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.fd

    def _send_some(self) -> None:
        del self._outbox[: self._socket.send(bytes(self._outbox[:_SEND_BYTES]))]

    def _drain(self, leave_bytes: int) -> None:
        """Send what the client takes now, and wait for it to take what is beyond ``leave_bytes``.

        What is late is sent all the same as long as the client takes it at once: it may say why it is late.
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
        # Whoever reads may still want to say so.
        self._deadline = time.monotonic() + _ANSWER_GRACE_S
        return TooSlowError()


def answer_last(environ: "WSGIEnvironment") -> None:
    """Close the connection after the answer to this request: something of it may be unread. WSGI has no word for it."""
    channel = environ.get("gunicorn.socket")
    if isinstance(channel, Channel) and channel.on_last_answer is not None:
        channel.on_last_answer()
