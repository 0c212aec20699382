"""Failover on a real API server: the storm brake, and a real loss. tests/fleet has the planned moves."""

import concurrent.futures
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from access_rules import role_rule
from e2e import karmada
from e2e.control_plane import ControlPlane
from e2e.karmada import assigned, binding, cluster, cluster_status, divided
from e2e.manifests import JSON, unique
from e2e.processes import Processes, wait_for
from e2e.serving import COMMAND, Serving, events_about, start_controllers, wait_for_leader

from berthmaster.controllers.rbac import rules_of
from berthmaster.kube.client import ask
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import RESOURCE_BINDINGS, create, page

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 120.0
LEASE: Final = "berthmaster-controllers"
TOLERATION_S: Final = 2
PERCENT: Final = 5
"""The limit of the storm brake in scenes with a storm: clusters of other tests may be there and ready."""
_WRITERS: Final = 4


class Scene:
    """A controllers process with its own clusters, bindings and configuration.

    Attributes:
        namespace: the namespace of the bindings and of the lease.
        names: the names of the clusters.
        scheduler: the scheduler name of the process.
    """

    def __init__(self, processes: Processes, plane: ControlPlane, folder: Path, clusters: int) -> None:
        self.plane, self.api = plane, plane.api
        self.namespace, self.scheduler = plane.new_namespace(), unique("mover")
        self._processes, self._config = processes, folder / "moves.yaml"
        self._members = [cluster(labels={"scene": self.scheduler}) for _ in range(clusters)]
        for each in self._members:
            karmada.join(self.api, each)
        self.names = [str(each["metadata"]["name"]) for each in self._members]
        self.controllers: Serving | None = None
        self._client = load_client(plane.kubeconfig, None)

    def run(self, **config: Any) -> None:
        """Start the process with this configuration, and with exactly the rights that it needs."""
        head = {"apiVersion": "berthmaster.io/v1alpha1", "kind": "MovesConfiguration"}
        self._config.write_text(yaml.safe_dump({**head, **config}))
        rules = [
            (role_rule(rule, LEASE), self.namespace if rule.scope == "lease" else None)
            for rule in rules_of(["binding-scheduler"], moves=True)
        ]
        self.controllers = start_controllers(
            self._processes, self.plane, self.namespace,
            "--controllers=binding-scheduler", f"--scheduler-name={self.scheduler}", "--failover=not-ready",
            f"--failover-toleration-s={TOLERATION_S}", f"--moves-config={self._config}",
            kubeconfig=self.plane.user(self.scheduler, rules),
        )  # fmt: skip
        wait_for_leader([self.controllers], LIMIT_S)

    def close(self) -> None:
        if self.controllers is not None:
            self.controllers.process.stop()
        for each in self._members:
            if self.api.exists(each):
                self.api.delete(each)

    def bind_many(self, count: int) -> None:
        placement = divided(("all", self.names))

        def one(_: int) -> None:
            made = binding(self.namespace, placement, cpu="100m", schedulerName=self.scheduler)
            ask(self._client, create(RESOURCE_BINDINGS, self.namespace, made))

        with concurrent.futures.ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(one, range(count)))
        wait_for("all to be assigned", lambda: all(assigned(each) for each in self.bindings()), LIMIT_S)

    def bindings(self) -> list[JSON]:
        """All bindings, by the fast client: a scene may have a thousand."""
        found: list[JSON] = []
        token = ""
        while True:
            part = json.loads(ask(self._client, page(RESOURCE_BINDINGS, token, LIMIT_S, namespace=self.namespace)))
            found += part["items"]
            token = part["metadata"].get("continue", "")
            if not token:
                return found

    def assignments(self) -> dict[str, dict[str, int]]:
        return {each["metadata"]["name"]: assigned(each) for each in self.bindings()}

    def set_ready(self, names: list[str], *, ready: bool) -> None:
        chosen = [each for each in self._members if each["metadata"]["name"] in names]
        with concurrent.futures.ThreadPoolExecutor(_WRITERS) as writers:
            list(
                writers.map(
                    lambda each: self.api.patch(each, {"status": cluster_status(ready=ready)}, subresource="status"),
                    chosen,
                )
            )

    def berthmaster(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [
            str(COMMAND),
            words[0],
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--lease-namespace={self.namespace}",
        ]
        return subprocess.run([*command, *words[1:]], capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def reasons(self) -> set[str]:
        return {each["reason"] for each in events_about(self.api, self.namespace, LEASE)}

    def brake(self) -> str:
        lease = self.api.get({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": self.namespace},
        })  # fmt: skip
        annotations = lease["metadata"].get("annotations") or {}
        return str(json.loads(annotations.get("policy.berthmaster.io/storm-brake", "{}")).get("reason", ""))


@pytest.fixture
def scene(processes: Processes, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[int], Scene]]:
    karmada.install_clusters(control_plane.api)
    made: list[Scene] = []

    def one(clusters: int) -> Scene:
        made.append(Scene(processes, control_plane, tmp_path, clusters))
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_a_partition_of_60_percent_evicts_nothing_until_a_user_ends_the_brake(scene: Callable[[int], Scene]):
    here = scene(10)
    here.run(brake={"unhealthyPercent": PERCENT})
    here.bind_many(30)
    before = here.assignments()

    lost = set(here.names[:6])
    here.set_ready(here.names[:6], ready=False)
    assert "ready clusters turned unready within" in wait_for("the brake", here.brake, LIMIT_S)
    wait_for("its event", lambda: "StormBrakeEngaged" in here.reasons(), LIMIT_S)
    # Each cluster was tried again several times after its toleration.
    time.sleep(4 * TOLERATION_S)
    assert here.assignments() == before
    assert not any(each["spec"].get("gracefulEvictionTasks") for each in here.bindings())
    assert "storm brake engaged" in here.berthmaster("moves").stdout

    result = here.berthmaster("moves", "resume", "--message", "the site is gone")

    assert result.returncode == 0, result.stderr
    assert "the storm brake has ended" in result.stdout
    wait_for(
        "all workloads elsewhere",
        lambda: not any(lost & each.keys() for each in here.assignments().values()),
        TOLERATION_S + LIMIT_S,
    )
    wait_for("both events", lambda: {"StormBrakeEngaged", "StormBrakeResumed"} <= here.reasons(), LIMIT_S)


def test_one_lost_cluster_of_40_fails_over_at_full_speed_with_1000_bindings(scene: Callable[[int], Scene]):
    here = scene(40)
    here.run()
    here.bind_many(1000)
    lost = here.names[0]
    concerned = sum(lost in each for each in here.assignments().values())
    assert concerned > 0

    here.set_ready([lost], ready=False)

    # On a quiet machine it takes a few seconds. The deadline is for a loaded one.
    wait_for(
        f"{concerned} workloads elsewhere",
        lambda: not any(lost in each for each in here.assignments().values()),
        TOLERATION_S + LIMIT_S,
    )
    assert here.brake() == ""
    assert all(sum(each.values()) == 2 for each in here.assignments().values())
