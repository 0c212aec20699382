"""The binding scheduler, as a whole process runs it, through storms over real sockets.

What storms do to any controller is shown by ``test_runtime``. Here two writes belong together, room is given away, and
the numbers of requests have bounds.
"""

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from builders import cluster
from e2e.karmada import assigned, binding, condition, divided
from e2e.processes import Ports
from kube_over_http import KubeOverHttp, Storm, no_storm, storm_of
from runtime_thread import RuntimeThread

from berthmaster.controllers.binding_scheduler.cache import RESOURCE_BINDINGS
from berthmaster.controllers.registry import REGISTRY
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.model.decode import builtins

BINDINGS = 24
REPLICAS = 3
ROOM = {"m1": 40, "m2": 20, "m3": 16}
"""For 72 replicas."""
LIMIT_S = 40.0
PORTS = Ports()


def patches(storm: Storm) -> Storm:
    """A storm on writes to bindings alone."""
    return lambda verb: storm(verb) if verb == "patch" else ""


@pytest.fixture
def kube() -> Iterator[KubeOverHttp]:
    """A server with a fleet that holds little more than the burst."""
    server = KubeOverHttp()
    for name, cpu in ROOM.items():
        member = builtins(cluster(name, cpu=cpu))
        server.api.put(KARMADA_CLUSTERS.collection.object(("", name)), member)
    yield server
    server.close()


@pytest.fixture
def process(kube: KubeOverHttp) -> Iterator[RuntimeThread]:
    """A process that has not begun to work, for there is nothing to do yet."""
    started = RuntimeThread(kube, [each for each in REGISTRY if each.name == "binding-scheduler"], PORTS.free())
    yield started
    kube.storm = no_storm
    started.stop()


def burst(kube: KubeOverHttp, count: int) -> list[str]:
    """Bindings that divide their replicas by room; their paths."""
    paths = []
    for _ in range(count):
        wanted = binding("ns", divided(("small", ["nowhere"]), ("large", list(ROOM))), replicas=REPLICAS)
        wanted["metadata"]["annotations"] = {"others": "stay"}
        paths.append(RESOURCE_BINDINGS.object(("ns", wanted["metadata"]["name"])))
        kube.api.put(paths[-1], wanted)
    return paths


def wait_until_finished(kube: KubeOverHttp, paths: list[str]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while left := [path for path in paths if "lastScheduledTime" not in kube.api.objects[path].get("status", {})]:
        assert time.monotonic() < deadline_s, kube.api.objects[left[0]]
        time.sleep(0.02)


def assert_right(kube: KubeOverHttp, paths: list[str]) -> None:
    """See that all are assigned, once, nothing is given away twice, and all of it is told."""
    taken: Counter[str] = Counter()
    for path in paths:
        found = kube.api.objects[path]
        assert sum(assigned(found).values()) == REPLICAS
        assert condition(found)["reason"] == "Success"
        assert found["status"]["schedulerObservingAffinityName"] == "large"
        assert found["status"]["schedulerObservedGeneration"] == found["metadata"]["generation"] == 2
        assert found["metadata"]["annotations"]["others"] == "stay"
        taken.update(assigned(found))
    assert all(taken[name] <= room for name, room in ROOM.items()), taken


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param({"409": 0.2}, id="conflicts that are none"),
        pytest.param({"429": 0.2}, id="too many requests, come back in a second"),
        pytest.param({"half": 0.3}, id="half answers to what was carried out"),
    ],
)
def test_through_a_storm_each_binding_is_scheduled_once(
    kube: KubeOverHttp, process: RuntimeThread, shares: dict[str, float]
):
    kube.retry_after_s, kube.storm = 1, patches(storm_of(3, shares))
    paths = burst(kube, BINDINGS)
    wait_until_finished(kube, paths)
    assert_right(kube, paths)
    befallen = sum(count for fault, count in kube.befallen.items() if fault)
    assert befallen
    sent = kube.api.methods.count("PATCH") + sum(kube.befallen.get(refused, 0) for refused in ("409", "429"))
    assert sent <= 2 * (BINDINGS + befallen), "each write once, and what a lost answer costs at most"
    assert process.runtime.leading


def test_watches_that_end_and_are_forgotten_lose_nothing(kube: KubeOverHttp, process: RuntimeThread):
    paths = []
    for _ in range(3):
        paths += burst(kube, BINDINGS // 3)
        kube.api.cut_watches(forget=True)
    wait_until_finished(kube, paths)
    assert_right(kube, paths)
    assert kube.api.methods.count("PATCH") <= 3 * BINDINGS
    assert process.runtime.leading
