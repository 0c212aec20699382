"""The binding scheduler against an API server that loses responses, rejects writes, and has other writers.

In the end every binding must be assigned as the core decides, and its status must be complete. No other writer may
have lost a change.
"""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from decisions import DYNAMIC
from fake_metrics import reconciles
from faults import Fault, lose, nothing, only, refuse
from karmada_plane import cluster
from kube_in_memory import KubeInMemory
from kube_over_http import KubeOverHTTP
from kube_store import JSON
from spans import recorded, tree
from waiting import LIMIT_S, wait_for

from berthmaster.controllers.binding_scheduler import scheduling_queue as queue
from berthmaster.controllers.binding_scheduler.controller import BindingScheduler
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.requests import RESOURCE_BINDINGS, APIRequest
from berthmaster.runtime.clock import SystemClock

CLUSTERS = KARMADA_CLUSTERS.collection
BINDINGS = 24


class Counting:
    """Counts the results of reconciles, and events as a recorder."""

    def __init__(self) -> None:
        self._reconciles = reconciles("binding-scheduler")
        self.events: Counter[str] = Counter()

    @property
    def results(self) -> Counter[str]:
        return self._reconciles.results

    def record(self, event: Any) -> None:
        self.events[event.reason] += 1


def member(name: str, *taints: str) -> JSON:
    return cluster(name, 10_000) | {"spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}}


def binding(number: int, replicas: int = 3) -> JSON:
    strategies: list[JSON] = [
        DYNAMIC,
        {"replicaSchedulingType": "Duplicated"},
        {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
        {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    ]
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": f"w{number}-deployment",
            "namespace": "ns",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "x"},
            "annotations": {"others": "stay"},
        },
        "spec": {
            "schedulerName": "berthmaster",
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": f"w{number}"},
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "placement": {
                "clusterAffinities": [
                    {"affinityName": "small", "clusterNames": ["tiny"]},
                    {"affinityName": "large", "clusterNames": ["m1", "m2", "m3"]},
                ],
                "replicaScheduling": strategies[number % len(strategies)],
            },
        },
    }


def path(thing: JSON) -> str:
    collection = CLUSTERS if thing["kind"] == "Cluster" else RESOURCE_BINDINGS
    return collection.object((thing["metadata"].get("namespace", ""), thing["metadata"]["name"]))


