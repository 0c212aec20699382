"""Bad company: ``make soak``. Thousands of connections opened and dropped, slow clients, half bodies, floods.

One well-behaved client measures its requests alone, and then while the others misbehave. Memory of the workers is read
from time to time: what counts is that it stays flat and that the good client is not slowed beyond its share.
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
    """What the good client saw: milliseconds per request, and how many."""

    p50: float
    p99: float
    worst: float
    count: int
    failed: int


class Trouble:
    """Clients that misbehave, until they are stopped."""

    def __init__(self, port: int, requests: Sequence[bytes]) -> None:
        self._port = port
        self._request = requests[0]
        self._stopped = threading.Event()
        self.done = {"dropped": 0, "half": 0, "slow": 0, "large": 0, "nonsense": 0}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin all of it."""
        kinds: dict[Callable[[], None], int] = {
            self._drop: 2, self._half: 30, self._slow: 30, self._large: 2, self._nonsense: 2,
        }  # fmt: skip
        for kind, count in kinds.items():
            self._threads += [threading.Thread(target=self._repeat, args=(kind,), daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all of it."""
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
        """Open and drop, with and without a word, with and without a goodbye."""
        with self._connect() as client:
            if random.random() < 0.5:
                client.sendall(self._request[: random.randrange(len(self._request))])
            if random.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.done["dropped"] += 1
        self._stopped.wait(0.005)

    def _half(self) -> None:
        """Send half a body and wait for what comes of it."""
        with self._connect() as client:
            client.sendall(self._request[:-20])
            while client.recv(65536):
                pass
        self.done["half"] += 1

    def _slow(self) -> None:
        """A byte at a time, until it is cut off."""
        with self._connect() as client, suppress(OSError):
            for at in range(len(self._request)):
                client.sendall(self._request[at : at + 1])
                if self._stopped.wait(0.05):
                    return
        self.done["slow"] += 1

    def _large(self) -> None:
        """A body beyond all bounds."""
        with self._connect() as client:
            client.sendall(b"POST /v1/schedule HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n")
            client.sendall(b"Content-Type: application/json\r\n\r\n" + b" " * 65536)
            while client.recv(65536):
                pass
        self.done["large"] += 1
        self._stopped.wait(0.02)

    def _nonsense(self) -> None:
        """A request that is malformed."""
        with self._connect() as client:
            client.sendall(post("/v1/schedule", random.randbytes(2000)))
            client.recv(65536)
        self.done["nonsense"] += 1
        self._stopped.wait(0.02)


def well_behaved(server: Server, requests: Sequence[bytes], seconds: float) -> Figures:
    """Ask every 2 ms for some seconds."""
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
    """Resident memory of all processes of a service."""
    return sum(_resident_kib(pid) for pid in (server.pid, *_children(server.pid))) / 1024


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KIB


@click.command()
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(5, 3600), help="How long it lasts.")
def main(seconds: float) -> None:
    """Print what the good client and the memory go through."""
    workload = next(each for each in generated(7) if len(each.clusters) == 1000)
    requests = native_requests(workload)
    with serving(workload.clusters) as server:
        well_behaved(server, requests, 3)
        _print("alone", well_behaved(server, requests, 5), memory_mib(server))
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(500)]
        trouble = Trouble(server.port, requests)
        trouble.start()
        for part in range(1, 4):
            figures = well_behaved(server, requests, seconds / 3)
            _print(f"in bad company, part {part} of 3", figures, memory_mib(server))
        trouble.stop()
        for client in silent:
            client.close()
        time.sleep(1)
        _print("afterwards", well_behaved(server, requests, 5), memory_mib(server))
        print(", ".join(f"{count} {what}" for what, count in trouble.done.items()), "and 500 that said nothing")


def _print(when: str, figures: Figures, memory: float) -> None:
    told = f"p50 {figures.p50:7.2f} ms  p99 {figures.p99:7.2f} ms  worst {figures.worst:7.1f} ms"
    print(f"{when:>28}: {told}  {figures.count} requests, {figures.failed} failed  {memory:6.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
