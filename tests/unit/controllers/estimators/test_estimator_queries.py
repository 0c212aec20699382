"""What estimators are asked, in which messages, where they are, and when they are skipped."""

from contextlib import suppress

import msgspec.structs
import pytest
from builders import cluster, quantities
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, spread, static
from estimator_messages import parsed, proto
from estimator_server import Services, external
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.controllers.estimators.circuit_breaker import (
    FAILURES_UNTIL_BROKEN,
    FIRST_TRIAL_WAIT_S,
    LONGEST_TRIAL_WAIT_S,
    CircuitBreaker,
    EstimatorHealth,
)
from berthmaster.controllers.estimators.endpoints import addresses
from berthmaster.controllers.estimators.messages import answered_number, replicas_question, sets_question
from berthmaster.controllers.estimators.queries import EstimatorQuery, query_of
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.model.binding import Component
from berthmaster.model.errors import ApiError, ServiceError
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements
from berthmaster.model.taint import Toleration
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

FLEET = [
    cluster("a", pods=10),
    cluster("b", pods=10),
    cluster("c", pods=10, taints=["gpu:NoSchedule"]),
    cluster("d", pods=10, serves=[]),
]


def group(name, *clusters, **fields):
    return {"affinityName": name, "clusterNames": list(clusters), **fields}


def query(**fields) -> EstimatorQuery | None:
    binding = asked(**{"scheduling": DYNAMIC, **fields})
    return query_of(Scheduler(Fleet(FLEET), karmada_profile()), Request.of(binding), binding.spec)


GROUPS = [group("one", "a"), group("two", "a", "b"), group("three", "b", "c")]


@cases(
    ("fields", "clusters"),
    {
        "clusters that pass the filters": ({}, ["a", "b"]),
        "clusters of all groups, each once": ({"groups": GROUPS}, ["a", "b"]),
        "clusters of the groups that may be tried": ({"groups": GROUPS, "observed": "three"}, ["b"]),
        "a fresh decision may try all groups": ({"groups": GROUPS, "observed": "three", "fresh": True}, ["a", "b"]),
        "clusters of the overflow": (
            {"groups": [group("one", "a", overflowAffinities=[group("over", "b")])], "scheduling": DUPLICATED},
            ["a", "b"],
        ),
        "a current cluster that skips the filters": ({"clusters": {"c": 1}}, ["a", "b", "c"]),
        "copies with a spread constraint": (
            {"scheduling": DUPLICATED, "spread": [spread("cluster", 1, 1)]},
            ["a", "b"],
        ),
    },
)
def test_the_clusters_that_a_decision_asks(fields, clusters):
    found = query(**fields)
    assert found.clusters == clusters


@cases(
    "fields",
    {
        "no replicas": {"replicas": 0},
        "copies on every cluster": {"scheduling": DUPLICATED},
        "copies by default": {"scheduling": None},
        "static weights": {"scheduling": static(("a", 1))},
        "no cluster fits": {"clusterAffinity": {"clusterNames": ["x"]}},
        "no groups": {"groups": []},
    },
)
def test_a_decision_without_capacity_asks_no_estimator(fields):
    assert query(**fields) is None


@cases(
    ("fields", "workload"),
    {
        "in a namespace": ({"name": "web", "namespace": "shop"}, "Deployment shop/web"),
        "cluster-scoped": ({"name": "web", "namespace": ""}, "Deployment web"),
    },
)
def test_the_query_names_the_workload(fields, workload):
    assert query(**fields).workload == workload


IN_SHOP = ReplicaRequirements(quantities({"cpu": 1}), None, "shop")
SETS = (Component("driver", 1, IN_SHOP), Component("worker", 3, IN_SHOP))


