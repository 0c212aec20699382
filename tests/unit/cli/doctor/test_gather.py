"""The questions that are asked, and the facts that their answers become."""

import base64
import json
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from doctor_facts import AUTHORITY, DAY, NOW, SETUP, leaf
from fake_clock import FakeClock
from kube_in_memory import ScriptedClient
from tables import cases, data

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import DeploymentFacts, KubeSchedulerFacts, Setup, Unobserved
from berthmaster_cli.doctor.gather.access import permission, questions, read_access
from berthmaster_cli.doctor.gather.certificates import read_endpoint, read_serving_secret
from berthmaster_cli.doctor.gather.client import DoctorClient, observe
from berthmaster_cli.doctor.gather.collector import Collector
from berthmaster_cli.doctor.gather.deployments import read_deployments
from berthmaster_cli.doctor.gather.dry_run import TRIES, try_policies
from berthmaster_cli.doctor.gather.fleet import read_bindings, read_clusters
from berthmaster_cli.doctor.gather.kube_scheduler import read_has_nodes, read_kube_scheduler
from berthmaster_cli.doctor.gather.leases import read_lease, read_leases
from berthmaster_cli.doctor.gather.probes import ask_probe
from berthmaster_cli.doctor.gather.server import read_kinds, read_server
from berthmaster_cli.doctor.gather.webhooks import read_webhooks
from berthmaster_cli.doctor.judge import GROUPS
from certs.authority import issue, new_authority
from certs.bundle import EMPTY, Bundle
from certs.registration import Endpoint

VERSION = {"gitVersion": "v1.34.1", "major": "1", "minor": "34+"}
SECOND = timedelta(seconds=1)


def client(answers, **more):
    return DoctorClient(ScriptedClient(answers, **more), 1.0)


def pages(*contents):
    return [{"metadata": {"continue": "" if last else "more"}, "items": items} for items, last in contents]


class TestClient:
    def test_a_question_without_an_answer_ends_at_its_timeout(self):
        gate, started = threading.Event(), time.monotonic()
        answer = observe(gate.wait, 0.05)
        gate.set()
        assert isinstance(answer, Unobserved)
        assert "0.05 s" in answer.problem
        assert time.monotonic() - started < 30

    @pytest.mark.parametrize(
        ("error", "forbidden"),
        [(ApiError(403, "Forbidden", "no"), True), (ApiError(0, "", "gone"), False), (OSError("broken"), False)],
        ids=["a refusal", "no response", "an error of the machine"],
    )
    def test_an_unobserved_fact_carries_the_reason(self, error, forbidden):
        def question():
            raise error

        answer = observe(question, 1)
        assert isinstance(answer, Unobserved)
        assert answer.problem == str(error)
        assert answer.forbidden is forbidden

    def test_a_response_that_is_no_object_is_unobserved(self):
        assert isinstance(observe(lambda: client({"GET /x": [["list"]]}).read(APIRequest("/x")), 1), Unobserved)


class TestServer:
    @pytest.mark.parametrize("ahead_s", [-3600, 0, 90])
    def test_the_clock_is_read_from_the_response(self, ahead_s):
        facts = read_server(client({"GET /version": VERSION}, now=NOW + ahead_s * SECOND), lambda: NOW)
        assert (facts.version, facts.number) == ("v1.34.1", (1, 34))
        assert abs(facts.ahead - ahead_s * SECOND) <= facts.slack

    def test_a_server_without_a_clock(self):
        assert read_server(client({"GET /version": VERSION}), lambda: NOW).ahead is None

    def test_references_in_schemas_are_resolved_even_if_they_are_circular(self):
        kinds = read_kinds(client(data("circular_schemas")), "x.io/v1")
        assert kinds.plurals == {"things"}
        found = kinds.schemas["Thing"]["properties"]
        assert found["spec"]["properties"]["again"]["properties"]["name"] == {"type": "string"}
        assert "name" in found["more"]["properties"]
        assert "name" in found["list"]["items"]["properties"]


