"""The delayed status and events of an assignment, refused writes, the log of decisions, and what a ledger gets."""

import logging
from typing import Any

import msgspec
import pytest
from builders import cluster
from fake_clock import FakeClock
from faults import nothing, only, refuse
from fixed_control import default_moves
from kube_in_memory import KubeInMemory
from tables import cases

from berthmaster.controllers.binding_scheduler import reconciler
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.reconciler import BindingReconciler, _with_page
from berthmaster.controllers.binding_scheduler.scheduling_queue import SchedulingQueue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.deciding.decision_recorder import DecisionRecord
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.kube.requests import RESOURCE_BINDINGS
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.model.unsupported_placement import checked_placement
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.runtime.logs import BurstFilter
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.resources import free_amount

KEY, OTHER = ("shop", "web-deployment"), ("shop", "other-deployment")
PATH = RESOURCE_BINDINGS.object(KEY)


class Store:
    """A binding cache that reads the API server, and a recorder of events by uid and reason."""

    def __init__(self, api: KubeInMemory) -> None:
        self._api = api
        self.events: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def get(self, key: Any) -> Binding | None:
        found = self._api.get(RESOURCE_BINDINGS.object(key))
        if found is None:
            return None
        binding = convert(Binding, found)
        placement = checked_placement(binding.spec.placement, found["spec"]["placement"])
        return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, placement=placement))

    def add_written(self, *_: Any) -> None:
        pass

    def record(self, event: Any) -> None:
        if event.regarding.kind == "ResourceBinding":
            self.events.append((event.regarding.uid, event.reason))
            self.notes.append(event.note)


class Records(list[DecisionRecord]):
    """A ledger that keeps decisions."""

    def decided(self, record: DecisionRecord) -> None:
        self.append(record)


class Bench:
    """A reconciler whose queue holds another binding.

    Attributes:
        clusters: a cache with one cluster.
        records: the decisions that a ledger gets.
    """

    def __init__(self, console: ConsoleLink | None = None) -> None:
        clock = FakeClock()
        self.api = KubeInMemory()
        self.store = Store(self.api)
        self.queue = SchedulingQueue(clock, lambda _: 0)
        self.queue.add(OTHER)
        self.records = Records()
        self.clusters = ClusterCache(karmada_profile(), clock, FailoverOptions(), keeps_inputs=True)
        self.clusters.update_cluster(cluster("m", cpu=10))
        context = ControllerContext(self.api, clock, self.store, self.records)
        self._reconciler = BindingReconciler(
            self.store, self.clusters, self.queue, context, "berthmaster", default_moves(clock), console
        )

    def empty_queue(self) -> None:
        self.queue.done(self.queue.take())

    def put(self, replicas: int = 1, **placement: Any) -> str:
        """Create an unassigned binding, and return its uid."""
        stored = self.api.put(PATH, {
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "metadata": {
                "namespace": KEY[0], "name": KEY[1], "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            },
            "spec": {
                "schedulerName": "berthmaster",
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "replicas": replicas,
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "placement": placement,
            },
        })  # fmt: skip
        return str(stored["metadata"]["uid"])

    def work(self) -> None:
        self._reconciler.reconcile(KEY)

    @property
    def status(self) -> dict[str, Any]:
        return (self.api.get(PATH) or {}).get("status") or {}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def idle(bench: Bench) -> Bench:
    bench.empty_queue()
    return bench


SUCCEEDED = "ScheduleBindingSucceed"
NO_STATUS = "(?<!/status)$"


def test_status_and_event_are_delayed_while_other_bindings_wait(bench):
    uid = bench.put()
    bench.work()
    assert bench.api.get(PATH)["spec"]["clusters"] == [{"name": "m", "replicas": 1}]
    assert (bench.status, bench.store.events) == ({}, [])
    bench.work()
    bench.work()
    assert bench.status["conditions"][0]["status"] == "True"
    assert bench.store.events == [(uid, SUCCEEDED)]


@cases("most", {"if no binding waits": None, "if too many wait for their status": 0})
def test_status_and_event_are_written_at_once(bench, monkeypatch, most):
    if most is None:
        bench.empty_queue()
    else:
        monkeypatch.setattr(reconciler, "MAX_PENDING", most)
    uid = bench.put()
    bench.work()
    assert bench.status["conditions"][0]["status"] == "True"
    assert bench.store.events == [(uid, SUCCEEDED)]


@cases(
    ("console", "end"),
    {
        "no console": (None, "successfully. Result: m:1"),
        "a console": ("https://c.example", "m:1 (https://c.example/workloads/shop/web-deployment)"),
        "a long address": (f"https://c.example/{'x' * 200}", "/workloads/shop/web-deployment)"),
    },
)
def test_an_event_ends_with_the_page_of_the_workload_if_there_is_a_console(console, end):
    bench = Bench(console and ConsoleLink(console))
    bench.empty_queue()
    bench.put()
    bench.work()
    assert bench.store.notes[0].endswith(end)


def test_a_long_note_keeps_the_address_and_the_limit():
    page = "https://c.example/workloads/shop/web-deployment"
    note = _with_page("x" * 2000, page)
    assert len(note.encode()) == 1024
    assert note.endswith(f"… ({page})")
    assert _with_page("short", f"https://{'x' * 600}") == "short"


def test_a_binding_that_was_scaled_meanwhile_gets_two_events(bench):
    uid = bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"replicas": 2})
    bench.work()
    bench.work()
    assert bench.store.events == [(uid, SUCCEEDED)] * 2
    assert bench.status["schedulerObservedGeneration"] == bench.api.get(PATH)["metadata"]["generation"]