def put(api: KubeInMemory, thing: JSON) -> JSON:
    return api.put(path(thing), thing)


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry soon. The backoff is for real API servers."""
    monkeypatch.setattr(queue, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(queue, "LONGEST_WAIT_S", 0.2)


@pytest.fixture
def api() -> KubeInMemory:
    """A fleet whose first group is tainted."""
    server = KubeInMemory()
    for each in (member("tiny", "broken"), member("m1"), member("m2"), member("m3")):
        put(server, each)
    return server


@contextmanager
def scheduler(api: KubeInMemory) -> Iterator[Counting]:
    counting = Counting()
    context = ControllerContext(api, SystemClock(), counting)  # type: ignore[arg-type] # it is a recorder
    controller = BindingScheduler(context, ControllerSettings(concurrent_bindings=4))
    for informer in context.informers.values():
        informer.start(api)
    for informer in context.informers.values():
        assert informer.wait(LIMIT_S)
    controller.start()
    try:
        yield counting
    finally:
        controller.stop()
        for informer in context.informers.values():
            informer.stop()
    assert counting.results["crash"] == 0


def settled(found: JSON, replicas: int = 3) -> bool:
    """Whether a binding is assigned by its strategy, and its status is complete."""
    status = found.get("status") or {}
    clusters = {each["name"]: each["replicas"] for each in found["spec"].get("clusters") or []}
    duplicated = found["spec"]["placement"]["replicaScheduling"]["replicaSchedulingType"] == "Duplicated"
    wanted = (
        clusters == dict.fromkeys(("m1", "m2", "m3"), replicas) if duplicated else sum(clusters.values()) == replicas
    )
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    return (
        wanted
        and status.get("schedulerObservedGeneration") == found["metadata"]["generation"]
        and status.get("schedulerObservingAffinityName") == "large"
        and "lastScheduledTime" in status
        and conditions.get("Scheduled", {}).get("status") == "True"
    )


def wait_until_settled(api: KubeInMemory, made: list[JSON], replicas: int = 3) -> None:
    def unsettled() -> list[JSON]:
        return [object_ for each in made if not settled(object_ := api.get(path(each)), replicas)]

    wait_for(lambda: not unsettled(), unsettled)


def wait_until_idle(counting: Counting, errors: int) -> None:
    """Wait until as many reconciles have failed as expected, and each was retried."""

    def idle() -> bool:
        return min(counting.results["error"], counting.results["success"]) >= errors

    wait_for(idle, lambda: counting.results)


def writes_by_binding(api: KubeInMemory) -> Counter[str]:
    return Counter(request.path for request in list(api.done))


def one_in(number: int, fault: Fault) -> Fault:
    draw = random.Random(number)
    return only(lambda request: fault(request) if draw.randrange(number) == 0 else None, "PATCH")


def storm(status: int, reason: str) -> Fault:
    return refuse(status, reason, retry_after_s=0.01)


def test_each_binding_is_written_twice_and_not_again(api: KubeInMemory):
    made = [put(api, binding(number)) for number in range(BINDINGS)]
    with scheduler(api) as counting:
        wait_until_settled(api, made)
        api.edit(path(member("m1")), metadata={"labels": {"a": "b"}})
        time.sleep(0.5)
    assert set(writes_by_binding(api).values()) == {1}, "one write to each object, one to each status"
    assert counting.events == {"ScheduleBindingSucceed": 2 * BINDINGS}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(one_in(3, storm(429, "TooManyRequests")), nothing, id="one write in three gets 429"),
        pytest.param(one_in(3, storm(409, "Conflict")), nothing, id="one write in three conflicts"),
        pytest.param(one_in(4, storm(500, "InternalError")), nothing, id="one write in four fails"),
        pytest.param(one_in(3, lose), nothing, id="one request in three is lost"),
        pytest.param(nothing, one_in(3, lose), id="one response in three is lost"),
        pytest.param(
            one_in(5, storm(429, "TooManyRequests")),
            one_in(4, lose),
            id="writes are rejected and responses are lost",
        ),
    ],
)
def test_faults_change_nothing_but_the_time(api: KubeInMemory, before: Fault, after: Fault):
    api.before, api.after = before, after
    made = [put(api, binding(number)) for number in range(BINDINGS)]
    with scheduler(api):
        wait_until_settled(api, made)


def test_lost_responses_assign_no_capacity_twice(api: KubeInMemory):
    dynamic = [binding(4 * number) for number in range(BINDINGS)]
    for number, cpu in enumerate((30, 24, 18), 1):  # for 72 replicas
        put(api, member(f"m{number}") | {"status": {**member("")["status"], **holding(cpu)}})
    api.after = one_in(2, lose)
    made = [put(api, each) for each in dynamic]
    with scheduler(api):
        wait_until_settled(api, made)
    taken: Counter[str] = Counter()
    for each in made:
        for target in api.get(path(each))["spec"]["clusters"]:
            taken[target["name"]] += target["replicas"]
    assert taken == {"m1": 30, "m2": 24, "m3": 18}


def holding(cpu: int) -> JSON:
    return {"resourceSummary": {"allocatable": {"cpu": str(cpu), "pods": "1000"}}}


def test_a_takeover_assigns_no_capacity_twice(api: KubeInMemory):
    for number in range(1, 4):
        put(api, member(f"m{number}") | {"status": {**member("")["status"], **holding(24)}})
    made = []
    for half in (range(0, BINDINGS, 2), range(1, BINDINGS, 2)):
        made += [put(api, binding(4 * number)) for number in half]
        with scheduler(api):
            wait_until_settled(api, made)
    late = put(api, binding(4 * BINDINGS))
    with scheduler(api):
        wait_for(lambda: "conditions" in (api.get(path(late)).get("status") or {}))
        assert "clusters" not in api.get(path(late))["spec"], "the capacity is 72 replicas"
        api.remove(path(made[0]))
        wait_until_settled(api, [late])


def test_interrupted_watches_lose_nothing(api: KubeInMemory):
    made = []
    with scheduler(api):
        for number in range(BINDINGS):
            made.append(put(api, binding(number)))
            if number % 10 == 0:
                api.cut_watches()
        wait_until_settled(api, made)


def test_changes_of_other_writers_are_never_lost(api: KubeInMemory):
    made = [put(api, binding(number)) for number in range(BINDINGS)]
    stop = threading.Event()

    def write() -> None:
        draw = random.Random(7)
        for turn in itertools.count(1):
            if stop.is_set():
                return
            health = {"type": "FullyApplied", "status": "True", "reason": "Applied", "message": str(turn)}
            target = path(draw.choice(made))
            api.edit(target, metadata={"annotations": {"turn": str(turn)}})
            api.change(target, partial(report, health))
            time.sleep(0.002)

    def report(health: JSON, stored: JSON) -> None:
        stored["status"] = status = stored.get("status") or {}
        known = [each for each in status.get("conditions", []) if each["type"] != health["type"]]
        status["conditions"] = [health, *known]

    others = threading.Thread(target=write)
    others.start()
    with scheduler(api):
        time.sleep(1.0)
        stop.set()
        others.join()
        wait_until_settled(api, made)
    for each in made:
        found = api.get(path(each))
        assert found["metadata"]["annotations"]["others"] == "stay"
        if "turn" in found["metadata"]["annotations"]:
            assert "FullyApplied" in {one["type"] for one in found["status"]["conditions"]}


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_at_any_time_loses_nothing(api: KubeInMemory, seed: int):
    draw = random.Random(seed)
    made = [put(api, binding(number)) for number in range(BINDINGS)]
    for _ in range(3):
        deaths = itertools.count()
        limit = draw.randint(1, 2 * BINDINGS // 3)
        # After some writes all requests are lost, as if the process had been killed during the burst.
        api.before = only(
            lambda request, deaths=deaths, limit=limit: lose(request) if next(deaths) >= limit else None, "PATCH"
        )
        with scheduler(api):
            time.sleep(0.3)
    api.before = nothing
    with scheduler(api):
        wait_until_settled(api, made)
        for each in made:
            api.edit(path(each), spec={"replicas": 5})
        wait_until_settled(api, made, replicas=5)


@pytest.mark.parametrize("of_status", [False, True], ids=["the write of the assignment", "the write of the status"])
def test_a_binding_that_is_deleted_just_before_a_write_is_forgotten(api: KubeInMemory, *, of_status: bool):
    made = [put(api, binding(number)) for number in range(BINDINGS)]
    deleted: set[str] = set()

    def delete(request: APIRequest) -> None:
        of = request.path.removesuffix("/status")
        if len(deleted) < 2 and of not in deleted and (of != request.path) == of_status:
            deleted.add(of)
            api.remove(of)

    api.before = only(delete, "PATCH")
    with scheduler(api) as counting:
        wait_for(lambda: len(deleted) == 2)
        wait_until_settled(api, [each for each in made if path(each) not in deleted])
    assert counting.results["error"] == 0


def test_a_status_whose_response_was_lost_is_not_written_twice(api: KubeInMemory):
    lost: set[str] = set()

    def lose_the_first(request: APIRequest) -> None:
        if request.path not in lost:
            lost.add(request.path)
            lose(request)

    api.after = only(lose_the_first, part="/status")
    made = [put(api, binding(number)) for number in range(BINDINGS)]
    with scheduler(api) as counting:
        wait_until_settled(api, made)
        wait_until_idle(counting, BINDINGS)
    assert set(writes_by_binding(api).values()) == {1}


def test_a_binding_has_one_trace_from_its_event_to_its_last_write():
    server = KubeOverHTTP()
    try:
        for each in (member("tiny", "broken"), member("m1"), member("m2"), member("m3")):
            put(server.api, each)
        with recorded() as spans, scheduler(server.client()):
            wait_until_settled(server.api, [put(server.api, binding(0))])
            name = "binding-scheduler"
            found = wait_for(lambda: [each for each in spans() if each.name == name and len(tree(each, spans())) > 2])
            # The status has a trace of its own if other bindings wait.
            assert tree(found[0], spans())[:3] == ["wait", "decide", "PATCH"]
            assert "w0-deployment" in found[0].attributes["key"]
    finally:
        server.close()
