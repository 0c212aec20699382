"""The binding scheduler's desk with what estimators say."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from builders import cluster, quantities
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked
from estimator_server import EstimatorServer, Services
from msgspec.structs import replace

from berthmaster.controllers.binding_scheduler.assumptions import Assumptions
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.estimating import estimating
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.plan import Version
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.resources import requests_of

CLUSTERS = [cluster(name, cpu=10) for name in "ab"]
ONE_CPU = {"cpu": 1}


@dataclass
class HandClock:
    now_s: float = 100.0

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic_s(self):
        return self.now_s


class Said:
    """Estimators that always say the same, and remember whom they were asked about."""

    def __init__(self, **bounds):
        self.bounds = bounds
        self.questions = []

    def __call__(self, question):
        self.questions.append(question)
        return {name: self.bounds[name] for name in question.clusters if name in self.bounds}


def desk(ask, clock=None, failover_after_s=None):
    made = Desk(karmada_profile(), clock or HandClock(), FailoverOptions(failover_after_s), ask)
    for each in CLUSTERS:
        made.cluster_changed(each)
    return made


def key(binding):
    return binding.metadata.namespace, binding.metadata.name


def assigned(step):
    return {each.name: each.replicas for each in step.write.clusters}


def decided(desk, **fields):
    binding = asked(**{"scheduling": DYNAMIC, "requests": ONE_CPU, **fields})
    step = desk.decide(key(binding), binding)
    return assigned(step) if step.write is not None else step.verdict.reason


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"a": 2, "b": 9}, {"a": 1, "b": 5}, id="divided by it"),
        pytest.param({"b": 9}, {"a": 3, "b": 3}, id="the summary where one says nothing"),
        pytest.param({"a": 2, "b": 3}, "Unschedulable", id="too little in all"),
    ],
)
def test_bindings_go_by_what_estimators_say(bounds, expected):
    ask = Said(**bounds)
    assert decided(desk(ask), replicas=6) == expected
    [question] = ask.questions
    assert (question.clusters, question.described) == (["a", "b"], "Deployment default/nginx")


def test_a_burst_does_not_give_away_twice_what_estimators_say_is_there():
    made = desk(Said(a=4, b=0))
    found = [decided(made, name=f"w{index}", replicas=2) for index in range(3)]
    assert found == [{"a": 2}, {"a": 2}, "Unschedulable"]


def test_nobody_is_asked_for_a_binding_that_stays_as_it_is():
    ask = Said(a=9, b=9)
    made = desk(ask)
    binding = asked(scheduling=DYNAMIC, requests=ONE_CPU, replicas=2)
    step = made.decide(key(binding), binding)
    written = step.write.applied(binding, Version("2", 2))
    assert not made.decide(key(binding), written).write
    assert len(ask.questions) == 1


def test_nobody_is_asked_for_copies():
    ask = Said(a=0)
    assert decided(desk(ask), replicas=2, scheduling=DUPLICATED) == {"a": 2, "b": 2}
    assert not ask.questions


def test_failover_goes_by_it_too():
    clock, ask = HandClock(), Said(b=1)
    made = desk(ask, clock, 10.0)
    binding = asked(scheduling=AGGREGATED, requests=ONE_CPU, replicas=3, clusters={"a": 3})
    made.cluster_changed(cluster("a", cpu=10, ready=False))
    clock.now_s += 11
    assert "stays on a" in made.decide(key(binding), binding).warning
    ask.bounds["b"] = 3
    assert assigned(made.decide(key(binding), binding)) == {"b": 3}


def test_nothing_is_locked_while_estimators_think():
    thinking, told = threading.Event(), threading.Event()

    def ask(_):
        thinking.set()
        assert told.wait(5)
        return {}

    made = desk(ask)
    worker = threading.Thread(target=decided, args=(made,), kwargs={"replicas": 2})
    worker.start()
    assert thinking.wait(5)
    assert made.assumptions() == 0  # needs the lock
    told.set()
    worker.join(5)
    assert made.assumptions() == 2


@pytest.mark.parametrize(
    ("loads", "requests", "held"),
    [
        pytest.param([], ONE_CPU, 0, id="nothing is on its way"),
        pytest.param([(3, ONE_CPU)], ONE_CPU, 3, id="the same"),
        pytest.param([(3, {"cpu": "500m"})], ONE_CPU, 2, id="smaller ones, rounded up"),
        pytest.param([(2, {"cpu": 3, "memory": "1Gi"})], {"cpu": 1, "memory": "4Gi"}, 6, id="by what is scarcest"),
        pytest.param([(2, ONE_CPU), (1, {"cpu": 2})], ONE_CPU, 4, id="several together"),
        pytest.param([(2, {"memory": "1Gi"})], ONE_CPU, 0, id="of other resources"),
        pytest.param([(2, ONE_CPU)], None, 2, id="one for one without requests"),
    ],
)
def test_what_is_on_its_way_is_held_in_replicas_of_a_request(loads, requests, held):
    assumptions = Assumptions()
    assumptions.cluster_changed(cluster("a", cpu=99))
    for index, (replicas, each) in enumerate(loads):
        assumptions.assume(("d", str(index)), {}, {"a": replicas}, requests_of(quantities(each)), 0.0)
    assert assumptions.held("a", None if requests is None else requests_of(quantities(requests))) == held
    assert assumptions.held("unknown", ()) == 0


class Meter:
    def asked(self, result):
        pass

    def took(self, seconds):
        pass

    def broken(self, clusters):
        pass


def test_estimators_follow_the_clusters_and_the_settings():
    server = EstimatorServer("a", 4)
    services = Services({"est-a": None}, otherwise=403)
    services.lead(server)
    services.known = {"est-a": services.known["karmada-scheduler-estimator-a"]}
    context = ControllerContext(services, HandClock(), None, None)
    opened = estimating(EstimatorSettings(prefix="est"), context, Meter())
    try:
        changed, gone = CLUSTERS[0], replace(CLUSTERS[0])
        opened.cluster_changed(("", "a"), None, changed)
        made = Desk(karmada_profile(), HandClock(), FailoverOptions(), opened.ask)
        made.cluster_changed(changed)
        assert decided(made, replicas=5) == "Unschedulable"
        opened.cluster_changed(("", "a"), gone, None)
        assert decided(made, replicas=5) == {"a": 5}
    finally:
        opened.close()
        server.close()
