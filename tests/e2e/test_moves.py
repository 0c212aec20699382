"""Moves on a real API server with a played member health: storm brake, a real loss, failback, drain, rollback."""

import concurrent.futures
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from access_rules import role_rule
from e2e import karmada
from e2e.api import Api, RefusedError
from e2e.control_plane import ControlPlane
from e2e.controllers_process import COMMAND, Controllers, events_about, start_controllers, wait_for_leader
from e2e.karmada import assigned, binding, cluster, cluster_status, divided
from e2e.manifests import JSON, unique
from e2e.processes import Processes, wait_for

from berthmaster.controllers.rbac import rules_of
from berthmaster.kube.client import ask
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import RESOURCE_BINDINGS, create, page
from berthmaster.model.work import PERMANENT_ID, SPACE

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 120.0
SICK: Final = {"example.org/sick": "yes"}
"""The label of bindings whose copies never become healthy."""
LEASE: Final = "berthmaster-controllers"
MOVE: Final = "policy.berthmaster.io/move"
TOLERATION_S: Final = 2
PERCENT: Final = 5
"""The limit of the storm brake in scenes with a storm: clusters of other tests may be there and ready."""
_WRITERS: Final = 4
_PLAY_S: Final = 0.2


class Members:
    """Plays Karmada and its members: each entry of an assignment has a Work, and its copy becomes healthy soon.

    The copies of sick workloads never do.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._works: dict[str, dict[str, JSON]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _play(self) -> None:
        while not self._stopping.wait(_PLAY_S):
            for each in self._api.list(karmada.BINDINGS, "ResourceBinding", self._namespace):
                sick = SICK.items() <= each["metadata"]["labels"].items()
                health = "Unhealthy" if sick else "Healthy"
                found = [
                    {"clusterName": name, "applied": True, "health": health, "status": {"readyReplicas": count}}
                    for name, count in sorted(assigned(each).items())
                ]
                if each.get("status", {}).get("aggregatedStatus", []) != found:
                    with suppress(RefusedError):
                        self._write_works(each, health)
                        self._api.patch(each, {"status": {"aggregatedStatus": found}}, subresource="status")

    def _write_works(self, binding: JSON, health: str) -> None:
        known = self._works.setdefault(binding["metadata"]["name"], {})
        wanted = assigned(binding)
        for name in known.keys() - wanted.keys():
            self._api.delete(known.pop(name))
        for name, count in wanted.items():
            work = _work(binding, name, count)
            if name not in known:
                self._api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{SPACE}{name}"}})
            self._api.apply(work)
            identifier = {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
            entry = {"identifier": identifier, "health": health, "status": {"readyReplicas": count}}
            applied = {
                "type": "Applied", "status": "True", "reason": "Applied", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }  # fmt: skip
            status = {"conditions": [applied], "manifestStatuses": [entry]}
            self._api.patch(work, {"status": status}, subresource="status")
            known[name] = work


def _work(binding: JSON, cluster_name: str, replicas: int) -> JSON:
    meta, key = binding["metadata"], PERMANENT_ID["ResourceBinding"]
    manifest = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": meta["namespace"]}, "spec": {"replicas": replicas},
    }  # fmt: skip
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {
            "name": meta["name"],
            "namespace": f"{SPACE}{cluster_name}",
            "labels": {key: meta["labels"][key]},
        },
        "spec": {"workload": {"manifests": [manifest]}},
    }


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
        self.controllers: Controllers | None = None
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

    def bind(self, *groups: tuple[str, list[str]], labels: Mapping[str, str] | None = None) -> JSON:
        made = binding(self.namespace, divided(*groups), cpu="100m", schedulerName=self.scheduler)
        made["metadata"]["labels"] |= {PERMANENT_ID["ResourceBinding"]: unique("id"), **(labels or {})}
        return self.api.create(made).object

    def bind_many(self, count: int) -> None:
        """Create bindings over all clusters, and wait until they are assigned."""
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

    def set_taints(self, name: str, taints: list[JSON] | None) -> None:
        [chosen] = [each for each in self._members if each["metadata"]["name"] == name]
        self.api.patch(chosen, {"spec": {"taints": taints}})

    def berthmaster(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [
            str(COMMAND[0]),
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

    def until(self, target: JSON, what: str, check: Callable[[JSON, Mapping[str, Any]], bool]) -> JSON:
        """Wait until a check of a binding and of the record of its move is true, and return the binding."""

        def look() -> JSON | None:
            found = self.api.get(target)
            move = json.loads((found["metadata"].get("annotations") or {}).get(MOVE, "{}"))
            return found if check(found, move) else None

        return wait_for(what, look, LIMIT_S)


@pytest.fixture(scope="module")
def mover(
    processes: Processes, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """The scene of planned moves. It starts first, because a new leader begins no planned move for a minute."""
    karmada.install_clusters(control_plane.api)
    made = Scene(processes, control_plane, tmp_path_factory.mktemp("mover"), 3)
    made.set_taints(made.names[0], [{"key": "maintenance", "effect": "NoSchedule"}])
    hopeless = {"selector": {"labels": {"matchLabels": SICK}}, "deadline": "3s"}
    made.run(failback={"mode": "On", "after": "1s"}, soak="1s", holdDown={"initial": "1h"}, rules=[hopeless])
    yield made
    made.close()


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


@contextmanager
def playing(scene: Scene) -> Iterator[Members]:
    members = Members(scene.api, scene.namespace)
    members.start()
    try:
        yield members
    finally:
        members.stop()


@pytest.mark.usefixtures("mover")
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


def test_failback_drain_and_rollback(mover: Scene):
    here = mover
    first, second, third = here.names
    with playing(here):
        groups = ("first", [first]), ("rest", [second, third])
        made, sick = here.bind(*groups), here.bind(*groups, labels=SICK)
        for each in (made, sick):
            here.until(
                each, "the second group", lambda found, _: bool(assigned(found)) and first not in assigned(found)
            )

        here.set_taints(first, None)

        surging = here.until(made, "old and new copies", lambda found, _: first in assigned(found))
        assert sum(assigned(surging).values()) == 4, "the old copies stay until the new ones are healthy"
        here.until(made, "the first group alone", lambda found, _: assigned(found) == {first: 2})
        restored = here.until(sick, "a rollback", lambda _, move: move.get("phase") == "RolledBack")
        assert first not in assigned(restored)
        assert sum(assigned(restored).values()) == 2
        assert "held down until" in here.berthmaster("moves").stdout

        drained = here.berthmaster("drain", first, f"--scheduler-name={here.scheduler}", "--timeout=100", "-o", "json")
        assert (drained.returncode, json.loads(drained.stdout)["left"]) == (0, []), drained.stderr
        assert first not in assigned(here.api.get(made))
        assert here.berthmaster("undrain", first).stdout == f"cluster/{first} no longer drains\n"