@cases(
    ("namespace", "fields", "content"),
    {
        "replicas": (
            "shop",
            {"replica_requirements": IN_SHOP},
            (ReplicaRequirements(quantities({"cpu": 1}), None, "-"),),
        ),
        "no requirements": ("shop", {}, ()),
        "no namespace": ("", {"replica_requirements": ReplicaRequirements(quantities({"cpu": 1}))}, ()),
        "sets of pods": ("shop", {"components": SETS}, (SETS, "-")),
        "sets of pods without a namespace": ("", {"components": SETS}, ()),
    },
)
def test_the_question_without_quotas_is_about_no_namespace(namespace, fields, content):
    binding = asked(namespace=namespace, scheduling=AGGREGATED, spread=[spread("cluster", 1, 1)])
    binding = msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, **fields))
    question = query_of(Scheduler(Fleet(FLEET), karmada_profile()), Request.of(binding), binding.spec)
    assert question.outside == content
    if content:
        again = question.without_quotas(["b"])
        assert (again.clusters, again.content, again.encode) == (["b"], content, question.encode)


SERVICE = "karmada-scheduler-estimator-m1"


@cases(
    ("service", "settings", "expected"),
    {
        "no Service: the estimator is in this cluster": (
            404,
            EstimatorSettings(),
            [
                "karmada-scheduler-estimator-m1.karmada-system.svc.cluster.local:10352",
                "karmada-scheduler-estimator-m1.karmada-system.svc:10352",
            ],
        ),
        "names from the settings": (
            404,
            EstimatorSettings("ns", "est", 7),
            ["est-m1.ns.svc.cluster.local:7", "est-m1.ns.svc:7"],
        ),
        "the address of an ExternalName": (
            external(4242, "est.example.com"),
            EstimatorSettings(),
            ["est.example.com:4242"],
        ),
        "the target of the configured port": (
            external(0, "h", ports=[{"port": 1, "targetPort": 2}, {"port": 10352, "targetPort": 3}]),
            EstimatorSettings(),
            ["h:3"],
        ),
    },
)
def test_addresses_of_an_estimator(service, settings, expected):
    assert addresses(Services({SERVICE: service}), settings, "m1") == expected


def test_the_service_is_looked_up_by_name_in_the_namespace():
    server = Services()
    addresses(server, EstimatorSettings("ns", "est"), "m1")
    assert server.asked == ["/api/v1/namespaces/ns/services/est-m1"]


@cases(
    ("service", "problem"),
    {
        "a type without an address": (
            external(1, type="ClusterIP"),
            "has the type 'ClusterIP'; accepted is ExternalName",
        ),
        "without the port": (external(1, ports=[{"port": 1, "targetPort": 1}]), "its port 10352 needs a targetPort"),
        "a named targetPort": (
            external(1, ports=[{"port": 10352, "targetPort": "grpc"}]),
            "a targetPort that is a number",
        ),
        "an invalid Service": (
            {"spec": {"ports": 3}},
            "Service karmada-system/karmada-scheduler-estimator-m1: spec.ports",
        ),
        "not a Service": (b"<html>", "not valid JSON"),
    },
)
def test_an_unusable_service_is_an_error(service, problem):
    with pytest.raises(ServiceError, match=problem):
        addresses(Services({SERVICE: service}), EstimatorSettings(), "m1")


def test_other_errors_of_the_api_server_are_raised():
    with pytest.raises(ApiError, match="403"):
        addresses(Services({SERVICE: 403}), EstimatorSettings(), "m1")


@pytest.fixture
def breaker(clock):
    return CircuitBreaker(clock)


def fail(breaker, times=FAILURES_UNTIL_BROKEN):
    for _ in range(times):
        breaker.failed()


def test_the_breaker_opens_after_enough_failures(breaker):
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    assert (breaker.health, breaker.closed) == (EstimatorHealth.FAILING, True)
    breaker.failed()
    assert (breaker.health, breaker.closed) == (EstimatorHealth.BROKEN, False)


def test_a_success_resets_the_count(breaker):
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    breaker.succeeded()
    fail(breaker, FAILURES_UNTIL_BROKEN - 1)
    assert breaker.closed


def test_without_a_connection_the_breaker_opens_at_once(breaker):
    breaker.open()
    assert not breaker.closed


def test_a_closed_breaker_has_no_trial(breaker, clock):
    clock.pass_by(10 * LONGEST_TRIAL_WAIT_S)
    assert not breaker.begin_trial()


