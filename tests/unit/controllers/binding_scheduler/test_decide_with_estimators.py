"""Decisions and moves with estimators."""

import threading
from datetime import timedelta
from typing import Any

import msgspec.structs
from builders import binding, cluster, placement, quantities
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked
from estimator_server import EstimatorServer, Services
from fake_clock import FakeClock
from fixed_control import FixedControl, default_moves
from tables import cases
from waiting import LIMIT_S

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import EventHandlers
from berthmaster.controllers.binding_scheduler.scheduling_queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.scheduling_times import SchedulingTimes
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.estimators.estimators import open_estimators
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.deciding.admissions import Admissions, Budgets
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.move_settings import MoveSettings, SourceSettings
from berthmaster.deciding.writes import Version
from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, BindingStatus
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.move import DRAINING, MOVE, MovePhase, MoveReason, MoveState, annotation_of, move_of
from berthmaster.model.work import Copies
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.pending_replicas import AssumedReplicas
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


@cases(
    ("bounds", "expected"),
    {
        "replicas are divided by the answers": ({"a": 2, "b": 9}, {"a": 1, "b": 5}),
        "the summary counts where an estimator has no answer": ({"b": 9}, {"a": 3, "b": 3}),
        "the summary still counts": ({"a": 99, "b": 5}, {"a": 4, "b": 2}),
        "too few replicas are available": ({"a": 2, "b": 3}, "Unschedulable"),
    },
)
def test_answers_bound_decisions(bounds, expected):
    ask = FakeEstimators(**bounds)
    assert decided(cluster_cache(ask), replicas=6) == expected
    [query] = ask.queries
    assert (query.clusters, query.workload) == (["a", "b"], "Deployment default/nginx")


def test_a_group_without_available_replicas_is_left():
    groups = [{"affinityName": name, "clusterNames": [name]} for name in "ab"]
    made = cluster_cache(FakeEstimators(a=4, b=9))
    assert decided(made, replicas=5, scheduling=AGGREGATED, groups=groups) == {"b": 5}


def test_a_burst_does_not_assign_available_replicas_twice():
    made = cluster_cache(FakeEstimators(a=4, b=0))
    found = [decided(made, name=f"w{index}", replicas=2) for index in range(3)]
    assert found == [{"a": 2}, {"a": 2}, "Unschedulable"]


class QuotaEstimators:
    """Estimators with room on the nodes of each cluster, and a quota in one namespace.

    Attributes:
        namespaces: the namespace of each query.
    """

    def __init__(self, *, room: int, quota: int) -> None:
        self.room, self.quota = room, quota
        self.namespaces: list[str] = []

    def __call__(self, query: EstimatorQuery) -> dict[str, int]:
        [requirements] = query.content
        self.namespaces.append(requirements.namespace)
        bound = min(self.room, self.quota) if requirements.namespace == "limited" else self.room
        return dict.fromkeys(query.clusters, bound)


def decided_with_quota(made: ClusterCache, namespace: str, replicas: int) -> Any:
    """Decide for a workload on cluster ``a`` whose requirements name its namespace."""
    binding = asked(
        name=f"w{replicas}", namespace=namespace, replicas=replicas, requests=ONE_CPU, scheduling=DYNAMIC,
        clusterAffinity={"clusterNames": ["a"]},
    )  # fmt: skip
    requirements = msgspec.structs.replace(binding.spec.replica_requirements, namespace=namespace)
    spec = msgspec.structs.replace(binding.spec, replica_requirements=requirements)
    binding = msgspec.structs.replace(binding, spec=spec)
    step = made.decide_and_assume(key(binding), binding)
    return assigned(step) if step.write is not None else step.result.reason


@cases(
    ("room", "quota", "others", "own", "expected", "namespaces"),
    {
        "others leave the quota": (10, 2, 3, 0, {"a": 2}, ["limited", "-"]),
        "others leave too little on the nodes": (4, 2, 3, 0, "Unschedulable", ["limited", "-"]),
        "those of the namespace take from its quota": (10, 4, 1, 3, "Unschedulable", ["limited", "-"]),
        "there is enough anyway": (10, 9, 3, 0, {"a": 2}, ["limited"]),
        "there are only those of the namespace": (10, 4, 0, 3, "Unschedulable", ["limited"]),
    },
)
def test_replicas_of_other_namespaces_take_nothing_from_a_quota(room, quota, others, own, expected, namespaces):
    ask = QuotaEstimators(room=99, quota=99)
    made = cluster_cache(ask)
    for namespace, replicas in (("other", others), ("limited", own)):
        assert not replicas or decided_with_quota(made, namespace, replicas) == {"a": replicas}
    ask.room, ask.quota, ask.namespaces = room, quota, []
    assert (decided_with_quota(made, "limited", 2), ask.namespaces) == (expected, namespaces)


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


