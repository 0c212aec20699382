"""Running services, and clients with kept-alive connections, for the benchmarks of the services.

As a program, ``served.py PORT CONNECTIONS SECONDS FILE`` is a pool of connections. The load then does not share an
interpreter with the program that measures.
"""

import json
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from webhook_process import make_pair

from berthmaster.model.decode import builtins

_READY_WITHIN_S = 300.0
_CLUSTER = "cluster.karmada.io/v1alpha1"


class Figures(NamedTuple):
    """Milliseconds per request of one connection, and requests a second of many."""

    p50: float
    p99: float
    rate: float


class Server(NamedTuple):
    """A running service.

    Attributes:
        port, probe_port: the ports for requests and for probes.
        pid: the process that started the workers.
        tls: whether requests need TLS. Clients do not verify the certificate.
    """

    port: int
    probe_port: int
    pid: int
    tls: bool = False

    def connect(self, timeout_s: float = 30.0) -> socket.socket:
        """Return a new connection for requests."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return without_verification().wrap_socket(plain) if self.tls else plain

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return sorted(map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()))

    def memory_mib(self) -> float:
        return tree_mib(self.pid)

    def is_live(self) -> bool:
        """Return whether a probe of the kubelet succeeds."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probe_port}/livez", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def without_verification() -> ssl.SSLContext:
    """Return a TLS context that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def serving(clusters: Sequence[Any], *flags: str, descriptors: int = 0) -> Iterator[Server]:
    """Run the extender with a fleet until the end of the block."""
    with ExitStack() as stack:
        given: tuple[str, ...] = ()
        if clusters:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            listed = {"apiVersion": _CLUSTER, "kind": "ClusterList", "items": [builtins(each) for each in clusters]}
            Path(folder, "clusters.json").write_bytes(msgspec.json.encode(listed))
            given = ("-f", folder)
        yield stack.enter_context(running("extender", *given, *flags, descriptors=descriptors))


@contextmanager
def reviewing(*flags: str, descriptors: int = 0) -> Iterator[Server]:
    """Run the webhook with a certificate of its own until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        make_pair().write(Path(folder))
        files = ("--cert-file", f"{folder}/tls.crt", "--key-file", f"{folder}/tls.key")
        with running("webhook", *files, *flags, descriptors=descriptors) as server:
            yield server._replace(tls=True)


@contextmanager
def showing(clusters: Sequence[Any], token: str, descriptors: int = 0) -> Iterator[Server]:
    """Run the console over TLS, before an extender with a fleet, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder, serving(clusters) as extender:
        make_pair().write(Path(folder))
        Path(folder, "tokens").write_text(f"{token},alice\n")
        files = ("--cert-file", f"{folder}/tls.crt", "--key-file", f"{folder}/tls.key")
        asked = (f"--extender-url=http://127.0.0.1:{extender.port}", f"--token-file={folder}/tokens")
        with running("console", *files, *asked, descriptors=descriptors) as server:
            yield server._replace(tls=True)


@contextmanager
def running(command: str, *flags: str, descriptors: int = 0) -> Iterator[Server]:
    """Run a service on free ports. ``descriptors`` limits its open files and connections; 0 sets no limit."""
    port, probe_port = free_port(), free_port()
    words = [
        sys.executable, "-m", "berthmaster_cli.main", command, "--bind", f"127.0.0.1:{port}",
        "--probe-bind", f"127.0.0.1:{probe_port}", "--drain-s", "0", "--log-level", "error", *flags,
    ]  # fmt: skip
    limit = f"ulimit -n {descriptors}; " if descriptors else ""
    process = subprocess.Popen(["/bin/sh", "-c", f"{limit}exec {shlex.join(words)}"])  # noqa: S603 - this program
    try:
        await_ready(probe_port, process)
        yield Server(port, probe_port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def tree_mib(pid: int) -> float:
    """Return the memory of a process and its descendants, as a pod counts it: shared pages count once."""
    return sum(map(_proportional_kib, _tree(pid))) / 1024


def _tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    with suppress(OSError):  # it may have just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _proportional_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has just ended
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def free_port() -> int:
    """Return a port that is free now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_ready(probe_port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service is ready."""
    until = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{probe_port}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the service did not become ready")


class Client:
    """One keep-alive connection."""

    def __init__(self, server: Server) -> None:
        self._socket = server.connect()

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the body of the answer."""
        self._socket.sendall(request)
        answer = self._socket.recv(262144)
        head_end = answer.find(b"\r\n\r\n")
        while head_end < 0:
            answer += self._more()
            head_end = answer.find(b"\r\n\r\n")
        at = answer.lower().index(b"content-length: ") + 16
        length = int(answer[at : answer.index(b"\r", at)])
        while len(answer) < head_end + 4 + length:
            answer += self._more()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer[:400])
        return answer[head_end + 4 :]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _more(self) -> bytes:
        more = self._socket.recv(262144)
        if not more:
            raise ConnectionError("the server closed the connection")
        return more


def post(path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """Return a request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def measure(server: Server, requests: Sequence[bytes], *, count: int, connections: int, seconds: float) -> Figures:
    """Send ``count`` requests over one connection, then requests over many connections for some seconds."""
    client = Client(server)
    for request in requests:
        client.ask(request)
    times = []
    for index in range(count):
        start = time.perf_counter()
        client.ask(requests[index % len(requests)])
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    return Figures(times[count // 2], times[int(count * 0.99)], _rate(server, requests, connections, seconds))


def _rate(server: Server, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    """Return the requests per second over a pool of connections in a separate process."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(msgspec.json.encode([request.decode() for request in requests]))
        file.flush()
        command = [sys.executable, __file__, str(server.port), str(connections), str(seconds), file.name]
        return float(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603 - this program


def pool(server: Server, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    """Return the requests per second over a pool of connections. Each waits for an answer before its next request."""
    until = time.monotonic() + seconds
    counts = [0] * connections

    def ask(number: int) -> None:
        client = Client(server)
        while time.monotonic() < until:
            client.ask(requests[(counts[number] + number) % len(requests)])
            counts[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(connections)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - start)


if __name__ == "__main__":
    port, connections, seconds, name = sys.argv[1:]
    texts = json.loads(Path(name).read_bytes())
    print(pool(Server(int(port), 0, 0), [text.encode() for text in texts], int(connections), float(seconds)))
