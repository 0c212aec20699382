"""No request is lost while replicas come and go, certificates change or connections rest."""

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
from e2e.registration import EFFECT_LIMIT_S, Registration, registered
from e2e.service import KARMADA_HOOKS, Service, wait_until_served

pytestmark = pytest.mark.e2e

HOOKS = tuple(hook for hook in KARMADA_HOOKS if hook.resource == "propagationpolicies")
ENOUGH = 100  # requests between two events
ROUNDS = 2
DRAIN_S = 1.5  # longer than the forwarder takes to notice, as in a cluster
SETTLE_S = 2.0  # the API server reads the two configurations one after the other, and at its leisure
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


def trust(registration: Registration, service: Service, bundle: bytes) -> None:
    """Change the caBundle under load and let the API server act on it: by new connections, so new handshakes."""
    before = service.front.taken.total()
    registration.trust(bundle)
    wait_for("new connections", lambda: service.front.taken.total() > before, EFFECT_LIMIT_S)
    time.sleep(SETTLE_S)


def assert_nothing_lost(load: Load, registration: Registration) -> None:
    """Every client got its answer, and the API server knows of no failed call."""
    assert not load.failures, load.report()
    assert registration.failed_calls() == 0


def test_two_replicas_roll_without_a_failed_request(
    control_plane: ControlPlane, service: Service, namespace: str, load: Load
):
    drain = f"--drain-s={DRAIN_S}"
    replicas = [service.start(drain), service.start(drain)]
    with register(control_plane, service, namespace) as registration:
        with load:
            load.more(ENOUGH)
            for _ in range(ROUNDS * len(replicas)):
                replicas.append(service.start(drain))
                assert service.retire(replicas.pop(0)) == 0
                load.more(ENOUGH)
        assert_nothing_lost(load, registration)
    assert all(service.front.taken[replica.port] for replica in replicas), f"used: {service.front.taken}"


def test_a_rotated_certificate_is_served_without_a_failed_request(
    control_plane: ControlPlane, service: Service, namespace: str, load: Load
):
    replica = service.start()
    with register(control_plane, service, namespace) as registration:
        with load:
            for turn in range(ROUNDS):
                load.more(ENOUGH)
                renewed = service.issue()
                service.write(renewed)
                wait_until_served(replica, renewed)
                trust(registration, service, service.authority.certificate * (2 + turn))
            load.more(ENOUGH)
        assert_nothing_lost(load, registration)


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


def test_a_new_authority_takes_over_without_a_failed_request(
    control_plane: ControlPlane, service: Service, namespace: str, load: Load
):
    replica = service.start()
    successor = Authority("berthmaster-e2e-successor")
    with register(control_plane, service, namespace) as registration:
        with load:
            load.more(ENOUGH)
            trust(registration, service, service.authority.certificate + successor.certificate)
            renewed = service.issue(successor)
            service.write(renewed)
            wait_until_served(replica, renewed)
            load.more(ENOUGH)
            trust(registration, service, successor.certificate)
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
    """The status of a POST to a replica with a client certificate, or none."""
    context = ssl.create_default_context(cadata=service.authority.certificate.decode())
    if client:
        context.load_cert_chain(*client)
    with closing(http.client.HTTPSConnection(HOST, port, timeout=5, context=context)) as connection:
        connection.request("POST", HOOKS[0].path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status
