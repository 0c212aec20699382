"""HTTP/1.1 over one connection: what an API server may answer, and what it should not."""

import socket
from collections.abc import Iterator

import pytest

from berthmaster.kube.link import Link
from berthmaster.model.errors import ApiError

ASK = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    link = Link(ours)
    yield link, theirs
    link.close()
    theirs.close()


def body(reading) -> bytes:
    return b"".join(reading.chunks())


@pytest.mark.parametrize(
    ("answer", "content", "reusable"),
    [
        pytest.param(OK, b"hi", True, id="a length says where it ends"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True, id="nothing in it"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n",
            b"hi",
            True,
            id="chunks",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", b"hi", False, id="the last answer"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", False, id="an old protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhi", b"hi", False, id="the end of the connection says where it ends"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"hi", True, id="another answer goes before"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, id="a status that has no body"),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 65536], ids=["byte by byte", "in pieces", "at once"])
def test_an_answer_is_read_to_its_end_however_it_arrives(ends, answer, content, reusable, piece):
    link, server = ends
    for start in range(0, len(answer), piece):
        server.send(answer[start : start + piece])
    if b"Content-Length" not in answer and b"chunked" not in answer:
        server.shutdown(socket.SHUT_WR)
    reading = link.ask(ASK, 1.0)
    assert body(reading) == content
    assert (reading.whole, reading.reusable) == (True, reusable)
    assert server.recv(4096) == ASK


def test_headers_are_found_whatever_their_case_and_however_many(ends):
    link, server = ends
    server.send(b"HTTP/1.1 429 Too Many Requests\r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n")
    reading = link.ask(ASK, 1.0)
    assert (reading.status, reading.reason) == (429, "Too Many Requests")
    assert (reading.header("WARNING"), reading.header("absent")) == (["a", "b"], [])


def test_several_requests_follow_each_other(ends):
    link, server = ends
    for _ in range(3):
        server.send(OK)
        assert body(link.ask(ASK, 1.0)) == b"hi"
        link.rest()


def test_a_part_is_told_as_soon_as_it_comes(ends):
    link, server = ends
    server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
    chunks = link.ask(ASK, 1.0).chunks()
    assert next(chunks) == b"one"
    server.send(b"3\r\ntwo\r\n")
    assert next(chunks) == b"two"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"", "the server hung up before it answered", id="nothing at all"),
        pytest.param(b"HTTP/1.1 200 OK\r\nConte", "the server hung up before it answered", id="half a head"),
        pytest.param(OK[:-1], "the server hung up in the middle of its answer", id="half a body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi",
            "the server hung up in the middle of its answer",
            id="half a chunk",
        ),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "the server does not speak HTTP", id="another protocol"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
            "the server does not speak HTTP",
            id="a length that is no number",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
            "the head of the answer is longer than 65536",
            id="no end of a head",
        ),
        pytest.param(OK + OK, "the server does not speak HTTP", id="more than was asked for"),
    ],
)
def test_what_is_no_whole_answer_is_an_error(ends, answer, problem):
    link, server = ends
    server.send(answer)
    server.shutdown(socket.SHUT_WR)
    with pytest.raises(ApiError, match=problem):
        body(link.ask(ASK, 1.0))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="before its answer"),
        pytest.param(OK[:-1], id="in the middle of it"),
    ],
)
def test_a_silent_server_is_given_up(ends, answer):
    link, server = ends
    server.send(answer)
    with pytest.raises(ApiError, match="the server was silent for too long"):
        body(link.ask(ASK, 0.05))


def test_another_thread_ends_the_wait(ends):
    link, server = ends
    server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    reading = link.ask(ASK, 10.0)
    link.interrupt()
    with pytest.raises(ApiError, match="hung up"):
        body(reading)
    link.interrupt()  # once more does no harm


@pytest.mark.parametrize(
    ("said", "hung_up", "usable"),
    [
        pytest.param(b"", False, True, id="a server that waits"),
        pytest.param(b"", True, False, id="a server that has hung up"),
        pytest.param(b"HTTP/1.1 408 Request Timeout\r\n\r\n", False, False, id="a server that says what nobody asked"),
    ],
)
def test_after_a_while_somebody_looks_whether_the_server_is_still_there(ends, said, hung_up, usable):
    link, server = ends  # it has never been answered, so that this is long ago
    server.send(said)
    if hung_up:
        server.shutdown(socket.SHUT_WR)
    assert link.usable is usable
