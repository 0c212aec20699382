"""The plain port for probes: one thread, and bounds on what a client can use.

The port is separate from the one that serves requests over TLS. It needs no credentials, so any client that reaches it
may open connections and be slow. Kubelet's probes must be answered all the same, since a failed liveness probe restarts
the pod. Therefore one thread serves all clients and never waits for a single one. A connection has one request, and one
time limit for all of it. If there are too many connections, the address with the most of them loses its oldest one. If
the process has no more file descriptors, the server uses a small reserve.
"""

import asyncio
import errno
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, cast

from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import SystemClock
from berthmaster.serving.listening import listen
from berthmaster.serving.probes import ProbeResponder, Probes

MAX_CONNECTIONS: Final = 128
MAX_HEAD_BYTES: Final = 8 * 2**10
EXCHANGE_S: Final = 10.0
"""The time limit for a connection, from its start to its end. Prometheus waits as long for a scrape."""
RESERVED_DESCRIPTORS: Final = 8
_BACKLOG: Final = 1024
_PIECE_BYTES: Final = 4 * 2**10
_MAX_REST_BYTES: Final = 64 * 2**10
_POLL_S: Final = 0.1
_PAUSE_S: Final = 0.1
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ProbeServer:
    """An HTTP server for probes."""

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        """Bind the port.

        Args:
            port: the port; 0 lets the system choose one.
            probes: the functions that supply the answers. The thread that serves calls them.

        Raises:
            InputError: the port cannot be bound.
        """
        self._responder = ProbeResponder(probes, SystemClock())
        self._clients: dict[asyncio.Task[None], str] = {}  # the address of each connection, the oldest first
        try:
            self._listener = listen(host, port, _BACKLOG)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot serve probes on {host}:{port}: {error}") from None
        self._listener.settimeout(0.0)
        self.port: int = self._listener.getsockname()[1]
        self._reserve = [os.dup(self._listener.fileno()) for _ in range(RESERVED_DESCRIPTORS)]

    def serve(self, stopped: Callable[[], bool]) -> None:
        """Serve until ``stopped`` returns true; it is called ten times a second. Then close all connections."""
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve(stopped))

    def close(self) -> None:
        """Close the port in this process. Not while another thread serves."""
        self._listener.close()
        while self._reserve:
            os.close(self._reserve.pop())

    async def _serve(self, stopped: Callable[[], bool]) -> None:
        accepting = asyncio.create_task(self._accept())
        while not stopped():
            await asyncio.sleep(_POLL_S)
        accepting.cancel()

    async def _accept(self) -> None:
        while True:
            await asyncio.sleep(0)  # requests that have arrived come before new clients
            try:
                sock, address = await asyncio.get_running_loop().sock_accept(self._listener)
            except OSError as error:  # or the client has disconnected
                if error.errno in _TOO_MANY:
                    await self._free_descriptor()
                continue
            self._clients[asyncio.create_task(self._exchange(sock))] = str(address[0])
            if len(self._clients) > MAX_CONNECTIONS:
                self._close_dispensable()

    async def _free_descriptor(self) -> None:
        """Free a descriptor of the reserve. Else wait for a moment: the listener stays ready, and would spin."""
        if not self._reserve and self._clients:
            self._close_dispensable()
            await asyncio.sleep(0)  # it fills the reserve
        if self._reserve:
            os.close(self._reserve.pop())
        else:
            await asyncio.sleep(_PAUSE_S)

    def _close_dispensable(self) -> None:
        """Close the oldest connection of the address with the most connections."""
        connections = Counter(self._clients.values())
        oldest = max(self._clients, key=lambda each: connections[self._clients[each]])  # the first one of several
        del self._clients[oldest]
        oldest.cancel()

    async def _exchange(self, sock: socket.socket) -> None:
        try:
            with sock, suppress(OSError):  # such as a reset by the client, or the end of its time
                async with asyncio.timeout(EXCHANGE_S):
                    await self._answer(sock)
        finally:
            self._clients.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
            with suppress(OSError):  # the next connection that ends fills the reserve
                while len(self._reserve) < RESERVED_DESCRIPTORS:
                    self._reserve.append(os.dup(self._listener.fileno()))

    async def _answer(self, sock: socket.socket) -> None:
        """Read the request, send the answer, and wait for the client to close."""
        loop = asyncio.get_running_loop()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = b""
        while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) <= MAX_HEAD_BYTES:
            piece = await loop.sock_recv(sock, _PIECE_BYTES)
            if not piece:
                return
            head += piece
        complete = b"\r\n\r\n" in head or b"\n\n" in head
        for part in self._responder.answer(head) if complete else self._responder.refuse_long_head():
            await loop.sock_sendall(sock, part)  # all clients share the text of the metrics
        # If both directions were closed, bytes that the client still sends could cut off the answer.
        sock.shutdown(socket.SHUT_WR)
        rest_bytes = 0
        while rest_bytes <= _MAX_REST_BYTES and (piece := await loop.sock_recv(sock, _PIECE_BYTES)):
            rest_bytes += len(piece)


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
