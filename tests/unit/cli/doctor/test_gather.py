"""What is asked, and what is made of the answers."""

import base64
import contextlib
import socket
import socketserver
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from certified import TurnedClock
from examined import AUTHORITY, DAY, NOW, SETUP, leaf
from told_api import ToldApi

from berthmaster.controllers.rbac import rules_of
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Setup, Unknown, Workload
from berthmaster_cli.doctor.gather import api_server, fleet, host, webhooks
from berthmaster_cli.doctor.gather.asker import Asker, InNameOf, seen
from berthmaster_cli.doctor.gather.collector import Round
from berthmaster_cli.doctor.judge import GROUPS
from certs.authority import issue, new_authority
from certs.bundle import EMPTY, Bundle
from certs.registration import Endpoint

VERSION = {"gitVersion": "v1.34.1", "major": "1", "minor": "34+"}
SECOND = timedelta(seconds=1)


def asker(answers, **more):
    return Asker(ToldApi(answers, **more), 1.0)


def pages(*contents):
    return [{"metadata": {"continue": "" if last else "more"}, "items": items} for items, last in contents]


class TestAsking:
    def test_a_question_that_nobody_answers_is_given_up_in_time(self):
        gate, started = threading.Event(), time.monotonic()
        answer = seen(gate.wait, 0.05)
        gate.set()
        assert isinstance(answer, Unknown)
        assert "0.05 s" in answer.problem
        assert time.monotonic() - started < 5

    @pytest.mark.parametrize(
        ("error", "forbidden"),
        [(ApiError(403, "Forbidden", "no"), True), (ApiError(0, "", "gone"), False), (OSError("broken"), False)],
        ids=["a refusal", "no answer", "an error of the machine's"],
    )
    def test_what_cannot_be_seen_says_why(self, error, forbidden):
        def question():
            raise error

        answer = seen(question, 1)
        assert isinstance(answer, Unknown)
        assert answer.problem == str(error)
        assert answer.forbidden is forbidden

    def test_an_answer_that_is_no_object_is_one_that_cannot_be_seen(self):
        assert isinstance(seen(lambda: asker({"GET /x": [["list"]]}).read(APIRequest("/x")), 1), Unknown)

    def test_rights_are_asked_in_the_name_of_somebody_else(self):
        api = ToldApi({"GET /version": VERSION})
        Asker(InNameOf(api, "them"), 1).read(APIRequest("/version"))
        assert api.asked[0].headers == (("Impersonate-User", "them"),)


class TestServer:
    @pytest.mark.parametrize("ahead_s", [-3600, 0, 90])
    def test_the_clock_is_read_from_the_answer(self, ahead_s):
        told = api_server.server(asker({"GET /version": VERSION}, now=NOW + ahead_s * SECOND), lambda: NOW)
        assert (told.version, told.number) == ("v1.34.1", (1, 34))
        assert abs(told.ahead - ahead_s * SECOND) <= told.slack

    def test_a_server_that_tells_no_time(self):
        assert api_server.server(asker({"GET /version": VERSION}), lambda: NOW).ahead is None

    def test_schemas_are_found_through_references_and_end_where_they_refer_to_themselves(self):
        meant = [{"group": "x.io", "version": "v1", "kind": "Thing"}]
        properties = {
            "spec": {"$ref": "#/components/schemas/Spec"},
            "more": {"allOf": [{"$ref": "#/components/schemas/Spec"}], "default": {}},
            "list": {"items": {"$ref": "#/components/schemas/Spec"}},
        }
        schemas = {
            "Thing": {"properties": properties, "x-kubernetes-group-version-kind": meant},
            "Spec": {"properties": {"name": {"type": "string"}, "again": {"$ref": "#/components/schemas/Spec"}}},
        }
        answers = {
            "GET /apis/x.io/v1": {"resources": [{"name": "things"}, {"name": "things/status"}]},
            "GET /openapi/v3/apis/x.io/v1": {"components": {"schemas": schemas}},
        }
        kinds = api_server.kinds(asker(answers), "x.io/v1")
        assert kinds.plurals == {"things"}
        found = kinds.schemas["Thing"]["properties"]
        assert found["spec"]["properties"]["again"]["properties"]["name"] == {"type": "string"}
        assert "name" in found["more"]["properties"]
        assert "name" in found["list"]["items"]["properties"]


