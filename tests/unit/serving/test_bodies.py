"""Requests do not depend on how they arrive, and bodies are read within limits."""

import io
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.serving.bodies import BodyError, has_gone, read_body
from berthmaster.serving.request_parser import BodyCollection, RequestParser

PARTS = st.sampled_from([
    b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n", b"x", b"POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345",
    b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\nA: b\r\nA: c\r\n\r\n2\r\nab\r\n0\r\nT: t\r\n\r\n",
    b"POST /c HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"POST /e HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
])  # fmt: skip


def parsed(pieces):
    """Return what a connection would answer: requests up to the first that ends it, and why nothing follows."""
    parser, found, rest = RequestParser(BodyCollection(100)), [], b""
    for piece in pieces:
        rest += piece
        while rest and parser.problem is None:
            rest = parser.feed(rest)
            while parser.requests and parser.requests[0].complete:
                found.append(parser.requests.popleft())
                if not found[-1].keep:
                    return summary(found), None
    return summary(found), parser.problem and parser.problem.status


def summary(requests):
    return [(each.method, each.path, each.query, each.fields, bytes(each.body), each.refusal) for each in requests]


@given(st.lists(PARTS, max_size=4).map(b"".join), st.lists(st.integers(1, 300), max_size=6))
def test_the_requests_of_a_connection_do_not_depend_on_how_they_arrive(data, cuts):
    at, pieces = 0, []
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    assert parsed(filter(None, (*pieces, data[at:]))) == parsed([data])


@cases(
    ("body", "declared", "status"),
    {
        "a body at the limit": (b"x" * 10, "10", None),
        "a declared length over the limit": (b"x" * 11, "11", 413),
        "a body over the limit without a length": (b"x" * 11, "", 413),
        "a body shorter than declared": (b"x" * 5, "10", 400),
        "a length that is not a number": (b"", "ten", 400),
        "a length that is too large for any body": (b"", "9" * 30, 400),
    },
)
def test_a_whole_body_is_read_within_its_limit(body, declared, status):
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": declared}
    if status is None:
        assert read_body(environ, 10) == body
        return
    with pytest.raises(BodyError) as refused:
        read_body(environ, 10)
    assert refused.value.status == status


def test_a_client_that_closes_its_connection_has_gone():
    client, server = socket.socketpair()
    with client, server:
        environ = {"gunicorn.socket": server}
        client.sendall(b"GET /second HTTP/1.1")
        assert not has_gone(environ)
        client.close()
        assert has_gone(environ), "although its bytes are not read"
        server.close()
        assert has_gone(environ)
    assert not has_gone({}), "another server"
