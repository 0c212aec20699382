"""Shadow mode, and scheduling storms."""

import json
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from builders import cluster
from click.testing import CliRunner, Result
from e2e.karmada import assigned, binding, condition, divided
from e2e.processes import Ports
from kube_in_memory import KubeInMemory
from kube_over_http import KubeOverHTTP, Storm, no_storm, storm_of
from runtime_thread import RuntimeThread
from waiting import LIMIT_S, wait_for

from berthmaster.controllers.registry import REGISTRY, SHADOW
from berthmaster.controllers.run import RunOptions, Runtime
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.requests import RESOURCE_BINDINGS
from berthmaster.model.decode import builtins
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.main import main

PORTS = Ports()
APPLIED = "policy.karmada.io/applied-placement"
PLACEMENT = {"clusterAffinity": {"clusterNames": ["a"]}}


class Process:
    """A shadow of default-scheduler at an API server with one cluster, named a."""

    def __init__(self) -> None:
        self.api = KubeInMemory()
        self.api.put(KARMADA_CLUSTERS[0].object(("", "a")), {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "a"},
            "status": {"apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
            ]},
        })  # fmt: skip
        port = PORTS.free()
        self.url = f"http://127.0.0.1:{port}"
        settings = ControllerSettings(scheduler_name="default-scheduler")
        options = RunOptions(probe_port=port, settings=settings, read_only=True)
        self.runtime = Runtime(options, [SHADOW], self.api, SystemClock())
        self._thread = threading.Thread(target=self.runtime.run, daemon=True)
        self._thread.start()

    def bind(self, name: str) -> None:
        self.api.put(RESOURCE_BINDINGS.object(("ns", name)), {
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "metadata": {
                "name": name, "namespace": "ns", "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            },
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": name},
                "replicas": 2,
                "placement": PLACEMENT,
            },
        })  # fmt: skip

    def answer(self, name: str, cluster: str) -> None:
        """Assign a binding as karmada-scheduler does."""
        path = RESOURCE_BINDINGS.object(("ns", name))
        self.api.edit(
            path,
            metadata={"annotations": {APPLIED: json.dumps(PLACEMENT)}},
            spec={"clusters": [{"name": cluster, "replicas": 2}]},
        )

    def report(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["shadow", "report", "--server", self.url, *arguments])

    def bindings(self) -> dict[str, int]:
        found = self.report("-o", "json")
        if found.exit_code:
            return {}
        return {name: count for name, count in json.loads(found.stdout)["bindings"].items() if count}

    def stop(self) -> None:
        self.runtime.stop("the test")
        self._thread.join(LIMIT_S)


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.stop()


def test_a_shadow_reports_differences_and_writes_nothing(process):
    wait_for(lambda: process.bindings() == {} and process.report().exit_code == 0)
    for name in ("one", "two"):
        process.bind(name)
    wait_for(lambda: process.bindings() == {"waiting": 2})
    assert process.report("--check").exit_code == 1, "nothing was compared"
    process.answer("one", "a")
    wait_for(lambda: process.bindings() == {"same": 1, "waiting": 1})
    assert process.report("--check").exit_code == 0
    process.answer("two", "b")
    wait_for(lambda: process.bindings() == {"same": 1, "different": 1})
    shown = process.report("--check")
    assert shown.exit_code == 1
    assert "by reason: clusters 1" in shown.stdout
    assert any(line.split()[:4] == ["ns/two", "clusters", "b:2", "a:2"] for line in shown.stdout.splitlines())
    assert process.api.writes() == []


@pytest.mark.parametrize(
    ("server", "message"),
    [
        pytest.param("https://127.0.0.1:9", "is not http://HOST:PORT", id="TLS"),
        pytest.param("http://127.0.0.1:9", "cannot be reached", id="no process"),
    ],
)
def test_a_report_of_no_process(server, message):
    found = CliRunner().invoke(main, ["shadow", "report", "--server", server])
    assert found.exit_code != 0
    assert message in str(found.exception) + found.output


BINDINGS = 24
REPLICAS = 3
CAPACITY = {"m1": 40, "m2": 20, "m3": 16}
"""The free cores; the burst has 72 replicas."""
SCHEDULING_STORMS_LIMIT_S = 40.0


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
def process_of_scheduling_storms(kube: KubeOverHTTP) -> Iterator[RuntimeThread]:
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

    wait_for(lambda: not unfinished(), unfinished, SCHEDULING_STORMS_LIMIT_S)


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
    kube: KubeOverHTTP, process_of_scheduling_storms: RuntimeThread, shares: dict[str, float]
):
    kube.retry_after_s, kube.storm = 1, patches(storm_of(3, shares))
    paths = burst(kube, BINDINGS)
    wait_until_finished(kube, paths)
    assert_right(kube, paths)
    befallen = sum(count for fault, count in kube.fault_counts.items() if fault)
    assert befallen
    sent = kube.api.methods.count("PATCH") + sum(kube.fault_counts.get(refused, 0) for refused in ("409", "429"))
    assert sent <= 2 * (BINDINGS + befallen), "each write once, plus the retries after faults"
    assert process_of_scheduling_storms.runtime.leading


def test_interrupted_watches_with_expired_versions_lose_nothing(
    kube: KubeOverHTTP, process_of_scheduling_storms: RuntimeThread
):
    paths = []
    for _ in range(3):
        paths += burst(kube, BINDINGS // 3)
        kube.api.cut_watches(forget=True)
    wait_until_finished(kube, paths)
    assert_right(kube, paths)
    assert kube.api.methods.count("PATCH") <= 3 * BINDINGS
    assert process_of_scheduling_storms.runtime.leading
