"""HTTP/1.1 over one connection: valid and invalid responses."""

import socket
from collections.abc import Iterator

import pytest
from http_peer import OK, http_response
from tables import cases

from berthmaster.kube.http1 import HTTP1Connection
from berthmaster.model.errors import ApiError

ASK = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.fixture
def ends() -> Iterator[tuple[HTTP1Connection, socket.socket]]:
    ours, theirs = socket.socketpair()
    connection = HTTP1Connection(ours)
    yield connection, theirs
    connection.close()
    theirs.close()


def body(response) -> bytes:
    return b"".join(response.chunks())


@cases(
    ("answer", "content", "reusable"),
    {
        "with a length": (OK, b"hi", True),
        "empty": (http_response("200 OK"), b"", True),
        "chunked": (http_response("200 OK", CHUNKED, body=b"1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n"), b"hi", True),
        "the last response": (
            http_response("200 OK", "Content-Length: 2", "Connection: close", body=b"hi"),
            b"hi",
            False,
        ),
        "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", False),
        "until the end of the connection": (b"HTTP/1.1 200 OK\r\n\r\nhi", b"hi", False),
        "after an informational response": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"hi", True),
        "a status without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    },
)
@cases("piece", {"byte by byte": 1, "in pieces": 7, "at once": 65536})
def test_a_response_is_read_completely(ends, answer, content, reusable, piece):
    connection, server = ends
    for start in range(0, len(answer), piece):
        server.send(answer[start : start + piece])
    if b"Content-Length" not in answer and b"chunked" not in answer:
        server.shutdown(socket.SHUT_WR)
    response = connection.ask(ASK, 1.0)
    assert body(response) == content
    assert (response.complete, response.reusable) == (True, reusable)
    assert server.recv(4096) == ASK


def test_headers_are_case_insensitive_and_may_repeat(ends):
    connection, server = ends
    server.send(b"HTTP/1.1 429 Too Many Requests\r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n")
    response = connection.ask(ASK, 1.0)
    assert (response.status, response.reason) == (429, "Too Many Requests")
    assert (response.header("WARNING"), response.header("absent")) == (["a", "b"], [])


def test_several_requests_in_a_row(ends):
    connection, server = ends
    for _ in range(3):
        server.send(OK)
        assert body(connection.ask(ASK, 1.0)) == b"hi"
        connection.mark_idle()


def test_a_chunk_is_yielded_as_soon_as_it_arrives(ends):
    connection, server = ends
    server.send(http_response("200 OK", CHUNKED, body=b"3\r\none\r\n"))
    chunks = connection.ask(ASK, 1.0).chunks()
    assert next(chunks) == b"one"
    server.send(b"3\r\ntwo\r\n")
    assert next(chunks) == b"two"


@cases(
    ("answer", "problem"),
    {
        "nothing": (b"", "the server closed the connection before it responded"),
        "half a head": (b"HTTP/1.1 200 OK\r\nConte", "the server closed the connection before it responded"),
        "half a body": (OK[:-1], "the server closed the connection in the middle of the response"),
        "half a chunk": (http_response("200 OK", CHUNKED, body=b"5\r\nhi"), "in the middle of the response"),
        "another protocol": (b"SSH-2.0-OpenSSH\r\n\r\n", "the server does not speak HTTP"),
        "an invalid length": (
            http_response("200 OK", CHUNKED, body=b"many\r\n"),
            "the server does not speak HTTP",
        ),
        "a long head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "the head of the response is larger than 65536"),
        "two responses": (OK + OK, "the server does not speak HTTP"),
    },
)
def test_an_incomplete_or_invalid_response_is_an_error(ends, answer, problem):
    connection, server = ends
    server.send(answer)
    server.shutdown(socket.SHUT_WR)
    with pytest.raises(ApiError, match=problem):
        body(connection.ask(ASK, 1.0))


@cases("answer", {"before the response": b"", "in the middle of the response": OK[:-1]})
def test_a_silent_server_times_out(ends, answer):
    connection, server = ends
    server.send(answer)
    with pytest.raises(ApiError, match="the server sent nothing before the read timeout"):
        body(connection.ask(ASK, 0.05))


def test_another_thread_can_end_a_read(ends):
    connection, server = ends
    server.send(http_response("200 OK", CHUNKED))
    response = connection.ask(ASK, 10.0)
    connection.shutdown()
    with pytest.raises(ApiError, match="closed the connection"):
        body(response)
    connection.shutdown()  # a second call does nothing


@cases(
    ("sent", "closed", "usable"),
    {
        "a waiting server": (b"", False, True),
        "a closed connection": (b"", True, False),
        "an unexpected response": (b"HTTP/1.1 408 Request Timeout\r\n\r\n", False, False),
    },
)
def test_an_idle_connection_is_checked_after_some_time(ends, sent, closed, usable):
    connection, server = ends  # without a response so far, so it is checked at once
    server.send(sent)
    if closed:
        server.shutdown(socket.SHUT_WR)
    assert connection.usable is usable
