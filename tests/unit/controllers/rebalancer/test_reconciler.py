"""The life of a rebalancer, with an API server in memory."""

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fake_clock import FakeClock
from faults import nothing, only, refuse
from kube_in_memory import KubeInMemory
from rebalancing import CREATED, EARLIER, LATER, NIGHT, binding_path, item, manifest, put_binding, text, workload
from tables import cases
from waiting import wait_for

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer.reconciler import (
    LONGEST_PASS_S,
    LONGEST_WAIT_S,
    MAX_ATTEMPTS,
    REBALANCERS,
    RebalancerReconciler,
    controller,
)
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.requests import APIRequest
from berthmaster.model.binding import REBALANCE, Binding
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError

KEY = ("", "night")
STATUS = f"PATCH {REBALANCERS.path}/night/status"
DELETE = f"DELETE {REBALANCERS.path}/night"


class Bench:
    """A reconciler and its environment. The informer has the state of the last ``see``, as a cache does."""

    def __init__(self) -> None:
        self.api = KubeInMemory()
        self.clock = FakeClock.at(LATER)
        self.events: list[str] = []
        self.context = ControllerContext(self.api, self.clock, self)
        self.reconciler = RebalancerReconciler(self.context)
        self.informer = self.context.informers[REBALANCERS]

    def record(self, event) -> None:
        self.events.append(f"{event.reason} {event.regarding.name}")

    def create(self, content: dict[str, Any]) -> None:
        self.api.put(NIGHT, content)
        self.see()

    def edit_spec(self, **spec: Any) -> None:
        self.api.edit(NIGHT, spec=spec)
        self.see()

    def see(self) -> None:
        stored = self.api.get(NIGHT)
        if stored is None:
            self.informer.delete(KEY)
        else:
            self.informer.put(KEY, msgspec.Raw(json.dumps(stored).encode()))

    def reconcile(self) -> Requeue | None:
        return self.reconciler.reconcile(KEY)

    def status(self) -> dict[str, Any]:
        stored = self.api.get(NIGHT)
        return stored["status"]

    def results(self) -> dict[str, str]:
        return {each["workload"]["name"]: each.get("result", "") for each in self.status()["observedWorkloads"]}

    def writes(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.api.writes()]

    def before_once(self, method: str, part: str, act: Callable[[], object]) -> None:
        """Call a function right before the first request with a method and a part of the path."""
        self.api.before = only(lambda _: act(), method, part=part, times=1)


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    for name in ("web", "api", "cache"):
        put_binding(found.api, name)
    put_binding(found.api, "reader", "")
    return found


def test_every_binding_is_marked_and_the_status_says_so(bench):
    reader = workload("reader", "", "ClusterRole", "rbac.authorization.k8s.io/v1")
    bench.create(manifest(["web", "ghost", reader]))
    assert bench.reconcile() is None
    assert bench.api.get(binding_path("web"))["spec"]["rescheduleTriggeredAt"] == text(CREATED)
    marked = bench.api.get(binding_path("reader", ""))
    assert marked["spec"]["rescheduleTriggeredAt"] == text(CREATED)
    assert bench.status() == {
        "observedGeneration": 1,
        "finishTime": text(LATER),
        "observedWorkloads": [
            item("ghost", "Failed"),
            item("web", "Successful"),
            {"workload": reader, "result": "Successful"},
        ],
    }
    assert bench.events == [
        "RescheduleTriggered web-deployment", "RescheduleTriggered reader-clusterrole", "RebalanceFailed night"
    ]  # fmt: skip


@cases("seen", {"current cache": True, "stale cache": False})
def test_a_second_reconcile_writes_nothing(bench, seen):
    bench.create(manifest(["web", "ghost"]))
    bench.reconcile()
    if seen:
        bench.see()
    writes, before, events = bench.writes(), bench.api.get(NIGHT), list(bench.events)
    assert bench.reconcile() is None
    assert bench.api.get(NIGHT) == before
    assert [each for each in bench.writes()[len(writes) :] if each != STATUS] == []
    assert bench.events == events


