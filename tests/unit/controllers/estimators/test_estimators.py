"""Estimators over real gRPC on loopback: answers, failures, and what they cost."""

import logging
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from authority import Authority
from builders import quantities
from estimator_messages import parsed
from estimator_server import HANG, EstimatorServer, Services, eventually, external

from berthmaster.controllers.estimators import channels
from berthmaster.controllers.estimators.addresses import Naming
from berthmaster.controllers.estimators.breaker import FAILURES_UNTIL_BROKEN, LONGEST_REST_S
from berthmaster.controllers.estimators.enabling import Settings, open_estimators
from berthmaster.controllers.estimators.tls import TLSOptions
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements

PATIENT_S = 5.0
HASTY_S = 0.6


@dataclass
class HandClock:
    now_s: float = 100.0

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic_s(self):
        return self.now_s


@dataclass
class Meter:
    results: Counter = field(default_factory=Counter)
    broken_now: int = 0

    def asked(self, result):
        self.results[result] += 1

    def took(self, seconds):
        assert seconds >= 0

    def broken(self, clusters):
        self.broken_now = clusters


@dataclass
class Stage:
    """A fleet with estimators, and whoever asks them."""

    services: Services = field(default_factory=Services)
    clock: HandClock = field(default_factory=HandClock)
    meter: Meter = field(default_factory=Meter)
    tls: TLSOptions = field(default_factory=TLSOptions)
    servers: dict[str, EstimatorServer] = field(default_factory=dict)
    estimators: object = None

    def serve(self, cluster, says=0, credentials=None):
        server = self.servers[cluster] = EstimatorServer(cluster, says, credentials)
        self.services.lead(server)
        return server

    def open(self, *clusters):
        settings = Settings(Naming(), self.tls)
        self.estimators = open_estimators(settings, self.services, self.clock, self.meter)
        for name in clusters or self.servers:
            self.estimators.add(name)
        assert self.estimators.wait(PATIENT_S)
        return self.estimators

    def ask(self, *clusters, timeout_s=PATIENT_S):
        return self.estimators.max_available(clusters or list(self.servers), None, "Deployment d/n", timeout_s)

    def ask_until_broken(self, cluster):
        for _ in range(FAILURES_UNTIL_BROKEN):
            assert self.ask(cluster, timeout_s=HASTY_S) == {}

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
    assert stage.meter.results == {"answered": 4}


def test_an_estimator_is_told_what_a_replica_needs_and_of_which_workload(stage):
    server = stage.serve("a", 1)
    requirements = ReplicaRequirements(
        quantities({"cpu": "1500m"}), NodeClaim(node_selector={"disk": "ssd"}), "shop", "high"
    )
    stage.open().max_available(["a"], requirements, "Deployment shop/wäb\n", PATIENT_S)
    [(request, described)] = server.asked
    told = request.replicaRequirements
    assert described == "Deployment shop/w?b?"
    assert (told.namespace, told.priorityClassName) == ("shop", "high")
    assert parsed("Quantity", told.resourceRequestBytes["cpu"]).string == "1500m"
    assert dict(told.nodeClaim.nodeSelector) == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("says", "result"),
    [
        pytest.param(-1, "no-opinion", id="has no opinion"),
        pytest.param(-7, "no-opinion", id="says what makes no sense"),
        pytest.param(grpc.StatusCode.INTERNAL, "failed", id="fails"),
        pytest.param(grpc.StatusCode.UNIMPLEMENTED, "failed", id="is of another version"),
        pytest.param(grpc.StatusCode.CANCELLED, "failed", id="gives up"),
        pytest.param(b"\x08", "failed", id="answers what is no message"),
        pytest.param(b"\x12" + b"\xff\xff\x07" + bytes(2**17), "failed", id="answers far too much"),
        pytest.param(HANG, "overdue", id="does not answer in time"),
    ],
)
def test_one_that_does_not_answer_is_left_out_and_the_others_count(stage, says, result):
    stage.serve("bad", says)
    stage.serve("good", 7)
    stage.open()
    assert stage.ask(timeout_s=HASTY_S if says == HANG else PATIENT_S) == {"good": 7}
    assert stage.meter.results == {result: 1, "answered": 1}


def test_the_estimator_of_another_cluster_is_no_answer(stage):
    stage.serve("good", 7)
    stage.services.known["karmada-scheduler-estimator-bad"] = external(stage.servers["good"].port)
    stage.open("good", "bad")
    assert stage.ask("good", "bad") == {"good": 7}


