"""Which estimators a decision asks, and how the answers change it."""

from dataclasses import replace

import grpc
import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, outcome, spread, static
from estimator_server import HANG, EstimatorServer, Services, wait_until_connected
from fake_clock import FakeClock

from berthmaster.controllers.estimators.estimators import EstimatorQuery, open_estimators, query_of
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.model.binding import Component
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

PATIENT_S = 30.0
HASTY_S = 3.0  # for answers that never come; the others must come within this time on a slow machine
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


@pytest.mark.parametrize(
    ("fields", "clusters"),
    [
        pytest.param({}, ["a", "b"], id="clusters that pass the filters"),
        pytest.param({"groups": GROUPS}, ["a", "b"], id="clusters of all groups, each once"),
        pytest.param({"groups": GROUPS, "observed": "three"}, ["b"], id="clusters of the groups that may be tried"),
        pytest.param(
            {"groups": GROUPS, "observed": "three", "fresh": True}, ["a", "b"], id="a fresh decision may try all groups"
        ),
        pytest.param(
            {"groups": [group("one", "a", overflowAffinities=[group("over", "b")])], "scheduling": DUPLICATED},
            ["a", "b"],
            id="clusters of the overflow",
        ),
        pytest.param({"clusters": {"c": 1}}, ["a", "b", "c"], id="a current cluster that skips the filters"),
        pytest.param(
            {"scheduling": DUPLICATED, "spread": [spread("cluster", 1, 1)]},
            ["a", "b"],
            id="copies with a spread constraint",
        ),
    ],
)
def test_the_clusters_that_a_decision_asks(fields, clusters):
    found = query(**fields)
    assert found is not None
    assert found.clusters == clusters


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"replicas": 0}, id="no replicas"),
        pytest.param({"scheduling": DUPLICATED}, id="copies on every cluster"),
        pytest.param({"scheduling": None}, id="copies by default"),
        pytest.param({"scheduling": static(("a", 1))}, id="static weights"),
        pytest.param({"clusterAffinity": {"clusterNames": ["x"]}}, id="no cluster fits"),
        pytest.param({"groups": []}, id="no groups"),
    ],
)
def test_a_decision_without_capacity_asks_no_estimator(fields):
    assert query(**fields) is None


@pytest.mark.parametrize(
    ("fields", "workload"),
    [
        pytest.param({"name": "web", "namespace": "shop"}, "Deployment shop/web", id="in a namespace"),
        pytest.param({"name": "web", "namespace": ""}, "Deployment web", id="cluster-scoped"),
    ],
)
def test_the_query_names_the_workload(fields, workload):
    assert query(**fields).workload == workload


@pytest.fixture
def estimators():
    opened = []

    def of(**says):
        services = Services(otherwise=403)  # other clusters have no estimator
        for name, each in says.items():
            server = EstimatorServer(name, each)
            opened.append(server)
            services.lead(server)
        estimators = open_estimators(EstimatorSettings(), services, FakeClock())
        opened.insert(0, estimators)
        for each in FLEET:
            estimators.add(each.name)
        wait_until_connected(estimators)
        return estimators

    yield of
    for each in opened:
        each.close()


def decide(estimators, timeout_s=PATIENT_S, **fields):
    scheduler = Scheduler(Fleet(FLEET), karmada_profile())
    binding = asked(**fields)
    request = Request.of(binding)
    query = query_of(scheduler, request, binding.spec)
    bounds = None if query is None else estimators.max_available(query, timeout_s)
    return bounds, outcome(scheduler.schedule(replace(request, bounds=bounds)))


@pytest.mark.parametrize(
    ("says", "bounds", "expected"),
    [
        pytest.param({"a": 2, "b": 9}, {"a": 2, "b": 9}, {"a": 2, "b": 9}, id="a bounded cluster gets fewer replicas"),
        pytest.param({"a": 99, "b": 99}, {"a": 99, "b": 99}, {"a": 6, "b": 5}, id="the summary still counts"),
        pytest.param({"a": 1, "b": 1}, {"a": 1, "b": 1}, "Insufficient", id="too few replicas are available"),
        pytest.param({"b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="no estimator: the summary decides"),
        pytest.param(
            {"a": grpc.StatusCode.INTERNAL, "b": 3},
            {"b": 3},
            {"a": 8, "b": 3},
            id="a failed request: the summary decides for this cluster",
        ),
        pytest.param({"a": HANG, "b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="no answer in time"),
        pytest.param({"a": -1, "b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="no opinion"),
        pytest.param({}, {}, {"a": 6, "b": 5}, id="no estimator answers"),
    ],
)
def test_answers_bound_decisions(estimators, says, bounds, expected):
    timeout_s = HASTY_S if HANG in says.values() else PATIENT_S
    assert decide(estimators(**says), timeout_s, replicas=11, scheduling=DYNAMIC) == (bounds, expected)


def test_a_decision_without_query_has_no_bounds(estimators):
    assert decide(estimators(a=1), replicas=5, scheduling=DUPLICATED) == (None, {"a": 5, "b": 5})


def test_a_group_without_available_replicas_is_left(estimators):
    groups = [group("one", "a"), group("two", "b")]
    assert decide(estimators(a=4, b=9), replicas=5, scheduling=AGGREGATED, groups=groups) == (
        {"a": 4, "b": 9},
        {"b": 5},
    )


def test_a_workload_with_components_is_one_query(estimators):
    components = (Component("x", 1), Component("y", 1))
    bounds, _ = decide(estimators(a=4, b=9), replicas=2, components=components, scheduling=AGGREGATED)
    assert bounds == {"a": 4, "b": 9}
