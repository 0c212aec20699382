"""The etcd of the control plane is restored from a backup while controllers run."""

import time
from collections.abc import Iterator

import pytest
from e2e import karmada
from e2e.assets import binary
from e2e.conftest import needed
from e2e.control_plane import ControlPlane, crd_folder
from e2e.processes import Processes
from e2e.serving import start_controllers, wait_for_leader

from berthmaster.controllers.run import EXIT_LOST
from berthmaster.kube.source_check import INTERVAL_S

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0
LOST_WRITES = 400
"""More than an API server makes when it starts."""


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    crds = needed(crd_folder)
    for name in ("etcd", "kube-apiserver"):
        needed(lambda name=name: binary(name))
    children = Processes(tmp_path_factory.mktemp("restored-control-plane"))
    try:
        made = ControlPlane(children)
        made.install(crds)
        karmada.install_clusters(made.api)
        yield made
    finally:
        children.stop_all()


def test_controllers_end_after_a_restore_of_etcd_and_the_next_ones_work(plane: ControlPlane):
    """Their watches wait for versions that do not come, and nothing else would show that."""
    namespace = plane.new_namespace()
    plane.back_up()
    first = [start_controllers(plane.processes, plane, namespace, "--controllers=binding-scheduler") for _ in range(2)]
    wait_for_leader(first, LIMIT_S)
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "lost"}}
    plane.api.create(lost)
    for number in range(LOST_WRITES):
        plane.api.patch(lost, {"data": {"number": str(number)}})
    time.sleep(1.5 * INTERVAL_S)  # each process has seen a version that will be lost
    plane.restore()
    assert [each.process.wait(4 * INTERVAL_S) for each in first] == [EXIT_LOST, EXIT_LOST]
    assert any(each.process.logged("gone back from version") for each in first), "or the Lease was lost before"
    events = plane.api.list("events.k8s.io/v1", "Event", namespace)
    # The restored etcd has no Lease, so the standby can become leader before it ends, and then records an event, too.
    assert [each["reason"] for each in events].count("APIServerWentBack") in (1, 2)
    assert sum(each.process.logged("controllers started") for each in first) == 1, "the standby never starts them"
    next_one = start_controllers(plane.processes, plane, namespace, "--controllers=binding-scheduler")
    wait_for_leader([next_one], 2 * LIMIT_S)  # the restored Lease names a process that ended without releasing it
