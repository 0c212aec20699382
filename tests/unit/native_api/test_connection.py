"""HTTP exchanges with our own services: idle connections, sizes, timeouts, credentials."""

import pytest
from free_ports import free_port
from http_peer import HANG_UP, OK, http_response

from berthmaster.native_api.connection import ExtenderAccess, UnansweredError, WebClient
from console.source import extender_clients

VERSION = b'{"version":"1","staleness":{"loadedAt":null,"staleSince":null,"problem":""}}'


def client_of(server, timeout_s=5.0):
    return WebClient(f"http://127.0.0.1:{server.port}", timeout_s)


def test_requests_share_a_connection(peer):
    server = peer(OK)
    with client_of(server) as client:
        assert [client.ask("GET", "/a").content for _ in range(3)] == [b"hi"] * 3
    assert server.connections == 1


def test_a_request_is_sent_again_if_the_server_closes_the_connection(peer):
    server = peer(OK, HANG_UP, OK)
    with client_of(server) as client:
        assert [client.ask("POST", "/a", b"body").content for _ in range(2)] == [b"hi"] * 2
    assert [body for _, body in server.requests] == [b"body"] * 3


def test_a_server_that_always_closes_the_connection_does_not_answer(peer):
    server = peer(HANG_UP)
    with client_of(server) as client, pytest.raises(UnansweredError, match="did not answer") as error:
        client.ask("GET", "/a")
    assert (len(server.requests), error.value.late) == (2, False)


def test_a_refused_connection_is_not_late():
    url = f"http://127.0.0.1:{free_port()}"
    with WebClient(url, 5.0) as client, pytest.raises(UnansweredError, match="cannot be reached") as error:
        client.ask("GET", "/a")
    assert not error.value.late


def test_an_answer_that_is_too_large_is_refused(peer):
    with client_of(peer(http_response("200 OK", body=b"x" * 100))) as client:
        assert client.ask("GET", "/a", most_bytes=100).content == b"x" * 100
        with pytest.raises(UnansweredError, match="sent more than 99 bytes"):
            client.ask("GET", "/a", most_bytes=99)


def test_a_redirect_is_an_answer(peer):
    server = peer(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    with client_of(server) as client:
        assert client.ask("GET", "/a").status == 302


def test_a_late_answer_says_so(peer):
    server = peer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi")
    with client_of(server, 0.2) as client, pytest.raises(UnansweredError) as error:
        client.ask("GET", "/a")
    assert error.value.late
    assert len(server.requests) == 1, "a late answer is not asked for again"


def test_new_credentials_are_used_and_invalid_ones_are_not(peer, tmp_path, monkeypatch):
    monkeypatch.setattr("console.source._FILE_CHECK_S", 0.0)
    server, token = peer(http_response("200 OK", body=VERSION)), tmp_path / "token"
    token.write_text("first")
    client = extender_clients(ExtenderAccess(f"http://127.0.0.1:{server.port}", token_file=token), 5.0)
    for content in ("first", "the second", None):
        token.unlink() if content is None else token.write_text(content)
        client().version()
    sent = [line for head in server.heads for line in head if line.startswith("Authorization")]
    assert sent == [f"Authorization: Bearer {each}" for each in ("first", "the second", "the second")]
