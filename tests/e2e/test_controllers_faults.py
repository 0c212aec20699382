"""Bindings in a burst while the API server, the leader, the network or the clocks fail: all scheduled, each once.

Every burst goes over clusters that hold little more than it needs, so that a scheduler that forgot what it, or the
leader before it, gave away would give it away twice. How often a binding was written to is read from the audit log.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from access_rules import role_rule
from e2e import bursts, karmada, skewed_controllers
from e2e.assets import binary
from e2e.bursts import Burst, Writes, writes_of
from e2e.conftest import CHILDREN, needed
from e2e.control_plane import ControlPlane, crd_folder
from e2e.manifests import unique
from e2e.processes import Processes, wait_for
from e2e.serving import BRIEF, COMMAND, Serving, start_controllers, wait_for_leader

from berthmaster.controllers.rbac import rules_of

pytestmark = pytest.mark.e2e

BINDINGS: Final = 120
PART: Final = 20
"""So many are finished when the fault comes."""
WORKERS: Final = 8
RETRIES: Final = 6
"""Their waits add up to half a minute, in which a watch is back."""
LIMIT_S: Final = 90.0
ELECTION_S: Final = 30.0
SLOWLY: Final = ("--kube-api-qps=30", "--kube-api-burst=1", f"--concurrent-bindings={WORKERS}")


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that may be killed, and that puts down every write to a binding."""
    crds = needed(crd_folder)
    for name in ("etcd", "kube-apiserver"):
        needed(lambda name=name: binary(name))
    children = Processes(tmp_path_factory.mktemp("faulty-control-plane"))
    before, request.config.stash[CHILDREN] = request.config.stash.get(CHILDREN, None), children
    try:
        made = ControlPlane(children, audited=["work.karmada.io"])
        made.install(crds)
        karmada.install_clusters(made.api)
        yield made
    finally:
        children.stop_all()
        if before is not None:
            request.config.stash[CHILDREN] = before


class Scene:
    """A burst, and the processes that work on it under one user with just the rights they need."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.user = unique("scheduler")
        self.namespace = plane.new_namespace()
        self.started: list[Serving] = []
        rules = [
            (role_rule(rule, "berthmaster-controllers"), self.namespace if rule.scope == "lease" else None)
            for rule in rules_of(["binding-scheduler"])
        ]
        self.kubeconfig = plane.user(self.user, rules)
        self.burst = bursts.make(plane, self.namespace, self.user, BINDINGS)

    def start(self, *flags: str, skew_s: int = 0, kubeconfig: Path | None = None) -> Serving:
        """Start one more process, its clock wrong by so many seconds; all elect one leader."""
        skewed = (sys.executable, Path(skewed_controllers.__file__), str(skew_s))
        started = start_controllers(
            self.plane.processes,
            self.plane,
            self.namespace,
            "--controllers=binding-scheduler",
            f"--scheduler-name={self.user}",
            *SLOWLY,
            *flags,
            kubeconfig=kubeconfig or self.kubeconfig,
            command=skewed if skew_s else (COMMAND, "controllers"),
        )
        self.started.append(started)
        return started

    def await_part(self) -> None:
        wait_for("a part of the burst", lambda: self.burst.finished(self.plane.api) >= PART, LIMIT_S)

    def assert_unfinished(self) -> None:
        assert self.burst.finished(self.plane.api) < BINDINGS, "it comes too late to show anything"

    def await_all(self) -> None:
        wait_for("all of the burst", lambda: self.burst.finished(self.plane.api) == BINDINGS, LIMIT_S)

    def judged(self) -> Writes:
        """Wait for the end and see that all is right; what was written for it."""
        self.await_all()
        bursts.judge(self.plane.api, self.burst)
        for each in self.started:
            if each.process.running:
                assert each.measure("berthmaster_controllers_reconciles_total", result="crash") == 0
        return writes_of(self.plane.audit_events(), self.namespace, self.user)

    def finish(self) -> None:
        for each in self.started:
            each.process.stop()


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    made = Scene(plane)
    yield made
    made.finish()


def assert_once(burst: Burst, writes: Writes) -> None:
    """No binding was assigned twice, nor its status written twice: an assignment of ours is one new generation.

    Duplicated bindings are scheduled at every event, and get the time of that.
    A write that the API server carried out, and was killed before it could put it down, is missing in the log; that it
    was carried out is judged elsewhere.
    """
    assert set(writes.assignments) | set(writes.statuses) <= set(burst.strategies)
    assert set(writes.assignments.values()) == {1}
    once = [count for name, count in writes.statuses.items() if burst.strategies[name] != "duplicated"]
    assert set(once) == {1}


def assert_conflicts(writes: Writes, at_most: int) -> None:
    """Only what was under way when a fault came could conflict with what it had written itself, and not for long."""
    assert len(writes.conflicts) <= at_most
    assert max(writes.conflicts.values(), default=0) <= RETRIES


def generations(scene: Scene) -> set[int]:
    return {each["metadata"]["generation"] for each in scene.burst.found(scene.plane.api)}


def test_the_api_server_is_killed_and_comes_back(scene: Scene):
    leader = scene.start()
    scene.await_part()
    scene.assert_unfinished()
    scene.plane.restart_apiserver()
    writes = scene.judged()
    assert_once(scene.burst, writes)
    assert generations(scene) == {2}
    assert_conflicts(writes, WORKERS)
    assert leader.leading, "no other process was elected meanwhile"


def test_the_leader_is_killed_and_a_standby_with_another_clock_takes_over(scene: Scene):
    leader = scene.start(*BRIEF, skew_s=-600)
    wait_for_leader([leader], ELECTION_S)
    standby = scene.start(*BRIEF, skew_s=600)
    scene.await_part()
    leader.process.kill()
    scene.assert_unfinished()
    wait_for_leader([standby], ELECTION_S)
    writes = scene.judged()
    assert_once(scene.burst, writes)
    assert generations(scene) == {2}
    assert_conflicts(writes, WORKERS)
