"""Responses of API servers: valid and invalid ones, in any pieces."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from http_peer import OK, http_response
from tables import cases

from berthmaster.kube.connection_settings import ConnectionSettings
from berthmaster.kube.http_client import HTTPClient
from berthmaster.kube.requests import Collection, get
from berthmaster.model.errors import ApiError

READ = get(Collection.of("example.io/v1", "things"), ("shop", "web"))
CHUNKED = "Transfer-Encoding: chunked"
LIMIT_S = 10.0


class Server:
    """An API server whose answers a test sends by hand."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(LIMIT_S)
        self.client = HTTPClient(ConnectionSettings(f"http://127.0.0.1:{self._listener.getsockname()[1]}"))
        self._open: list[socket.socket] = []
        self._forgotten: list[socket.socket] = []

    def answer(self, *pieces: bytes, ends: bool = False) -> None:
        """Answer the next request on the last connection, or on a new one, in another thread."""
        connection = self._open[-1] if self._open else None

        def send() -> None:
            with suppress(OSError):  # the client may have closed the connection by now
                peer = connection or self._accept()
                peer.recv(65536)
                for each in pieces:
                    peer.sendall(each)
                if ends:
                    peer.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=send, daemon=True).start()

    def _accept(self) -> socket.socket:
        peer, _ = self._listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.append(peer)
        return peer

    @property
    def last(self) -> socket.socket:
        return self._open[-1]

    def forget(self) -> socket.socket:
        """Answer the next request on a new connection."""
        self._forgotten.append(self._open.pop())
        return self._forgotten[-1]

    def close(self) -> None:
        for each in (self._listener, *self._open, *self._forgotten):
            each.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def read(server: Server, timeout_s: float = LIMIT_S) -> bytes:
    with server.client.send(READ._replace(read_timeout_s=timeout_s)) as response:
        return b"".join(response.chunks())


@cases(
    ("answer", "content"),
    {
        "with a length": (OK, b"hi"),
        "empty": (http_response("200 OK"), b""),
        "chunked": (http_response("200 OK", CHUNKED, body=b"1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n"), b"hi"),
        "the last response": (http_response("200 OK", "Content-Length: 2", "Connection: close", body=b"hi"), b"hi"),
        "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
    },
)
@cases("piece", {"byte by byte": 1, "in pieces": 7, "at once": 65536})
def test_a_response_is_read_completely(server, answer, content, piece):
    pieces = [answer[start : start + piece] for start in range(0, len(answer), piece)]
    server.answer(*pieces)
    assert read(server) == content


def test_a_header_is_found_in_any_case_and_may_repeat(server):
    server.answer(http_response("200 OK", "Warning: a", "warning: b", "Content-Length: 0"))
    with server.client.send(READ) as response:
        assert (response.header("WARNING"), response.header("absent")) == (["a", "b"], [])


def test_a_chunk_is_yielded_as_soon_as_it_arrives(server):
    server.answer(http_response("200 OK", CHUNKED, body=b"3\r\none\r\n"))
    with server.client.send(READ) as response:
        chunks = response.chunks()
        assert next(chunks) == b"one"
        server.last.sendall(b"3\r\ntwo\r\n")
        assert next(chunks) == b"two"


def test_a_part_of_a_body_with_a_length_is_yielded_as_soon_as_it_arrives(server):
    server.answer(http_response("200 OK", "Content-Length: 6", body=b"one"))
    with server.client.send(READ) as response:
        chunks = response.chunks()
        assert next(chunks) == b"one"
        server.last.sendall(b"two")
        assert next(chunks) == b"two"


@cases(
    ("answer", "problem"),
    {
        "nothing": (b"", "the server closed the connection before it responded"),
        "half a head": (b"HTTP/1.1 200 OK\r\nConte", "says neither its length nor that it is chunked"),
        "a body without a length": (b"HTTP/1.1 200 OK\r\n\r\nhi", "says neither its length nor that it is chunked"),
        "half a body": (OK[:-1], "the server closed the connection in the middle of the response"),
        "half a chunk": (http_response("200 OK", CHUNKED, body=b"5\r\nhi"), "in the middle of the response"),
        "no more chunks": (http_response("200 OK", CHUNKED, body=b"2\r\nhi\r\n"), "in the middle of the response"),
        "another protocol": (b"SSH-2.0-OpenSSH\r\n\r\n", "the server does not speak HTTP"),
        "an invalid length": (http_response("200 OK", CHUNKED, body=b"many\r\n"), "the server does not speak HTTP"),
        "a long head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "the server does not speak HTTP"),
    },
)
def test_an_incomplete_or_invalid_response_is_an_error(server, answer, problem):
    server.answer(answer, ends=True)
    if answer == b"":
        server.answer(b"", ends=True)  # a read is sent once more
    with pytest.raises(ApiError, match=problem):
        read(server)


@cases("answer", {"before the response": b"", "in the middle of the response": OK[:-1]})
def test_a_silent_server_times_out(server, answer):
    server.answer(answer)
    with pytest.raises(ApiError, match="the server sent nothing before the read timeout"):
        read(server, 0.1)


def test_another_thread_can_end_a_read(server):
    server.answer(http_response("200 OK", CHUNKED, body=b"3\r\none\r\n"))
    with server.client.send(READ) as response:
        chunks = response.chunks()
        assert next(chunks) == b"one"
        threading.Timer(0.1, response.abort).start()
        with pytest.raises(ApiError, match="closed the connection"):
            next(chunks)
        response.abort()  # a second call does nothing


@cases("sent", {"it is closed": b"", "an unexpected response": b"HTTP/1.1 408 Request Timeout\r\n\r\n"})
def test_an_idle_connection_that_cannot_be_used_is_replaced(server, sent):
    server.answer(OK)
    assert read(server) == b"hi"
    first = server.forget()
    first.sendall(sent)
    first.shutdown(socket.SHUT_WR)
    server.answer(http_response("200 OK", body=b"again"))
    assert read(server) == b"again"