class TestHooks:
    def test_ours_and_those_about_the_same_objects(self):
        about = {"apiGroups": ["policy.karmada.io"], "resources": ["propagationpolicies"]}
        client = {"service": {"name": "w", "namespace": "n", "path": "/mutate-propagationpolicy"}}
        registered_webhooks = [
            {"name": "a.karmada.io", "clientConfig": {"url": "https://k:443/x"}, "rules": [about]},
            {"name": "pods.example.org", "clientConfig": {"url": "https://p/"},
             "rules": [{"apiGroups": [""], "resources": ["pods"]}]},
            {"name": "b.berthmaster.io", "clientConfig": {**client, "caBundle": bundle_text()}, "rules": [],
             "failurePolicy": "Ignore", "timeoutSeconds": 3, "objectSelector": {"matchLabels": {"a": "b"}}},
            {"name": "c.berthmaster.io", "clientConfig": {"url": "https://c/", "caBundle": "%%%"}},
        ]  # fmt: skip
        registered = "GET /apis/admissionregistration.k8s.io/v1"
        answers = {
            f"{registered}/mutatingwebhookconfigurations": {
                "items": [{"metadata": {"name": "x"}, "webhooks": registered_webhooks}]
            },
            f"{registered}/validatingwebhookconfigurations": {"items": []},
        }
        found = {each.name: each for each in webhooks.hooks(asker(answers))}
        assert set(found) == {"a.karmada.io", "b.berthmaster.io", "c.berthmaster.io"}
        ours = found["b.berthmaster.io"]
        assert (ours.url, ours.path) == ("https://w.n.svc:443/mutate-propagationpolicy", "/mutate-propagationpolicy")
        assert (ours.is_service, ours.fails_closed, ours.narrowed, ours.timeout_s) == (True, False, True, 3.0)
        assert AUTHORITY.certificate in ours.bundle
        assert not found["a.karmada.io"].has_bundle
        assert found["c.berthmaster.io"].has_bundle
        assert not len(found["c.berthmaster.io"].bundle)


@pytest.fixture
def tls(tmp_path):
    """A function that serves a certificate on loopback, and says where."""
    servers = []

    def serve(pair):
        (tmp_path / "crt").write_bytes(pair.certificate_pem)
        (tmp_path / "key").write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
        servers.append(TlsServer(context))
        return Endpoint("127.0.0.1", servers[-1].server_address[1], "/")

    yield serve
    for each in servers:
        each.shutdown()
        each.server_close()


class TlsServer(socketserver.ThreadingTCPServer):
    """Shakes hands, and no more."""

    def __init__(self, context):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._context = context
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def finish_request(self, request, client_address):  # noqa: ARG002 - its base class gives it
        with contextlib.suppress(OSError), self._context.wrap_socket(request, server_side=True) as session:
            session.recv(1)


class TestServed:
    """Certificates are judged by the clock of the machine here."""

    HERE = datetime.now(UTC)
    OURS = new_authority("ours", 10 * DAY, HERE - 5 * DAY)

    def leaf(self, host="127.0.0.1", authority=OURS, life=2 * DAY, age=DAY):
        return issue(authority, "webhook", (host,), life, self.HERE - age)

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            pytest.param({}, 0, id="trusted"),
            pytest.param({"host": "other.svc"}, 64, id="another name"),
            pytest.param({"age": 3 * DAY}, 10, id="expired"),
            pytest.param({"age": -DAY}, 9, id="not valid yet"),
            pytest.param({"authority": new_authority("strange", DAY, HERE)}, 20, id="by somebody else"),
        ],
    )
    def test_what_a_client_that_trusts_the_bundle_says(self, tls, change, code):
        pair = self.leaf(**change)
        found = webhooks.served(tls(pair), Bundle([self.OURS.certificate]), 5)
        assert (found.contact, found.mistrust_code) == ("served", code), found
        assert found.leaf == pair.certificate
        assert bool(found.mistrust) is bool(code)

    def test_without_a_bundle_it_is_only_looked_at(self, tls):
        assert webhooks.served(tls(self.leaf()), EMPTY, 5).mistrust == ""

    @pytest.mark.parametrize(
        ("host", "contact"), [("nowhere.invalid", "unresolved"), ("127.0.0.1", "unreachable")],
    )  # fmt: skip
    def test_where_nobody_is(self, host, contact):
        assert webhooks.served(Endpoint(host, 1, "/"), EMPTY, 1).contact == contact

    def test_a_server_without_tls(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=answer_plainly, args=(listener,))
            thread.start()
            found = webhooks.served(Endpoint("127.0.0.1", listener.getsockname()[1], "/"), EMPTY, 5)
            thread.join()
        assert found.contact == "refused"

    def test_a_server_that_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            started = time.monotonic()
            found = webhooks.served(Endpoint("127.0.0.1", listener.getsockname()[1], "/"), EMPTY, 0.2)
        assert found.contact == "unreachable"
        assert time.monotonic() - started < 5


