"""The binding scheduler in a whole process, through storms over real sockets.

``test_runtime`` tests storms for any controller. Here two writes belong together, capacity is limited, and the number
of requests has a bound.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from builders import cluster
from e2e.karmada import assigned, binding, condition, divided
from e2e.processes import Ports
from kube_over_http import KubeOverHTTP, Storm, no_storm, storm_of
from runtime_thread import RuntimeThread
from waiting import wait_for

from berthmaster.controllers.registry import REGISTRY
from berthmaster.kube.kinds import KARMADA_CLUSTERS, RESOURCE_BINDINGS
from berthmaster.model.decode import builtins

BINDINGS = 24
REPLICAS = 3
CAPACITY = {"m1": 40, "m2": 20, "m3": 16}
"""The free cores; the burst has 72 replicas."""
LIMIT_S = 40.0
PORTS = Ports()


def patches(storm: Storm) -> Storm:
    """A storm that affects only writes to bindings."""
    return lambda verb: storm(verb) if verb == "patch" else ""


@pytest.fixture
def kube() -> Iterator[KubeOverHTTP]:
    """A server with a fleet whose capacity is little more than the burst."""
    server = KubeOverHTTP()
    for name, cpu in CAPACITY.items():
        member = builtins(cluster(name, cpu=cpu))
        server.api.put(KARMADA_CLUSTERS.collection.object(("", name)), member)
    yield server
    server.close()


@pytest.fixture
def process(kube: KubeOverHTTP) -> Iterator[RuntimeThread]:
    """A process without work."""
    started = RuntimeThread(kube, [each for each in REGISTRY if each.name == "binding-scheduler"], PORTS.free())
    yield started
    kube.storm = no_storm
    started.stop()


def burst(kube: KubeOverHTTP, count: int) -> list[str]:
    paths = []
    for _ in range(count):
        wanted = binding("ns", divided(("small", ["nowhere"]), ("large", list(CAPACITY))), replicas=REPLICAS)
        wanted["metadata"]["annotations"] = {"others": "stay"}
        paths.append(RESOURCE_BINDINGS.object(("ns", wanted["metadata"]["name"])))
        kube.api.put(paths[-1], wanted)
    return paths


def wait_until_finished(kube: KubeOverHTTP, paths: list[str]) -> None:
    def unfinished() -> list[dict]:
        objects = [kube.api.objects[path] for path in paths]
        return [each for each in objects if "lastScheduledTime" not in each.get("status", {})]

    wait_for(lambda: not unfinished(), unfinished, LIMIT_S)


def assert_right(kube: KubeOverHTTP, paths: list[str]) -> None:
    """Check that all bindings are assigned once, with a complete status, and no capacity is assigned twice."""
    taken: Counter[str] = Counter()
    for path in paths:
        found = kube.api.objects[path]
        assert sum(assigned(found).values()) == REPLICAS
        assert condition(found)["reason"] == "Success"
        assert found["status"]["schedulerObservingAffinityName"] == "large"
        assert found["status"]["schedulerObservedGeneration"] == found["metadata"]["generation"] == 2
        assert found["metadata"]["annotations"]["others"] == "stay"
        taken.update(assigned(found))
    assert all(taken[name] <= room for name, room in CAPACITY.items()), taken


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param({"409": 0.2}, id="false conflicts"),
        pytest.param({"429": 0.2}, id="429 with Retry-After of one second"),
        pytest.param({"half": 0.3}, id="truncated responses to successful writes"),
    ],
)
def test_through_a_storm_each_binding_is_scheduled_once(
    kube: KubeOverHTTP, process: RuntimeThread, shares: dict[str, float]
):
    kube.retry_after_s, kube.storm = 1, patches(storm_of(3, shares))
    paths = burst(kube, BINDINGS)
    wait_until_finished(kube, paths)
    assert_right(kube, paths)
    befallen = sum(count for fault, count in kube.fault_counts.items() if fault)
    assert befallen
    sent = kube.api.methods.count("PATCH") + sum(kube.fault_counts.get(refused, 0) for refused in ("409", "429"))
    assert sent <= 2 * (BINDINGS + befallen), "each write once, plus the retries after faults"
    assert process.runtime.leading


def test_interrupted_watches_with_expired_versions_lose_nothing(kube: KubeOverHTTP, process: RuntimeThread):
    paths = []
    for _ in range(3):
        paths += burst(kube, BINDINGS // 3)
        kube.api.cut_watches(forget=True)
    wait_until_finished(kube, paths)
    assert_right(kube, paths)
    assert kube.api.methods.count("PATCH") <= 3 * BINDINGS
    assert process.runtime.leading
