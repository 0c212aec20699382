"""TLS, mutual TLS, tokens, and the refusal to serve beyond loopback without them."""

import ssl
import time

import msgspec
import pytest
from authority import Authority
from click.testing import CliRunner
from servers import Wire, request, running
from waiting import wait_for

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.errors import ServiceError
from berthmaster.native_api.client import Client
from berthmaster_cli.main import main
from extender.protocols.native import examples

GOOD = request("POST", "/v1/schedule", msgspec.json.encode(examples.SCHEDULE_OWN_FLEET))
TOKEN = "a-token-of-some-length"  # noqa: S105 - valid for the service of this test only


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority, tmp_path_factory):
    """Start a service with TLS, client certificates and tokens, and without a fleet."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "tokens").write_text(f"{TOKEN},alice\n")
    certificate, key = authority.issue("localhost")
    flags = (
        "--cert-file", certificate, "--key-file", key, "--client-ca-file", authority.ca, "--token-file",
        folder / "tokens", "--workers", 1,
    )  # fmt: skip
    with running("extender", *flags, log=folder / "log") as server:
        yield server, folder / "tokens"


def context(authority, *, certificate=True):
    made = ssl.create_default_context(cafile=authority.ca)
    if certificate:
        made.load_cert_chain(*authority.issue("client"))
    return made


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param({"Authorization": f"Bearer {TOKEN}"}, 200, id="a valid token"),
        pytest.param({"Authorization": f"bearer  {TOKEN} "}, 200, id="the scheme in lower case"),
        pytest.param({"Authorization": f"Bearer {TOKEN}x"}, 401, id="an unknown token"),
        pytest.param({"Authorization": f"Basic {TOKEN}"}, 401, id="another scheme"),
        pytest.param({}, 401, id="no token"),
    ],
)
def test_a_valid_token_is_required(secured, authority, header, status):
    with Wire(secured[0].port, context(authority)) as wire:
        head, _, body = GOOD.partition(b"\r\n\r\n")
        lines = "".join(f"\r\n{name}: {value}" for name, value in header.items()).encode()
        wire.send(head + lines + b"\r\n\r\n" + body)
        answer = wire.answer()
    assert answer.status == status
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_clients_without_a_token_do_not_learn_which_paths_exist(secured, authority):
    for method, path in (("GET", "/nothing"), ("GET", "/openapi.json"), ("PUT", "/v1/schedule")):
        with Wire(secured[0].port, context(authority)) as wire:
            wire.send(request(method, path))
            assert wire.answer().status == 401


def test_a_client_certificate_is_required(secured, authority):
    # In TLS 1.3, the client gets the error when it reads.
    with Wire(secured[0].port, context(authority, certificate=False)) as wire:
        wire.send(GOOD)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            wire.answer()


def test_the_client_sends_its_certificate_and_token(secured, authority):
    server, tokens = secured
    url, binding = f"https://127.0.0.1:{server.port}", convert(Binding, examples.BINDING)
    shown = {"ca_file": authority.ca, "certificate": authority.issue("client")}
    with Client(url, **shown) as client, pytest.raises(ServiceError, match="bearer token") as refused:
        client.schedule(binding)
    assert refused.value.status == 401
    clusters = [convert(Cluster, raw) for raw in examples.CLUSTERS]
    with Client(url, token_file=tokens, **shown) as client:
        assert client.schedule(binding, clusters).clusters == {"private-1": 6}
        with pytest.raises(ServiceError, match="the extender has no fleet"):
            client.schedule(binding)


def test_changed_tokens_are_read_again(secured, authority):
    server, tokens = secured
    before = tokens.read_text()

    def status(token):
        with Wire(server.port, context(authority)) as wire:
            wire.send(GOOD.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {token}\r\n\r\n".encode(), 1))
            return wire.answer().status

    tokens.write_text("another-token-of-some-length\n")
    try:
        wait_for(lambda: status("another-token-of-some-length") == 200)
        assert status(TOKEN) == 401
        tokens.write_text("short\n")
        time.sleep(1.2)
        assert status("another-token-of-some-length") == 200, "an invalid file keeps the previous tokens"
    finally:
        tokens.write_text(before)
        wait_for(lambda: status(TOKEN) == 200)


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        pytest.param(["--bind", "0.0.0.0:0"], "TLS is not configured", id="plain HTTP"),
        pytest.param(
            ["--bind", "[::]:0", "--cert-file", "c", "--key-file", "k"],
            "authentication is not configured",
            id="TLS only",
        ),
        pytest.param(["--bind", "192.0.2.1:0", "--token-file", "t"], "TLS is not configured", id="tokens only"),
    ],
)
def test_it_refuses_to_serve_beyond_loopback_without_protection(flags, missing):
    result = CliRunner().invoke(main, ["extender", *flags])
    assert missing in str(result.exception)
    assert "--insecure" in str(result.exception)


def test_a_batch_over_tls_may_be_sent_whole_before_an_answer_is_read(secured, authority):
    line = msgspec.json.encode({"id": "x" * 8000, **examples.SCHEDULE_OWN_FLEET}) + b"\n"
    with Wire(secured[0].port, context(authority)) as wire:
        head = {"Authorization": f"Bearer {TOKEN}"}
        wire.send(request("POST", "/v1/schedule/batch", line * 700, "application/x-ndjson", **head))
        time.sleep(0.2)
        assert wire.answer().body.count(b'"decision"') == 700
