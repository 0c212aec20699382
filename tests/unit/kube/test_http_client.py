"""The client of real API servers over real sockets: requests, kept connections, errors, trust, proxies."""

import base64
import gc
import ssl
from typing import Any

import pytest
from authority import Authority
from http_peer import HANG_UP, OK, HttpPeer, http_response
from tables import cases
from waiting import wait_for

from berthmaster.kube.client import ask
from berthmaster.kube.connection_settings import ConnectionSettings, CredentialsError
from berthmaster.kube.http_client import HTTPClient
from berthmaster.kube.proxies import environment_proxy
from berthmaster.kube.requests import APIRequest, Collection, get, merge_patch, watch
from berthmaster.model.errors import ApiError, InputError

THINGS = Collection.of("example.io/v1", "things")
READ = get(THINGS, ("shop", "web"))
WRITE = merge_patch(THINGS, ("shop", "web"), {"spec": 1})
PATH = "/apis/example.io/v1/namespaces/shop/things/web"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def client_of(server: HttpPeer, path: str = "", scheme: str = "http", **settings: Any) -> HTTPClient:
    return HTTPClient(ConnectionSettings(f"{scheme}://127.0.0.1:{server.port}{path}", **settings))


def token(value: str) -> dict[str, Any]:
    return {"authorization": lambda: f"Bearer {value}"}


# Requests.


def test_the_bytes_of_a_request(peer):
    server = peer()
    assert ask(client_of(server), WRITE) == b"hi"
    [(head, body)] = server.requests
    first, *headers = head.split("\r\n")
    assert first == f"PATCH {PATH}?fieldValidation=Ignore HTTP/1.1"
    assert sorted(headers) == [
        "Accept: application/json",
        "Content-Length: 10",
        "Content-Type: application/merge-patch+json",
        f"Host: 127.0.0.1:{server.port}",
        next(line for line in headers if line.startswith("User-Agent: berthmaster/")),
    ]
    assert body == b'{"spec":1}'


@cases(
    ("settings", "request_", "line"),
    {
        "a token": (token("s3cret"), READ, "Authorization: Bearer s3cret"),
        "a header of the request": ({}, READ._replace(headers=(("Impersonate-User", "me"),)), "Impersonate-User: me"),
        "the length of an empty body": ({}, APIRequest("/x", method="DELETE"), "Content-Length: 0"),
    },
)
def test_a_header_is_sent(peer, settings, request_, line):
    server = peer()
    ask(client_of(server, **settings), request_)
    assert line in server.heads[0]


def test_the_path_of_the_servers_url_comes_first(peer):
    server = peer()
    ask(client_of(server, "/k8s/clusters/c-1/"), READ)
    assert server.heads[0][0] == f"GET /k8s/clusters/c-1{PATH} HTTP/1.1"


def test_a_line_break_in_a_header_is_rejected_without_showing_its_value(peer):
    server = peer()
    client = client_of(server, **token("s3cret\r\nX: y"))
    with pytest.raises(InputError, match="a header has a line break") as refused:
        client.send(READ)
    assert "s3cret" not in str(refused.value)
    assert server.requests == []


def test_a_token_that_cannot_be_refreshed_is_a_retryable_error(peer):
    def renew() -> str:
        raise CredentialsError("the helper failed")

    client = client_of(peer(), authorization=renew)
    with pytest.raises(ApiError, match=f"GET {PATH}: failed to refresh the token: the helper failed") as failed:
        client.send(READ)
    assert failed.value.status == 0


# Kept connections.


def test_consecutive_requests_share_a_connection(peer):
    server = peer()
    client = client_of(server)
    for _ in range(5):
        ask(client, READ)
    assert server.connections == 1


def test_a_watch_takes_a_new_connection(peer):
    server = peer()
    client = client_of(server)
    for _ in range(3):
        ask(client, watch(Collection.of("example.io/v1", "things"), "5", 300, 30.0))
    assert server.connections == 3, "a load balancer gives a new connection to a server that is healthy now"


