"""Measure the extender while other clients misbehave: ``make soak``.

The other clients open and drop thousands of connections, send slow and incomplete requests, and flood the service.
One well-behaved client measures its requests first alone, and then beside the others. The memory of the workers is
measured too. The memory must stay constant, and the well-behaved client must not become slower than its share of CPU
explains.
"""

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
from extender_service import native_requests
from served import Client, Server, post, serving
from workloads import generated

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class Figures(NamedTuple):
    """The requests of the well-behaved client: milliseconds per request, and counts."""

    p50: float
    p99: float
    worst: float
    count: int
    failed: int


class BadClients:
    """Clients that misbehave until they are stopped."""

    def __init__(self, port: int, requests: Sequence[bytes]) -> None:
        self._port = port
        self._request = requests[0]
        self._stopped = threading.Event()
        self.done = {"dropped": 0, "half": 0, "slow": 0, "large": 0, "nonsense": 0}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start all clients."""
        kinds: dict[Callable[[], None], int] = {
            self._drop: 2, self._half: 30, self._slow: 30, self._large: 2, self._nonsense: 2,
        }  # fmt: skip
        for kind, count in kinds.items():
            self._threads += [threading.Thread(target=self._repeat, args=(kind,), daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all clients."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _repeat(self, misbehave: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            with suppress(OSError):
                misbehave()

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=10)

    def _drop(self) -> None:
        """Open a connection and drop it: with or without bytes, with or without a TCP reset."""
        with self._connect() as client:
            if random.random() < 0.5:
                client.sendall(self._request[: random.randrange(len(self._request))])
            if random.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.done["dropped"] += 1
        self._stopped.wait(0.005)

    def _half(self) -> None:
        """Send an incomplete body and wait for the answer."""
        with self._connect() as client:
            client.sendall(self._request[:-20])
            while client.recv(65536):
                pass
        self.done["half"] += 1

    def _slow(self) -> None:
        """Send one byte at a time until the server closes the connection."""
        with self._connect() as client, suppress(OSError):
            for at in range(len(self._request)):
                client.sendall(self._request[at : at + 1])
                if self._stopped.wait(0.05):
                    return
        self.done["slow"] += 1

    def _large(self) -> None:
        """Declare a body far over the limit."""
        with self._connect() as client:
            client.sendall(b"POST /v1/schedule HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n")
            client.sendall(b"Content-Type: application/json\r\n\r\n" + b" " * 65536)
            while client.recv(65536):
                pass
        self.done["large"] += 1
        self._stopped.wait(0.02)

    def _nonsense(self) -> None:
        """Send a malformed request."""
        with self._connect() as client:
            client.sendall(post("/v1/schedule", random.randbytes(2000)))
            client.recv(65536)
        self.done["nonsense"] += 1
        self._stopped.wait(0.02)


def well_behaved(server: Server, requests: Sequence[bytes], seconds: float) -> Figures:
    """Send a request every 2 ms for some seconds."""
    times, failed = [], 0
    until = time.monotonic() + seconds
    client = Client(server.port)
    while time.monotonic() < until:
        start = time.perf_counter()
        try:
            client.ask(requests[len(times) % len(requests)])
        except (OSError, RuntimeError):
            failed += 1
            client = Client(server.port)
        times.append((time.perf_counter() - start) * 1e3)
        time.sleep(0.002)
    times.sort()
    return Figures(times[len(times) // 2], times[int(len(times) * 0.99)], times[-1], len(times), failed)


def memory_mib(server: Server) -> float:
    """Return the resident memory of all processes of a service."""
    return sum(_resident_kib(pid) for pid in (server.pid, *_children(server.pid))) / 1024


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KIB


@click.command()
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(5, 3600), help="The duration.")
def main(seconds: float) -> None:
    """Print the figures of the well-behaved client, and the memory."""
    workload = next(each for each in generated(7) if len(each.clusters) == 1000)
    requests = native_requests(workload)
    with serving(workload.clusters) as server:
        well_behaved(server, requests, 3)
        _print("alone", well_behaved(server, requests, 5), memory_mib(server))
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(500)]
        bad_clients = BadClients(server.port, requests)
        bad_clients.start()
        for part in range(1, 4):
            figures = well_behaved(server, requests, seconds / 3)
            _print(f"beside the others, part {part} of 3", figures, memory_mib(server))
        bad_clients.stop()
        for client in silent:
            client.close()
        time.sleep(1)
        _print("afterwards", well_behaved(server, requests, 5), memory_mib(server))
        print(", ".join(f"{count} {what}" for what, count in bad_clients.done.items()), "and 500 silent connections")


def _print(when: str, figures: Figures, memory: float) -> None:
    shown = f"p50 {figures.p50:7.2f} ms  p99 {figures.p99:7.2f} ms  worst {figures.worst:7.1f} ms"
    print(f"{when:>28}: {shown}  {figures.count} requests, {figures.failed} failed  {memory:6.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
