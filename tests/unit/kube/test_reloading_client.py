"""Credentials that the API server refuses are read again."""

import logging
from collections.abc import Callable

import pytest
import yaml
from fake_clock import FakeClock
from http_peer import OK, HttpPeer

from berthmaster.kube.client import APIClient, APIResponse, ask
from berthmaster.kube.http_client import ReloadingClient, load_client
from berthmaster.kube.requests import APIRequest, Collection, merge_patch
from berthmaster.model.errors import ApiError, InputError

WRITE = merge_patch(Collection.of("example.io/v1", "things"), ("shop", "web"), {"spec": 1})
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


class RefusedClient:
    """A client that the API server refuses with a status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.sent = 0

    def send(self, request: APIRequest) -> APIResponse:
        self.sent += 1
        raise ApiError(self.status, "", f"{request}: {self.status}")


def loading(*clients: APIClient | InputError) -> tuple[Callable[[], APIClient], list[APIClient | InputError]]:
    """Return a function that returns or raises these one after the other, and what is left of them."""
    left = list(clients)

    def load() -> APIClient:
        found = left.pop(0)
        if isinstance(found, InputError):
            raise found
        return found

    return load, left


def refused(client: APIClient, status: int) -> None:
    with pytest.raises(ApiError) as error:
        client.send(WRITE)
    assert error.value.status == status


@pytest.mark.parametrize("status", [0, 403, 409, 503])
def test_other_errors_do_not_reload(status: int):
    first = RefusedClient(status)
    load, left = loading(first, RefusedClient(200))
    refused(ReloadingClient(load, FakeClock()), status)
    assert (first.sent, len(left)) == (1, 1)


def test_a_refused_request_is_sent_once_more_and_not_again_for_ten_seconds():
    clock, (first, second, third) = FakeClock(), [RefusedClient(401) for _ in range(3)]
    load, left = loading(first, second, third)
    client = ReloadingClient(load, clock)
    refused(client, 401)
    refused(client, 401)
    assert (first.sent, second.sent, len(left)) == (1, 2, 1)
    clock.pass_by(10)
    refused(client, 401)
    assert (second.sent, third.sent) == (3, 1)


def test_credentials_that_cannot_be_read_again_are_logged_and_tried_later(caplog: pytest.LogCaptureFixture):
    clock, first = FakeClock(), RefusedClient(401)
    load, _ = loading(first, InputError("fleet.kubeconfig: no such file"), RefusedClient(503))
    client = ReloadingClient(load, clock)
    refused(client, 401)
    assert "they cannot be read again: fleet.kubeconfig: no such file" in caplog.text
    clock.pass_by(10)
    refused(client, 503)


def test_the_first_client_must_be_usable():
    load, _ = loading(InputError("fleet.kubeconfig: no such file"))
    with pytest.raises(InputError):
        ReloadingClient(load)


def test_a_replaced_token_file_is_used_without_a_restart(tmp_path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    peer, token, kubeconfig = HttpPeer((OK, UNAUTHORIZED, OK)), tmp_path / "token", tmp_path / "kubeconfig"
    token.write_text("the-first")
    kubeconfig.write_text(
        yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{peer.port}"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "users": [{"name": "a", "user": {"tokenFile": str(token)}}],
        })
    )  # fmt: skip
    client = load_client(kubeconfig)
    try:
        ask(client, WRITE)
        token.write_text("the-second")
        assert ask(client, WRITE) == b"hi"
    finally:
        peer.close()
    sent = [line for head in peer.heads for line in head if line.lower().startswith("authorization")]
    assert [line.rpartition(" ")[2] for line in sent] == ["the-first", "the-first", "the-second"]
    assert "they were read again" in caplog.text