def answer_plainly(listener):
    client, _ = listener.accept()
    with client:
        client.recv(1000)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class TestTrial:
    POLICIES = "POST /apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
    CLUSTER_POLICIES = "POST /apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"

    def test_nothing_is_stored(self):
        api = ToldApi({self.POLICIES: {"kind": "PropagationPolicy"}, self.CLUSTER_POLICIES: {}})
        came = webhooks.trial(Asker(api, 1), "default", time.monotonic)
        assert came.stored == {"kind": "PropagationPolicy"}
        assert len(came.took_s) == webhooks.TRIES
        assert all(("dryRun", "All") in each.query for each in api.asked)

    def test_warnings_are_read(self):
        there = ToldApi({self.POLICIES: {}, self.CLUSTER_POLICIES: {}})
        there.headers = {"Warning": ['299 - "spec.x: no [rule]"', '299 - "other"']}
        assert webhooks.trial(Asker(there, 1), "default", time.monotonic).bad_warnings == ("spec.x: no [rule]", "other")

    def test_a_refusal_ends_it(self):
        api = ToldApi({self.POLICIES: ApiError(500, "InternalError", "failed calling webhook")})
        came = webhooks.trial(Asker(api, 1), "default", time.monotonic)
        assert (came.stored, came.problem, came.status) == (None, "failed calling webhook", 500)
        assert len(api.asked) == 1


class TestRights:
    def test_each_verb_of_each_resource_is_asked_about_where_it_is_needed(self):
        setup = Setup(lease=("leases", "mine"), controllers=("binding-scheduler",), estimators=True)
        asked = {each.told for each in api_server.questions(rules_of(setup.controllers, estimators=True), setup)}
        assert "patch resourcebindings/status.work.karmada.io" in asked
        assert "update leases.coordination.k8s.io in leases" in asked
        assert "get services in karmada-system" in asked
        named = [
            each.attributes
            for each in api_server.questions(rules_of(setup.controllers), setup)
            if "name" in each.attributes
        ]
        assert {each["name"] for each in named} == {"mine"}
        assert {each["verb"] for each in named} == {"get", "update"}

    def test_what_is_denied(self):
        def review(request):
            return {"status": {"allowed": b'"patch"' not in request.body}}

        answers = {"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": review}
        found = api_server.rights(asker(answers), SETUP)
        assert found.user == "", "a server before 1.28 does not tell"
        assert {told for _, told in found.denied} == {
            "patch events.events.k8s.io", "patch resourcebindings.work.karmada.io",
            "patch clusterresourcebindings.work.karmada.io", "patch resourcebindings/status.work.karmada.io",
            "patch clusterresourcebindings/status.work.karmada.io",
        }  # fmt: skip
        assert found.checked > len(found.denied)


