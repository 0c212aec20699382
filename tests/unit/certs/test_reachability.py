"""Whether a server answers over TLS to clients of a bundle: asked of real servers on loopback."""

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
    """A function that starts a server and gives its endpoint."""
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
        pytest.param({}, BUNDLE, "", id="it answers, whatever it thinks of the question"),
        pytest.param({"status": 200}, BUNDLE, "", id="it answers well"),
        pytest.param({"status": 503}, BUNDLE, "it answers with 503", id="it is going down"),
        pytest.param({"asks_clients": True}, BUNDLE, "", id="it lets in only its clients, after we trusted it"),
        pytest.param({}, Bundle([OTHER.certificate]), "verify failed", id="another authority is trusted"),
        pytest.param({"host": "other.svc"}, BUNDLE, "IP address mismatch", id="its certificate is for another name"),
        pytest.param({"life": -timedelta(minutes=5)}, BUNDLE, "expired", id="its certificate has expired"),
        pytest.param({}, Bundle(), "no authority", id="nobody is trusted yet"),
    ],
)
def test_a_server_is_reachable_or_the_problem_is_told(serve, server, bundle, problem):
    told = problem_of(serve(**server), bundle)
    assert problem in told
    assert bool(told) is bool(problem)


def test_nobody_listens():
    assert "refused" in problem_of(Endpoint("127.0.0.1", 9, "/"), BUNDLE)


def test_waiting_ends_when_the_bundle_is_right(serve):
    bundles = iter([Bundle(), Bundle([OTHER.certificate])])
    wait_until_reachable([serve()] * 2, lambda: next(bundles, BUNDLE), SystemClock(), 20)
    assert next(bundles, None) is None


def test_waiting_has_an_end_and_says_what_was_wrong():
    with pytest.raises(ServiceError, match=r"https://127.0.0.1:9/ has not answered within 0.1 s: .*refused"):
        wait_until_reachable([Endpoint("127.0.0.1", 9, "/")], lambda: BUNDLE, SystemClock(), 0.1)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("https://a.svc/b", "https://a.svc:443/b", id="the usual port"),
        pytest.param("https://[::1]:8443", "https://[::1]:8443/", id="IPv6 and no path"),
    ],
)
def test_a_url_is_a_place(url, expected):
    assert str(endpoint_of(url)) == expected


@pytest.mark.parametrize("url", ["http://a", "https://", "https://a:b", "https://[::1", ""])
def test_what_is_no_url_of_a_server_with_tls_is_refused(url):
    with pytest.raises(InputError):
        endpoint_of(url)