def test_a_binding_that_was_created_again_gets_no_event_of_its_predecessor(bench):
    before = bench.put()
    bench.work()
    bench.api.remove(PATH)
    after = bench.put()
    assert before != after
    bench.work()
    bench.work()
    assert bench.store.events == [(after, SUCCEEDED)]


@cases(
    "change",
    {
        "the assignment was removed": {"clusters": None},
        "scheduling was suspended": {"suspension": {"scheduling": True}},
    },
)
def test_the_status_of_an_assignment_is_written_although_the_binding_has_changed(bench, change):
    bench.put()
    bench.work()
    generation = bench.api.get(PATH)["metadata"]["generation"]
    bench.api.edit(PATH, spec=change)
    bench.work()
    assert bench.status["schedulerObservedGeneration"] == generation
    assert bench.status["lastScheduledTime"] == "2026-01-01T00:16:40Z"
    assert [each[1] for each in bench.store.events] == [SUCCEEDED]


def test_a_rescheduling_that_is_requested_before_the_status_is_written_happens(bench):
    uid = bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"rescheduleTriggeredAt": "2026-01-02T00:00:00Z"})
    bench.work()
    assert bench.store.events == [(uid, SUCCEEDED)] * 2
    assert bench.status["lastScheduledTime"] == "2026-01-02T00:00:00Z"


def test_the_status_of_a_binding_of_another_scheduler_is_not_written(bench):
    bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"schedulerName": "default-scheduler"})
    bench.work()
    assert bench.status == {}


@cases(
    ("status", "reason", "expected"),
    {
        "by a quota": (403, "QuotaExceeded", "QuotaExceeded"),
        "by a webhook": (403, "Forbidden", "SchedulerError"),
        "by a schema": (422, "Invalid", "SchedulerError"),
    },
)
def test_a_refused_assignment_is_reported_once_and_frees_its_capacity(idle, status, reason, expected):
    uid = idle.put()
    idle.api.before = only(refuse(status, reason), "PATCH", part=NO_STATUS)
    for _ in range(2):
        with pytest.raises(ApiError):
            idle.work()
        assert idle.clusters.assumed_count() == 0
    [condition] = idle.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", expected)
    assert idle.store.events == [(uid, "ScheduleBindingFailed")]
    idle.api.before = nothing
    idle.work()
    assert idle.status["conditions"][0]["reason"] == "Success"


