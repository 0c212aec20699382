"""Estimators over real gRPC on loopback: answers, failures and their cost."""

import logging
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from authority import Authority
from builders import quantities
from estimator_messages import parsed
from estimator_server import HANG, EstimatorServer, Services, external, wait_until_connected
from fake_clock import FakeClock
from prometheus_client import REGISTRY
from tables import cases
from waiting import wait_for

from berthmaster.controllers.estimators import channels
from berthmaster.controllers.estimators.circuit_breaker import FAILURES_UNTIL_BROKEN, LONGEST_TRIAL_WAIT_S
from berthmaster.controllers.estimators.cluster_estimator import EstimateResult
from berthmaster.controllers.estimators.estimators import open_estimators
from berthmaster.controllers.estimators.messages import replicas_question, unschedulable_question
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.model.binding import ObjectReference
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements

PATIENT_S = 20.0
HASTY_S = 0.6


def query(*clusters):
    return EstimatorQuery(list(clusters), replicas_question, (None,), "Deployment d/n")


def counted():
    name = "berthmaster_scheduler_estimates_total"
    return Counter(
        {each.value: REGISTRY.get_sample_value(name, {"result": each.value}) or 0 for each in EstimateResult}
    )


@dataclass
class Stage:
    """A fleet with estimators, and their client."""

    services: Services = field(default_factory=Services)
    clock: FakeClock = field(default_factory=FakeClock)
    counted: Counter = field(default_factory=counted)
    settings: EstimatorSettings = field(default_factory=EstimatorSettings)
    servers: dict[str, EstimatorServer] = field(default_factory=dict)
    estimators: object = None

    def serve(self, cluster, says=0, credentials=None):
        server = self.servers[cluster] = EstimatorServer(cluster, says, credentials)
        self.services.lead(server)
        return server

    def open(self, *clusters):
        self.estimators = open_estimators(self.settings, self.services, self.clock)
        for name in clusters or self.servers:
            self.estimators.add(name)
        wait_until_connected(self.estimators)
        return self.estimators

    def results(self):
        return counted() - self.counted

    def ask(self, *clusters, timeout_s=PATIENT_S):
        return self.estimators.max_available(query(*(clusters or self.servers)), timeout_s)

    def ask_until_broken(self, cluster):
        for _ in range(FAILURES_UNTIL_BROKEN):
            assert self.ask(cluster, timeout_s=HASTY_S) == {}

    def trial_is_over(self):
        """Return whether the only estimator waits for its next trial. During a trial, it waits longer."""
        [due_s] = (each.breaker._due_s for each in self.estimators._clusters.values())  # noqa: SLF001 - time and addresses of connections are not visible from outside
        return due_s <= self.clock.monotonic_s() + LONGEST_TRIAL_WAIT_S

    def close(self):
        if self.estimators is not None:
            self.estimators.close()
        for server in self.servers.values():
            server.close()


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.close()


def test_each_cluster_is_asked_about_itself(stage):
    for name, replicas in {"a": 3, "b": 0, "c": 2**31 - 1}.items():
        stage.serve(name, replicas)
    stage.open()
    assert stage.ask() == {"a": 3, "b": 0, "c": 2**31 - 1}
    assert stage.ask("a") == {"a": 3}
    assert {name: server.asked[0][0].cluster for name, server in stage.servers.items()} == {
        "a": "a",
        "b": "b",
        "c": "c",
    }
    assert stage.results() == {"answered": 4}


def test_a_request_has_the_requirements_and_the_workload(stage):
    server = stage.serve("a", 1)
    requirements = ReplicaRequirements(
        quantities({"cpu": "1500m"}), NodeClaim(node_selector={"disk": "ssd"}), "shop", "high"
    )
    query = EstimatorQuery(["a"], replicas_question, (requirements,), "Deployment shop/wäb\n")
    stage.open().max_available(query, PATIENT_S)
    [(request, described)] = server.asked
    requirements = request.replicaRequirements
    assert described == "Deployment shop/w?b?"
    assert (requirements.namespace, requirements.priorityClassName) == ("shop", "high")
    assert parsed("Quantity", requirements.resourceRequestBytes["cpu"]).string == "1500m"
    assert dict(requirements.nodeClaim.nodeSelector) == {"disk": "ssd"}


