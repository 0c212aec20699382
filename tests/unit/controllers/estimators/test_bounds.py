"""Decisions with what estimators say: whom they ask, and what comes of it."""

from dataclasses import replace
from datetime import UTC, datetime

import grpc
import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, outcome, spread, static
from estimator_server import HANG, EstimatorServer, Services

from berthmaster.controllers.estimators.bounds import Question, bounds_for, question_of
from berthmaster.controllers.estimators.enabling import Settings, open_estimators
from berthmaster.model.binding import Component
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


def question(**fields) -> Question | None:
    binding = asked(**{"scheduling": DYNAMIC, **fields})
    return question_of(Scheduler(Fleet(FLEET), karmada_profile()), Request.of(binding), binding.spec)


GROUPS = [group("one", "a"), group("two", "a", "b"), group("three", "b", "c")]


@pytest.mark.parametrize(
    ("fields", "clusters"),
    [
        pytest.param({}, ["a", "b"], id="those that pass the filters"),
        pytest.param({"groups": GROUPS}, ["a", "b"], id="of all groups, each once"),
        pytest.param({"groups": GROUPS, "observed": "three"}, ["b"], id="of the groups that the walk may come to"),
        pytest.param(
            {"groups": GROUPS, "observed": "three", "fresh": True}, ["a", "b"], id="which are all when it starts afresh"
        ),
        pytest.param(
            {"groups": [group("one", "a", overflowAffinities=[group("over", "b")])], "scheduling": DUPLICATED},
            ["a", "b"],
            id="and what these overflow to",
        ),
        pytest.param({"clusters": {"c": 1}}, ["a", "b", "c"], id="a current one that is spared the filters"),
        pytest.param(
            {"scheduling": DUPLICATED, "spread": [spread("cluster", 1, 1)]},
            ["a", "b"],
            id="copies where clusters are chosen",
        ),
    ],
)
def test_whom_a_decision_asks(fields, clusters):
    found = question(**fields)
    assert found is not None
    assert found.clusters == clusters


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"replicas": 0}, id="nothing to place"),
        pytest.param({"scheduling": DUPLICATED}, id="copies on every cluster"),
        pytest.param({"scheduling": None}, id="copies by default"),
        pytest.param({"scheduling": static(("a", 1))}, id="fixed weights"),
        pytest.param({"clusterAffinity": {"clusterNames": ["x"]}}, id="no cluster that fits"),
        pytest.param({"groups": []}, id="no groups"),
    ],
)
def test_a_decision_that_room_plays_no_part_in_asks_nobody(fields):
    assert question(**fields) is None


@pytest.mark.parametrize(
    ("fields", "described"),
    [
        pytest.param({"name": "web", "namespace": "shop"}, "Deployment shop/web", id="in a namespace"),
        pytest.param({"name": "web", "namespace": ""}, "Deployment web", id="cluster-scoped"),
    ],
)
def test_the_workload_is_described_for_people(fields, described):
    assert question(**fields).described == described


class Clock:
    def now(self):
        return datetime.now(UTC)

    def monotonic_s(self):
        return 0.0


class Meter:
    def asked(self, result):
        pass

    def took(self, seconds):
        pass

    def broken(self, clusters):
        pass


@pytest.fixture
def estimators():
    """Opens estimators of what clusters say."""
    opened = []

    def of(**says):
        services = Services(otherwise=403)  # others have none, and are not looked for
        for name, each in says.items():
            server = EstimatorServer(name, each)
            opened.append(server)
            services.lead(server)
        estimators = open_estimators(Settings(), services, Clock(), Meter())
        opened.insert(0, estimators)
        for each in FLEET:
            estimators.add(each.name)
        assert estimators.wait(5)
        return estimators

    yield of
    for each in opened:
        each.close()


def decide(estimators, **fields):
    scheduler = Scheduler(Fleet(FLEET), karmada_profile())
    binding = asked(**fields)
    request = Request.of(binding)
    bounds = bounds_for(scheduler, request, binding.spec, estimators, timeout_s=1.0)
    return bounds, outcome(scheduler.schedule(replace(request, bounds=bounds)))


@pytest.mark.parametrize(
    ("says", "bounds", "expected"),
    [
        pytest.param({"a": 2, "b": 9}, {"a": 2, "b": 9}, {"a": 2, "b": 9}, id="a bounded cluster gets fewer replicas"),
        pytest.param({"a": 99, "b": 99}, {"a": 99, "b": 99}, {"a": 6, "b": 5}, id="the summary still holds"),
        pytest.param({"a": 1, "b": 1}, {"a": 1, "b": 1}, "Insufficient", id="too little room is told"),
        pytest.param({"b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="without an estimator the summary decides"),
        pytest.param(
            {"a": grpc.StatusCode.INTERNAL, "b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="also where one fails, for it alone"
        ),
        pytest.param({"a": HANG, "b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="or does not answer in time"),
        pytest.param({"a": -1, "b": 3}, {"b": 3}, {"a": 8, "b": 3}, id="or has no opinion"),
        pytest.param({}, {}, {"a": 6, "b": 5}, id="and for all where nobody answers"),
    ],
)
def test_decisions_go_by_what_estimators_say(estimators, says, bounds, expected):
    assert decide(estimators(**says), replicas=11, scheduling=DYNAMIC) == (bounds, expected)


def test_a_decision_that_needs_none_has_no_bounds(estimators):
    assert decide(estimators(a=1), replicas=5, scheduling=DUPLICATED) == (None, {"a": 5, "b": 5})


def test_the_walk_leaves_a_group_that_estimators_say_is_full(estimators):
    groups = [group("one", "a"), group("two", "b")]
    assert decide(estimators(a=4, b=9), replicas=5, scheduling=AGGREGATED, groups=groups) == (
        {"a": 4, "b": 9},
        {"b": 5},
    )


def test_a_workload_of_components_is_asked_for_as_a_whole(estimators):
    components = (Component("x", 1), Component("y", 1))
    bounds, _ = decide(estimators(a=4, b=9), replicas=2, components=components, scheduling=AGGREGATED)
    assert bounds == {"a": 4, "b": 9}
