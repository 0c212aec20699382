"""Clients that misbehave: the companions of a well-behaved client in ``make soak`` and ``make bench-hostile``.

As a program, ``companions.py NAME SERVER FILE`` runs one of them until its standard input ends. A process of its own
shares no interpreter with the client that measures. FILE holds the requests that it sends.
"""

import random
import resource
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from served import Server, post

_LARGE_BODY = 100_000
_SMALL = b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
_RESET = b"\x01\0\0\0\0\0\0\0"
_DESCRIPTORS = 8192


class Target:
    """What a companion attacks.

    Attributes:
        server: the service.
        requests: valid requests.
        stopped: is set when the companion must end.
    """

    def __init__(self, server: Server, requests: Sequence[bytes]) -> None:
        self.server = server
        self.requests = requests
        self.stopped = threading.Event()

    @property
    def request(self) -> bytes:
        """One of the requests."""
        return random.choice(self.requests)

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return self.server.connect(10)

    def pause(self, seconds: float) -> None:
        """Wait, unless the companion must end."""
        self.stopped.wait(seconds)


def drop(target: Target) -> None:
    """Open a connection and drop it: with or without bytes, with or without a TCP reset."""
    with target.connect() as client:
        if random.random() < 0.5:
            client.sendall(target.request[: random.randrange(len(target.request))])
        if random.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    target.pause(0.005)


def send_half(target: Target) -> None:
    """Send an incomplete body and wait for the answer."""
    with target.connect() as client:
        client.sendall(target.request[:-20])
        while client.recv(65536):
            pass


def send_slowly(target: Target) -> None:
    """Send one byte at a time until the server closes the connection."""
    with target.connect() as client:
        for at in range(len(target.request)):
            client.sendall(target.request[at : at + 1])
            target.pause(0.05)


def declare_too_much(target: Target) -> None:
    """Declare a body far over the limit."""
    path = target.request.split(b" ", 2)[1]
    with target.connect() as client:
        client.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n")
        client.sendall(b"Content-Type: application/json\r\n\r\n" + b" " * 65536)
        while client.recv(65536):
            pass
    target.pause(0.02)


def send_nonsense(target: Target) -> None:
    """Send a malformed request."""
    path = target.request.split(b" ", 2)[1].decode()
    with target.connect() as client:
        client.sendall(post(path, random.randbytes(2000)))
        client.recv(65536)
    target.pause(0.02)


def pipeline(target: Target) -> None:
    """Send small requests without waiting for answers, as fast as the server reads them."""
    batch = _SMALL * 500
    with target.connect() as client:
        client.settimeout(2)
        while not target.stopped.is_set():
            client.sendall(batch)
            client.settimeout(0)
            with suppress(BlockingIOError, ssl.SSLWantReadError):
                while client.recv(4096):
                    pass
            client.settimeout(2)


def never_read(target: Target) -> None:
    """Send requests and never read an answer."""
    with target.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(5)
        with suppress(OSError):
            for _ in range(2000):
                client.sendall(target.request)
        target.pause(5)


def ask_without_pause(target: Target) -> None:
    """Send whole requests, one after the other, and read the answers."""
    with target.connect() as client:
        while not target.stopped.is_set():
            client.sendall(target.request)
            if b"\r\n\r\n" not in client.recv(1 << 20):
                return
            client.settimeout(0.2)
            with suppress(TimeoutError):
                while client.recv(1 << 20):
                    pass
            client.settimeout(120)


def hold(target: Target, count: int, open_one: Callable[[], socket.socket], piece: bytes = b"") -> None:
    """Hold connections open, and send a piece over each about once a second."""
    held: list[socket.socket] = []
    while not target.stopped.is_set():
        while len(held) < count and not target.stopped.is_set():
            try:
                held.append(open_one())
            except OSError:
                target.pause(0.05)
                break
        begun = time.monotonic()
        for client in list(held):
            try:
                client.sendall(piece)
            except OSError:
                client.close()
                held.remove(client)
            if target.stopped.is_set():
                break
        target.pause(max(0.05, 1 - (time.monotonic() - begun)))
    for client in held:
        client.close()


def stay_silent(target: Target) -> None:
    """Hold 500 connections and send nothing."""
    hold(target, 500, target.connect)


def fill_connections(target: Target) -> None:
    """Hold more connections than the service accepts."""
    hold(target, 2500, target.connect)


def dribble_large_bodies(target: Target) -> None:
    """Send 200 large bodies, a few bytes a second each."""
    path = target.request.split(b" ", 2)[1].decode()
    head = post(path, b" " * _LARGE_BODY)[:-_LARGE_BODY]

    def open_one() -> socket.socket:
        client = target.connect()
        client.sendall(head + b" " * 20_000)
        return client

    hold(target, 200, open_one, b"    ")


def occupy_plain_port(target: Target) -> None:
    """Hold 2,500 connections to the plain port, and send each request byte by byte."""

    def open_one() -> socket.socket:
        client = socket.create_connection(("127.0.0.1", target.server.probe_port), timeout=5)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        return client

    hold(target, 2500, open_one, b"x")


def ask_plain_port(target: Target) -> None:
    """Ask the plain port for metrics without pause."""
    with socket.create_connection(("127.0.0.1", target.server.probe_port), timeout=10) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while client.recv(1 << 20):
            pass


class Companion(NamedTuple):
    """One kind of misbehaving client.

    Attributes:
        misbehave: one round of it; it is repeated until the end.
        clients: how many run at the same time.
    """

    misbehave: Callable[[Target], None]
    clients: int = 1


COMPANIONS: Mapping[str, Companion] = {
    "connections that are dropped": Companion(drop, 2),
    "incomplete bodies": Companion(send_half, 30),
    "slow clients": Companion(send_slowly, 30),
    "bodies over the limit": Companion(declare_too_much, 2),
    "malformed requests": Companion(send_nonsense, 2),
    "pipelined requests": Companion(pipeline, 50),
    "clients that do not read": Companion(never_read, 200),
    "large bodies that dribble": Companion(dribble_large_bodies),
    "silent connections": Companion(stay_silent),
    "more connections than the limit": Companion(fill_connections),
    "2,500 slow clients of the plain port": Companion(occupy_plain_port),
    "metrics without pause": Companion(ask_plain_port, 8),
}
WORST = Companion(ask_without_pause, 8)
"""Eight clients that send requests without pause."""


def run(companion: Companion, target: Target) -> None:
    """Run a companion until its target is stopped."""

    def repeat() -> None:
        while not target.stopped.is_set():
            with suppress(OSError):
                companion.misbehave(target)

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(companion.clients)]
    for thread in threads:
        thread.start()
    target.stopped.wait()


def main() -> None:
    """Run one companion until standard input ends."""
    name, server, requests = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_DESCRIPTORS, most), most))
    found = msgspec.json.decode(Path(requests).read_bytes(), type=list[bytes])
    target = Target(Server(*msgspec.json.decode(server, type=tuple[int, int, int, bool])), found)
    threading.Thread(target=run, args=(COMPANIONS.get(name, WORST), target), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
