"""A controllers process in a thread, against a faulty API server over real sockets."""

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from copying_controllers import CONFIG_MAPS, MARK, controller
from e2e.control_plane import fetch
from e2e.processes import Ports
from kube_over_http import KubeOverHTTP, storm_of
from waiting import LIMIT_S, wait_for

from berthmaster.controllers.controller import QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.registry import Registration
from berthmaster.controllers.run import EXIT_LOST, RunOptions, Runtime
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.lease import LeaseOptions
from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

LEASE = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster"
PORTS = Ports()
RENEW_S = 60.0
SHORT_RENEW_S = 6.0


class Process:
    """A runtime in a thread. No machine is so slow that it loses its lease unless a test prevents each renewal."""

    def __init__(self, kube: KubeOverHTTP, identity: str, renew_s: float = RENEW_S, **more: Any) -> None:
        lease = LeaseOptions(
            "karmada-system", "berthmaster", identity, lease_s=int(renew_s) + 5, renew_s=renew_s, retry_s=0.1
        )
        self.port = PORTS.free()
        self.ended_at_once: list[int] = []
        self.code: int | None = None
        self.lease = lease
        registrations = more.pop("registrations", [Registration("copying", controller)])
        options = RunOptions(**{"lease": lease, "probe_port": self.port, **more})
        self.runtime = Runtime(options, registrations, kube.client(), SystemClock(), self.ended_at_once.append)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.code = self.runtime.run()

    def probe(self, path: str) -> str | None:
        return fetch(f"http://127.0.0.1:{self.port}/{path}")

    def problem(self) -> str:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=LIMIT_S)
        return refused.value.read().decode()

    def stop(self) -> int | None:
        self.runtime.stop("the test")
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        return self.code


@pytest.fixture
def kube() -> Iterator[KubeOverHTTP]:
    server = KubeOverHTTP()
    yield server
    server.close()


@pytest.fixture
def start(kube: KubeOverHTTP) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def one(identity: str = "me", **more: Any) -> Process:
        started.append(Process(kube, identity, **more))
        return started[-1]

    yield one
    kube.storm = lambda _verb: ""
    for each in started:
        each.stop()


def want(kube: KubeOverHTTP, count: int, value: str = "1") -> list[str]:
    paths = []
    for number in range(count):
        metadata = {"name": f"copy-{number}", "namespace": "ns", "labels": {MARK: "true"}}
        paths.append(CONFIG_MAPS.object(("ns", f"copy-{number}")))
        kube.api.put(paths[-1], {"metadata": metadata, "data": {"wants": value}})
    return paths


def copied(kube: KubeOverHTTP, paths: list[str]) -> bool:
    return all(kube.api.objects[path]["data"].get("has") == "1" for path in paths)


STORMS = {
    "conflicts": {"409": 0.3},
    "too many requests": {"429": 0.3},
    "server errors": {"500": 0.1, "503": 0.1, "504": 0.1},
    "connections cut before the request was processed": {"cut": 0.3},
    "responses cut after the request was processed": {"half": 0.3},
    "everything at once": {"409": 0.1, "429": 0.1, "500": 0.05, "cut": 0.1, "half": 0.1},
}


@pytest.mark.parametrize("shares", STORMS.values(), ids=list(STORMS))
def test_through_a_storm_each_write_happens_once(kube, start, shares):
    paths = want(kube, 60)
    kube.storm = storm_of(1, shares)
    process = start()
    wait_for(lambda: copied(kube, paths))
    assert {kube.api.objects[path]["data"]["writes"] for path in paths} == {"1"}
    assert sum(count for fault, count in kube.fault_counts.items() if fault) > 10
    assert process.runtime.leading
    assert process.probe("livez") == "ok\n"


def test_retry_after_is_respected(kube, start):
    process = start()
    wait_for(lambda: process.runtime.leading)
    refused_s: list[float] = []

    def once(verb: str) -> str:
        if verb == "patch" and not refused_s:
            refused_s.append(time.monotonic())
            return "429"
        return ""

    kube.retry_after_s, kube.storm = 1, once
    paths = want(kube, 1)
    wait_for(lambda: copied(kube, paths))
    assert time.monotonic() - refused_s[0] >= 1.0


def test_interrupted_watches_lose_nothing(kube, start):
    start()
    paths = want(kube, 20)
    wait_for(lambda: copied(kube, paths))
    for round_ in range(3):
        kube.api.cut_watches(forget=bool(round_ % 2))
        paths = want(kube, 20)
        wait_for(lambda paths=paths: copied(kube, paths))


def test_leader_and_standby_hand_over(kube, start):
    first = start("a")
    wait_for(lambda: first.runtime.leading)
    second = start("b")
    wait_for(lambda: second.probe("readyz") == "ok\nstandby\n")
    paths = want(kube, 10)
    wait_for(lambda: copied(kube, paths))
    assert first.stop() == 0
    wait_for(lambda: second.runtime.leading)  # earlier than the lease ends
    assert second.probe("readyz") == "ok\nleading\n"
    paths = want(kube, 10)
    wait_for(lambda: copied(kube, paths))
    assert {kube.api.objects[path]["data"]["writes"] for path in paths} == {"1"}