@pytest.mark.parametrize(
    ("service", "told"),
    [
        pytest.param(external(1), "127.0.0.1:1: nobody answers there", id="nobody listens"),
        pytest.param(external(1, type="NodePort"), "accepted is ExternalName", id="the Service leads nowhere"),
        pytest.param(403, "403", id="the API server does not tell"),
    ],
)
def test_one_that_cannot_be_connected_to_costs_nothing(stage, caplog, service, told):
    stage.serve("good", 7)
    stage.services.known["karmada-scheduler-estimator-dead"] = service
    stage.open("good", "dead")
    began = time.monotonic()
    for _ in range(5):
        assert stage.ask("good", "dead") == {"good": 7}
    assert time.monotonic() - began < PATIENT_S / 2
    assert stage.meter.results == {"answered": 5, "skipped": 5}
    assert stage.meter.broken_now == 1
    [record] = [record for record in caplog.records if record.name == "berthmaster.estimators"]
    assert told in record.fields["problem"]


def test_without_a_service_the_names_inside_the_cluster_are_tried_in_turn(stage, monkeypatch):
    server = stage.serve("a", 5)
    tried = []
    opened = channels._channel

    def resolved(address, trust):
        tried.append(address)
        return opened("127.0.0.1:1" if "cluster.local" in address else f"127.0.0.1:{server.port}", trust)

    monkeypatch.setattr(channels, "_channel", resolved)
    stage.services.known.clear()
    stage.open()
    assert stage.ask() == {"a": 5}
    name = "karmada-scheduler-estimator-a.karmada-system.svc"
    assert tried == [f"{name}.cluster.local:10352", f"{name}:10352"]


def test_the_deadline_is_one_for_all(stage):
    for name in "abcdefgh":
        stage.serve(name, HANG)
    stage.open()
    began = time.monotonic()
    assert stage.ask(timeout_s=HASTY_S) == {}
    assert time.monotonic() - began < 4 * HASTY_S


def test_one_that_keeps_hanging_is_not_waited_for_until_a_trial_goes_well(stage, caplog):
    caplog.set_level(logging.INFO)
    server = stage.serve("a", HANG)
    stage.open()
    stage.ask_until_broken("a")
    began = time.monotonic()
    for _ in range(5):
        assert stage.ask("a") == {}
    assert time.monotonic() - began < PATIENT_S / 2
    assert len(server.asked) == FAILURES_UNTIL_BROKEN

    server.says = 4
    stage.clock.now_s += LONGEST_REST_S
    assert stage.ask("a") == {}  # the trial is made beside this decision, not for it
    assert eventually(lambda: stage.ask("a") == {"a": 4})
    told = [record.getMessage() for record in caplog.records if record.name == "berthmaster.estimators"]
    assert [" ".join(each.split()[:6]) for each in told] == [
        "a scheduler estimator failed; its cluster's",
        "a scheduler estimator is not waited",
        "a scheduler estimator answers again",
    ]


def test_a_trial_that_fails_costs_decisions_nothing(stage):
    server = stage.serve("a", HANG)
    stage.open()
    stage.ask_until_broken("a")
    for trial in range(2):
        stage.clock.now_s += 2 * LONGEST_REST_S
        began = time.monotonic()
        assert stage.ask("a", timeout_s=HASTY_S) == {}
        assert time.monotonic() - began < HASTY_S
        assert eventually(lambda seen=trial: len(server.asked) == FAILURES_UNTIL_BROKEN + seen + 1)
        time.sleep(2 * HASTY_S)  # the trial is over by then


def test_one_that_restarts_is_connected_to_again(stage):
    server = stage.serve("a", 4)
    stage.open()
    assert stage.ask() == {"a": 4}
    server.close()
    assert stage.ask(timeout_s=HASTY_S) == {}
    server.open()
    time.sleep(1.0)  # gRPC's own pause before it connects again
    assert stage.ask() == {"a": 4}


def test_a_trial_looks_the_service_up_anew(stage):
    stage.services.known["karmada-scheduler-estimator-a"] = external(1)
    stage.open("a")
    assert stage.ask("a") == {}
    stage.serve("a", 4)
    stage.clock.now_s += LONGEST_REST_S
    assert eventually(lambda: stage.ask("a") == {"a": 4})


def test_clusters_come_and_go(stage):
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


def test_a_cluster_that_leaves_while_it_is_asked_fails_alone(stage):
    stage.serve("good", 7)
    leaving = stage.serve("leaving", HANG)
    estimators = stage.open()
    asked = estimators._submit(estimators._ask(["good", "leaving"], b"", (), PATIENT_S))
    assert eventually(lambda: bool(leaving.asked))
    estimators.remove("leaving")
    assert asked.result(PATIENT_S / 2) == {"good": 7}


