"""Decisions with the answers of estimators."""

import threading

import pytest
from builders import cluster, quantities
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked
from estimator_server import EstimatorServer, Services
from fake_clock import FakeClock
from fixed_control import default_moves
from waiting import LIMIT_S

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import EventHandlers
from berthmaster.controllers.binding_scheduler.metrics import SchedulingMetrics
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.estimators.estimators import open_estimators
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.deciding.assumed_replicas import AssumedReplicas
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import Version
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.resources import requests_of

CLUSTERS = [cluster(name, cpu=10) for name in "ab"]
ONE_CPU = {"cpu": 1}


class FakeEstimators:
    """Estimators with fixed answers that record their queries."""

    def __init__(self, **bounds):
        self.bounds = bounds
        self.queries = []

    def __call__(self, query):
        self.queries.append(query)
        return {name: self.bounds[name] for name in query.clusters if name in self.bounds}


def cluster_cache(ask, clock=None, failover_after_s=None):
    made = ClusterCache(karmada_profile(), clock or FakeClock(), FailoverOptions(failover_after_s), ask)
    for each in CLUSTERS:
        made.update_cluster(each)
    return made


def key(binding):
    return binding.metadata.key


def assigned(step):
    return {each.name: each.replicas for each in step.write.clusters}


def decided(clusters, **fields):
    binding = asked(**{"scheduling": DYNAMIC, "requests": ONE_CPU, **fields})
    step = clusters.decide_and_assume(key(binding), binding)
    return assigned(step) if step.write is not None else step.result.reason


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"a": 2, "b": 9}, {"a": 1, "b": 5}, id="replicas are divided by the answers"),
        pytest.param({"b": 9}, {"a": 3, "b": 3}, id="the summary counts where an estimator has no answer"),
        pytest.param({"a": 2, "b": 3}, "Unschedulable", id="too few replicas are available"),
    ],
)
def test_answers_bound_decisions(bounds, expected):
    ask = FakeEstimators(**bounds)
    assert decided(cluster_cache(ask), replicas=6) == expected
    [query] = ask.queries
    assert (query.clusters, query.workload) == (["a", "b"], "Deployment default/nginx")


def test_a_burst_does_not_assign_available_replicas_twice():
    made = cluster_cache(FakeEstimators(a=4, b=0))
    found = [decided(made, name=f"w{index}", replicas=2) for index in range(3)]
    assert found == [{"a": 2}, {"a": 2}, "Unschedulable"]


def test_an_unchanged_binding_asks_no_estimator():
    ask = FakeEstimators(a=9, b=9)
    made = cluster_cache(ask)
    binding = asked(scheduling=DYNAMIC, requests=ONE_CPU, replicas=2)
    step = made.decide_and_assume(key(binding), binding)
    written = step.write.applied(binding, Version("2", 2))
    assert not made.decide_and_assume(key(binding), written).write
    assert len(ask.queries) == 1


def test_duplicated_replicas_ask_no_estimator():
    ask = FakeEstimators(a=0)
    assert decided(cluster_cache(ask), replicas=2, scheduling=DUPLICATED) == {"a": 2, "b": 2}
    assert not ask.queries


def test_answers_bound_failover():
    clock, ask = FakeClock(), FakeEstimators(b=1)
    made = cluster_cache(ask, clock, 10.0)
    binding = asked(scheduling=AGGREGATED, requests=ONE_CPU, replicas=3, clusters={"a": 3})
    made.update_cluster(cluster("a", cpu=10, ready=False))
    clock.pass_by(11)
    assert "stays on a" in made.decide_and_assume(key(binding), binding).warning
    ask.bounds["b"] = 3
    assert assigned(made.decide_and_assume(key(binding), binding)) == {"b": 3}


def test_the_cache_is_not_locked_while_estimators_answer():
    asked, answered = threading.Event(), threading.Event()

    def ask(_):
        asked.set()
        assert answered.wait(LIMIT_S)
        return {}

    made = cluster_cache(ask)
    worker = threading.Thread(target=decided, args=(made,), kwargs={"replicas": 2})
    worker.start()
    assert asked.wait(LIMIT_S)
    assert made.assumed_count() == 0  # needs the lock
    answered.set()
    worker.join(LIMIT_S)
    assert made.assumed_count() == 2


@pytest.mark.parametrize(
    ("loads", "requests", "held"),
    [
        pytest.param([], ONE_CPU, 0, id="nothing is assumed"),
        pytest.param([(3, ONE_CPU)], ONE_CPU, 3, id="the same request"),
        pytest.param([(3, {"cpu": "500m"})], ONE_CPU, 2, id="smaller requests, rounded up"),
        pytest.param([(2, {"cpu": 3, "memory": "1Gi"})], {"cpu": 1, "memory": "4Gi"}, 6, id="by the scarcest resource"),
        pytest.param([(2, ONE_CPU), (1, {"cpu": 2})], ONE_CPU, 4, id="several bindings"),
        pytest.param([(2, {"memory": "1Gi"})], ONE_CPU, 0, id="other resources"),
        pytest.param([(2, ONE_CPU)], None, 2, id="one replica each without requests"),
    ],
)
def test_assumed_resources_are_counted_in_replicas_of_a_request(loads, requests, held):
    assumptions = AssumedReplicas()
    assumptions.update_cluster(cluster("a", cpu=99))
    for index, (replicas, each) in enumerate(loads):
        assumptions.assume(("d", str(index)), {}, {"a": replicas}, requests_of(quantities(each)), 0.0)
    assert assumptions.equivalent_replicas("a", None if requests is None else requests_of(quantities(requests))) == held
    assert assumptions.equivalent_replicas("unknown", ()) == 0


def test_estimators_follow_cluster_events_and_settings():
    server = EstimatorServer("a", 4)
    services = Services({"est-a": None}, otherwise=403)
    services.lead(server)
    services.known = {"est-a": services.known["karmada-scheduler-estimator-a"]}
    clock = FakeClock()
    context = ControllerContext(services, clock, None, None)
    estimators = open_estimators(EstimatorSettings(prefix="est"), services, clock)
    clusters = ClusterCache(karmada_profile(), clock, FailoverOptions(), estimators.max_available)
    queue = SchedulingQueue(clock, lambda _: 0)
    handlers = EventHandlers(
        BindingCache(context), clusters, queue, SchedulingMetrics(), "me", default_moves(clock), estimators
    )
    changed = CLUSTERS[0]
    try:
        handlers.cluster_changed(("", "a"), None, changed)
        assert decided(clusters, replicas=5) == "Unschedulable"
        handlers.cluster_changed(("", "a"), changed, None)
        clusters.update_cluster(changed)
        assert decided(clusters, replicas=5) == {"a": 5}
    finally:
        estimators.close()
        server.close()