def test_a_request_for_unschedulable_replicas_names_the_workload_and_the_time(stage):
    server = stage.serve("a", 2)
    asked = ObjectReference("apps/v1", "Deployment", "web", "shop")
    query = EstimatorQuery(["a"], unschedulable_question, (asked, 300), "Deployment shop/web")
    assert stage.open().max_available(query, PATIENT_S) == {"a": 2}
    [(request, _)] = server.asked
    resource = request.resource
    assert (request.cluster, request.unschedulableThreshold) == ("a", 300 * 10**9)
    assert (resource.apiVersion, resource.kind, resource.namespace, resource.name) == (
        "apps/v1",
        "Deployment",
        "shop",
        "web",
    )


@cases(
    ("says", "result"),
    {
        "has no opinion": (-1, "no-opinion"),
        "answers a negative number": (-7, "no-opinion"),
        "fails": (grpc.StatusCode.INTERNAL, "failed"),
        "has another version": (grpc.StatusCode.UNIMPLEMENTED, "failed"),
        "cancels": (grpc.StatusCode.CANCELLED, "failed"),
        "answers no protobuf message": (b"\x08", "failed"),
        "answers too many bytes": (b"\x12" + b"\xff\xff\x07" + bytes(2**17), "failed"),
        "does not answer in time": (HANG, "overdue"),
    },
)
def test_an_estimator_without_answer_does_not_affect_the_others(stage, says, result):
    stage.serve("bad", says)
    stage.serve("good", 7)
    stage.open()
    assert stage.ask(timeout_s=3.0 if says == HANG else PATIENT_S) == {"good": 7}
    assert stage.results() == {result: 1, "answered": 1}


def test_the_answer_of_another_clusters_estimator_does_not_count(stage):
    stage.serve("good", 7)
    stage.services.known["karmada-scheduler-estimator-bad"] = external(stage.servers["good"].port)
    stage.open("good", "bad")
    assert stage.ask("good", "bad") == {"good": 7}


@cases(
    ("service", "problem"),
    {
        "no server listens": (external(1), "127.0.0.1:1: connection refused"),
        "the Service has no address": (external(1, type="NodePort"), "accepted is ExternalName"),
        "the API server refuses the lookup": (403, "403"),
    },
)
def test_an_estimator_without_connection_costs_nothing(stage, caplog, service, problem):
    stage.serve("good", 7)
    stage.services.known["karmada-scheduler-estimator-dead"] = service
    stage.open("good", "dead")
    for _ in range(5):
        assert stage.ask("good", "dead") == {"good": 7}
    assert stage.results() == {"answered": 5, "skipped": 5}
    assert REGISTRY.get_sample_value("berthmaster_scheduler_broken_estimators") == 1
    [record] = [record for record in caplog.records if record.name == "berthmaster.estimators"]
    assert problem in record.fields["problem"]


def test_without_a_service_the_names_inside_the_cluster_are_tried_in_order(stage, monkeypatch):
    server = stage.serve("a", 5)
    tried = []
    opened = channels._channel  # noqa: SLF001 - time and addresses of connections are not visible from outside

    def resolved(address, tls):
        tried.append(address)
        return opened("127.0.0.1:1" if "cluster.local" in address else f"127.0.0.1:{server.port}", tls)

    monkeypatch.setattr(channels, "_channel", resolved)
    stage.services.known.clear()
    stage.open()
    assert stage.ask() == {"a": 5}
    name = "karmada-scheduler-estimator-a.karmada-system.svc"
    assert tried == [f"{name}.cluster.local:10352", f"{name}:10352"]


def test_all_requests_share_one_deadline(stage):
    for name in "abcdefgh":
        stage.serve(name, HANG)
    stage.open()
    began = time.monotonic()
    assert stage.ask(timeout_s=2.0) == {}
    assert time.monotonic() - began < 12, "one after the other, they would take 16 seconds"


