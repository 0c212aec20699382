"""Probes, and the server that answers them."""

import errno
import http.client
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from tables import cases

from berthmaster.model.errors import InputError
from berthmaster.serving import probe_server
from berthmaster.serving.probe_server import (
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    RESERVED_DESCRIPTORS,
    ProbeServer,
    serving_probes,
)
from berthmaster.serving.probes import METRICS_KEPT_S, ProbeResponder, Probes, Readiness

_PATIENCE_S = 30.0
_LARGE = b"x" * 2**22


@pytest.fixture
def server() -> Iterator[ProbeServer]:
    with serving_probes("127.0.0.1", 0, Probes(Readiness, lambda: ("text/plain", _LARGE))) as server:
        yield server


def connect(server: ProbeServer, source: str = "127.0.0.1") -> socket.socket:
    address = ("127.0.0.1", server.port)
    return socket.create_connection(address, timeout=_PATIENCE_S, source_address=(source, 0))


def read_all(client: socket.socket) -> bytes:
    pieces = []
    while piece := client.recv(2**16):
        pieces.append(piece)
    return b"".join(pieces)


def ask(server: ProbeServer, request: bytes, source: str = "127.0.0.1") -> bytes:
    with connect(server, source) as client:
        client.sendall(request)
        return read_all(client)


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_an_http_client_understands_the_answer(server):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE_S)) as client:
        client.request("GET", "/readyz")
        response = client.getresponse()
        assert (response.status, response.read(), response.getheader("Connection")) == (200, b"ok\n", "close")


def test_a_request_may_arrive_in_pieces(server):
    with connect(server) as client:
        for piece in (b"GET /li", b"vez HTTP/1.1\r\nHo", b"st: x\r\n\r", b"\n"):
            client.sendall(piece)
        assert read_all(client).endswith(b"\r\n\r\nok\n")


def test_a_large_answer_arrives_complete(server):
    answer = ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert answer.partition(b"\r\n\r\n")[2] == _LARGE


@cases(
    ("request_bytes", "expected"),
    {
        "a head without an end": (b"GET /" + b"x" * MAX_HEAD_BYTES + b"x" * 4096, 431),
        "bytes after the request": (b"GET /livez HTTP/1.1\r\n\r\n" + b"x" * 30_000, 200),
    },
)
def test_more_bytes_than_a_request_has_do_not_cut_off_the_answer(server, request_bytes, expected):
    assert status(ask(server, request_bytes)) == expected


def test_2500_slow_clients_use_one_thread_and_probes_are_answered(server):
    before = set(threading.enumerate())
    with ExitStack() as slow:
        clients = []
        for number in range(2500):
            client = slow.enter_context(connect(server))
            client.sendall(b"GET /livez HTTP/1.1\r\n")
            clients.append(client)
            if number > 900:  # this process has descriptors for both ends of a limited number of connections
                clients.pop(0).close()
        for path in (b"/livez", b"/readyz", b"/metrics"):
            assert status(ask(server, b"GET " + path + b" HTTP/1.1\r\n\r\n")) == 200
        assert is_closed(clients[0]), "the oldest connections make place for new ones"
        assert set(threading.enumerate()) <= before
        assert len(server._clients) <= MAX_CONNECTIONS  # noqa: SLF001 - descriptors of the server


def test_clients_that_do_not_read_do_not_hold_up_others(server):
    with ExitStack() as slow:
        for _ in range(50):
            slow.enter_context(connect(server)).sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert status(ask(server, b"GET /livez HTTP/1.1\r\n\r\n")) == 200


def test_the_address_with_the_most_connections_loses_one(server):
    with ExitStack() as open_clients:
        kubelet = open_clients.enter_context(connect(server, "127.0.0.2"))
        kubelet.sendall(b"GET /livez")
        crowd = [open_clients.enter_context(connect(server)) for _ in range(MAX_CONNECTIONS + 1)]
        assert is_closed(crowd[0])
        kubelet.sendall(b" HTTP/1.1\r\n\r\n")
        assert status(read_all(kubelet)) == 200


def test_the_time_limit_is_for_the_whole_exchange(monkeypatch):
    monkeypatch.setattr(probe_server, "EXCHANGE_S", 0.2)
    with serving_probes("127.0.0.1", 0, Probes(Readiness, lambda: ("", b""))) as server, connect(server) as client:
        client.settimeout(0.02)
        for _ in range(int(_PATIENCE_S / 0.02)):
            try:
                client.sendall(b"x")
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("bytes now and then keep the connection open")


def test_a_port_that_is_in_use_is_refused(server):
    with pytest.raises(InputError, match=re.escape(f"cannot serve probes on 127.0.0.1:{server.port}: ")):
        ProbeServer("127.0.0.1", server.port, Probes(Readiness, lambda: ("", b"")))


_AT_THE_LIMIT = """
import os, resource, socket, sys
from berthmaster.serving.probe_server import serving_probes
from berthmaster.serving.probes import Probes, Readiness

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with serving_probes("127.0.0.1", 0, Probes(Readiness, lambda: ("text/plain", b"metric 1"))) as server:
    with socket.create_connection(("127.0.0.1", server.port)) as first:  # the thread serves
        first.sendall(b"GET /livez HTTP/1.1\\r\\n\\r\\n")
        first.recv(1)
    taken = []
    while True:
        try:
            taken.append(os.dup(0))
        except OSError:
            break
    print(server.port, flush=True)
    sys.stdin.readline()
    for each in taken:
        os.close(each)
"""