class TestWebhooks:
    def test_our_webhooks_and_those_for_the_same_objects(self):
        registered_webhooks = json.loads(json.dumps(data("webhooks")).replace("BUNDLE", bundle_text()))
        registered = "GET /apis/admissionregistration.k8s.io/v1"
        answers = {
            f"{registered}/mutatingwebhookconfigurations": {
                "items": [{"metadata": {"name": "x"}, "webhooks": registered_webhooks}]
            },
            f"{registered}/validatingwebhookconfigurations": {"items": []},
        }
        found = {each.name: each for each in read_webhooks(client(answers))}
        assert set(found) == {"a.karmada.io", "b.berthmaster.io", "c.berthmaster.io"}
        ours = found["b.berthmaster.io"]
        assert (ours.url, ours.path) == ("https://w.n.svc:443/mutate-propagationpolicy", "/mutate-propagationpolicy")
        assert (ours.is_service, ours.fails_closed, ours.narrowed, ours.timeout_s) == (True, False, True, 3.0)
        assert AUTHORITY.certificate in ours.bundle
        assert not found["a.karmada.io"].has_bundle
        assert found["c.berthmaster.io"].has_bundle
        assert not len(found["c.berthmaster.io"].bundle)


@pytest.fixture
def tls(peer, tmp_path):
    """A function that serves a certificate on loopback and returns the endpoint."""

    def serve(pair):
        (tmp_path / "crt").write_bytes(pair.certificate_pem)
        (tmp_path / "key").write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
        return Endpoint("127.0.0.1", peer(tls=context).port, "/")

    return serve


class TestEndpoint:
    """OpenSSL judges certificates by the clock of this machine."""

    HERE = datetime.now(UTC)
    OURS = new_authority("ours", 10 * DAY, HERE - 5 * DAY)

    def leaf(self, host="127.0.0.1", authority=OURS, life=2 * DAY, age=DAY):
        return issue(authority, "webhook", (host,), life, self.HERE - age)

    @cases(
        ("change", "code"),
        {
            "trusted": ({}, 0),
            "another name": ({"host": "other.svc"}, 64),
            "expired": ({"age": 3 * DAY}, 10),
            "not valid yet": ({"age": -DAY}, 9),
            "by another authority": ({"authority": new_authority("strange", DAY, HERE)}, 20),
        },
    )
    def test_a_client_that_trusts_the_bundle_verifies_the_certificate(self, tls, change, code):
        pair = self.leaf(**change)
        found = read_endpoint(tls(pair), Bundle([self.OURS.certificate]), 5)
        assert (found.contact, found.verify_code) == ("served", code), found
        assert found.leaf == pair.certificate
        assert bool(found.verify_error) is bool(code)

    def test_without_a_bundle_nothing_is_verified(self, tls):
        assert read_endpoint(tls(self.leaf()), EMPTY, 5).verify_error == ""

    @pytest.mark.parametrize(
        ("host", "contact"), [("nowhere.invalid", "unresolved"), ("127.0.0.1", "unreachable")],
    )  # fmt: skip
    def test_an_endpoint_without_a_server(self, host, contact):
        assert read_endpoint(Endpoint(host, 1, "/"), EMPTY, 1).contact == contact

    def test_a_server_without_tls(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=answer_plainly, args=(listener,))
            thread.start()
            found = read_endpoint(Endpoint("127.0.0.1", listener.getsockname()[1], "/"), EMPTY, 5)
            thread.join()
        assert found.contact == "refused"

    def test_a_server_that_sends_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            started = time.monotonic()
            found = read_endpoint(Endpoint("127.0.0.1", listener.getsockname()[1], "/"), EMPTY, 0.2)
        assert found.contact == "unreachable"
        assert time.monotonic() - started < 30


def answer_plainly(listener):
    client, _ = listener.accept()
    with client:
        client.recv(1000)
        client.sendall(b"HTTP/1.1 400 Bad APIRequest\r\n\r\n")


class TestDryRun:
    POLICIES = "POST /apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
    CLUSTER_POLICIES = "POST /apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"

    def test_nothing_is_stored(self):
        api = ScriptedClient({self.POLICIES: {"kind": "PropagationPolicy"}, self.CLUSTER_POLICIES: {}})
        found = try_policies(DoctorClient(api, 1), "default", time.monotonic)
        assert found.policy == {"kind": "PropagationPolicy"}
        assert len(found.took_s) == TRIES
        assert all(("dryRun", "All") in each.query for each in api.asked)

    def test_warnings_are_read(self):
        api = ScriptedClient({self.POLICIES: {}, self.CLUSTER_POLICIES: {}})
        api.headers = {"Warning": ['299 - "spec.x: no [rule]"', '299 - "other"']}
        assert try_policies(DoctorClient(api, 1), "default", time.monotonic).bad_warnings == (
            "spec.x: no [rule]",
            "other",
        )

    def test_a_refusal_ends_the_dry_run(self):
        api = ScriptedClient({self.POLICIES: ApiError(500, "InternalError", "failed calling webhook")})
        found = try_policies(DoctorClient(api, 1), "default", time.monotonic)
        assert (found.policy, found.problem, found.status) == (None, "failed calling webhook", 500)
        assert len(api.asked) == 1


