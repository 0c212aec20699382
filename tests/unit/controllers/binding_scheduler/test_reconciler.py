"""What is said of an assignment whose turn to be told of comes later, because others wait to be assigned."""

from typing import Any

import pytest
from builders import cluster
from fake_clock import FakeClock
from faults import nothing, only, refuse
from kube_in_memory import KubeInMemory

from berthmaster.controllers.binding_scheduler.bindings import RESOURCE_BINDINGS
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.reconciler import BindingReconciler
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.scheduling.karmada.profile import karmada_profile

KEY, OTHER = ("shop", "web-deployment"), ("shop", "other-deployment")
PATH = RESOURCE_BINDINGS.object(KEY)


class Store:
    """Bindings as they are stored now, and the uid and reason of each event about one."""

    def __init__(self, api: KubeInMemory) -> None:
        self._api = api
        self.events: list[tuple[str, str]] = []

    def get(self, key: Any) -> Binding | None:
        found = self._api.get(RESOURCE_BINDINGS.object(key))
        return None if found is None else convert(Binding, found)

    def written(self, *_: Any) -> None:
        pass

    def attempted(self, *_: Any) -> None:
        pass

    def record(self, regarding: Any, _kind: str, reason: str, *_: Any) -> None:
        if regarding.kind == "ResourceBinding":
            self.events.append((regarding.uid, reason))


class Bench:
    """A reconciler with a queue in which another binding waits.

    Attributes:
        desk: knows of one cluster.
    """

    def __init__(self) -> None:
        clock = FakeClock()
        self.api = KubeInMemory()
        self.store = Store(self.api)
        self.queue = SchedulingQueue(clock, lambda _: 0)
        self.queue.add(OTHER)
        self.desk = Desk(karmada_profile(), clock, FailoverOptions())
        self.desk.cluster_changed(cluster("m", cpu=10))
        self._reconciler = BindingReconciler(
            self.store, self.desk, self.queue, self.api, self.store, self.store, clock, "berthmaster"
        )

    def settle(self) -> None:
        """Nobody waits any more."""
        self.queue.done(self.queue.take())

    def put(self, replicas: int = 1) -> str:
        """A binding that nobody has assigned; its uid."""
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
                "placement": {},
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


SUCCEEDED = "ScheduleBindingSucceed"


def test_while_others_wait_neither_status_nor_event_tells_of_it_and_then_both_do_once(bench):
    uid = bench.put()
    bench.work()
    assert bench.api.get(PATH)["spec"]["clusters"] == [{"name": "m", "replicas": 1}]
    assert (bench.status, bench.store.events) == ({}, [])
    bench.work()
    bench.work()
    assert bench.status["conditions"][0]["status"] == "True"
    assert bench.store.events == [(uid, SUCCEEDED)]


def test_if_nobody_waits_all_is_told_at_once(bench):
    bench.settle()
    uid = bench.put()
    bench.work()
    assert bench.status["conditions"][0]["status"] == "True"
    assert bench.store.events == [(uid, SUCCEEDED)]


def test_what_was_scaled_meanwhile_is_told_of_both_times(bench):
    uid = bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"replicas": 2})
    bench.work()
    bench.work()
    assert bench.store.events == [(uid, SUCCEEDED)] * 2
    assert bench.status["schedulerObservedGeneration"] == bench.api.get(PATH)["metadata"]["generation"]


def test_what_was_made_anew_meanwhile_is_not_told_of_its_predecessor(bench):
    before = bench.put()
    bench.work()
    bench.api.remove(PATH)
    after = bench.put()
    assert before != after
    bench.work()
    bench.work()
    assert bench.store.events == [(after, SUCCEEDED)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"clusters": None}, id="it was evicted"),
        pytest.param({"suspension": {"scheduling": True}}, id="it was suspended"),
    ],
)
def test_the_status_tells_of_an_assignment_although_the_binding_has_changed_since(bench, change):
    bench.put()
    bench.work()
    generation = bench.api.get(PATH)["metadata"]["generation"]
    bench.api.edit(PATH, spec=change)
    bench.work()
    assert bench.status["schedulerObservedGeneration"] == generation
    assert bench.status["lastScheduledTime"] == "2026-01-01T00:16:40Z"
    assert [each[1] for each in bench.store.events] == [SUCCEEDED]


def test_a_rescheduling_that_is_asked_for_before_the_status_is_written_is_done(bench):
    uid = bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"rescheduleTriggeredAt": "2026-01-02T00:00:00Z"})
    bench.work()
    assert bench.store.events == [(uid, SUCCEEDED)] * 2
    assert bench.status["lastScheduledTime"] == "2026-01-02T00:00:00Z"


def test_the_status_of_what_another_scheduler_has_taken_over_is_left_to_it(bench):
    bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"schedulerName": "default-scheduler"})
    bench.work()
    assert bench.status == {}


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        pytest.param(403, "QuotaExceeded", "QuotaExceeded", id="by a quota"),
        pytest.param(403, "Forbidden", "SchedulerError", id="by a webhook"),
        pytest.param(422, "Invalid", "SchedulerError", id="by a schema"),
    ],
)
def test_an_assignment_that_is_refused_is_told_of_once_and_keeps_no_room(bench, status, reason, told):
    bench.settle()
    uid = bench.put()
    bench.api.before = only(
        lambda request: None if request.path.endswith("/status") else refuse(status, reason)(request), "PATCH"
    )
    for _ in range(2):
        with pytest.raises(ApiError):
            bench.work()
        assert bench.desk.assumptions() == 0
    [condition] = bench.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", told)
    assert bench.store.events == [(uid, "ScheduleBindingFailed")]
    bench.api.before = nothing
    bench.work()
    assert bench.status["conditions"][0]["reason"] == "Success"


def test_a_status_that_is_refused_keeps_nobody_from_being_assigned(bench):
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


def test_a_refusal_that_says_nothing_of_the_assignment_is_only_tried_again(bench):
    bench.settle()
    bench.put()
    bench.api.before = only(refuse(429, "TooManyRequests"), "PATCH")
    with pytest.raises(ApiError):
        bench.work()
    bench.api.before = nothing
    assert (bench.status, bench.store.events) == ({}, [])
    assert bench.desk.assumptions() == 1, "it is as good as written"


def test_who_read_that_it_failed_reads_that_it_is_well_again(bench):
    bench.settle()
    uid = bench.put()
    bench.work()
    bench.api.edit(PATH, spec={"placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2}]}})
    bench.work()
    bench.api.edit(PATH, spec={"placement": {"spreadConstraints": None}})
    bench.work()
    bench.work()
    assert bench.store.events == [(uid, SUCCEEDED), (uid, "ScheduleBindingFailed"), (uid, SUCCEEDED)]