def test_a_deleted_rebalancer_is_ignored(bench):
    leaving = manifest(ttl_s=0)
    leaving["metadata"] |= {"deletionTimestamp": text(LATER), "finalizers": ["example.org/keep"]}
    bench.create(leaving)
    assert bench.reconcile() is None
    bench.api.remove(NIGHT)
    bench.see()
    assert bench.reconcile() is None
    assert bench.api.requests == []


def test_an_error_leaves_the_result_empty_and_is_retried_as_the_server_asks(bench):
    bench.create(manifest(["web", "api"], ttl_s=0))
    bench.api.before = only(refuse(500, "InternalError", 7.0), "PATCH", part="/web-deployment")
    with pytest.raises(ApiError, match="1 of 2 workloads are not marked yet: 500 InternalError") as error:
        bench.reconcile()
    assert error.value.retry_after_s == 7.0
    assert bench.results() == {"api": "Successful", "web": ""}
    assert "finishTime" not in bench.status()
    assert bench.events == ["RescheduleTriggered api-deployment", "RebalancePending night"]

    bench.see()
    with pytest.raises(ApiError):
        bench.reconcile()
    assert bench.events[2:] == []  # a repeated error records no event

    bench.api.before = nothing
    assert bench.reconcile() is None
    assert bench.api.get(NIGHT) is None
    assert bench.events[2:] == ["RescheduleTriggered web-deployment", "RebalanceSucceed night"]


def test_the_longest_retry_after_counts(bench):
    bench.create(manifest(["api", "cache", "web"]))
    waits_s = {"api": 1.0, "cache": 9.0, "web": 2.0}

    def refuse_each(request: APIRequest) -> None:
        name = request.path.rpartition("/")[2].removesuffix("-deployment")
        if name in waits_s:
            raise ApiError(500, "InternalError", f"no {name}", waits_s[name])

    bench.api.before = refuse_each
    with pytest.raises(ApiError, match="3 of 3 workloads are not marked yet: no api") as error:
        bench.reconcile()
    assert error.value.retry_after_s == 9.0


@pytest.mark.parametrize("status", [0, 429, 503])
def test_an_unavailable_server_ends_the_pass(bench, status):
    bench.create(manifest(["web", "api", "cache"]))
    bench.api.before = only(refuse(status), "GET", part="-deployment")
    with pytest.raises(ApiError, match="3 of 3"):
        bench.reconcile()
    assert sum(request.path.endswith("-deployment") for request in bench.api.requests) == 1
    assert bench.results() == {"api": "", "cache": "", "web": ""}


def a_slow_server(bench, takes_s):
    def take_time(_request: APIRequest) -> None:
        bench.clock.passed_s += takes_s

    bench.api.before = only(take_time, "PATCH", part="-deployment")


def test_a_long_list_takes_several_passes(bench):
    names = [f"web{number:02}" for number in range(20)]
    for name in names:
        put_binding(bench.api, name)
    bench.create(manifest(names, ttl_s=30))
    a_slow_server(bench, 10.0)
    assert bench.reconcile() == Requeue(0.0)
    assert bench.clock.passed_s < 2 * LONGEST_PASS_S
    assert 0 < list(bench.results().values()).count("Successful") < len(names), "the status lists what is done"
    assert "finishTime" not in bench.status()
    for _ in names:
        bench.see()
        last = bench.reconcile()
    assert last == Requeue(30.0)
    assert set(bench.results().values()) == {"Successful"}
    assert [each for each in bench.events if each.endswith(" night")] == ["RebalanceSucceed night"]


