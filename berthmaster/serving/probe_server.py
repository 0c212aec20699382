"""The sockets of the plain port: one thread, and bounds on everything that a client can use.

The port needs no credentials, so any client that reaches it may open connections and be slow. Kubelet's probes must be
answered all the same, since a failed liveness probe restarts the pod. Therefore one thread serves all clients and never
waits for a single one. A connection has one request, and one time limit for all of it. If there are too many
connections, the address with the most of them loses its oldest one. If the process has no more file descriptors, the
server uses a small reserve.
"""

import errno
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE, PollSelector
from typing import Final

from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.serving.probes import ProbeResponder, Probes

MAX_CONNECTIONS: Final = 128
MAX_HEAD_BYTES: Final = 8 * 2**10
EXCHANGE_S: Final = 10.0
"""The time limit for a connection, from its start to its end. Prometheus waits as long for a scrape."""
RESERVED_DESCRIPTORS: Final = 8
_BACKLOG: Final = 1024
_ACCEPTS_PER_STEP: Final = 32
_PIECE_BYTES: Final = 4 * 2**10
_MAX_REST_BYTES: Final = 64 * 2**10
_POLL_S: Final = 0.1
_PAUSE_S: Final = 0.1
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(slots=True, eq=False)
class _Client:
    """A connection.

    Attributes:
        rest: the pieces of the answer that are not sent yet. All clients share the text of the metrics.
    """

    sock: socket.socket
    peer: str
    until_s: float
    step: Callable[["_Client"], None]
    head: bytearray = field(default_factory=bytearray)
    rest: list[memoryview] = field(default_factory=list)
    rest_bytes: int = 0


class ProbeServer:
    """An HTTP server for probes."""

    def __init__(self, host: str, port: int, probes: Probes, clock: Clock | None = None) -> None:
        """Bind the port.

        Args:
            port: the port; 0 lets the system choose one.
            probes: the functions that supply the answers. The thread that serves calls them.

        Raises:
            InputError: the port cannot be bound.
        """
        self._clock = clock or SystemClock()
        self._responder = ProbeResponder(probes, self._clock)
        self._selector = PollSelector()  # unlike the default, it needs no descriptor, and a fork may continue it
        self._clients: dict[_Client, None] = {}  # in the order in which their time ends
        self._accept_at_s = 0.0
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot serve probes on {host}:{port}: {error}") from None
        self._listener.settimeout(0.0)
        self.port: int = self._listener.getsockname()[1]
        self._reserve = [os.dup(self._listener.fileno()) for _ in range(RESERVED_DESCRIPTORS)]

    def serve(self, stopped: Callable[[], bool]) -> None:
        """Serve until ``stopped`` returns true; it is called ten times a second. Then close all connections."""
        self._selector.register(self._listener, EVENT_READ)
        while not stopped():
            self._step()
        for client in list(self._clients):
            self._close(client)

    def close(self) -> None:
        """Close the port in this process. Not while another thread serves."""
        self._listener.close()
        while self._reserve:
            os.close(self._reserve.pop())

    def _step(self) -> None:
        events = self._selector.select(_POLL_S)
        ready = [key.data for key, _ in events]
        # Clients come first: a new client may take the place of another one, whose request may have arrived.
        for client in filter(None, ready):
            self._advance(client)
        if None in ready:
            self._accept()
        now_s = self._clock.monotonic_s()
        for client in [each for each in self._clients if each.until_s <= now_s]:
            self._close(client)
        if self._accept_at_s and now_s >= self._accept_at_s:
            self._accept_at_s = 0.0
            self._selector.register(self._listener, EVENT_READ)

    # New connections.

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_STEP):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _TOO_MANY and not self._free_descriptor():
                    self._pause()
                    return
                continue  # a descriptor is free now, or the client has disconnected
            sock.settimeout(0.0)
            until_s = self._clock.monotonic_s() + EXCHANGE_S
            client = _Client(sock, str(address[0]), until_s, self._read)
            self._clients[client] = None
            self._selector.register(sock, EVENT_READ, client)
            if len(self._clients) > MAX_CONNECTIONS:
                self._close(self._dispensable())

    def _dispensable(self) -> _Client:
        """Return the oldest connection of the address with the most connections."""
        connections = Counter(each.peer for each in self._clients)
        return max(self._clients, key=lambda each: connections[each.peer])  # the first one of several

    def _free_descriptor(self) -> bool:
        """Free a descriptor of the reserve. Return False if the reserve is empty."""
        if not self._reserve and self._clients:
            self._close(self._dispensable())
        if self._reserve:
            os.close(self._reserve.pop())
            return True
        return False

    def _pause(self) -> None:
        """Accept no connections for a moment: the listener stays ready, and the thread would spin."""
        self._selector.unregister(self._listener)
        self._accept_at_s = self._clock.monotonic_s() + _PAUSE_S

    # The steps of a connection: read the request, send the answer, wait for the client to close.

    def _advance(self, client: _Client) -> None:
        try:
            client.step(client)
        except BlockingIOError:
            return
        except OSError:
            self._close(client)

    def _read(self, client: _Client) -> None:
        piece = client.sock.recv(_PIECE_BYTES)
        if not piece:
            self._close(client)
            return
        client.head += piece
        if b"\r\n\r\n" in client.head or b"\n\n" in client.head:
            answer = self._responder.answer(bytes(client.head))
        elif len(client.head) > MAX_HEAD_BYTES:
            answer = self._responder.refuse_long_head()
        else:
            return
        client.rest = [memoryview(piece) for piece in answer]
        client.step = self._send
        self._selector.modify(client.sock, EVENT_WRITE, client)
        self._send(client)

    def _send(self, client: _Client) -> None:
        sent = client.sock.sendmsg(client.rest)
        while client.rest and sent >= len(client.rest[0]):
            sent -= len(client.rest.pop(0))
        if client.rest:
            client.rest[0] = client.rest[0][sent:]
        else:
            # If both directions were closed, bytes that the client still sends could cut off the answer.
            client.sock.shutdown(socket.SHUT_WR)
            client.step = self._discard
            self._selector.modify(client.sock, EVENT_READ, client)

    def _discard(self, client: _Client) -> None:
        piece = client.sock.recv(_PIECE_BYTES)
        client.rest_bytes += len(piece)
        if not piece or client.rest_bytes > _MAX_REST_BYTES:
            self._close(client)

    def _close(self, client: _Client) -> None:
        del self._clients[client]
        self._selector.unregister(client.sock)
        with suppress(OSError):  # such as a reset by the client
            client.sock.close()
        while len(self._reserve) < RESERVED_DESCRIPTORS:
            try:
                self._reserve.append(os.dup(self._listener.fileno()))
            except OSError:
                return  # the next connection that ends fills the reserve


@contextmanager
def serving_probes(host: str, port: int, probes: Probes) -> Iterator[ProbeServer]:
    """Serve probes in a thread until the end of the block."""
    server = ProbeServer(host, port, probes)
    stopped = threading.Event()
    thread = threading.Thread(target=server.serve, args=(stopped.is_set,), name="probes", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        stopped.set()
        thread.join()
        server.close()