def test_one_trial_is_due_after_the_wait(breaker, clock):
    fail(breaker)
    assert not breaker.begin_trial()
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    assert breaker.begin_trial()
    assert not breaker.begin_trial()


def test_a_successful_trial_closes_the_breaker(breaker, clock):
    fail(breaker)
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    breaker.begin_trial()
    breaker.succeeded()
    assert (breaker.health, breaker.closed) == (EstimatorHealth.HEALTHY, True)


def test_rests_grow_with_failed_trials_up_to_a_limit(breaker, clock):
    fail(breaker)
    rests = []
    for _ in range(8):
        began_s = clock.passed_s
        while not breaker.begin_trial():
            clock.pass_by(0.25)
        rests.append(clock.passed_s - began_s)
        breaker.open()
    assert FIRST_TRIAL_WAIT_S / 2 <= rests[0] <= FIRST_TRIAL_WAIT_S + 0.25
    assert rests[1] > FIRST_TRIAL_WAIT_S - 0.25
    assert all(LONGEST_TRIAL_WAIT_S / 2 <= rest <= LONGEST_TRIAL_WAIT_S + 0.25 for rest in rests[5:])


def test_late_failures_do_not_delay_the_trial(breaker, clock):
    fail(breaker)
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    fail(breaker)
    assert breaker.begin_trial()


def test_a_trial_that_does_not_end_times_out(breaker, clock):
    fail(breaker)
    clock.pass_by(FIRST_TRIAL_WAIT_S)
    assert breaker.begin_trial()
    clock.pass_by(3 * LONGEST_TRIAL_WAIT_S)
    assert breaker.begin_trial()


def amounts(**texts):
    return {name: proto("Quantity", string=text).SerializeToString() for name, text in texts.items()}


def toleration(**fields):
    return proto("Toleration", **fields).SerializeToString()