def test_a_hanging_estimator_is_skipped_until_a_trial_succeeds(stage, caplog):
    caplog.set_level(logging.INFO)
    server = stage.serve("a", HANG)
    stage.open()
    stage.ask_until_broken("a")
    for _ in range(5):
        assert stage.ask("a") == {}
    assert stage.results()["skipped"] == 5
    assert len(server.asked) == FAILURES_UNTIL_BROKEN

    server.says = 4
    stage.clock.pass_by(LONGEST_TRIAL_WAIT_S)
    assert stage.ask("a") == {}  # the trial runs in the background
    wait_for(lambda: stage.ask("a") == {"a": 4})
    messages = [record.getMessage() for record in caplog.records if record.name == "berthmaster.estimators"]
    assert [" ".join(each.split()[:5]) for each in messages] == [
        "a scheduler estimator failed; the",
        "a scheduler estimator is skipped;",
        "a scheduler estimator answers again",
    ]


def test_a_trial_that_fails_costs_decisions_nothing(stage):
    server = stage.serve("a", HANG)
    stage.open()
    stage.ask_until_broken("a")
    for trial in range(2):
        stage.clock.pass_by(2 * LONGEST_TRIAL_WAIT_S)
        assert stage.ask("a", timeout_s=HASTY_S) == {}
        assert stage.results()["skipped"] == trial + 1
        wait_for(lambda seen=trial: len(server.asked) == FAILURES_UNTIL_BROKEN + seen + 1)
        wait_for(stage.trial_is_over)


def test_a_restarted_estimator_is_connected_again(stage):
    server = stage.serve("a", 4)
    stage.open()
    assert stage.ask() == {"a": 4}
    server.close()
    assert stage.ask(timeout_s=HASTY_S) == {}
    server.open()

    def answers() -> bool:
        stage.clock.pass_by(LONGEST_TRIAL_WAIT_S)
        return stage.ask() == {"a": 4}

    wait_for(answers)  # gRPC pauses before it connects again


def test_a_trial_looks_up_the_service_again(stage):
    stage.services.known["karmada-scheduler-estimator-a"] = external(1)
    stage.open("a")
    assert stage.ask("a") == {}
    stage.serve("a", 4)
    stage.clock.pass_by(LONGEST_TRIAL_WAIT_S)
    wait_for(lambda: stage.ask("a") == {"a": 4})


def test_clusters_are_added_and_removed(stage):
    stage.serve("a", 1)
    estimators = stage.open()
    assert stage.ask("a", "b") == {"a": 1}
    stage.serve("b", 2)
    estimators.add("b")
    estimators.add("b")
    assert stage.ask("a", "b") == {"a": 1, "b": 2}  # the first connection is waited for
    estimators.remove("a")
    estimators.remove("a")
    assert stage.ask("a", "b") == {"b": 2}
    assert stage.services.asked.count("/api/v1/namespaces/karmada-system/services/karmada-scheduler-estimator-b") == 1


def test_a_cluster_that_is_removed_during_a_request_fails_alone(stage):
    stage.serve("good", 7)
    leaving = stage.serve("leaving", HANG)
    estimators = stage.open()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(stage.ask, "good", "leaving")
        wait_for(lambda: bool(leaving.asked))
        estimators.remove("leaving")
        assert asked.result(PATIENT_S / 2) == {"good": 7}


def test_invalid_requirements_send_no_request(stage):
    server = stage.serve("a", 1)
    requirements = ReplicaRequirements(node_claim=NodeClaim({"nodeSelectorTerms": "all"}))
    query = EstimatorQuery(["a"], replicas_question, (requirements,), "Deployment d/n")
    assert stage.open().max_available(query, PATIENT_S) == {}
    assert not server.asked


def test_closed_estimators_answer_nothing(stage):
    stage.serve("a", 1)
    estimators = stage.open()
    estimators.close()
    estimators.add("b")
    estimators.remove("a")
    assert stage.ask() == {}
    stage.estimators = None