@cases(
    "answer",
    {
        "the server asks for it": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
        "an incomplete error": b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    },
)
def test_a_connection_that_is_not_reusable_is_not_kept(peer, answer):
    server = peer(answer, OK)
    client = client_of(server)
    try:
        ask(client, READ._replace(read_timeout_s=0.1))
    except ApiError as error:
        assert error.status == 503  # noqa: PT017 - one of the cases has none
    ask(client, READ)
    assert server.connections == 2


def test_an_incompletely_read_response_closes_its_connection(peer):
    server = peer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", OK)
    client = client_of(server)
    with client.send(READ):
        pass
    ask(client, READ)
    assert server.connections == 2


def test_the_connection_of_an_error_is_kept(peer):
    server = peer(http_response("404 Not Found"), OK)
    client = client_of(server)
    with pytest.raises(ApiError):
        ask(client, READ)
    ask(client, READ)
    assert server.connections == 1


def test_a_read_is_sent_again_if_the_server_closed_the_idle_connection(peer):
    server = peer(OK, HANG_UP, OK)
    client = client_of(server)
    assert [ask(client, READ), ask(client, READ)] == [b"hi", b"hi"]
    assert server.connections == 2


def test_a_read_is_not_sent_again_after_a_timeout(peer):
    server = peer(OK, b"HTTP/1.1 200 OK\r\n")
    client = client_of(server)
    ask(client, READ)
    with pytest.raises(ApiError, match="the server sent nothing before the read timeout"):
        ask(client, READ._replace(read_timeout_s=0.1))
    assert (server.connections, len(server.requests)) == (1, 2)


def test_a_write_is_never_sent_again(peer):
    server = peer(OK, HANG_UP, OK)
    client = client_of(server)
    ask(client, WRITE)
    with pytest.raises(ApiError, match=f"PATCH {PATH}: the server closed the connection before it responded") as lost:
        ask(client, WRITE)
    assert (lost.value.status, len(server.requests)) == (0, 2)


def test_idle_connections_are_closed_with_the_client(peer):
    server = peer()
    client = client_of(server)
    ask(client, READ)
    del client
    gc.collect()
    wait_for(lambda: server.ended == 1)


def test_a_late_abort_does_not_affect_the_next_request(peer):
    server = peer()
    client = client_of(server)
    with client.send(READ) as answer:
        list(answer.chunks())
    answer.abort()
    assert ask(client, READ) == b"hi"
    assert server.connections == 1


# Errors.


STALE = b'{"reason":"Conflict","message":"stale"}'
CONFLICT = ApiError(409, "Conflict", f"GET {PATH}: 409 stale")
BUSY = f"GET {PATH}: 429 Too Many Requests"


@cases(
    ("answer", "error"),
    {
        "an incomplete body": (http_response("409 Conflict", "Content-Length: 50", body=STALE), CONFLICT),
        "a Status": (http_response("409 Conflict", body=STALE), CONFLICT),
        "with Retry-After": (
            http_response("429 Busy", "Retry-After: 3", "Content-Length: 0"), ApiError(429, "", BUSY, 3.0),
        ),
        "with a long Retry-After": (
            http_response("429 Busy", "Retry-After: 86400", "Content-Length: 0"), ApiError(429, "", BUSY, 60.0),
        ),
        "a redirect": (
            http_response("301 Moved", "Location: http://elsewhere/", "Content-Length: 0"),
            ApiError(301, "", f"GET {PATH}: 301 Moved Permanently"),
        ),
        "a part of a body": (
            http_response("200 OK", "Content-Length: 2", body=b"h"),
            ApiError(0, "", f"GET {PATH}: the server sent nothing before the read timeout"),
        ),
        "not HTTP": (b"hello\r\n\r\n", ApiError(0, "", f"GET {PATH}: the server does not speak HTTP")),
    },
)  # fmt: skip
def test_an_error_names_the_request_and_the_response(peer, answer, error):
    with pytest.raises(ApiError) as caught:
        ask(client_of(peer(answer)), READ._replace(read_timeout_s=0.1))
    found = caught.value
    assert (found.status, found.reason, found.retry_after_s) == (error.status, error.reason, error.retry_after_s)
    assert str(found).startswith(str(error))