def requirement(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def for_all_releases(requirements):
    """Return requirements with the fields that Karmada had up to 1.18, beside those that it has since."""
    found = dict(requirements)
    if "resourceRequestBytes" in found:
        found["resourceRequest"] = {
            name: parsed("Quantity", each) for name, each in found["resourceRequestBytes"].items()
        }
    if claim := dict(found.get("nodeClaim", {})):
        if "nodeAffinityBytes" in claim:
            claim["nodeAffinity"] = parsed("NodeSelector", claim["nodeAffinityBytes"])
        claim["tolerations"] = [parsed("Toleration", each) for each in claim.get("tolerationsBytes", ())]
        found["nodeClaim"] = claim
    return found


AFFINITY = {
    "nodeSelectorTerms": [
        {"matchExpressions": [requirement("zone", "In", "a", "b"), requirement("gpu", "Exists")]},
        {"matchFields": [requirement("metadata.name", "NotIn", "n1")], "matchExpressions": None},
        {},
    ]
}
AFFINITY_PROTO = proto(
    "NodeSelector",
    nodeSelectorTerms=[
        {"matchExpressions": [requirement("zone", "In", "a", "b"), requirement("gpu", "Exists")]},
        {"matchFields": [requirement("metadata.name", "NotIn", "n1")]},
        {},
    ],
)


@cases(
    ("requirements", "expected"),
    {
        "without requirements an empty message asks for pod slots": (None, {}),
        "empty requirements": (ReplicaRequirements(), {}),
        "amounts in their canonical form": (
            ReplicaRequirements(quantities({"cpu": "500m", "memory": "1.5Gi", "nvidia.com/gpu": 2})),
            {"resourceRequestBytes": amounts(**{"cpu": "500m", "memory": "1536Mi", "nvidia.com/gpu": "2"})},
        ),
        "namespace and priority class, for quotas": (
            ReplicaRequirements(quantities({"cpu": 0}), namespace="shop", priority_class_name="high"),
            {"namespace": "shop", "priorityClassName": "high", "resourceRequestBytes": amounts(cpu="0")},
        ),
        "an empty claim": (ReplicaRequirements(node_claim=NodeClaim()), {"nodeClaim": {}}),
        "node selector and node affinity": (
            ReplicaRequirements(node_claim=NodeClaim(AFFINITY, {"disk": "ssd", "arch": ""})),
            {
                "nodeClaim": {
                    "nodeSelector": {"disk": "ssd", "arch": ""},
                    "nodeAffinityBytes": AFFINITY_PROTO.SerializeToString(),
                }
            },
        ),
        "tolerations, including one for all taints": (
            ReplicaRequirements(
                node_claim=NodeClaim(
                    tolerations=(
                        Toleration("gpu", "Equal", "a100", "NoSchedule"),
                        Toleration(operator="Exists", toleration_seconds=0),
                        Toleration("slow", toleration_seconds=-1),
                        Toleration(),
                    )
                )
            ),
            {
                "nodeClaim": {
                    "tolerationsBytes": [
                        toleration(key="gpu", operator="Equal", value="a100", effect="NoSchedule"),
                        toleration(operator="Exists", tolerationSeconds=0),
                        toleration(key="slow", tolerationSeconds=-1),
                        b"",
                    ]
                }
            },
        ),
    },
)
def test_a_request_equals_that_of_the_protobuf_library(requirements, expected):
    written = replicas_question(requirements).request("member1")
    golden = proto("MaxAvailableReplicasRequest", cluster="member1", replicaRequirements=for_all_releases(expected))
    assert parsed("MaxAvailableReplicasRequest", written) == golden
    assert written == golden.SerializeToString(deterministic=True)
    assert parsed("MaxAvailableReplicasRequest", written).HasField("replicaRequirements")


def test_a_question_about_sets_equals_that_of_the_protobuf_library():
    components = (
        Component("driver", 1, ReplicaRequirements(quantities({"cpu": "500m"}), NodeClaim(None, {"gpu": "yes"}))),
        Component("worker", 3, ReplicaRequirements(quantities({}), None, "", "high")),
        Component("idle", 0),
    )
    written = sets_question(components, "shop")
    assert written.method.endswith("/MaxAvailableComponentSets")
    amount = proto("Quantity", string="500m").SerializeToString()
    golden = proto(
        "MaxAvailableComponentSetsRequest",
        cluster="member1",
        namespace="shop",
        components=[
            {
                "name": "driver",
                "replicas": 1,
                "replicaRequirements": for_all_releases(
                    {"nodeClaim": {"nodeSelector": {"gpu": "yes"}}, "resourceRequestBytes": {"cpu": amount}}
                ),
            },
            {"name": "worker", "replicas": 3, "replicaRequirements": {"priorityClassName": "high"}},
            {"name": "idle"},
        ],
    )  # fmt: skip
    read = parsed("MaxAvailableComponentSetsRequest", written.request("member1"))
    assert read == golden
    assert not read.components[2].HasField("replicaRequirements")


NAMES = st.text(max_size=200)


@given(st.dictionaries(NAMES, st.integers(0, 2**62)), NAMES, NAMES, st.dictionaries(NAMES, NAMES), st.lists(NAMES))
def test_encoded_requirements_decode_to_the_same(asked, namespace, priority_class, selector, values):
    claim = NodeClaim({"nodeSelectorTerms": [{"matchExpressions": [requirement("k", "In", *values)]}]}, selector)
    question = replicas_question(ReplicaRequirements(quantities(asked), claim, namespace, priority_class))
    read = parsed("MaxAvailableReplicasRequest", question.request("member1")).replicaRequirements
    amounts_read = {name: parsed("Quantity", each).string for name, each in read.resourceRequestBytes.items()}
    affinity = parsed("NodeSelector", read.nodeClaim.nodeAffinityBytes)
    assert amounts_read == {name: each.canonical() for name, each in quantities(asked).items()}
    assert (read.namespace, read.priorityClassName) == (namespace, priority_class)
    assert dict(read.nodeClaim.nodeSelector) == selector
    assert list(affinity.nodeSelectorTerms[0].matchExpressions[0].values) == values


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_number_is_decoded(replicas):
    assert answered_number(proto("MaxAvailableReplicasResponse", maxReplicas=replicas).SerializeToString()) == replicas


@given(st.binary(max_size=64))
def test_any_bytes_are_a_response_or_a_service_error(content):
    with suppress(ServiceError):
        assert -(2**31) <= answered_number(content) < 2**31
