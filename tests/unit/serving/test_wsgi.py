"""The server side of WSGI, without a server."""

import socket

import pytest
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import create

from berthmaster.serving.channel import Channel, answer_last
from berthmaster.serving.request_parser import plain_request
from berthmaster.serving.wsgi import WSGICaller

CLIENT, SERVER = ("192.0.2.1", 5), ("192.0.2.2", 8443)
REQUEST = b"POST /path?a=b HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nX-A: b\r\n\r\nbody"


@pytest.fixture
def channel():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, 1.0)


def answered(wsgi, channel, *, keep=True):
    caller = WSGICaller(wsgi, Config())
    request = plain_request(bytearray(REQUEST), {"/path"})
    response, stays = caller.answer(request, caller.connection_environ(CLIENT, SERVER), channel, keep=keep)
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body, stays


def test_the_environment_is_that_of_gunicorn(channel):
    seen = {}

    def application(environ, start_response):
        seen.update(environ, body=environ["wsgi.input"].read())
        start_response("200 OK", [])
        return []

    answered(application, channel)
    request = next(RequestParser(Config(), iter([REQUEST]), CLIENT))
    environ = {**create(request, channel, CLIENT, SERVER, Config())[1], "wsgi.multithread": True, "body": b"body"}
    own = {"wsgi.input", "wsgi.errors", "wsgi.early_hints", "RAW_URI"}
    assert {name: seen[name] for name in seen if name not in own} == {
        name: environ[name] for name in environ if name not in own
    }


def test_a_response_has_the_length_of_its_body(channel):
    def application(_environ, start_response):
        write = start_response("404 Not Found", [("X-B", "c"), ("Content-Length", "99")])
        write(b"one ")
        return iter([b"two ", b"three"])

    first, fields, body, stays = answered(application, channel)
    assert (first, body, stays) == ("HTTP/1.1 404 Not Found", b"one two three", True)
    assert (fields["Content-Length"], fields["X-B"], fields["Connection"]) == ("13", "c", "keep-alive")
    assert fields["Date"].endswith(" GMT")


@pytest.mark.parametrize(
    ("keep", "last"),
    [
        pytest.param(False, False, id="the server closes the connection"),
        pytest.param(True, True, id="the application closes the connection"),
    ],
)
def test_a_response_may_close_the_connection(channel, keep, last):
    def application(environ, start_response):
        if last:
            answer_last(environ)
        start_response("200 OK", [])
        return []

    _, fields, _, stays = answered(application, channel, keep=keep)
    assert (fields["Connection"], stays) == ("close", False)


def test_the_iterable_of_the_application_is_closed(channel):
    class Pieces(list):
        closed = False

        def close(self):
            self.closed = True

    pieces = Pieces([b"x"])
    answered(lambda _environ, start_response: start_response("200 OK", []) and pieces, channel)
    assert pieces.closed


def test_a_header_field_cannot_split_a_response(channel):
    def application(_environ, start_response):
        start_response("200 OK", [("X-Request-Id", "a\r\nSet-Cookie: b")])
        return []

    with pytest.raises(ValueError, match="contains a line break"):
        answered(application, channel)
