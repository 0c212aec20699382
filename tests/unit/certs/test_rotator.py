"""The rotator: its checks, and crashes at each step."""

import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from certified import AUTHORITY, OPTIONS, Installation
from faults import nothing
from http_peer import http_response
from replicas import History, Replica
from tables import cases
from waiting import wait_for

from berthmaster.model.errors import ApiError, ServiceError
from berthmaster.runtime.clock import SystemClock
from certs.authority import issue, new_authority
from certs.bundle import Bundle
from certs.registration import Endpoint, endpoint_of, problem_of, wait_until_reachable
from certs.rotator import CertificateMetrics, CertificateRotator

WAIT_S = 10.0


class Running:
    """A rotator in a thread."""

    def __init__(self, installation, interval_s=0.01):
        self.metrics = CertificateMetrics()
        self.rotator = CertificateRotator(installation.replica(), installation.options, self.metrics, interval_s)
        self._thread = threading.Thread(target=self.rotator.run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.rotator.stop()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def wait_for(self, check):
        wait_for(lambda: check(self.rotator.health()), self.rotator.health)


def test_ready_after_the_first_reconciliation():
    installation = Installation()
    running = Running(installation)
    assert running.rotator.health().problem
    with running:
        running.wait_for(lambda health: health == ("", ""))
        assert installation.leaf().certificate is not None
        assert b"last_success_timestamp_seconds 0.0" not in running.metrics.exposition()[1]


@cases(
    "error",
    {
        "the API server is unavailable": ApiError(503, "Unavailable", "away"),
        "an unexpected exception": RuntimeError("unexpected"),
    },
)
def test_a_failure_is_reported_and_retried(error, caplog):
    installation = Installation()

    def refuse(_request):
        raise error

    installation.cluster.before = refuse
    with Running(installation) as running:
        running.wait_for(lambda health: str(error) in health.problem)
        installation.cluster.before = nothing
        running.wait_for(lambda health: health == ("", ""))
        installation.cluster.before = refuse
        running.wait_for(lambda health: not health.problem and str(error) in health.note)
    assert str(error) in caplog.text


def test_stop_ends_the_wait():
    with Running(Installation(), interval_s=3600) as running:
        running.wait_for(lambda health: not health.problem)


NOW = datetime.now(UTC)
DAY = timedelta(days=1)
REACHABILITY_AUTHORITY, OTHER = new_authority("authority", 9 * DAY, NOW), new_authority("other", 9 * DAY, NOW)
BUNDLE = Bundle([REACHABILITY_AUTHORITY.certificate])


@pytest.fixture
def serve(peer, tmp_path):
    def start(host="127.0.0.1", life=DAY, status=405, *, asks_clients=False):
        pair = issue(REACHABILITY_AUTHORITY, "server", [host], life, NOW)
        file = tmp_path / "pair.pem"
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=OTHER.certificate_pem.decode())
        return Endpoint("127.0.0.1", peer(http_response(f"{status} Status"), tls=context).port, "/mutate")

    return start


