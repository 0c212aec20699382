"""A well-behaved client beside misbehaving ones: what it feels, and what the service needs meanwhile."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from served import Client, Server

_PAUSE_S = 0.002
_NEW_CONNECTION_EVERY_S = 0.05
_PROBE_EVERY_S = 0.5


class Figures(NamedTuple):
    """What the well-behaved clients see, and the memory of the service.

    Attributes:
        p50, p99, worst: milliseconds per request over a kept connection.
        count: the requests.
        failed: requests that failed, over a kept or a new connection.
        probes_failed: probes that failed.
        killed: workers that ended.
        memory_mib: the largest resident memory of the service.
        problem: the first failure.
    """

    p50: float
    p99: float
    worst: float
    count: int
    failed: int
    probes_failed: int
    killed: int
    memory_mib: float
    problem: str


class Watcher:
    """Clients that send good requests, and a thread that looks at the processes."""

    def __init__(self, server: Server, requests: Sequence[bytes]) -> None:
        self._server = server
        self._requests = requests
        self._ended = threading.Event()
        self._workers = set(server.workers())
        self._problems: list[str] = []
        self._probes_failed = 0
        self._memory_mib = 0.0
        self._killed: set[int] = set()

    def figures(self, seconds: float) -> Figures:
        """Watch for some seconds."""
        threads = [threading.Thread(target=each) for each in (self._look, self._probe, self._reconnect)]
        for thread in threads:
            thread.start()
        times = self._keep_asking(seconds)
        self._ended.set()
        for thread in threads:
            thread.join()
        times.sort()
        return Figures(
            times[len(times) // 2], times[int(len(times) * 0.99)], times[-1], len(times), len(self._problems),
            self._probes_failed, len(self._killed), self._memory_mib, self._problems[0] if self._problems else "",
        )  # fmt: skip

    def _keep_asking(self, seconds: float) -> list[float]:
        """Send requests over one connection.

        A server may close it between two requests. As any HTTP client, this one then repeats the request once over a
        new connection.
        """
        times = []
        until = time.monotonic() + seconds
        client: Client | None = None
        used = False
        while time.monotonic() < until or not times:
            start = time.perf_counter()
            try:
                client = client or Client(self._server)
                client.ask(self._requests[len(times) % len(self._requests)])
            except OSError as error:
                reused, client = client is not None and used, None
                if not reused:
                    self._problems.append(f"kept connection: {error!r}")
                used = False
                if reused:
                    continue
            except (RuntimeError, ValueError) as error:
                self._problems.append(f"kept connection: {error!r}")
                client, used = None, False
            else:
                used = True
            times.append((time.perf_counter() - start) * 1e3)
            time.sleep(_PAUSE_S)
        return times

    def _reconnect(self) -> None:
        while not self._ended.wait(_NEW_CONNECTION_EVERY_S):
            try:
                client = Client(self._server)
                client.ask(self._requests[0])
                client.close()
            except (OSError, RuntimeError, ValueError) as error:
                self._problems.append(f"new connection: {error!r}")

    def _probe(self) -> None:
        while not self._ended.wait(_PROBE_EVERY_S):
            self._probes_failed += not self._server.is_live()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            self._killed |= self._workers - set(self._server.workers())
            self._memory_mib = max(self._memory_mib, self._server.memory_mib())


@contextmanager
def accompanied(names: Sequence[str], server: Server, requests: Sequence[bytes]) -> Iterator[None]:
    """Run companions (see ``companions.py``) in processes of their own until the end of the block."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(msgspec.json.encode(list(requests)))
        file.flush()
        program = str(Path(__file__).parent / "companions.py")
        commands = [[sys.executable, program, name, json.dumps(server), file.name] for name in names]
        processes = [subprocess.Popen(each, stdin=subprocess.PIPE) for each in commands]  # noqa: S603 - this program
        try:
            time.sleep(1)
            yield
        finally:
            for process in processes:
                process.communicate()


def beside(
    names: Sequence[str], server: Server, good: Sequence[bytes], bad: Sequence[bytes], seconds: float
) -> Figures:
    """Return the figures of good requests while companions send or hold bad ones."""
    with accompanied(names, server, bad):
        return Watcher(server, good).figures(seconds)


def line(what: str, figures: Figures) -> str:
    """Return a row of the table of ``TITLES``."""
    return (
        f"{what:<44} {figures.p50:8.2f} {figures.p99:8.2f} {figures.worst:8.0f} {figures.count:7,} {figures.failed:6} "
        f"{figures.probes_failed:6} {figures.killed:6} {figures.memory_mib:7.0f}"
    )


TITLES = (
    f"{'':<44} {'p50 ms':>8} {'p99 ms':>8} {'worst ms':>8} {'asked':>7} {'failed':>6} {'probes':>6} {'killed':>6} "
    f"{'MiB':>7}"
)


def problems(what: str, figures: Figures, limit_mib: float) -> Iterator[str]:
    """Yield what must not happen: it does not depend on the speed of the machine."""
    if figures.failed:
        yield f"{what}: {figures.failed} good requests failed: {figures.problem}"
    if figures.probes_failed:
        yield f"{what}: {figures.probes_failed} probes failed"
    if figures.killed:
        yield f"{what}: {figures.killed} workers ended"
    if figures.memory_mib > limit_mib:
        yield f"{what}: {figures.memory_mib:.0f} MiB; the chart allows {limit_mib:.0f}"
