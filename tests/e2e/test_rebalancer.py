"""WorkloadRebalancers on a real API server, by a process with only the documented rights."""

from collections.abc import Iterator

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import events_about, start_controllers, wait_for_leader
from e2e.manifests import JSON, unique, workload_rebalancer
from e2e.processes import Processes, wait_for
from e2e.rebalancing import LIMIT_S, Scene, access

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def _process(processes: Processes, control_plane: ControlPlane) -> Iterator[None]:
    """Run one process for all tests of this module."""
    namespace = control_plane.new_namespace()
    flags = ("--controllers=workload-rebalancer", "--concurrent-rebalancers=2")
    user = access(control_plane, namespace)
    running = start_controllers(processes, control_plane, namespace, *flags, kubeconfig=user)
    wait_for_leader([running], LIMIT_S)
    yield
    results = ("success", "error", "crash")
    counts = {each: running.measure("berthmaster_controllers_reconciles_total", result=each) for each in results}
    assert running.process.stop() == 0
    assert counts["success"] > 0
    assert counts["error"] == counts["crash"] == 0


@pytest.fixture
def scene(api: Api, namespace: str) -> Iterator[Scene]:
    made = Scene(api, namespace)
    yield made
    made.clear()


def note_of(scene: Scene, thing: JSON, reason: str) -> str:
    """Wait for the event with a reason about an object. Return its note."""
    metadata = thing["metadata"]

    def look() -> str | None:
        events = events_about(scene.api, metadata.get("namespace", "default"), metadata["name"])
        return next((str(each["note"]) for each in events if each["reason"] == reason), None)

    return wait_for(f"an event with the reason {reason}", look, LIMIT_S)


def test_bindings_are_marked_and_the_status_lists_all(scene: Scene):
    web = scene.bind("web")
    made = scene.rebalance("web", "ghost")
    status = scene.finished(made)
    assert scene.mark_of(web) == made["metadata"]["creationTimestamp"]
    assert scene.api.get(web)["spec"]["clusters"] == [{"name": "member1"}]
    ghost = {"result": "Failed", "reason": "ReferencedBindingNotFound", "workload": scene.workload("ghost")}
    assert status["observedWorkloads"] == [ghost, {"result": "Successful", "workload": scene.workload("web")}]
    assert "triggered rescheduling" in note_of(scene, web, "RescheduleTriggered")
    assert f"Deployment {scene.namespace}/ghost" in note_of(scene, made, "RebalanceFailed")


def test_a_zero_time_to_live_deletes_at_once(scene: Scene):
    web = scene.bind("web")
    made = scene.rebalance("web", "ghost", ttlSecondsAfterFinished=0)
    scene.gone(made, 5.0)
    assert scene.mark_of(web) == made["metadata"]["creationTimestamp"]


def test_cluster_scoped_workloads(scene: Scene):
    name = unique("system:Reader")
    bound = scene.bind_cluster_role(name)
    reader = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name}
    made = scene.create(workload_rebalancer(reader))
    assert scene.finished(made)["observedWorkloads"] == [{"workload": reader, "result": "Successful"}]
    assert scene.mark_of(bound) == made["metadata"]["creationTimestamp"]
    assert "triggered rescheduling" in note_of(scene, bound, "RescheduleTriggered")
