"""gunicorn's threaded worker, made fit for an endpoint that a control plane waits for.

Added to ``gthread``: every request has one deadline (``fleet.ops.deadline``); a connection that says nothing holds no
thread; when all threads are taken and others wait, the clients that are slowest to say what they want are dropped; when
there are too many connections, the longest idle one goes. And a thread that has answered stays with its connection for
a moment: under load the next request is already on its way, and handing the connection back to the poller and out again
costs more than deciding.
"""

import errno
import select
import threading
import time
from functools import partial
from selectors import EVENT_READ
from typing import Any, Final, cast

from gunicorn.util import close, close_graceful
from gunicorn.workers.gthread import TConn, ThreadWorker

from fleet.ops.deadline import Deadlines, PlainDeadlineSocket, limited

_LINGER_MS: Final = 5
_PATIENCE_S: Final = 0.25
"""How long a client may take to say what it wants while others wait for its thread."""
_LOOK_AGAIN_S: Final = 0.1
_CLOSING_S: Final = 0.5


class Connection(TConn):
    """A client's connection, which ends in the thread that served it.

    gunicorn waits for the client's end in the thread that accepts connections, where a client that never ends holds up
    all others.
    """

    def linger(self) -> None:
        """End our side and wait a moment for the client's: what it still sends must not cut our answer short."""
        close_graceful(self.sock, timeout=_CLOSING_S)

    def close(self, graceful: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the base class's signature
        """Close it at once."""
        close(self.sock)


class DeadlineWorker(ThreadWorker):
    """The worker process. ``cfg.timeout`` is no request's deadline: see ``limit_s`` of the sockets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(*args, **kwargs)
        self._active: set[TConn] = set()
        self._waiting = 0
        self._lock = threading.Lock()
        self._limit_s = float(self.app.request_timeout_s)  # type: ignore[attr-defined]  # see fleet.ops.server
        self._plain_class = limited(PlainDeadlineSocket, self._limit_s)

    def accept(self, listener: Any) -> None:  # noqa: ANN401 - a socket of gunicorn's
        """Take a connection, and give it a thread only once it says something."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        if self.nr_conns >= self.worker_connections - 1:
            self._drop_longest_idle()
        client = self._plain_class(client.family, client.type, client.proto, fileno=client.detach())
        self.nr_conns += 1
        conn = Connection(self.cfg, client, address, listener.getsockname())
        # Who connects wants something: silence is not kept as long as between requests.
        conn.timeout = time.monotonic() + self._limit_s
        self.pending_conns.append(conn)
        self.poller.register(client, EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def enqueue_req(self, conn: TConn) -> None:
        """Queue a connection for the next free thread."""
        with self._lock:
            self._waiting += 1
        self._drop_slowest()
        super().enqueue_req(conn)

    def wait_for_and_dispatch_events(self, timeout: float | None) -> None:
        """Wait for events; while somebody waits for a thread, look after the slow ones in between."""
        if self._waiting:
            timeout = _LOOK_AGAIN_S if timeout is None else min(timeout, _LOOK_AGAIN_S)
        super().wait_for_and_dispatch_events(timeout)
        if self._waiting:
            self._drop_slowest()

    def handle(self, conn: TConn) -> Any:  # noqa: ANN401 - whether to keep it, or a mark of gunicorn's
        """Serve a connection as long as requests follow each other closely and no other one waits."""
        with self._lock:
            self._waiting -= 1
            self._active.add(conn)
        try:
            keep = super().handle(conn)
            while keep is True and self.alive and not self._waiting and _readable_soon(conn):
                keep = super().handle(conn)
            if keep is False:
                cast("Connection", conn).linger()
            return keep
        finally:
            with self._lock:
                self._active.discard(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:  # noqa: ANN401 - gunicorn's own
        """Answer one request, in one piece unless the application streams."""
        client = cast("Deadlines", conn.sock)
        client.on_last_answer = req.force_close
        client.hold()
        try:
            return super().handle_request(req, conn)
        finally:
            client.release()

    def _drop_slowest(self) -> None:
        """If every thread is taken, take back as many as others wait for, from who was given one and has not asked."""
        with self._lock:
            if len(self._active) < self.cfg.threads:
                return
            impatient_at, wanted = time.monotonic() - _PATIENCE_S, self._waiting
            clients = [cast("Deadlines", conn.sock) for conn in self._active]
        slow = [each for each in clients if each.receiving and each.started_at < impatient_at]
        for client in sorted(slow, key=lambda each: each.started_at)[:wanted]:
            client.interrupt()

    def _drop_longest_idle(self) -> None:
        idle = self.pending_conns or self.keepalived_conns
        if not idle:
            return
        conn = idle.popleft()
        self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()


def _readable_soon(conn: TConn) -> bool:
    client = cast("Deadlines", conn.sock)
    if client.has_buffered():
        return True
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(_LINGER_MS))