@cases(
    ("loads", "requests", "held"),
    {
        "nothing is assumed": ([], ONE_CPU, 0),
        "the same request": ([(3, ONE_CPU)], ONE_CPU, 3),
        "smaller requests, rounded up": ([(3, {"cpu": "500m"})], ONE_CPU, 2),
        "by the scarcest resource": ([(2, {"cpu": 3, "memory": "1Gi"})], {"cpu": 1, "memory": "4Gi"}, 6),
        "several bindings": ([(2, ONE_CPU), (1, {"cpu": 2})], ONE_CPU, 4),
        "other resources": ([(2, {"memory": "1Gi"})], ONE_CPU, 0),
        "one replica each without requests": ([(2, ONE_CPU)], None, 2),
    },
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
    context = ControllerContext(services, clock, None)
    estimators = open_estimators(EstimatorSettings(prefix="est"), services, clock)
    clusters = ClusterCache(karmada_profile(), clock, FailoverOptions(), estimators.max_available)
    queue = SchedulingQueue(clock, lambda _: 0)
    handlers = EventHandlers(
        BindingCache(context), clusters, queue, "me", default_moves(clock), SchedulingTimes(), estimators
    )
    changed = CLUSTERS[0]
    try:
        clusters.update_cluster(changed)
        handlers.cluster_changed(("", "a"), None, changed)
        assert decided(clusters, replicas=5) == "Unschedulable"
        handlers.cluster_changed(("", "a"), changed, None)
        clusters.update_cluster(changed)
        assert decided(clusters, replicas=5) == {"a": 5}
    finally:
        estimators.close()
        server.close()


KEY = ("default", "nginx-deployment")
ON = MovesConfig(defaults=MoveSettings(failback=SourceSettings("On", 600, 10), drain=SourceSettings("On", 0, 0)))
PLACEMENT = placement(
    clusterAffinities=[
        {"affinityName": "g1", "clusterNames": ["a"]},
        {"affinityName": "g2", "clusterNames": ["b"]},
    ],
    replicaScheduling=DYNAMIC,
)


class Bench:
    """A cache of clusters whose estimators report what a test says.

    Attributes:
        asked: the clusters of each query.
    """

    def __init__(self, *, drained: str = "", reported: dict[str, int] | None = None) -> None:
        self.clock = FakeClock()
        self.asked: list[list[str]] = []
        self._reported = reported or {}
        control = FixedControl(Admissions(Budgets(ON), -3600.0), ON)
        moves = MoveSupervisor(control, self.clock, "berthmaster")
        self.clusters = ClusterCache(
            karmada_profile(), self.clock, FailoverOptions(), self._ask, moves=moves, read_copies=lambda _: Copies()
        )
        for name in "ab":
            taints = [f"{DRAINING}:NoSchedule"] if name == drained else []
            self.clusters.update_cluster(cluster(name, cpu=100, taints=taints))

    def _ask(self, query: EstimatorQuery) -> dict[str, int]:
        self.asked.append(list(query.clusters))
        return self._reported

    def decide(self, given: Binding) -> MoveState | None:
        """Decide, and return the state of the move after the decision."""
        decision = self.clusters.decide_and_assume(KEY, given)
        text = None if decision.write is None else decision.write.annotations.get(MOVE)
        return move_of(binding(annotations={MOVE: text})) if text else None

    def away(self, record: MoveState | None = None) -> Binding:
        annotations = {APPLIED_PLACEMENT: encoded_placement(PLACEMENT)}
        if record is not None:
            annotations[MOVE] = annotation_of(record)
        made = binding(
            replicas=4,
            requests={"cpu": 1},
            placement=PLACEMENT,
            clusters={"b": 4},
            annotations=annotations,
            status=BindingStatus(scheduler_observing_affinity_name="g2"),
        )
        metadata = msgspec.structs.replace(made.metadata, labels={MANAGED_BY[0]: "policy"})
        return msgspec.structs.replace(made, metadata=metadata)

    def stable(self, since_s: float) -> MoveState:
        since = (self.clock.now() - timedelta(seconds=since_s)).replace(microsecond=0)
        return MoveState(
            MoveReason.FAILBACK,
            MovePhase.STABILISING,
            source={"b": 4},
            target={"a": 4},
            source_group="g2",
            target_group="g1",
            started_at=since,
            since=since,
            until=since + timedelta(seconds=600),
        )


def phase(state: MoveState | None) -> str:
    return state.phase.value if state is not None else ""


@cases(
    ("since_s", "asked"),
    {
        "a workload that has just become eligible": (None, []),
        "a workload whose target must stay longer": (300.0, []),
        "a workload that is about to move": (600.0, [["a", "b"]]),
    },
)
def test_estimators_are_asked_when_a_move_is_about_to_begin(since_s: float | None, asked: list[list[str]]):
    bench = Bench()
    bench.decide(bench.away(None if since_s is None else bench.stable(since_s)))
    assert bench.asked == asked


@cases(("reported", "expected"), {"enough": ({"a": 9}, "Surging"), "too few": ({"a": 3}, "Eligible")})
def test_what_estimators_report_bounds_a_failback(reported: dict[str, int], expected: str):
    bench = Bench(reported=reported)
    assert phase(bench.decide(bench.away(bench.stable(600.0)))) == expected


def test_a_drain_asks_estimators_too():
    bench = Bench(drained="b", reported={"a": 3})
    assert phase(bench.decide(bench.away())) == "Eligible"
    assert bench.asked


@cases(
    ("changed", "expected"),
    {
        "nothing has changed": ({}, "Surging"),
        "a cluster was not ready": ({"last_transition_time": "2026-01-01T00:15:00Z"}, "Stabilising"),
        "a time that cannot be read does not count": ({"last_transition_time": "yesterday"}, "Surging"),
    },
)
def test_a_break_of_readiness_starts_the_stabilisation_again(changed: dict[str, Any], expected: str):
    bench = Bench()
    given = cluster("a", cpu=100)
    ready = msgspec.structs.replace(given.status.conditions[0], **changed)
    status = msgspec.structs.replace(given.status, conditions=(ready,))
    bench.clusters.update_cluster(msgspec.structs.replace(given, status=status))
    assert phase(bench.decide(bench.away(bench.stable(600.0)))) == expected


def test_a_binding_at_rest_costs_no_write():
    bench = Bench()
    record = bench.stable(300.0)
    assert bench.decide(bench.away(record)) is None, "the record says the same"