class TestAccess:
    def test_each_verb_of_each_resource_is_checked_in_its_namespace(self):
        setup = Setup(lease=("leases", "mine"), controllers=("binding-scheduler",), estimators=True)
        attributes = [each for _, each in questions(setup)]
        asked = {permission(each) for each in attributes}
        assert "patch resourcebindings/status.work.karmada.io" in asked
        assert "update leases.coordination.k8s.io in leases" in asked
        assert "get services in karmada-system" in asked
        named = [each for each in attributes if "name" in each]
        assert {each["name"] for each in named} == {"mine"}
        assert {each["verb"] for each in named} == {"get", "update"}

    def test_denied_permissions_are_listed(self):
        def review(request):
            return {"status": {"allowed": b'"patch"' not in request.body}}

        answers = {"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": review}
        found = read_access(client(answers), SETUP)
        assert found.user == "", "a server before 1.28 does not report it"
        assert {permission for _, permission in found.denied} == {
            "patch events.events.k8s.io", "patch resourcebindings.work.karmada.io",
            "patch clusterresourcebindings.work.karmada.io", "patch resourcebindings/status.work.karmada.io",
            "patch clusterresourcebindings/status.work.karmada.io",
        }  # fmt: skip
        assert found.checked > len(found.denied)


class TestFleet:
    def test_pages_are_read_up_to_a_bound(self):
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "resourceSummary": {"allocatable": {"cpu": "1"}}}
        items = [{"metadata": {"name": "m1"}, "status": ready}, {"metadata": {"name": "m2"}}]
        api = client({"GET /apis/cluster.karmada.io/v1alpha1/clusters": pages((items, False))})
        found = read_clusters(api)
        assert (found.complete, found.total >= 2) == (False, True)
        assert set(found.not_ready) == set(found.unmeasured) == {"m2"}

    def test_our_stale_and_unschedulable_bindings(self):
        def binding(name, age_s=3600, seen=1, scheduler="berthmaster", reason=None, **metadata):
            condition = {"type": "Scheduled", "status": "False" if reason else "True", "reason": reason or "Success"}
            made = (NOW - age_s * SECOND).isoformat()
            return {
                "metadata": {"name": name, "namespace": "a", "generation": 2, "creationTimestamp": made, **metadata},
                "spec": {"schedulerName": scheduler},
                "status": {"schedulerObservedGeneration": seen, "conditions": [condition]},
            }

        namespaced = [
            binding("stale"), binding("new", age_s=5), binding("theirs", scheduler="other"), binding("placed", seen=2),
            binding("unschedulable", seen=2, reason="NoClusterFit"), binding("gone", deletionTimestamp=NOW.isoformat()),
        ]  # fmt: skip
        root = "GET /apis/work.karmada.io/v1alpha2"
        answers = {
            f"{root}/resourcebindings": pages((namespaced, True)),
            f"{root}/clusterresourcebindings": pages(([binding("wide", namespace="")], True)),
        }
        found = read_bindings(client(answers), "berthmaster", NOW)
        assert found.by_scheduler == {"berthmaster": 6, "other": 1}
        assert found.stale == ("a/stale", "wide")
        assert found.unschedulable == (("a/unschedulable", "NoClusterFit"),)
        assert found.complete