def test_a_standby_does_not_start_from_a_state_that_a_restore_of_etcd_has_lost(kube, start):
    first = start("first")
    paths = want(kube, 60)
    wait_for(lambda: copied(kube, paths))
    second = start("second")
    wait_for(lambda: second.runtime._source._versions)  # noqa: SLF001 - no request shows whose first check it is
    del kube.api.changes[1:]  # the versions go back, and watches of later ones stay silent
    assert first.stop() == 0
    paths = want(kube, 1)
    wait_for(lambda: second.code == 0)
    assert EXIT_LOST in second.ended_at_once
    assert not copied(kube, paths)


def test_a_leader_that_stops_releases_the_lease_before_it_writes_its_events(kube, start):
    process = start()
    paths = want(kube, 500)  # each copy has an event, and events are written at 50 a second
    wait_for(lambda: copied(kube, paths))
    assert process.stop() == 0
    release, last_event = (kube.api.methods[::-1].index(each) for each in ("PUT", "POST"))
    assert release > last_event, "the next leader does not wait for events"


def test_a_leader_that_cannot_renew_exits_at_once_and_sends_no_more_writes(kube, start):
    ended: list[bool] = []
    process = start(renew_s=SHORT_RENEW_S, on_lost=lambda: ended.append(process.runtime.leading))
    wait_for(lambda: process.runtime.leading)
    paths = want(kube, 1)
    wait_for(lambda: copied(kube, paths))
    kube.storm = lambda verb: "503" if verb == "update" else ""
    wait_for(lambda: process.ended_at_once == [1])
    assert ended == [False], "the ledger ends after the last write"
    assert not process.runtime.leading
    want(kube, 5)
    time.sleep(0.3)
    assert not any("has" in kube.api.objects[path]["data"] for path in want(kube, 5))


def test_a_rate_limited_write_is_not_sent_after_leadership_is_lost(kube, start):
    process = start(qps=2.0, burst=1, renew_s=SHORT_RENEW_S)
    wait_for(lambda: process.runtime.leading)
    want(kube, 200)
    kube.storm = lambda verb: "503" if verb == "update" else ""
    wait_for(lambda: process.ended_at_once == [1])
    counts = [-1, kube.api.methods.count("PATCH")]
    while counts[-1] != counts[-2]:  # a request under way may arrive late
        time.sleep(1.2)
        counts.append(kube.api.methods.count("PATCH"))
    assert 1 < counts[-1] < 200, "the limit lets two writes a second pass"


def test_a_process_that_is_not_synced_names_what_is_missing_and_does_not_lead(kube, start):
    kube.storm = lambda verb: "503" if verb == "list" else ""
    process = start()
    wait_for(lambda: process.probe("livez") == "ok\n")  # a restart would not help
    wait_for(lambda: "503" in process.problem())
    assert "configmaps" in process.problem()
    assert process.probe("readyz") is None
    assert LEASE not in kube.api.objects
    kube.storm = lambda _verb: ""
    wait_for(lambda: process.runtime.leading)


def test_a_process_that_does_not_lead_stops_on_request(kube, start):
    kube.storm = lambda verb: "503" if verb == "list" else ""
    process = start()
    assert process.stop() == 0
    kube.storm = lambda _verb: ""
    leader = start("a")
    wait_for(lambda: leader.runtime.leading)
    standby = start("b")
    wait_for(lambda: standby.probe("readyz"))
    assert standby.stop() == 0
    assert kube.api.objects[LEASE]["spec"]["holderIdentity"] == "a"


def test_without_a_lease_work_starts_at_once(kube, start):
    paths = want(kube, 3)
    process = start(lease=None)
    wait_for(lambda: copied(kube, paths))
    assert process.runtime.leading
    assert not any("leases" in path for path in kube.api.objects)


SECRETS = Collection.of("v1", "secrets")


def with_secrets(context: ControllerContext, settings: ControllerSettings) -> QueueController[Any]:
    context.optional_informer(SECRETS, len, "secrets are not counted")
    return controller(context, settings)


def watched(kube) -> set[str]:
    return {each.path for each in kube.api.requests if "watch" in dict(each.query)}


@pytest.mark.parametrize("status", [pytest.param(0, id="served"), 403, 404, pytest.param(503, id="503 once")])
def test_an_optional_kind_is_watched_if_it_is_served_and_allowed(kube, start, status, caplog):
    caplog.set_level(logging.INFO, "berthmaster.controllers")
    answers = iter([status] if status in {0, 503} else [])

    def check(request: APIRequest) -> None:
        if request.path == SECRETS.path and (refusal := next(answers, 0 if status in {0, 503} else status)):
            raise ApiError(refusal, "Refused", "requested by the test")

    kube.api.before = check
    paths = want(kube, 1)
    process = start(registrations=[Registration("copying", with_secrets)])
    wait_for(lambda: copied(kube, paths))
    assert process.probe("readyz")
    if status in {403, 404}:
        assert SECRETS.path not in watched(kube)
        remedy = "grant list and watch" if status == 403 else "install its definition"
        expected = f"secrets are not watched: secrets are not counted; {remedy}, and restart the controllers: "
        assert [each for each in caplog.messages if each.startswith(expected)]
    else:
        wait_for(lambda: SECRETS.path in watched(kube))
