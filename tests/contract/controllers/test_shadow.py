"""Shadow mode in a process."""

import json
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from e2e.processes import Ports
from karmada_plane import binding, cluster, deployment, policy, selector, serve_karmada, store
from kube_in_memory import KubeInMemory
from waiting import LIMIT_S, wait_for

from berthmaster.controllers.registry import SHADOW
from berthmaster.controllers.run import RunOptions, Runtime
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.requests import RESOURCE_BINDINGS
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.main import main

PORTS = Ports()
APPLIED = "policy.karmada.io/applied-placement"
PLACEMENT = {"clusterAffinity": {"clusterNames": ["a"]}}
POLICY = policy("p", selector(), namespace="ns", placement=PLACEMENT)


class Process:
    """A shadow of default-scheduler at an API server with one cluster, named a."""

    def __init__(self) -> None:
        self.api = KubeInMemory()
        serve_karmada(self.api)
        store(self.api, cluster("a"))
        port = PORTS.free()
        self.url = f"http://127.0.0.1:{port}"
        settings = ControllerSettings(scheduler_name="default-scheduler")
        options = RunOptions(probe_port=port, settings=settings, read_only=True)
        self.runtime = Runtime(options, [SHADOW], self.api, SystemClock())
        self._thread = threading.Thread(target=self.runtime.run, daemon=True)
        self._thread.start()

    def bind(self, name: str) -> None:
        made = binding(deployment(name, namespace="ns"), POLICY)
        made["metadata"]["name"] = name
        made["metadata"]["annotations"].pop(APPLIED)
        made["spec"].pop("clusters")
        self.api.put(RESOURCE_BINDINGS.object(("ns", name)), made)

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
