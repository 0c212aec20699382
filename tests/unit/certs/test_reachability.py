"""Whether a server answers over TLS to clients that trust a bundle. The servers are real and listen on loopback."""

import http.server
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest

from berthmaster.model.errors import InputError, ServiceError
from berthmaster.runtime.clock import SystemClock
from certs.authority import issue, new_authority
from certs.bundle import Bundle
from certs.registration import Endpoint, endpoint_of, problem_of, wait_until_reachable

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
AUTHORITY, OTHER = new_authority("authority", 9 * DAY, NOW), new_authority("other", 9 * DAY, NOW)
BUNDLE = Bundle([AUTHORITY.certificate])


class Handler(http.server.BaseHTTPRequestHandler):
    status = 405

    def do_GET(self):
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(host="127.0.0.1", life=DAY, status=405, *, asks_clients=False):
        pair = issue(AUTHORITY, "server", [host], life, NOW)
        file = tmp_path / "pair.pem"
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=OTHER.certificate_pem.decode())
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None
        server.status = status
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return Endpoint("127.0.0.1", server.server_port, "/mutate")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("server", "bundle", "problem"),
    [
        pytest.param({}, BUNDLE, "", id="any status below 500 is an answer"),
        pytest.param({"status": 200}, BUNDLE, "", id="status 200"),
        pytest.param({"status": 503}, BUNDLE, "it answers with 503", id="status 503"),
        pytest.param({"asks_clients": True}, BUNDLE, "", id="it requires a client certificate"),
        pytest.param({}, Bundle([OTHER.certificate]), "verify failed", id="the client trusts another authority"),
        pytest.param({"host": "other.svc"}, BUNDLE, "IP address mismatch", id="its certificate is for another name"),
        pytest.param({"life": -timedelta(minutes=5)}, BUNDLE, "expired", id="its certificate has expired"),
        pytest.param({}, Bundle(), "no authority", id="an empty bundle"),
    ],
)
def test_the_problem_of_a_server(serve, server, bundle, problem):
    found = problem_of(serve(**server), bundle)
    assert problem in found
    assert bool(found) is bool(problem)


def test_a_closed_port_is_a_problem():
    assert "refused" in problem_of(Endpoint("127.0.0.1", 9, "/"), BUNDLE)


def test_the_wait_ends_once_the_bundle_verifies_the_server(serve):
    bundles = iter([Bundle(), Bundle([OTHER.certificate])])
    wait_until_reachable([serve()] * 2, lambda: next(bundles, BUNDLE), SystemClock(), 20)
    assert next(bundles, None) is None


def test_the_wait_times_out_with_the_last_problem():
    with pytest.raises(ServiceError, match=r"https://127.0.0.1:9/ has not answered within 0.1 s: .*refused"):
        wait_until_reachable([Endpoint("127.0.0.1", 9, "/")], lambda: BUNDLE, SystemClock(), 0.1)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("https://a.svc/b", "https://a.svc:443/b", id="the default port"),
        pytest.param("https://[::1]:8443", "https://[::1]:8443/", id="IPv6 and no path"),
    ],
)
def test_a_url_is_parsed(url, expected):
    assert str(endpoint_of(url)) == expected


@pytest.mark.parametrize("url", ["http://a", "https://", "https://a:b", "https://[::1", ""])
def test_an_invalid_url_is_rejected(url):
    with pytest.raises(InputError):
        endpoint_of(url)