class TestFleet:
    def test_pages_are_read_up_to_a_bound(self):
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "resourceSummary": {"allocatable": {"cpu": "1"}}}
        items = [{"metadata": {"name": "m1"}, "status": ready}, {"metadata": {"name": "m2"}}]
        api = asker({"GET /apis/cluster.karmada.io/v1alpha1/clusters": pages((items, False))})
        found = fleet.fleet(api)
        assert (found.total, found.complete) == (2 * fleet.MAX_PAGES, False)
        assert set(found.not_ready) == set(found.unmeasured) == {"m2"}

    def test_bindings_of_ours_that_wait(self):
        def binding(name, age_s=3600, seen=1, scheduler="berthmaster", reason=None, **metadata):
            condition = {"type": "Scheduled", "status": "False" if reason else "True", "reason": reason or "Success"}
            made = (NOW - age_s * SECOND).isoformat()
            return {
                "metadata": {"name": name, "namespace": "a", "generation": 2, "creationTimestamp": made, **metadata},
                "spec": {"schedulerName": scheduler},
                "status": {"schedulerObservedGeneration": seen, "conditions": [condition]},
            }

        namespaced = [
            binding("lags"), binding("new", age_s=5), binding("theirs", scheduler="other"), binding("fits", seen=2),
            binding("fits-nowhere", seen=2, reason="NoClusterFit"), binding("going", deletionTimestamp=NOW.isoformat()),
        ]  # fmt: skip
        root = "GET /apis/work.karmada.io/v1alpha2"
        answers = {
            f"{root}/resourcebindings": pages((namespaced, True)),
            f"{root}/clusterresourcebindings": pages(([binding("wide", namespace="")], True)),
        }
        found = fleet.bindings(asker(answers), "berthmaster", NOW)
        assert found.by_scheduler == {"berthmaster": 6, "other": 1}
        assert found.lagging == ("a/lags", "wide")
        assert found.unschedulable == (("a/fits-nowhere", "NoClusterFit"),)
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
    def test_components_are_known_by_the_program(self, arguments, component):
        spec = {"template": {"spec": {"containers": [{"command": arguments[:1], "args": arguments[1:]}]}}}
        item = {"metadata": {"name": "x"}, "spec": spec}
        path = "GET /apis/apps/v1/namespaces/karmada-system/deployments"
        found = host.workloads(asker({path: {"items": [item]}}), SETUP)
        assert [each.component for each in found] == ([component] if component else [])

    def test_options_in_both_forms_the_last_one_counts(self):
        workload = Workload("x", "controllers", ("--a=1", "--b", "2", "--a=3"))
        assert (workload.option("a"), workload.option("b"), workload.option("c", "4")) == ("3", "2", "4")

    def test_a_serving_secret(self):
        pair, other = leaf(), leaf()
        path = "GET /api/v1/namespaces/karmada-system/secrets/berthmaster-webhook-tls"

        def found(certificate, key):
            data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
            return host.stored(asker({path: {"data": data}}), SETUP)

        assert found(pair.certificate_pem, pair.key_pem).key_fits
        assert not found(pair.certificate_pem, other.key_pem).key_fits
        assert found(b"no certificate", pair.key_pem).leaf is None
        assert host.stored(asker({}), SETUP) is None


class TestLeases:
    def test_a_lease_and_none(self):
        content = {
            "metadata": {"name": "l", "namespace": "n"},
            "spec": {"holderIdentity": "me", "renewTime": NOW.isoformat(), "leaseDurationSeconds": 15},
        }
        root = "/apis/coordination.k8s.io/v1"
        answers = {f"GET {root}/namespaces/n/leases/l": content, f"GET {root}/leases": {"items": [content]}}
        api = asker(answers)
        assert fleet.lease(api, "n", "l") == fleet.leases_named(api, "l")[0]
        assert fleet.lease(api, "n", "l").renewed == NOW
        assert fleet.lease(api, "n", "other") is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[broken", "http://", "127.0.0.1:9080"])
def test_a_probe_that_does_not_answer_or_has_no_proper_url(url):
    found = host.probe(url, 1)
    assert (found.url, found.status) == (url, 0)
    assert found.told


def test_a_round_over_an_api_server_that_knows_nothing_ends_with_answers():
    api = ToldApi({"GET /version": VERSION}, now=NOW)
    facts = Round(
        target=api, host=api, setup=SETUP, groups=frozenset(GROUPS), clock=TurnedClock(NOW), limit_s=1.0, user="them"
    ).facts()
    assert facts.target.version == "v1.34.1"
    assert isinstance(facts.hooks, Unknown)
    assert facts.lease is None
    assert facts.host is None, "it is the target"
    mutating = {each.method for each in api.asked if ("dryRun", "All") not in each.query}
    reviews = {each.path for each in api.asked if each.method == "POST" and ("dryRun", "All") not in each.query}
    assert mutating == {"GET", "POST"}
    assert all("review" in path for path in reviews), "nothing but reviews is created"


def bundle_text():
    return base64.b64encode(AUTHORITY.certificate_pem).decode()
