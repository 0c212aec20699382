"""What the webhook tests stand on, tried with an admission server of a few lines."""

import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from e2e.api import Api, RefusedError
from e2e.certificates import Authority
from e2e.control_plane import HOST, ControlPlane
from e2e.forwarder import Forwarder
from e2e.load import Load
from e2e.manifests import propagation_policy
from e2e.processes import Processes, wait_for
from e2e.registration import Hook, registered

pytestmark = pytest.mark.e2e

HOOKS = tuple(
    Hook(f"/{verb}-propagationpolicy", "policy.karmada.io", "propagationpolicies") for verb in ("mutate", "validate")
)


class Admission(http.server.BaseHTTPRequestHandler):
    """Allows everything, with the asked path as a warning; answers a GET with the port it listens on."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(str(self.server.server_address[1]).encode())

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "warnings": [f'asked at "{urlsplit(self.path).path}"'],
        }
        self.answer(
            json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        )

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
        """Say nothing."""


@contextmanager
def serving(port: int, context: ssl.SSLContext | None = None) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer((HOST, port), Admission)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def server_context(authority: Authority, folder: Path) -> ssl.SSLContext:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    authority.issue("admission", hosts=(HOST,)).write(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_registered_hooks_are_called_and_removed_ones_are_not(
    control_plane: ControlPlane, api: Api, processes: Processes, namespace: str, tmp_path: Path
):
    authority, port = Authority("admission"), processes.ports.free()
    policy = propagation_policy(namespace)
    with serving(port, server_context(authority, tmp_path)):
        url = f"https://{HOST}:{port}"
        with registered(control_plane, HOOKS, url, authority.certificate, [policy]) as registration:
            warnings = api.create(policy, dry_run=True).warnings
            assert warnings == (
                'asked at "/mutate-propagationpolicy"',
                'asked at "/validate-propagationpolicy"',
            )
            assert registration.failed_calls() == 0
        assert api.create(policy, dry_run=True).warnings == ()


def test_a_call_that_fails_reaches_the_client_and_the_count(
    control_plane: ControlPlane, api: Api, processes: Processes, namespace: str, tmp_path: Path
):
    authority, stranger, port = Authority("admission"), Authority("stranger"), processes.ports.free()
    policy = propagation_policy(namespace)
    with (
        serving(port, server_context(authority, tmp_path)),
        registered(control_plane, HOOKS, f"https://{HOST}:{port}", authority.certificate, [policy]) as registration,
    ):
        registration.trust(stranger.certificate)
        with Load(api, lambda: policy, clients=1) as load:
            wait_for("the first failure", lambda: load.failures, 20)
        registration.trust(authority.certificate)
        wait_for("an end of failures", lambda: accepted(api, policy), 20)
        assert "failed calling webhook" in load.report()
        assert registration.failed_calls() >= len(load.failures) > 0


def accepted(api: Api, policy: dict[str, object]) -> bool:
    try:
        api.create(policy, dry_run=True)
    except RefusedError:
        return False
    return True


def test_the_forwarder_sends_new_connections_to_ready_servers_and_leaves_old_ones(processes: Processes):
    first, second = processes.ports.free(), processes.ports.free()
    ready = {first: True, second: True}
    with serving(first), serving(second), closing(Forwarder(processes.ports.free())) as front:
        front.add(first, lambda: ready[first])
        front.add(second, lambda: ready[second])
        old = [http.client.HTTPConnection(HOST, front.port, timeout=5) for _ in ready]
        assert {asked(connection) for connection in old} == {first, second}

        ready[first] = False
        wait_for("the forwarder to notice", lambda: front.ready() == [second], 5)
        assert {asked(connection) for connection in old} == {first, second}
        with closing(http.client.HTTPConnection(HOST, front.port, timeout=5)) as fresh:
            assert asked(fresh) == second
        for connection in old:
            connection.close()


def test_the_forwarder_refuses_when_no_server_is_ready(processes: Processes):
    with (
        closing(Forwarder(processes.ports.free())) as front,
        closing(http.client.HTTPConnection(HOST, front.port, timeout=5)) as fresh,
        pytest.raises(ConnectionError),
    ):
        asked(fresh)


def asked(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/")
    return int(connection.getresponse().read())