def server_credentials(authority: Authority, name: str, *, mutual: bool):
    certificate, key = authority.issue(name)
    return grpc.ssl_server_credentials(
        [(key.read_bytes(), certificate.read_bytes())], authority.ca.read_bytes() if mutual else None, mutual
    )


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def options(authority: Authority, *, client="", **fields) -> EstimatorSettings:
    certificate, key = authority.issue(client) if client else (None, None)
    ca_file = fields.pop("ca", authority.ca)
    return EstimatorSettings(ca_file=ca_file, cert_file=certificate, key_file=key, **fields)


@cases(
    ("mutual", "fields", "expected"),
    {
        "TLS": (False, {}, {"a": 5}),
        "mutual TLS": (True, {"client": "berthmaster"}, {"a": 5}),
        "mutual TLS without a client certificate fails": (True, {}, {}),
        "any certificate is accepted without verification": (
            True,
            {"client": "berthmaster", "ca": None, "verify": False},
            {"a": 5},
        ),
        "also with a CA file": (False, {"verify": False}, {"a": 5}),
    },
)
def test_estimators_over_tls(stage, authority, mutual, fields, expected):
    stage.serve("a", 5, server_credentials(authority, "estimator", mutual=mutual))
    stage.settings = options(authority, **fields)
    stage.open()
    assert stage.ask() == expected


def test_a_certificate_of_another_ca_is_rejected(stage, authority, tmp_path):
    (tmp_path / "other").mkdir()
    stage.serve("a", 5, server_credentials(Authority(tmp_path / "other"), "estimator", mutual=False))
    stage.settings = options(authority)
    stage.open()
    assert stage.ask() == {}


def test_an_estimator_without_tls_is_rejected(stage, authority):
    stage.serve("a", 5)
    stage.serve("b", 6, server_credentials(authority, "estimator", mutual=False))
    stage.settings = options(authority, ca=None, verify=False)
    stage.open()
    assert stage.ask() == {"b": 6}


def test_a_new_client_certificate_needs_no_restart(stage, authority, tmp_path):
    (tmp_path / "old").mkdir()
    old = Authority(tmp_path / "old")
    stage.serve("a", 5, server_credentials(authority, "estimator", mutual=True))
    certificate, key = tmp_path / "mounted.pem", tmp_path / "mounted.key"
    for target, source in zip((certificate, key), old.issue("berthmaster"), strict=True):
        target.write_bytes(source.read_bytes())
    stage.settings = EstimatorSettings(ca_file=authority.ca, cert_file=certificate, key_file=key)
    stage.open()
    assert stage.ask() == {}
    for target, source in zip((certificate, key), authority.issue("berthmaster"), strict=True):
        target.write_bytes(source.read_bytes())

    def heals():
        stage.clock.pass_by(LONGEST_TRIAL_WAIT_S)
        return stage.ask(timeout_s=1.0) == {"a": 5}

    wait_for(heals)


@cases(
    ("fields", "problem"),
    {
        "a certificate without its key": ({"cert_file": "berthmaster.pem"}, "set both"),
        "no CA file": ({"cert_file": "berthmaster.pem", "key_file": "berthmaster.key"}, "set the CA file"),
        "a missing file": ({"ca_file": "gone.pem"}, "cannot be set up"),
        "an invalid CA file": ({"ca_file": "berthmaster.key"}, "cannot be set up"),
        "a key of another certificate": (
            {"cert_file": "ca.pem", "key_file": "berthmaster.key", "ca_file": "ca.pem"},
            "cannot be set up",
        ),
    },
)
def test_invalid_tls_settings_are_an_error_at_the_start(stage, authority, tmp_path, fields, problem):
    authority.issue("berthmaster")
    stage.settings = EstimatorSettings(**{name: Path(tmp_path, file) for name, file in fields.items()})
    with pytest.raises(InputError, match=problem):
        stage.open()


def test_without_grpc_the_error_names_the_package(stage, monkeypatch):
    monkeypatch.delitem(sys.modules, "berthmaster.controllers.estimators.channels")
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(InputError, match=r"pip install .*\[estimator\]"):
        stage.open()