class TestHost:
    @pytest.mark.parametrize(
        ("arguments", "component"),
        [
            (["/bin/karmada-controller-manager", "--v=4"], "karmada-controller-manager"),
            (["karmada-scheduler"], "karmada-scheduler"),
            (["webhook", "--mode=companion"], "webhook"),
            (["berthmaster", "controllers"], "controllers"),
            (["/bin/karmada-webhook", "--bind-address=0.0.0.0"], ""),
            (["nginx"], ""),
            ([], ""),
        ],
    )
    def test_components_are_recognized_by_their_program(self, arguments, component):
        spec = {"template": {"spec": {"containers": [{"command": arguments[:1], "args": arguments[1:]}]}}}
        item = {"metadata": {"name": "x"}, "spec": spec}
        path = "GET /apis/apps/v1/namespaces/karmada-system/deployments"
        found = read_deployments(client({path: {"items": [item]}}), SETUP)
        assert [each.component for each in found] == ([component] if component else [])

    def test_the_last_value_of_an_option_counts_in_both_forms(self):
        deployment = DeploymentFacts("x", "controllers", ("--a=1", "--b", "2", "--a=3"))
        assert (deployment.option("a"), deployment.option("b"), deployment.option("c", "4")) == ("3", "2", "4")

    def test_a_serving_secret(self):
        pair, other = leaf(), leaf()
        path = "GET /api/v1/namespaces/karmada-system/secrets/berthmaster-webhook-tls"

        def found(certificate, key):
            data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
            return read_serving_secret(
                client({path: {"metadata": {"name": "berthmaster-webhook-tls"}, "data": data}}), SETUP
            )

        assert found(pair.certificate_pem, pair.key_pem).key_fits
        assert not found(pair.certificate_pem, other.key_pem).key_fits
        assert found(b"no certificate", pair.key_pem).leaf is None
        assert read_serving_secret(client({}), SETUP) is None


class TestLeases:
    def test_a_lease_and_a_missing_lease(self):
        content = {
            "metadata": {"name": "l", "namespace": "n"},
            "spec": {"holderIdentity": "me", "renewTime": NOW.isoformat(), "leaseDurationSeconds": 15},
        }
        root = "/apis/coordination.k8s.io/v1"
        answers = {f"GET {root}/namespaces/n/leases/l": content, f"GET {root}/leases": {"items": [content]}}
        api = client(answers)
        assert read_lease(api, "n", "l") == read_leases(api, "l")[0]
        assert read_lease(api, "n", "l").renewed == NOW
        assert read_lease(api, "n", "other") is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[broken", "http://", "127.0.0.1:9080"])
def test_a_probe_without_a_response_or_with_an_invalid_url(url):
    found = ask_probe(url, 1)
    assert (found.url, found.status) == (url, 0)
    assert found.message


STANZA = """
extenders:
  - {urlPrefix: x, managedResources: [{name: berthmaster.io/placed, ignoredByScheduler: true}]}
"""
EXTENDER = DeploymentFacts("x", "extender", ("extender", "--kube-scheduler-members=a=b"), scheduler="second")
STANZA_PATH = "GET /api/v1/namespaces/karmada-system/configmaps/berthmaster-kube-scheduler"


class TestKubeScheduler:
    def read(self, text, extender=EXTENDER):
        answers = {} if text is None else {STANZA_PATH: {"data": {"extenders.yaml": text}}}
        return read_kube_scheduler(client(answers), SETUP, extender)

    def test_the_stanza_and_the_extender_are_read(self):
        assert self.read(STANZA) == KubeSchedulerFacts(
            managed=("berthmaster.io/placed",), own_scheduler="second", members="a=b"
        )
        assert self.read("extenders: [{ignorable: true}]", None) == KubeSchedulerFacts(ignorable=True)
        assert self.read("extenders: []", None) == KubeSchedulerFacts()
        assert self.read(None) is None

    def test_an_unreadable_stanza_is_an_error(self):
        with pytest.raises(ApiError, match="its stanza is not readable"):
            self.read("extenders: [1")

    @pytest.mark.parametrize("found", [[], [{}]])
    def test_member_nodes(self, found):
        api = client({"GET /api/v1/nodes": {"items": found}})
        assert read_has_nodes(api, "a=b") is bool(found)
        assert dict(api.client.asked[0].query) == {"labelSelector": "a=b", "limit": "1"}


def test_an_api_server_without_karmada_is_observed():
    api, asker = (ScriptedClient({"GET /version": VERSION}, now=NOW) for _ in range(2))
    facts = Collector(
        target=api, asker=asker, host=api, setup=SETUP, groups=frozenset(GROUPS), clock=FakeClock.at(NOW), limit_s=1.0
    ).collect()
    assert {each.path for each in asker.asked} == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}
    assert facts.target.version == "v1.34.1"
    assert isinstance(facts.webhooks, Unobserved)
    assert facts.lease is None
    assert facts.host is None, "the host is the target"
    mutating = {each.method for each in api.asked if ("dryRun", "All") not in each.query}
    assert mutating == {"GET"}


def bundle_text():
    return base64.b64encode(AUTHORITY.certificate_pem).decode()
