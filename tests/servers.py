"""Running services, and sockets that send requests to them."""

import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from free_ports import free_port
from fresh_metrics import fresh
from waiting import LIMIT_S, wait_for


def probe(port: int, path: str) -> tuple[int, str]:
    """Return the status and the text of an answer; 0 and no text if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Server(NamedTuple):
    """A running service."""

    port: int
    probe_port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def metrics(self) -> str:
        return fresh(self.probe_port, lambda: self.probe("/metrics")[1])

    def probe(self, path: str) -> tuple[int, str]:
        return probe(self.probe_port, path)


@contextmanager
def running(command: str, *flags: object, log: Path, ready: bool = True) -> Iterator[Server]:
    """Run `berthmaster COMMAND` on free ports of loopback until the end of the block."""
    port, probe_port = free_port(), free_port()
    arguments = [
        sys.executable, "-m", "berthmaster_cli.main", command, "--bind", f"127.0.0.1:{port}", "--probe-bind",
        f"127.0.0.1:{probe_port}", "--drain-s", "0", "--grace-s", "3", *map(str, flags),
    ]  # fmt: skip
    with started(arguments, port, probe_port, log=log, ready=ready) as server:
        yield server


@contextmanager
def started(arguments: Sequence[str], port: int, probe_port: int, *, log: Path, ready: bool = True) -> Iterator[Server]:
    """Run a service that listens on these ports until the end of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(arguments, stderr=output)  # noqa: S603 - this program
    server = Server(port, probe_port, process, log)
    try:
        _await(server, ready=ready)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _await(server: Server, *, ready: bool) -> None:
    def answers() -> bool:
        assert server.process.poll() is None, f"the service ended: {server.log.read_text()}"
        status, _ = server.probe("/readyz")
        return status == 200 or (status > 0 and not ready)

    wait_for(answers, lambda: f"the service is not ready: {server.log.read_text()}")


class Answer(NamedTuple):
    """A parsed response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """A connection."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None, timeout_s: float = LIMIT_S) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1") if context else plain
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = self._chunked() if "chunked" in headers.get("transfer-encoding", "") else self._sized(headers)
        return Answer(int(first.split()[1]), headers, body)

    def ended(self, within_s: float = LIMIT_S) -> bool:
        """Return whether the server closes the connection in time."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(65536) == b""
        except (ConnectionResetError, ssl.SSLError):
            return True
        except TimeoutError:
            return False

    def _sized(self, headers: dict[str, str]) -> bytes:
        length = int(headers.get("content-length", 0))
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return body

    def _chunked(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self._rest:
                self._more()
            size, _, self._rest = self._rest.partition(b"\r\n")
            length = int(size, 16)
            while len(self._rest) < length + 2:
                self._more()
            body, self._rest = body + self._rest[:length], self._rest[length + 2 :]
            if not length:
                return body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError(f"the server closed the connection after {self._rest!r}")
        self._rest += data


def request(method: str, path: str, body: bytes = b"", content_type: str = "application/json", **headers: str) -> bytes:
    """Return a request as bytes. Underscores in header names become dashes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if body or method == "POST":
        length = {} if "Transfer-Encoding" in headers else {"Content-Length": str(len(body))}
        headers = {"Content-Type": content_type, **length, **headers}
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