def test_a_connect_error_names_the_request(peer):
    server = peer()
    client = client_of(server)
    server.close()
    with pytest.raises(ApiError, match=rf"GET {PATH}: .*refused"):
        client.send(READ)


# Trust.


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path)


def serving(authority: Authority) -> ssl.SSLContext:
    """The TLS context of a server that requests client certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(authority.ca)
    return context


@cases("settings", {"by its address": {}, "by the server name of the kubeconfig": {"server_name": "localhost"}})
def test_a_server_with_a_certificate_of_the_authority_is_trusted(peer, authority, settings):
    server = peer(tls=serving(authority))
    client = client_of(server, scheme="https", authority=authority.ca.read_text(), **settings)
    assert [ask(client, READ), ask(client, READ)] == [b"hi", b"hi"]
    assert (server.connections, server.subjects) == (1, [""])


def test_an_authority_may_have_comments_of_any_letters(peer, authority):
    bundle = f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{authority.ca.read_text()}"
    assert ask(client_of(peer(tls=serving(authority)), scheme="https", authority=bundle), READ) == b"hi"


def test_a_client_certificate_is_sent(peer, authority):
    certificate, key = authority.issue("me")
    server = peer(tls=serving(authority))
    own = {"certificate": certificate.read_text(), "key": key.read_text()}
    ask(client_of(server, scheme="https", authority=authority.ca.read_text(), **own), READ)
    assert server.subjects == ["me"]


@cases(
    ("settings", "problem"),
    {
        "an unknown authority": ({"authority": ""}, "CERTIFICATE_VERIFY_FAILED"),
        "another server": ({"server_name": "elsewhere"}, "CERTIFICATE_VERIFY_FAILED.*elsewhere"),
    },
)
def test_an_untrusted_server_gets_no_request(peer, authority, settings, problem):
    server = peer(tls=serving(authority))
    client = client_of(server, scheme="https", **{"authority": authority.ca.read_text(), **settings})
    with pytest.raises(ApiError, match=problem):
        client.send(READ)
    assert server.requests == []


def test_a_kubeconfig_may_disable_verification(peer, authority):
    server = peer(tls=serving(authority))
    assert ask(client_of(server, scheme="https", verify=False), READ) == b"hi"


# Proxies.


def test_a_proxy_forwards_plain_http(peer):
    proxy = peer()
    client = HTTPClient(ConnectionSettings("http://api.example:8080/k8s", proxy=f"http://127.0.0.1:{proxy.port}"))
    assert ask(client, READ) == b"hi"
    assert proxy.heads[0][0] == f"GET http://api.example:8080/k8s{PATH} HTTP/1.1"
    assert "Host: api.example:8080" in proxy.heads[0]


@pytest.mark.parametrize(
    ("named", "sent"),
    [
        pytest.param("ann:secret", "ann:secret", id="a user and a password"),
        pytest.param("ann", "ann:", id="a user"),
        pytest.param("a%40b:p%3Aq%C3%A9", "a@b:p:qé", id="characters that a URL must encode"),
    ],
)
def test_a_proxy_gets_the_credentials_of_its_url(peer, authority, named, sent):
    header = f"Proxy-Authorization: Basic {base64.b64encode(sent.encode()).decode()}"
    plain = peer()
    client = HTTPClient(ConnectionSettings("http://api.example:8080", proxy=f"http://{named}@127.0.0.1:{plain.port}"))
    assert ask(client, READ) == b"hi"
    assert header in plain.heads[0]
    tunnel = peer(tls=serving(authority))
    client = HTTPClient(
        ConnectionSettings(
            "https://localhost:6443", proxy=f"http://{named}@127.0.0.1:{tunnel.port}",
            authority=authority.ca.read_text(),
        )
    )  # fmt: skip
    assert ask(client, READ) == b"hi"
    first, inside = tunnel.heads
    assert header in first
    assert header not in inside, "the API server must not see the password of the proxy"


def test_the_password_of_a_proxy_is_not_shown():
    with pytest.raises(InputError) as refused:
        HTTPClient(ConnectionSettings("https://api.example", proxy="socks5://ann:secret@127.0.0.1:1"))
    assert "socks5://127.0.0.1:1" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_proxy_tunnels_https(peer, authority):
    proxy = peer(tls=serving(authority))  # it is also the API server behind the proxy
    client = HTTPClient(
        ConnectionSettings(
            "https://localhost:6443",
            proxy=f"http://127.0.0.1:{proxy.port}",
            authority=authority.ca.read_text(),
        )
    )
    assert ask(client, READ) == b"hi"
    tunnel, inside = proxy.heads
    assert tunnel[0].startswith("CONNECT localhost:6443 ")
    assert inside[0] == f"GET {PATH} HTTP/1.1"
    assert not any(line.startswith("Proxy-") for line in inside)


def test_proxies_from_the_environment(peer, monkeypatch):
    proxy, server = peer(), peer()
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
    ask(client_of(server), READ)
    ask(HTTPClient(ConnectionSettings("http://api.example")), READ)
    assert (len(server.requests), len(proxy.requests)) == (1, 1)


@cases(
    ("server", "environ", "proxy"),
    {
        "for the protocol": ("https://api.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        "for another protocol": ("https://api.example", {"HTTP_PROXY": "http://p:1"}, None),
        "for all": ("https://api.example", {"all_proxy": "http://p:1"}, "http://p:1"),
        "not for a host": ("https://api.example", {"https_proxy": "http://p:1", "NO_PROXY": "x, api.example"}, None),
        "not for a port": ("https://api.example:6443", {"https_proxy": "p", "no_proxy": "api.example:6443"}, None),
        "for another port": ("https://api.example:1", {"https_proxy": "p", "no_proxy": "api.example:6443"}, "p"),
        "not for a domain": ("https://api.example", {"https_proxy": "http://p:1", "no_proxy": ".example"}, None),
        "not for a network": ("https://10.1.2.3", {"https_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}, None),
        "for another network": ("https://11.1.2.3", {"https_proxy": "p", "no_proxy": "10.0.0.0/8,bad/8"}, "p"),
        "for no host": ("https://api.example", {"https_proxy": "http://p:1", "no_proxy": "*"}, None),
        "not on loopback": ("https://127.0.0.1:6443", {"https_proxy": "http://p:1"}, None),
        "not on loopback of IPv6": ("https://[::1]:6443", {"https_proxy": "http://p:1"}, None),
        "not for localhost": ("https://localhost:6443", {"https_proxy": "http://p:1"}, None),
    },
)
def test_the_proxy_of_the_environment_is_that_of_kubectl(server, environ, proxy):
    assert environment_proxy(server, environ) == proxy


@cases(
    ("settings", "problem"),
    {
        "no authority": ({"authority": "none"}, "the certificate authority of https://api.example is not usable"),
        "no certificate": ({"certificate": "none"}, "the client certificate for https://api.example is not usable"),
        "not a URL": ({"server": "api.example"}, "'api.example' is not the URL of an API server"),
        "another protocol": ({"server": "ftp://api.example"}, "is not the URL of an API server"),
        "SOCKS": ({"proxy": "socks5://127.0.0.1:1"}, "the proxy 'socks5://127.0.0.1:1' is not supported"),
    },
)
def test_an_unusable_configuration_is_rejected(settings, problem):
    with pytest.raises(InputError, match=problem):
        HTTPClient(ConnectionSettings(settings.pop("server", "https://api.example"), **settings))