def test_probes_are_answered_at_the_limit_of_descriptors():
    command = [sys.executable, "-c", _AT_THE_LIMIT]
    with (
        subprocess.Popen(  # noqa: S603 - this interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        ExitStack() as slow,
    ):
        address = ("127.0.0.1", int(process.stdout.readline()))
        for _ in range(3):
            for _ in range(20):
                slow.enter_context(socket.create_connection(address, timeout=_PATIENCE_S)).sendall(b"GET /")
            with socket.create_connection(address, timeout=_PATIENCE_S) as kubelet:
                kubelet.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
                assert status(read_all(kubelet)) == 200
        process.communicate("stop\n", timeout=_PATIENCE_S)
    assert process.returncode == 0


class FullListener:
    """A port with a client that cannot be accepted, because there are no descriptors."""

    def __init__(self, listener: socket.socket):
        self._listener = listener
        self.attempts = 0

    def fileno(self) -> int:
        return self._listener.fileno()

    def accept(self) -> None:
        self.attempts += 1
        raise OSError(errno.EMFILE, "too many open files")

    def close(self) -> None:
        self._listener.close()


def test_without_any_descriptor_the_thread_waits_instead_of_spinning(monkeypatch):
    server = ProbeServer("127.0.0.1", 0, Probes(Readiness, lambda: ("", b"")))
    full = FullListener(server._listener)  # noqa: SLF001 - descriptors of the server
    monkeypatch.setattr(server, "_listener", full)
    attempts = []

    def stopped() -> bool:
        attempts.append(full.attempts)
        return len(attempts) == 7

    with closing(server), connect(server):
        server.serve(stopped)
    tries = RESERVED_DESCRIPTORS + 1
    assert attempts[0] == 0
    assert tries <= attempts[1] <= tries + 1
    assert attempts[1] < attempts[-1] <= tries + len(attempts), "it tries again after a pause"


class Service:
    """A service with a state that a test sets. It counts how often its metrics are rendered."""

    def __init__(self):
        self.state = Readiness()
        self.reason = ""
        self.rendered = 0

    def metrics(self) -> tuple[str, bytes]:
        self.rendered += 1
        return "text/plain", f"metric {self.rendered}\n".encode()

    @property
    def probes(self) -> Probes:
        return Probes(lambda: self.state, self.metrics, lambda: self.reason)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def responder(service, clock) -> ProbeResponder:
    return ProbeResponder(service.probes, clock)


def ask_of_probes(responder: ProbeResponder, head: str) -> tuple[int, str]:
    head, body = responder.answer(head.encode())
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert head.endswith(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def get(responder: ProbeResponder, path: str) -> tuple[int, str]:
    return ask_of_probes(responder, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")


@cases(
    ("readiness", "dead", "path", "answer"),
    {
        "alive": (Readiness(), "", "/livez", (200, "ok\n")),
        "not alive": (Readiness(), "stuck", "/livez", (503, "stuck\n")),
        "alive but not ready": (Readiness("x"), "", "/livez", (200, "ok\n")),
        "ready": (Readiness(), "", "/readyz", (200, "ok\n")),
        "ready, with a note": (Readiness("", "stale"), "", "/readyz/", (200, "ok\nstale\n")),
        "not ready": (Readiness("not synced"), "", "/readyz?verbose", (503, "not synced\n")),
        "a reason that is not valid UTF-8": (Readiness("\udcff"), "", "/readyz", (503, "?\n")),
        "metrics": (Readiness(), "", "/metrics", (200, "metric 1\n")),
        "an unknown path": (Readiness(), "", "/other", (404, "the paths are /livez, /readyz and /metrics\n")),
    },
)
def test_answers(responder, service, readiness, dead, path, answer):
    service.state, service.reason = readiness, dead
    assert get(responder, path) == answer


@cases(
    ("head", "status"),
    {
        "HTTP/1.0 with bare newlines": ("GET /livez HTTP/1.0\n\n", 200),
        "no version": ("GET /livez\r\n\r\n", 400),
        "an empty request line": ("\r\n\r\n", 400),
        "TLS": ("\x16\x03\x01\x02\n\n", 400),
        "HTTP/2": ("PRI * HTTP/2.0\r\n\r\n", 400),
        "another method": ("POST /livez HTTP/1.1\r\n\r\n", 405),
    },
)
def test_requests_that_are_not_a_plain_get(responder, head, status):
    assert ask_of_probes(responder, head)[0] == status


def test_head_has_no_body(responder):
    head, body = responder.answer(b"HEAD /readyz HTTP/1.1\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 3\r\n" in head
    assert not body


def test_metrics_are_rendered_at_most_once_a_second(responder, service, clock):
    for _ in range(100):
        assert get(responder, "/metrics") == (200, "metric 1\n")
        clock.pass_by(METRICS_KEPT_S / 101)
    clock.pass_by(METRICS_KEPT_S / 50)
    assert get(responder, "/metrics") == (200, "metric 2\n")
    assert service.rendered == 2


def test_a_crash_is_logged_and_other_probes_are_answered(responder, service, monkeypatch, caplog):
    monkeypatch.setattr(service, "state", None)
    assert get(responder, "/readyz") == (500, "an internal error; the log has the reason\n")
    assert caplog.records[0].exc_info is not None
    assert get(responder, "/livez") == (200, "ok\n")
