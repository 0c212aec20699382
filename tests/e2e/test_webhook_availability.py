"""No request is lost while a rotation is incomplete or a connection rests."""

import http.client
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from e2e.api import Api
from e2e.certificates import Authority
from e2e.control_plane import HOST, ControlPlane
from e2e.load import Load
from e2e.manifests import propagation_policy
from e2e.processes import Processes, wait_for
from e2e.registration import Registration, registered
from e2e.service import KARMADA_HOOKS, Service, wait_until_served

pytestmark = pytest.mark.e2e

HOOKS = tuple(hook for hook in KARMADA_HOOKS if hook.resource == "propagationpolicies")
ENOUGH = 100  # requests between two events
REST_S = 6.0  # longer than servers commonly keep idle connections


@pytest.fixture
def service(processes: Processes, tmp_path: Path) -> Iterator[Service]:
    """The webhook's address, without a replica."""
    with closing(Service(processes, tmp_path, "companion")) as one:
        yield one


@pytest.fixture
def load(api: Api, namespace: str) -> Load:
    """Clients that create a policy the webhook changes, again and again."""
    policy = propagation_policy(namespace, placement={"spreadConstraints": [{"maxGroups": 2}]})
    return Load(api, lambda: policy)


def register(plane: ControlPlane, service: Service, namespace: str):
    """Let the API server call the service about PropagationPolicies."""
    sample = propagation_policy(namespace)
    return registered(plane, HOOKS, service.url, service.authority.certificate, [sample])


def assert_nothing_lost(load: Load, registration: Registration) -> None:
    """Every client got its answer, and the API server knows of no failed call."""
    assert not load.failures, load.report()
    assert registration.failed_calls() == 0


def test_a_call_that_fails_reaches_the_client_and_the_count(
    control_plane: ControlPlane, service: Service, namespace: str, load: Load
):
    service.start()
    with register(control_plane, service, namespace) as registration:
        registration.trust(Authority("stranger").certificate)
        with load:
            wait_for("the first failure", lambda: load.failures, 20)
        assert "failed calling webhook" in load.report()
        assert registration.failed_calls() >= len(load.failures)


def test_half_a_rotation_leaves_the_last_good_pair_in_service(
    control_plane: ControlPlane, service: Service, namespace: str, load: Load
):
    replica = service.start()
    first, second = service.issue(), service.issue()
    service.write(first)
    wait_until_served(replica, first)
    with register(control_plane, service, namespace) as registration:
        with load:
            load.more(ENOUGH)
            service.certificate_file.write_bytes(second.certificate)  # its key is still on the way
            time.sleep(2)
            wait_until_served(replica, first)
            load.more(ENOUGH)
            service.key_file.write_bytes(second.key)
            wait_until_served(replica, second)
            load.more(ENOUGH)
        assert_nothing_lost(load, registration)


def test_a_connection_that_rested_serves_the_next_request(
    control_plane: ControlPlane, api: Api, service: Service, namespace: str
):
    replica = service.start()
    policy = propagation_policy(namespace)
    with register(control_plane, service, namespace) as registration:
        api.create(policy, dry_run=True)
        connections = service.front.taken[replica.port]
        time.sleep(REST_S)
        api.create(policy, dry_run=True)
        assert registration.failed_calls() == 0
        assert service.front.taken[replica.port] == connections


def test_with_a_client_authority_the_api_server_gets_in_and_nobody_else(
    control_plane: ControlPlane, api: Api, service: Service, namespace: str, tmp_path: Path
):
    authority_file = tmp_path / "client-ca.crt"
    authority_file.write_bytes(control_plane.authority.certificate)
    replica = service.start(f"--client-ca-file={authority_file}")
    with register(control_plane, service, namespace) as registration:
        api.create(propagation_policy(namespace), dry_run=True)
        assert registration.failed_calls() == 0

    body = b"{}"
    assert posted(replica.port, service, body, control_plane.webhook_client) == 400
    stranger = Authority("stranger").issue("kube-apiserver-webhook-client")
    stranger.write(tmp_path / "stranger.crt", tmp_path / "stranger.key")
    for client in (None, (tmp_path / "stranger.crt", tmp_path / "stranger.key")):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            posted(replica.port, service, body, client)


def posted(port: int, service: Service, body: bytes, client: tuple[Path, Path] | None) -> int:
    context = ssl.create_default_context(cadata=service.authority.certificate.decode())
    if client:
        context.load_cert_chain(*client)
    with closing(http.client.HTTPSConnection(HOST, port, timeout=5, context=context)) as connection:
        connection.request("POST", HOOKS[0].path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status