def test_a_refused_status_does_not_block_the_next_assignment(bench):
    bench.put()
    bench.work()
    bench.api.before = only(refuse(403, "Forbidden"), "PATCH", part="/status")
    bench.api.edit(PATH, spec={"replicas": 2})
    bench.work()
    assert bench.api.get(PATH)["spec"]["clusters"] == [{"name": "m", "replicas": 2}]
    with pytest.raises(ApiError):
        bench.work()
    bench.api.before = nothing
    bench.work()
    assert bench.status["schedulerObservedGeneration"] == bench.api.get(PATH)["metadata"]["generation"]
    assert bench.status["conditions"][0]["status"] == "True"


def test_a_temporary_refusal_is_retried_without_a_report(idle):
    idle.put()
    idle.api.before = only(refuse(429, "TooManyRequests"), "PATCH")
    with pytest.raises(ApiError):
        idle.work()
    idle.api.before = nothing
    assert (idle.status, idle.store.events) == ({}, [])
    assert idle.clusters.assumed_count() == 1, "the write may have happened"
    idle.clusters.observe(KEY, idle.store.get(KEY))
    assert idle.clusters.assumed_count() == 0, "the observed binding has no assignment"


def test_a_success_after_a_failure_gets_an_event(idle):
    uid = idle.put()
    idle.work()
    idle.api.edit(PATH, spec={"placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2}]}})
    idle.work()
    idle.api.edit(PATH, spec={"placement": {"spreadConstraints": None}})
    idle.work()
    idle.work()
    assert idle.store.events == [(uid, SUCCEEDED), (uid, "ScheduleBindingFailed"), (uid, SUCCEEDED)]


NAME = "shop/web-deployment"


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[tuple[str, dict[str, Any]]]:
    """Message and fields of the binding scheduler's records of a level; durations become their type."""
    return [
        (each.getMessage(), {**each.fields, **({"duration_ms": float} if "duration_ms" in each.fields else {})})
        for each in caplog.records
        if each.name.startswith("berthmaster.binding_scheduler") and each.levelno == level
    ]


def decision(outcome: str, **changed: Any) -> tuple[str, dict[str, Any]]:
    """The record of a first assignment, with changes."""
    values = {
        "binding": NAME, "trigger": "First", "group": "", "before": "no clusters", "after": "m:1",
        "duration_ms": float, "reason": "Success",
    }  # fmt: skip
    return outcome, {**values, **changed}


def test_each_decision_is_one_record(idle, caplog):
    caplog.set_level(logging.INFO)
    idle.put()
    idle.work()
    assert logged(caplog, logging.INFO) == [decision("scheduled")]
    idle.work()
    idle.api.edit(PATH, spec={"replicas": 3})
    idle.work()
    change = {"trigger": "Reconcile", "before": "m:1", "after": "m:3"}
    assert logged(caplog, logging.INFO)[1:] == [decision("scheduled", **change)], "no record without a change"


def test_a_binding_that_fits_no_cluster_is_logged_with_the_problem(idle, caplog):
    caplog.set_level(logging.INFO)
    idle.put()
    idle.api.edit(PATH, spec={"placement": {"clusterAffinity": {"clusterNames": ["x"]}}})
    idle.work()
    mismatch = "1 cluster(s) did not match the placement cluster affinity constraint (ClusterAffinity)"
    problem = f"0/1 clusters are available: {mismatch}."
    failed = {"after": "no clusters", "reason": "NoClusterFit", "problem": problem}
    assert logged(caplog, logging.INFO) == [decision("unschedulable", **failed)]


def test_a_failed_write_is_logged_with_the_error(idle, caplog):
    caplog.set_level(logging.INFO)
    idle.put()
    idle.api.before = only(refuse(409, "Conflict"), "PATCH")
    with pytest.raises(ApiError) as raised:
        idle.work()
    failed = {"after": "no clusters", "reason": "Conflict", "problem": str(raised.value)}
    assert logged(caplog, logging.INFO) == [decision("not written", **failed)]


def test_the_steps_of_a_decision_are_logged_at_debug(bench, caplog):
    caplog.set_level(logging.DEBUG)
    bench.put()
    bench.work()
    bench.empty_queue()
    bench.work()
    steps = logged(caplog, logging.DEBUG)
    assert [message for message, _ in steps] == [
        "group tried", "assignment written", "status delayed", "status written", "group tried", "unchanged",
    ]  # fmt: skip
    assert steps[0][1] == {
        "binding": NAME, "group": "", "clusters": 1, "rejected": {}, "fit": 1, "selected": ["m"], "assigned": "m:1",
        "failure": None,
    }  # fmt: skip


def test_a_burst_of_decisions_is_sampled(idle, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    clock = FakeClock()
    log = logging.getLogger("berthmaster.binding_scheduler")
    assert [type(each) for each in log.filters] == [BurstFilter]
    monkeypatch.setattr(log, "filters", [BurstFilter(1.0, 2, clock)])
    idle.put()
    for replicas in range(1, 6):
        idle.api.edit(PATH, spec={"replicas": replicas})
        idle.work()
        idle.work()
    clock.pass_by(1.0)
    idle.api.edit(PATH, spec={"replicas": 9})
    idle.work()
    records = [each for each in caplog.records if each.name == log.name]
    assert [each.fields["after"] for each in records] == ["m:1", "m:2", "m:9"]
    assert [each.suppressed for each in records] == [0, 0, 3]


def test_a_ledger_gets_the_fleet_before_the_decision_is_assumed(bench):
    bench.put(replicas=3)
    bench.work()
    [record] = bench.records
    [found] = record.inputs.fleet.clusters().values()
    assert free_amount(found.status.resource_summary, "cpu") == 10_000
    assert (record.outcome.clusters, record.error) == ({"m": 3}, "")


def test_a_ledger_gets_no_record_of_a_binding_that_stays(bench):
    bench.put()
    for _ in range(3):
        bench.work()
    assert len(bench.records) == 1


def test_a_ledger_gets_one_record_of_a_repeated_failure(bench):
    bench.put(clusterAffinity={"clusterNames": ["other"]})
    for _ in range(3):
        bench.work()
    assert [each.outcome.reason for each in bench.records] == ["NoClusterFit"]


def test_a_ledger_gets_a_refused_assignment_once_with_its_error(bench):
    bench.put()
    bench.api.before = only(refuse(403, "Forbidden"), "PATCH", part=NO_STATUS)
    for _ in range(2):
        with pytest.raises(ApiError):
            bench.work()
    [record] = bench.records
    assert "Forbidden" in record.error


def test_a_ledger_gets_an_assignment_as_written_if_only_its_status_is_not(idle):
    idle.put()
    idle.api.before = only(refuse(409, "Conflict"), "PATCH", part="/status")
    with pytest.raises(ApiError):
        idle.work()
    assert [(each.outcome.clusters, each.error) for each in idle.records] == [({"m": 1}, "")]


@cases("assigned", {"first scheduling": None, "assigned": [{"name": "gone", "replicas": 1}]})
def test_a_binding_with_an_unknown_placement_field_is_held_with_one_event(idle, assigned):
    uid = idle.put()
    idle.api.edit(PATH, spec={"placement": {"racks": 1}, "clusters": assigned})
    idle.work()
    idle.work()
    assert idle.api.get(PATH)["spec"].get("clusters") == assigned
    [condition] = idle.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "UnsupportedPlacement")
    assert "spec.placement.racks: unknown field" in condition["message"]
    assert idle.store.events == [(uid, "ScheduleBindingFailed")]
    assert idle.queue.unschedulable() == []


def test_a_binding_is_scheduled_once_the_unknown_field_is_gone(idle):
    uid = idle.put()
    idle.api.edit(PATH, spec={"placement": {"racks": 1}})
    idle.work()
    idle.api.edit(PATH, spec={"placement": {"racks": None}})
    idle.work()
    assert idle.api.get(PATH)["spec"]["clusters"] == [{"name": "m", "replicas": 1}]
    assert idle.status["conditions"][0]["status"] == "True"
    assert idle.store.events == [(uid, "ScheduleBindingFailed"), (uid, SUCCEEDED)]