def test_requirements_that_cannot_be_told_ask_nobody(stage):
    server = stage.serve("a", 1)
    requirements = ReplicaRequirements(node_claim=NodeClaim({"nodeSelectorTerms": "all"}))
    assert stage.open().max_available(["a"], requirements, "Deployment d/n", PATIENT_S) == {}
    assert not server.asked


def test_once_closed_they_say_nothing(stage):
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


def options(authority: Authority, *, client="", **fields) -> TLSOptions:
    certificate, key = authority.issue(client) if client else (None, None)
    return TLSOptions(fields.pop("ca", authority.ca), certificate, key, **fields)


@pytest.mark.parametrize(
    ("mutual", "fields", "expected"),
    [
        pytest.param(False, {}, {"a": 5}, id="TLS"),
        pytest.param(True, {"client": "berthmaster"}, {"a": 5}, id="mutual TLS"),
        pytest.param(True, {}, {}, id="mutual TLS without a certificate is refused"),
        pytest.param(
            True,
            {"client": "berthmaster", "ca": None, "insecure_skip_verify": True},
            {"a": 5},
            id="whatever certificate it shows is taken if verification is skipped",
        ),
        pytest.param(
            False,
            {"insecure_skip_verify": True},
            {"a": 5},
            id="also where an authority is named beside that",
        ),
    ],
)
def test_estimators_over_tls(stage, authority, mutual, fields, expected):
    stage.serve("a", 5, server_credentials(authority, "estimator", mutual=mutual))
    stage.tls = options(authority, **fields)
    stage.open()
    assert stage.ask() == expected


def test_an_estimator_of_another_authority_is_not_believed(stage, authority, tmp_path):
    (tmp_path / "other").mkdir()
    stage.serve("a", 5, server_credentials(Authority(tmp_path / "other"), "estimator", mutual=False))
    stage.tls = options(authority)
    stage.open()
    assert stage.ask() == {}


def test_one_without_tls_is_not_believed_either(stage, authority):
    stage.serve("a", 5)
    stage.serve("b", 6, server_credentials(authority, "estimator", mutual=False))
    stage.tls = options(authority, ca=None, insecure_skip_verify=True)
    stage.open()
    assert stage.ask() == {"b": 6}


def test_a_new_certificate_of_ours_needs_no_restart(stage, authority, tmp_path):
    (tmp_path / "old").mkdir()
    old = Authority(tmp_path / "old")
    stage.serve("a", 5, server_credentials(authority, "estimator", mutual=True))
    certificate, key = tmp_path / "mounted.pem", tmp_path / "mounted.key"
    for target, source in zip((certificate, key), old.issue("berthmaster"), strict=True):
        target.write_bytes(source.read_bytes())
    stage.tls = TLSOptions(authority.ca, certificate, key)
    stage.open()
    assert stage.ask() == {}
    for target, source in zip((certificate, key), authority.issue("berthmaster"), strict=True):
        target.write_bytes(source.read_bytes())

    def heals():
        stage.clock.now_s += LONGEST_REST_S
        return stage.ask(timeout_s=1.0) == {"a": 5}

    assert eventually(heals)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param({"cert_file": "berthmaster.pem"}, "belong together", id="a certificate without its key"),
        pytest.param(
            {"cert_file": "berthmaster.pem", "key_file": "berthmaster.key"},
            "name their authority",
            id="and no authority",
        ),
        pytest.param({"ca_file": "gone.pem"}, "cannot be set up", id="a file that is not there"),
        pytest.param({"ca_file": "berthmaster.key"}, "cannot be set up", id="an authority that is none"),
        pytest.param(
            {"cert_file": "ca.pem", "key_file": "berthmaster.key", "ca_file": "ca.pem"},
            "cannot be set up",
            id="a key that does not fit",
        ),
    ],
)
def test_options_that_do_not_fit_are_told_at_the_start(stage, authority, tmp_path, fields, told):
    authority.issue("berthmaster")
    stage.tls = TLSOptions(**{name: Path(tmp_path, file) for name, file in fields.items()})
    with pytest.raises(InputError, match=told):
        stage.open()


def test_without_grpc_it_says_what_to_install(stage, monkeypatch):
    monkeypatch.delitem(sys.modules, "berthmaster.controllers.estimators.channels")
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(InputError, match=r"pip install 'berthmaster\[estimator\]'"):
        stage.open()
