"""Sockets whose reads and writes share one deadline per request, over TLS and without.

A client that is slow or silent holds a thread for a bounded time only. The deadline starts anew when the socket is set
to blocking, which gunicorn does at the start of each request and of each handshake.
"""

import errno
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

_ANSWER_GRACE_S: Final = 1.0
_SEND_BYTES: Final = 64 * 2**10

# For the type checker the mixin is a socket; what it really stands in front of is said by the classes below.
if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    _Base = socket.socket
else:
    _Base = object


class DeadlineExceededError(ConnectionResetError, TimeoutError):
    """A client was too slow. To gunicorn it looks like one that went away, which is no news."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the client was too slow")


class Deadlines(_Base):
    """The deadline and the held answer; a mixin in front of a socket class.

    Attributes:
        limit_s: how long a request may take from its first byte to the last of its answer.
        receiving: whether a thread waits for the client's bytes right now.
        on_last_answer: what makes the server close the connection after the answer to the request at hand.
        started_at: when the request, or the piece of it that is due, began, on the monotonic clock.
    """

    limit_s: ClassVar[float] = 2.5
    receiving: bool = False
    started_at: float = float("inf")
    on_last_answer: Callable[[], None] | None = None
    _deadline: float = float("inf")
    _held: list[bytes] | None = None
    _outbox: bytearray | None = None
    _backlog_bytes: int = 0

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - the base class's signature
        """Start a new deadline, or wait for nothing."""
        if flag:
            self.started_at = time.monotonic()
            self._deadline = self.started_at + self.limit_s
            self.settimeout(self.limit_s)
        else:
            self.settimeout(0.0)

    def extend(self) -> None:
        """Start the deadline anew: a stream is allowed its time for each piece, not for all of them."""
        self.started_at = time.monotonic()
        self._deadline = self.started_at + self.limit_s

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """What has come, within the deadline."""
        self._arm()
        self.receiving = True
        try:
            return super().recv(buflen, flags)
        except TimeoutError:
            raise self._exceeded() from None
        finally:
            self.receiving = False

    def send(self, data: Any, flags: int = 0) -> int:  # noqa: ANN401 - the base class's type
        """Send some of it, within the deadline."""
        self._arm()
        try:
            return super().send(data, flags)
        except TimeoutError:
            raise self._exceeded() from None

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - the base class's type
        """Send all of it, or keep it as ``hold`` or ``stream`` have said."""
        if self._outbox is not None:
            self._outbox += data
            self._drain(self._outbox, self._backlog_bytes)
        elif self._held is not None:
            self._held.append(bytes(data))
        else:
            self._send_whole(data, flags)

    def hold(self) -> None:
        """Keep what is sent from now on, so that a head and its body leave as one record and one packet."""
        self._held = []

    def stream(self, backlog_bytes: int) -> None:
        """From now on send what the client takes, and keep up to so many bytes that it does not take yet.

        A client that reads only once it has sent everything would otherwise wait for us, and we for it.
        """
        self.release()
        self._outbox, self._backlog_bytes = bytearray(), backlog_bytes

    def release(self) -> None:
        """Send whatever was kept, and keep nothing any more."""
        held, self._held = self._held, None
        outbox, self._outbox = self._outbox, None
        if held:
            self._send_whole(b"".join(held))
        if outbox:
            self._drain(outbox, 0)

    def _drain(self, outbox: bytearray, leave_bytes: int) -> None:
        """Send what the client takes now, and wait for it to take what is beyond ``leave_bytes``."""
        while outbox:
            waits = len(outbox) > leave_bytes
            if waits:
                self._arm()
            else:
                self.settimeout(0.0)
            try:
                del outbox[: super().send(bytes(outbox[:_SEND_BYTES]))]
            except (BlockingIOError, ssl.SSLWantWriteError):
                return
            except TimeoutError:
                raise self._exceeded() from None
            finally:
                self.settimeout(self.limit_s)
            self.extend()

    def _send_whole(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - the base class's type
        self._arm()
        try:
            super().sendall(data, flags)
        except TimeoutError:
            raise self._exceeded() from None

    def interrupt(self) -> None:
        """End whatever another thread waits for on this socket; its owner closes it."""
        # Not through TLS, whose state belongs to the thread that waits.
        try:
            socket.socket.shutdown(self, socket.SHUT_RDWR)
        except OSError:
            return  # it went away by itself

    def has_buffered(self) -> bool:
        """Whether there is something to read that polling does not see."""
        return False

    def _arm(self) -> None:
        if self.gettimeout() == 0.0:
            return  # polled, not waited for
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise self._exceeded()
        self.settimeout(min(remaining, self.limit_s))

    def _exceeded(self) -> DeadlineExceededError:
        # Whoever reads may still want to say so.
        self._deadline = time.monotonic() + _ANSWER_GRACE_S
        return DeadlineExceededError()


class PlainDeadlineSocket(Deadlines, socket.socket):
    """Without TLS."""


class TLSDeadlineSocket(Deadlines, ssl.SSLSocket):
    """With TLS."""

    def has_buffered(self) -> bool:
        """Whether a record was read of which a part waits."""
        return bool(self.pending())

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the base class's signature
        """The handshake, under a deadline of its own."""
        self.setblocking(True)  # noqa: FBT003 - the base class's signature
        self.receiving = True
        try:
            super().do_handshake(block)
        except TimeoutError:
            raise DeadlineExceededError from None
        finally:
            self.receiving = False


Limited = TypeVar("Limited", bound=Deadlines)


def limited(socket_class: type[Limited], limit_s: float) -> type[Limited]:
    """The class with a limit of its own."""
    return type(socket_class.__name__, (socket_class,), {"limit_s": limit_s})


def answer_last(environ: "WSGIEnvironment") -> None:
    """Close the connection after the answer to this request: something of it may be unread. WSGI has no word for it."""
    client = environ.get("gunicorn.socket")
    if isinstance(client, Deadlines) and client.on_last_answer is not None:
        client.on_last_answer()
