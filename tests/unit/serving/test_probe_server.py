"""The plain port with clients that are slow, or many."""

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
from fake_clock import FakeClock

from berthmaster.model.errors import InputError
from berthmaster.serving import probe_server
from berthmaster.serving.probe_server import (
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    RESERVED_DESCRIPTORS,
    ProbeServer,
    serving_probes,
)
from berthmaster.serving.probes import Probes, Readiness

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


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        pytest.param(b"GET /" + b"x" * MAX_HEAD_BYTES + b"x" * 4096, 431, id="a head without an end"),
        pytest.param(b"GET /livez HTTP/1.1\r\n\r\n" + b"x" * 30_000, 200, id="bytes after the request"),
    ],
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
import os, resource, sys, time
from berthmaster.serving.probe_server import serving_probes
from berthmaster.serving.probes import Probes, Readiness

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with serving_probes("127.0.0.1", 0, Probes(Readiness, lambda: ("text/plain", b"metric 1"))) as server:
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
    clock = FakeClock()
    server = ProbeServer("127.0.0.1", 0, Probes(Readiness, lambda: ("", b"")), clock)
    full = FullListener(server._listener)  # noqa: SLF001 - descriptors of the server
    monkeypatch.setattr(server, "_listener", full)
    attempts = []

    def stopped() -> bool:
        attempts.append(full.attempts)
        if len(attempts) == 4:
            clock.pass_by(1.0)
        return len(attempts) == 7

    with closing(server), connect(server):
        server.serve(stopped)
    tries = RESERVED_DESCRIPTORS + 1
    assert attempts == [0, tries, tries, tries, tries, tries + 1, tries + 1], "it tries again after a pause"
