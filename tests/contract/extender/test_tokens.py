"""Every route of an extender with tokens, asked without a valid one, over real sockets."""

import socket
import time

import pytest
from servers import Wire, running
from tables import cases

from extender.app import all_routes

TOKEN = "a-token-of-some-length"  # noqa: S105 - valid for the service of this test only
VALID = f"Bearer {TOKEN}"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokens").write_text(f"{TOKEN},alice\n")
    with running("extender", "--token-file", folder / "tokens", "--workers", 1, log=folder / "log") as server:
        yield server.port


def head(method, path, *lines, length=0):
    """Return the head of a request."""
    fixed = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return (fixed + "".join(f"{each}\r\n" for each in lines) + f"Content-Length: {length}\r\n\r\n").encode("latin-1")


def paths():
    """Return method and path of each route, with names for its variables."""
    return sorted({(each.method, each.path.replace("{", "").replace("}", "")) for each in all_routes()})


REFUSED = {
    "no token": [],
    "an empty one": ["Authorization: Bearer "],
    "another scheme": [f"Authorization: Basic {TOKEN}"],
    "no scheme": [f"Authorization: {TOKEN}"],
    "a part of it": [f"Authorization: {VALID[:-1]}"],
    "more than it": [f"Authorization: {VALID}x"],
    "its line of the file": [f"Authorization: {VALID},alice"],
    "in upper case": [f"Authorization: {VALID.upper()}"],
    "two values in one header": [f"Authorization: Bearer x, {VALID}"],
    "in another header": [f"X-Forwarded-Authorization: {VALID}", f"Proxy-Authorization: {VALID}"],
    "in a header with an underscore": [f"HTTP_AUTHORIZATION: {VALID}", f"Authorization_: {VALID}"],
    "in a cookie": [f"Cookie: Authorization={VALID}; token={TOKEN}"],
    "names of another proxy": ["X-Remote-User: alice", "X-Forwarded-User: alice", "X-Forwarded-Client-Cert: alice"],
    "not ASCII": ["Authorization: Bearer \xe4\xf6\xfc"],
    "very long": [f"Authorization: Bearer {'x' * 6000}"],
}


@cases("lines", {name: (lines,) for name, lines in REFUSED.items()})
def test_no_route_answers_without_a_valid_token(port, lines):
    for method, path in paths():
        for target in (path, f"{path}?token={TOKEN}&access_token={TOKEN}"):
            with Wire(port) as wire:
                wire.send(head(method, target, *lines))
                assert wire.answer().status in {400, 401}, (method, target)


def test_two_tokens_are_none(port):
    """A proxy and the service could read another one of the two."""
    for both in ([VALID, "Bearer x"], ["Bearer x", VALID]):
        with Wire(port) as wire:
            wire.send(head("GET", "/v1/version", *(f"Authorization: {each}" for each in both)))
            assert wire.answer().status in {400, 401}


def test_the_valid_token_is_accepted(port):
    for spelled in (VALID, f"bearer {TOKEN}", f"BEARER  {TOKEN} "):
        with Wire(port) as wire:
            wire.send(head("GET", "/openapi.json", f"Authorization: {spelled}"))
            assert wire.answer().status == 200


def test_the_body_of_a_client_without_a_token_costs_nothing(port):
    """It is refused before the body is decoded, whatever the body is."""
    body = b'{"namespaces": [' + b'"a",' * 7_000_000 + b'"b"]}'
    begun_s = time.monotonic()
    with Wire(port) as wire:
        try:
            wire.send(head("POST", "/v1/plan", length=len(body)) + body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            assert wire.answer().status == 401
    assert time.monotonic() - begun_s < 20


def test_a_second_request_of_a_connection_needs_the_token_too(port):
    with Wire(port) as wire:
        wire.send(head("GET", "/openapi.json", f"Authorization: {VALID}"))
        assert wire.answer().status == 200
        wire.send(head("GET", "/openapi.json"))
        assert wire.answer().status == 401


def test_a_smuggled_request_needs_the_token_too(port):
    """The end of a request is where the server says, not where a proxy before it may have seen it."""
    hidden = head("GET", "/openapi.json")
    for lines in (["Transfer-Encoding: chunked"], ["Transfer-Encoding : chunked"], ["Content-Length: 0"]):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(head("POST", "/v1/schedule", *lines, length=len(hidden)) + hidden)
            client.shutdown(socket.SHUT_WR)
            answers = b""
            while piece := client.recv(65536):
                answers += piece
        assert b"HTTP/1.1 200" not in answers