def test_a_slowly_failing_server_does_not_exceed_the_pass(bench):
    names = [f"web{number:02}" for number in range(20)]
    for name in names:
        put_binding(bench.api, name)
    bench.create(manifest(names))

    def fail_late(request: APIRequest) -> None:
        bench.clock.passed_s += 10.0
        refuse(500, "InternalError")(request)

    bench.api.before = only(fail_late, "PATCH", part="-deployment")
    with pytest.raises(ApiError, match="20 of 20 workloads are not marked yet"):
        bench.reconcile()
    assert bench.clock.passed_s < 2 * LONGEST_PASS_S


def test_an_unreadable_binding_does_not_stop_the_others(bench):
    bench.create(manifest(["api", "cache", "ghost", "web"]))
    bench.api.edit(binding_path("api"), status={"lastScheduledTime": "some day"})
    with pytest.raises(
        ApiError, match=r"1 of 4 workloads .* the binding shop/api-deployment is unreadable: status\.lastScheduledTime"
    ):
        bench.reconcile()
    assert bench.results() == {"api": "", "cache": "Successful", "ghost": "Failed", "web": "Successful"}


def test_an_added_workload_is_marked_and_listed(bench):
    bench.create(manifest(["web"]))
    bench.reconcile()
    bench.clock.passed_s = 60
    bench.edit_spec(workloads=[workload("web"), workload("api")])
    bench.reconcile()
    assert bench.results() == {"api": "Successful", "web": "Successful"}
    assert bench.status()["observedGeneration"] == 2
    assert bench.status()["finishTime"] == text(LATER + timedelta(minutes=1))


def test_an_event_says_that_a_mark_has_no_effect(bench):
    bench.create(manifest(["web"]))
    bench.reconcile()
    del bench.events[:]
    put_binding(bench.api, "api", scheduled=LATER)
    bench.edit_spec(workloads=[workload("web"), workload("api")])
    bench.reconcile()
    assert bench.results()["api"] == "Successful"
    assert bench.api.get(binding_path("api"))["spec"]["rescheduleTriggeredAt"] == text(CREATED)
    assert bench.events == ["NothingRescheduled api-deployment", "RebalanceSucceed night", "NothingRescheduled night"]


def test_it_is_deleted_after_its_time_to_live_and_a_long_wait_is_split(bench):
    bench.create(manifest(ttl_s=2**31 - 1))
    assert bench.reconcile() == Requeue(LONGEST_WAIT_S)
    bench.create(manifest(ttl_s=90))
    assert bench.reconcile() == Requeue(90)
    bench.see()
    bench.clock.passed_s = 89
    assert bench.reconcile() == Requeue(1)
    bench.clock.passed_s = 90
    assert bench.reconcile() is None
    assert bench.api.get(NIGHT) is None


def test_a_new_workload_delays_the_deletion_despite_a_stale_cache(bench):
    bench.create(manifest(["web"], ttl_s=90))
    bench.reconcile()
    bench.see()
    bench.clock.passed_s = 90
    bench.api.edit(NIGHT, spec={"workloads": [workload("web"), workload("api")]})
    assert bench.reconcile() == Requeue(90)
    assert bench.results() == {"api": "Successful", "web": "Successful"}
    assert DELETE not in bench.writes()


def test_a_change_found_by_the_fresh_read_is_handled_before_the_deletion(bench):
    bench.create(manifest(["web"], ttl_s=0))
    bench.api.edit(NIGHT, spec={"workloads": [workload("web"), workload("api")]})
    assert bench.reconcile() is None
    assert bench.api.get(binding_path("api"))["spec"]["rescheduleTriggeredAt"] == text(CREATED)
    on_it = [each for each in bench.writes() if each in (STATUS, DELETE)]
    assert on_it == [STATUS, STATUS, DELETE]  # the first was decided on a stale version and refused


@cases(
    ("spec", "left"),
    {
        "a new workload is done first": ({"workloads": [workload("web"), workload("api")]}, Requeue(90)),
        "without a time to live it is kept": ({"ttlSecondsAfterFinished": None}, None),
    },
)
def test_a_change_right_before_the_deletion_wins(bench, spec, left):
    bench.create(manifest(["web"], ttl_s=90))
    bench.reconcile()
    bench.see()
    bench.clock.passed_s = 90
    bench.before_once("DELETE", "/night", lambda: bench.api.edit(NIGHT, spec=spec))
    assert bench.reconcile() == left
    assert bench.api.get(NIGHT) is not None


