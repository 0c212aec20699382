"""A service as a child process on loopback, with temporary certificates."""

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from berthmaster.model.errors import BerthmasterError
from berthmaster.native_api.connection import UnansweredError, WebClient
from certs.authority import issue, new_authority

HOST: Final = "127.0.0.1"
_START_S: Final = 30.0
_STOP_S: Final = 15.0
_REQUEST_S: Final = 10.0
_LIFETIME: Final = timedelta(days=1)
_TAIL_LINES: Final = 5


class DemoError(BerthmasterError):
    """A service did not start or did not respond."""


class DemoCertificates:
    """Files with a CA certificate and a serving certificate for loopback, valid for one day."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        authority = new_authority("berthmaster demo", _LIFETIME, now)
        leaf = issue(authority, "localhost", ["localhost", HOST], _LIFETIME, now)
        self.ca_file = self._write(folder / "ca.crt", authority.certificate_pem)
        self.cert_file = self._write(folder / "tls.crt", leaf.certificate_pem)
        self.key_file = self._write(folder / "tls.key", leaf.key_pem)

    @staticmethod
    def _write(path: Path, content: bytes) -> Path:
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path


class DemoService:
    """A context manager that starts a service, waits until it is ready, and stops it at the end."""

    def __init__(self, name: str, arguments: Sequence[str], certificates: DemoCertificates, folder: Path) -> None:
        self.name = name
        self.port, self.probe_port = _free_port(), _free_port()
        self._log = folder / f"{name}.log"
        self._trust = ssl.create_default_context(cafile=str(certificates.ca_file))
        self._command = [
            *(sys.executable, "-m", "berthmaster_cli.main", name, *arguments),
            *("--bind", f"{HOST}:{self.port}", "--probe-bind", f"{HOST}:{self.probe_port}"),
            *("--cert-file", str(certificates.cert_file), "--key-file", str(certificates.key_file)),
            *("--workers", "1", "--drain-s", "0"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - our own command
        with ExitStack() as otherwise:
            otherwise.callback(self._stop)
            self._wait_until_ready(self._process)
            otherwise.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - any JSON value
        """Send a request and return the decoded JSON response."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            with WebClient(self.url, _REQUEST_S, self._trust) as client:
                encoded = None if body is None else json.dumps(body).encode()
                return json.loads(client.ask(method, path, encoded, sent).content)
        except (UnansweredError, ValueError) as error:
            raise DemoError(f"{self.name} did not respond to {method} {path}: {error}{self._tail()}") from None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            if process.poll() is not None:
                raise DemoError(f"{self.name} exited with {process.returncode}{self._tail()}")
            if self._ready():
                return
            time.sleep(0.05)
        raise DemoError(f"{self.name} was not ready within {_START_S:.0f} s{self._tail()}")

    def _ready(self) -> bool:
        try:
            with WebClient(f"http://{HOST}:{self.probe_port}", 1.0) as client:
                return client.ask("GET", "/readyz").status == HTTPStatus.OK
        except UnansweredError:
            return False

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if self._log.exists() else []
        return f"; its log ends with: {' | '.join(lines)}" if lines else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
