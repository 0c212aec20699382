"""What is said of an assignment whose turn to be told of comes later, because others wait to be assigned."""

from typing import Any

import pytest
from builders import cluster
from fake_clock import FakeClock
from kube_in_memory import KubeInMemory

from extender.controllers.bindings.bindings import RESOURCE_BINDINGS
from extender.controllers.bindings.desk import Desk
from extender.controllers.bindings.failover import FailoverOptions
from extender.controllers.bindings.queue import SchedulingQueue
from extender.controllers.bindings.reconciler import BindingReconciler
from extender.scheduling.plugins import built_in
from extender.scheduling.scheduler import Profile
from fleet.model.binding import Binding
from fleet.model.decode import convert

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
    """A reconciler with a queue in which another binding waits."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.api = KubeInMemory()
        self.store = Store(self.api)
        self.queue = SchedulingQueue(clock, lambda _: 0)
        self.queue.add(OTHER)
        desk = Desk(Profile(built_in()), clock, FailoverOptions())
        desk.cluster_changed(cluster("m", cpu=10))
        self._reconciler = BindingReconciler(
            self.store, desk, self.queue, self.api, self.store, self.store, clock, "berthmaster"
        )

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
    bench.queue.done(bench.queue.take())
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
