"""The worker finds the same requests in a connection as gunicorn's own parser, and answers each client's own.

Each shape is a first request on which servers may disagree, and a second one behind it. A server that finds another
end of the first request gives another number of answers, or other ones. ``tests/described_requests.py`` runs on both.
"""

import re
import socket
import sys
import threading
from itertools import product

import msgspec
import pytest
from conftest import ROOT
from free_ports import free_port
from servers import Wire, request, running, started

from extender.protocols.native import examples

SECOND = b"POST /described HTTP/1.1\r\nHost: second\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n["
LINE = "POST /described HTTP/1.1"
LENGTHS = (
    (), ("Content-Length: 2",), ("Content-Length: 02",), ("Content-Length: +2",), ("Content-Length: 2, 2",),
    ("Content-Length: 2", "Content-Length: 2"), ("Content-Length: 2", "Content-Length: 9"), ("Content-Length: 0x2",),
    ("Content-Length:\t2 ",), ("Content-Length : 2",), ("Content_Length: 2",), ("Content-Length: -1",),
    ("content-length: 2", "Connection: Keep-Alive"), ("Content-Length: 2", "Connection: close"),
)  # fmt: skip
CODINGS = (
    (), ("Transfer-Encoding: chunked",), ("Transfer-Encoding: Chunked",), ("Transfer-Encoding: xchunked",),
    ("Transfer-Encoding : chunked",), ("Transfer-Encoding: chunked, identity",), ("Transfer-Encoding: identity",),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), (" Transfer-Encoding: chunked",),
    ("Transfer_Encoding: chunked",), ("Transfer-Encoding:\x0bchunked",),
)  # fmt: skip
CHUNKS = (
    b"2\r\n{}\r\n0\r\n\r\n", b"2;a=b\r\n{}\r\n0\r\n\r\n", b"02\r\n{}\r\n0\r\nA: b\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n",
    b"2\n{}\n0\n\n", b"2 \r\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n",
    b"2;\n\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n", b"2\r\n{}\r\n\r\n0\r\n\r\n", b"fffffffffffffffff2\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\n",
)  # fmt: skip
HEADS = (
    (LINE, "Host: x", "X: a\rb"), (LINE, "Host: x\x00"), (LINE, "Host: x", "Host: y"), (LINE, "Host: x", " folded"),
    (f"{LINE} ", "Host: x"), ("POST  /described HTTP/1.1", "Host: x"), ("POST /described HTTP/1.0", "Host: x"),
    ("POST /described HTTP/0.9", "Host: x"), ("POST /described", "Host: x"),
    ("post /described HTTP/1.1", "Host: x"),
    ("POST http://y/described HTTP/1.1", "Host: x"), ("POST //described HTTP/1.1", "Host: x"),
    ("POST /descri%62ed HTTP/1.1", "Host: x"), ("GET /openapi.json HTTP/1.1", "Content-Length: 2"), ("\r\n" + LINE,),
    (LINE, "Expect: 100-continue", "Content-Length: 2"), (LINE, "Expect: 200-ok", "Content-Length: 2"),
    (LINE, "SCRIPT_NAME: /x"), (LINE, "X-Forwarded-Proto: http"), (LINE, "Connection: upgrade", "Upgrade: h2c"),
    (LINE + "\n", "Host: x"), (LINE, "X: " + "y" * 8186), (LINE, "X: " + "y" * 8188), (LINE, *("X: y",) * 65),
    *((f"POST /described?explain=true&explain={'y' * length} HTTP/1.1", "X: y") for length in (4046, 4047)),
)  # fmt: skip


def head(line, *fields):
    return "\r\n".join((line, "Content-Type: application/json", *fields, "", "")).encode("latin-1")


OWN = {
    # Nothing in these requests says where they end but the end of the head. gunicorn's parser refuses the first one,
    # and reads the second one until the client says no more.
    "two spaces": head("POST  /described HTTP/1.1", "Host: x"),
    "an old version without a length": head("POST /described HTTP/1.0", "Host: x"),
}
_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+\r\n|(<<.*?>>)", re.DOTALL)
"""The status of an answer, or what it says about its request."""


def shapes():
    for length, coding in product(LENGTHS, CODINGS):
        body = b"2\r\n{}\r\n0\r\n\r\n" if coding else b"{}"
        yield head(LINE, "Host: x", *length, *coding) + body
    for chunks in CHUNKS:
        yield head(LINE, "Host: x", "Transfer-Encoding: chunked") + chunks
    for lines in HEADS:
        yield head(*lines) + (b"{}" if "Content-Length: 2" in lines else b"")


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """The ports of Berthmaster's server and of gunicorn's."""
    folder, ours, probes, theirs = tmp_path_factory.mktemp("described"), free_port(), free_port(), free_port()
    program = [sys.executable, str(ROOT / "tests" / "described_requests.py")]
    with (
        started([*program, "OURS", str(ours), str(probes)], ours, probes, log=folder / "ours"),
        started([*program, "GUNICORN", str(theirs)], theirs, theirs, log=folder / "gunicorn"),
    ):
        yield ours, theirs


def answered(port, data):
    """Return the statuses of all answers, and the requests that they describe. The client sends all, then no more."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while piece := client.recv(65536):
                received += piece
        except ConnectionResetError:
            pass  # a server may close the connection before it has read everything
    # A head may have two faults, and a server names the first that it finds: a length, or an unknown coding.
    statuses = {b"501": b"400"}
    found = (status or request for status, request in _STATUS_LINE.findall(received))
    return [statuses.get(each, each) for each in found if each != b"100"]


def test_our_parser_and_gunicorns_find_the_same_requests_in_every_shape(ports):
    ours, theirs = ports
    different, described = {}, 0
    for shape in dict.fromkeys(each for each in shapes() if each not in OWN.values()):
        got, wanted = answered(ours, shape + SECOND), answered(theirs, shape + SECOND)
        if got != wanted:
            different[shape[:300]] = (got, wanted)
        described += sum(each.startswith(b"<<") for each in got)
    assert different == {}
    assert described > 50


CONNECTIONS = 12
ROUNDS = 10
CHEAP = msgspec.json.encode(examples.SCHEDULE)
OWN_FLEET = msgspec.json.encode(examples.SCHEDULE_OWN_FLEET)


def requests_of(name):
    """Return pipelined requests: one for the polling thread, one for the pool, one in chunks."""
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHEAP), CHEAP)
    return (
        request("POST", "/v1/schedule", CHEAP, X_Request_Id=f"{name}-cheap")
        + request("POST", "/v1/schedule", OWN_FLEET, X_Request_Id=f"{name}-pool")
        + request("POST", "/v1/schedule", chunked, X_Request_Id=f"{name}-chunked", Transfer_Encoding="chunked")
    )  # fmt: skip


@pytest.fixture(scope="module")
def extender(tmp_path_factory):
    options = ("--workers", 1, "--request-timeout-s", 60, "--threads", 4, "--log-level", "error")
    with running("extender", *options, log=tmp_path_factory.mktemp("extender") / "log") as server:
        yield server


def test_every_answer_goes_to_its_client_in_order(extender):
    wrong: list[object] = []

    def ask(number):
        with Wire(extender.port, timeout_s=60) as wire:
            for turn in range(ROUNDS):
                name = f"client{number}-{turn}"
                wire.send(requests_of(name))
                for kind in ("cheap", "pool", "chunked"):
                    answer = wire.answer()
                    if answer.headers["x-request-id"] != f"{name}-{kind}":
                        wrong.append((name, kind, answer))

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(CONNECTIONS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert wrong == []
