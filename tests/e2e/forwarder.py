"""One address in front of several servers, like a Kubernetes Service: only ready servers get new connections.

It knows nothing of what passes through it, hides no error and repeats nothing: a connection that a server
refuses is cut for the client too, and one that stands stays where it is.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 65536
PROBE_PERIOD_S: Final = 0.5
STOP_LIMIT_S: Final = 10.0


class Forwarder:
    """A TCP forwarder in a thread of its own.

    Attributes:
        host, port: where it listens.
    """

    def __init__(self, port: int, host: str = HOST) -> None:
        self.host, self.port = host, port
        self._probes: dict[int, Callable[[], bool]] = {}
        self._ready: list[int] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._held: Counter[int] = Counter()
        self._lost = threading.Event()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._stop = asyncio.Event()
        self._stopped = threading.Event()
        for work in (self._serve, self._watch):
            threading.Thread(target=work, name=f"forwarder-{port}", daemon=True).start()
        if not self._listening.wait(STOP_LIMIT_S):
            raise AssertionError(f"the forwarder does not listen on {port}")

    def add(self, port: int, probe: Callable[[], bool]) -> None:
        """Add a server behind the address. It gets connections while ``probe`` says that it is ready."""
        with self._lock:
            self._probes[port] = probe
        self._probe_all()

    def remove(self, port: int) -> None:
        """Remove a server; its connections stay."""
        with self._lock:
            self._probes.pop(port, None)
        self._probe_all()

    def ready(self) -> list[int]:
        """The servers that get new connections, in the order they were added."""
        return list(self._ready)

    def lose(self) -> None:
        """From now on the connections that stand carry nothing, and neither end learns it. New ones work."""
        self._lost.set()
        self._lost = threading.Event()

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self._stopped.set()
        self._loop.call_soon_threadsafe(self._stop.set)

    def _watch(self) -> None:
        """Poll all probes; changes are noticed late, as in a cluster."""
        while not self._stopped.wait(PROBE_PERIOD_S):
            self._probe_all()

    def _probe_all(self) -> None:
        with self._lock:  # two rounds at once could end in the wrong order
            self._ready = [port for port, probe in self._probes.items() if probe()]

    def _serve(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._connect, self.host, self.port)
        self._listening.set()
        await self._stop.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for writer in self._open:
            writer.transport.abort()
        await asyncio.wait_for(asyncio.gather(*connections), STOP_LIMIT_S)

    def _next(self) -> int | None:
        """The ready server with the fewest connections: a new one soon, and one that is closing its own at once."""
        return min(self._ready, key=lambda port: self._held[port], default=None)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._next()
        if port is None:
            writer.transport.abort()
            return
        self._held[port] += 1
        try:
            await self._join(reader, writer, port)
        finally:
            self._held[port] -= 1

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, port)
        except OSError:
            writer.transport.abort()
            return
        ends, lost = {writer, far_writer}, self._lost
        self._open |= ends
        await asyncio.gather(_pump(reader, far_writer, lost), _pump(far_reader, writer, lost))
        self._open -= ends


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: threading.Event) -> None:
    """Pass on everything until one side ends, and then that it ended. Pass on nothing once the connection is lost."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            if not lost.is_set():
                writer.write(chunk)
                await writer.drain()
    except OSError:
        writer.transport.abort()
    finally:
        writer.close()