def recreating(bench, method, part, *names) -> None:
    """Create the rebalancer anew right before a request."""
    another = manifest(list(names))
    another["metadata"] |= {"uid": "2", "creationTimestamp": text(LATER)}

    def recreate() -> None:
        bench.api.remove(NIGHT)
        bench.api.put(NIGHT, another)

    bench.before_once(method, part, recreate)


def test_a_recreated_rebalancer_is_not_deleted(bench):
    bench.create(manifest(["web"], ttl_s=90))
    bench.reconcile()
    bench.see()
    bench.clock.passed_s = 90
    recreating(bench, "DELETE", "/night", "api")
    assert bench.reconcile() is None
    assert bench.api.get(NIGHT)["metadata"]["uid"] == "2"
    assert bench.results() == {"api": "Successful"}
    assert bench.api.get(binding_path("api"))["spec"]["rescheduleTriggeredAt"] == text(LATER)


def test_a_recreated_rebalancer_marks_its_workloads(bench):
    bench.create(manifest(["web"]))
    recreating(bench, "PATCH", "/status", "web")
    bench.reconcile()
    assert bench.api.get(binding_path("web"))["spec"]["rescheduleTriggeredAt"] == text(LATER)


def test_a_status_that_another_client_wrote_is_read_before_it_is_overwritten(bench):
    bench.create(manifest(["web", "ghost"]))
    theirs = {"observedWorkloads": [item("ghost", "Failed"), item("web")], "observedGeneration": 1}
    bench.before_once("PATCH", "/status", lambda: bench.api.edit(NIGHT, status=theirs))
    bench.reconcile()
    assert bench.results() == {"ghost": "Failed", "web": "Successful"}
    assert bench.writes().count(STATUS) == 2
    asked = [request.path for request in bench.api.requests if request.method == "GET"]
    assert (
        len([path for path in asked if path.endswith("web-deployment")]) == 1
    )  # a known outcome is not requested again


def test_a_rebalancer_deleted_in_between_is_ignored(bench):
    bench.create(manifest(["web"], ttl_s=0))
    bench.before_once("PATCH", "/status", lambda: bench.api.remove(NIGHT))
    assert bench.reconcile() is None


@cases(("method", "path"), {"write": ("PATCH", "/status"), "read": ("GET", "/night"), "delete": ("DELETE", "/night")})
def test_a_refused_request_is_raised_and_the_next_reconcile_completes(bench, method, path):
    bench.create(manifest(["web"], ttl_s=0))
    bench.api.before = only(refuse(429, "TooManyRequests", 3.0), method, part=path)
    with pytest.raises(ApiError, match="429 TooManyRequests"):
        bench.reconcile()
    bench.api.before = nothing
    assert bench.reconcile() is None
    assert bench.api.get(NIGHT) is None


def test_endless_conflicts_are_raised(bench):
    bench.create(manifest(["web"]))
    moments = iter(range(100))

    def write(_request: APIRequest) -> None:
        bench.api.edit(NIGHT, metadata={"labels": {"moment": str(next(moments))}})

    bench.api.before = only(write, "PATCH", part="/status")
    with pytest.raises(ApiError, match="other clients keep changing it") as conflict:
        bench.reconcile()
    assert conflict.value.conflict
    assert bench.writes().count(STATUS) == MAX_ATTEMPTS


