"""gunicorn's threaded worker, made fit for an endpoint that a control plane waits for.

Two things are added to ``gthread``. Every read and write stands under one deadline per request, the handshake
included, so that a client that is slow or silent holds a thread for a bounded time only; a connection that says
nothing holds none. And a thread that has answered stays with its connection for a moment: under load the next request
is already on its way, and handing the connection back to the poller and out again costs more than deciding.
"""

import errno
import select
import ssl
import threading
import time
from functools import partial
from selectors import EVENT_READ
from typing import Any, ClassVar, Final, cast

from gunicorn.workers.gthread import TConn, ThreadWorker

_LINGER_MS: Final = 5
_ANSWER_GRACE_S: Final = 1.0


class DeadlineExceededError(ConnectionResetError, TimeoutError):
    """A client was too slow. To gunicorn it looks like one that went away, which is no news."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the client was too slow")


class DeadlineSocket(ssl.SSLSocket):
    """A TLS socket whose reads and writes share a deadline. It starts anew when the socket is set to blocking.

    gunicorn does that at the start of each request, and of each handshake.
    """

    limit_s: ClassVar[float] = 2.5
    _deadline: float = float("inf")
    _held: list[bytes] | None = None

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - the base class's signature
        """Start a new deadline, or wait for nothing."""
        if flag:
            self._deadline = time.monotonic() + self.limit_s
            self.settimeout(self.limit_s)
        else:
            self.settimeout(0.0)

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the base class's signature
        """The handshake, under a deadline of its own."""
        self.setblocking(True)  # noqa: FBT003 - the base class's signature
        try:
            super().do_handshake(block)
        except TimeoutError:
            raise DeadlineExceededError from None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """What has come, within the deadline."""
        self._arm()
        try:
            return super().recv(buflen, flags)
        except TimeoutError:
            raise self._exceeded() from None

    def send(self, data: Any, flags: int = 0) -> int:  # noqa: ANN401 - the base class's type
        """Send some of it, within the deadline."""
        self._arm()
        try:
            return super().send(data, flags)
        except TimeoutError:
            raise self._exceeded() from None

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - the base class's type
        """Send all of it, or hold it until ``release``."""
        if self._held is None:
            super().sendall(data, flags)
        else:
            self._held.append(bytes(data))

    def hold(self) -> None:
        """Keep what is sent from now on, so that a head and its body leave as one record and one packet."""
        self._held = []

    def release(self) -> None:
        """Send what was held."""
        held, self._held = self._held, None
        if held:
            super().sendall(b"".join(held))

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


class ReviewWorker(ThreadWorker):
    """The worker process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(*args, **kwargs)
        self._waiting = 0
        self._waiting_lock = threading.Lock()

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Take a connection, and give it a thread only once it says something."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        self.nr_conns += 1
        conn = TConn(self.cfg, client, address, listener.getsockname())
        conn.set_timeout()
        self.pending_conns.append(conn)
        self.poller.register(client, EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def enqueue_req(self, conn: TConn) -> None:
        """Queue a connection for the next free thread."""
        with self._waiting_lock:
            self._waiting += 1
        super().enqueue_req(conn)

    def handle(self, conn: TConn) -> Any:  # noqa: ANN401 - whether to keep it, or a mark of gunicorn's
        """Serve a connection as long as requests follow each other closely and no other one waits."""
        with self._waiting_lock:
            self._waiting -= 1
        keep = super().handle(conn)
        while keep is True and self.alive and not self._waiting and _readable_soon(conn):
            keep = super().handle(conn)
        return keep

    def handle_request(self, req: Any, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Answer one request, in one piece."""
        client = cast("DeadlineSocket", conn.sock)
        client.hold()
        try:
            return super().handle_request(req, conn)
        finally:
            client.release()


def _readable_soon(conn: TConn) -> bool:
    client = cast("DeadlineSocket", conn.sock)
    if client.pending():
        return True
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(_LINGER_MS))