@cases(
    ("server", "bundle", "problem"),
    {
        "any status below 500 is an answer": ({}, BUNDLE, ""),
        "status 200": ({"status": 200}, BUNDLE, ""),
        "status 503": ({"status": 503}, BUNDLE, "it answers with 503"),
        "it requires a client certificate": ({"asks_clients": True}, BUNDLE, ""),
        "the client trusts another authority": ({}, Bundle([OTHER.certificate]), "verify failed"),
        "its certificate is for another name": ({"host": "other.svc"}, BUNDLE, "IP address mismatch"),
        "its certificate has expired": ({"life": -timedelta(minutes=5)}, BUNDLE, "expired"),
        "an empty bundle": ({}, Bundle(), "no authority"),
    },
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


@cases(
    ("url", "expected"),
    {
        "the default port": ("https://a.svc/b", "https://a.svc:443/b"),
        "IPv6 and no path": ("https://[::1]:8443", "https://[::1]:8443/"),
    },
)
def test_a_url_is_parsed(url, expected):
    assert str(endpoint_of(url)) == expected


SMALL = replace(OPTIONS, serving=OPTIONS.serving[:1], targets=OPTIONS.targets[:1])
LAG = OPTIONS.overlap - timedelta(seconds=1)
MANY = 100  # more requests than any reconciliation sends


def settled(installation: Installation) -> dict[str, bool]:
    installation.settle(2)
    return {}


def begun(installation: Installation) -> dict[str, bool]:
    settled(installation)
    return {"rotate_authority": True}


def introduced(installation: Installation) -> dict[str, bool]:
    settled(installation)
    installation.reconcile(rotate_authority=True)
    return {}


def about_to_take_over(installation: Installation) -> dict[str, bool]:
    introduced(installation)
    installation.advance(OPTIONS.overlap)
    return {}


def about_to_retire(installation: Installation) -> dict[str, bool]:
    about_to_take_over(installation)
    installation.reconcile()
    installation.advance(OPTIONS.overlap)
    return {}


def renewed(installation: Installation) -> dict[str, bool]:
    settled(installation)
    return {"renew_leaves": True}


def lost(installation: Installation) -> dict[str, bool]:
    settled(installation)
    installation.cluster.remove(AUTHORITY)
    return {}


STAGES = [
    pytest.param(begun, id="a rotation begins"),
    pytest.param(introduced, id="a rotation waits"),
    pytest.param(about_to_take_over, id="the successor takes over"),
    pytest.param(about_to_retire, id="the predecessor retires"),
    pytest.param(renewed, id="leaves are renewed"),
    pytest.param(lost, id="the authority was deleted"),
]


def stops(stage: Callable[[Installation], dict[str, bool]]) -> Iterator[tuple[Installation, Replica, History]]:
    """Yield, for each request of a reconciliation, an installation whose replica has stopped before it."""
    for requests in range(MANY):
        installation = Installation(SMALL)
        wanted = stage(installation)
        history = History(installation, LAG)
        replica = Replica(installation)
        replica.begin(**wanted)
        replica.send_requests(requests)
        if not replica.running:
            assert requests > 3, "a reconciliation sends at least the reads"
            return
        yield installation, replica, history
        replica.crash()
    pytest.fail(f"a reconciliation with more than {MANY} requests")


def assert_settled(installation: Installation, history: History) -> None:
    installation.settle(4)
    history.check()
    assert installation.reconcile() == []
    assert list(installation.bundle()) == [installation.issuer().certificate]
    assert installation.injected() == {installation.bundle().pem}


@pytest.mark.parametrize("stage", STAGES)
def test_another_replica_continues_after_a_crash(stage):
    for installation, replica, history in stops(stage):
        replica.crash()
        assert_settled(installation, history)


@pytest.mark.parametrize("stage", STAGES)
def test_a_delayed_replica_does_no_harm(stage):
    for installation, replica, history in stops(stage):
        installation.settle(4)
        replica.finish()
        assert_settled(installation, history)


@pytest.mark.parametrize("stage", [STAGES[0], STAGES[2]])
def test_a_replica_that_was_delayed_while_another_began_a_rotation_does_no_harm(stage):
    for installation, replica, history in stops(stage):
        installation.settle(4)
        installation.reconcile(rotate_authority=True)
        installation.advance(OPTIONS.overlap)
        installation.reconcile()
        replica.finish()
        assert_settled(installation, history)


def test_an_authority_lost_right_after_a_takeover_keeps_served_leaves_trusted():
    installation = Installation(SMALL)
    about_to_take_over(installation)
    history = History(installation, LAG)
    installation.reconcile()
    installation.cluster.remove(AUTHORITY)
    installation.reconcile()
    assert len(installation.bundle()) == 3
    assert_settled(installation, history)


def test_another_replica_finishes_a_first_reconciliation_that_crashed():
    for requests in range(MANY):
        installation = Installation(SMALL)
        replica = Replica(installation)
        replica.send_requests(requests)
        if not replica.running:
            assert requests > 6, "a first reconciliation reads and writes"
            return
        replica.crash()
        installation.reconcile()
        assert installation.reconcile() == []
        assert list(installation.bundle()) == [installation.issuer().certificate]
        assert installation.injected() == {installation.bundle().pem}
    pytest.fail(f"a first reconciliation with more than {MANY} requests")