@cases(
    ("metadata", "problem"),
    {
        "no creation time": ({"creationTimestamp": None}, r"metadata\.creationTimestamp"),
        "another way": ({"annotations": {REBALANCE: "least"}}, "'least' is not accepted; use minimal"),
    },
)
def test_an_invalid_rebalancer_marks_nothing(bench, metadata, problem):
    made = manifest(["web"])
    changed = {name: value for name, value in {**made["metadata"], **metadata}.items() if value is not None}
    bench.create({**made, "metadata": changed})
    with pytest.raises(FieldError, match=problem):
        bench.reconcile()
    assert bench.writes() == []


@cases(
    ("change", "queued"),
    {
        "no change": ({}, 0),
        "status": ({"status": {"observedGeneration": 1}}, 0),
        "labels": ({"metadata": {"labels": {"a": "b"}}}, 0),
        "workloads": ({"spec": {"workloads": [workload("api")]}}, 1),
        "time to live": ({"spec": {"ttlSecondsAfterFinished": 5}}, 1),
        "recreation": ({"metadata": {"uid": "another"}}, 1),
    },
)
def test_which_changes_enqueue_a_rebalancer(bench, change, queued):
    made = controller(bench.context, ControllerSettings(concurrent_rebalancers=2))
    bench.create(manifest())
    assert made.name == "workload-rebalancer"
    assert len(made.queue) == 1
    made.queue.done(made.queue.take())
    stored = bench.api.get(NIGHT)
    for field, value in change.items():
        stored[field] = {**stored[field], **value}
    bench.informer.put(KEY, msgspec.Raw(json.dumps(stored).encode()))
    assert len(made.queue) == queued
    bench.informer.delete(KEY)
    assert len(made.queue) == queued


def test_workers_finish_a_rebalancer(bench):
    made = controller(bench.context, ControllerSettings())
    bench.create(manifest(["web"], ttl_s=0))
    assert bench.api.get(binding_path("web"))["status"]["lastScheduledTime"] == text(EARLIER)
    made.start()
    try:
        wait_for(lambda: bench.api.get(NIGHT) is None)
    finally:
        made.stop()
    assert made.step() is None, "the queue is closed"


def test_a_written_status_is_one_info_record_and_each_workload_a_debug_record(bench, caplog, monkeypatch):
    for name in ("berthmaster.rebalancer", "berthmaster.rebalancer.steps"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    caplog.set_level("DEBUG", "berthmaster.rebalancer")
    bench.create(manifest(["web", "api", "ghost"], ttl_s=0))
    bench.reconcile()
    decided, deleted = [each for each in caplog.records if each.levelname == "INFO"]
    assert decided.getMessage() == "rebalance"
    assert decided.fields.pop("duration_ms") >= 0
    assert decided.fields == {
        "rebalancer": "night",
        "before": {"successful": 0, "failed": 0},
        "after": {"successful": 2, "failed": 1},
        "open": 0,
        "reason": "RebalanceFailed",
    }
    assert (deleted.getMessage(), deleted.fields["rebalancer"]) == ("deleted", "night")
    tried = [each.fields for each in caplog.records if each.getMessage() == "workload tried"]
    assert [(str(each["workload"]), each["outcome"]) for each in tried] == [
        ("apps/v1 Deployment shop/api", "Marked"),
        ("apps/v1 Deployment shop/ghost", "BindingMissing"),
        ("apps/v1 Deployment shop/web", "Marked"),
    ]


@pytest.mark.parametrize("way", [None, "minimal"])
def test_a_rebalancer_marks_the_way_that_its_annotation_asks_for(bench, way):
    made = manifest(["web"])
    bench.create({**made, "metadata": {**made["metadata"], "annotations": {REBALANCE: way} if way else {}}})
    put_binding(bench.api, "web")
    bench.reconcile()
    stored = bench.api.get(binding_path("web"))
    stored["spec"]["resource"] = workload("web")
    found = decode_json(Binding, json.dumps(stored))
    assert found.keeps_replicas == (way == "minimal")
    later = msgspec.structs.replace(found.spec, reschedule_triggered_at=LATER)
    assert not msgspec.structs.replace(found, spec=later).keeps_replicas, "a later mark"
