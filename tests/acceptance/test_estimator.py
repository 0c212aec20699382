"""Estimator over gRPC: what an estimator answers bounds its cluster, whatever the cluster's summary says."""

import random
import uuid
from collections.abc import Iterator

import grpc
import pytest
from acceptance.conftest import PLANES, scheduler_name
from acceptance.estimators import NAMED, NamedEstimator, fits_on_nodes
from acceptance.live import OWN_GATES, KarmadaPlane, connect, start_controllers
from acceptance.planes import ModelPlane, Plane
from acceptance.random_bindings import ONE_CLUSTER, random_binding, without_replicas
from acceptance.scenes import Scene
from decisions import AGGREGATED
from e2e.karmada import assigned, condition
from e2e.processes import Processes
from estimator_server import EstimatorServer
from karmada_model.members import CLUSTER_VERSION
from karmada_model.objects import Ident, ident
from kube_store import JSON

from berthmaster.controllers.settings import EstimatorSettings

ESTIMATED = ""
"""The short name of the member that the estimator serves: its whole name is the prefix of the scenario's clusters."""
OTHER = "-other"
HUGE = 100_000
"""The CPUs that each cluster reports. No node has so many."""
MOST = 500
"""The most replicas that the suite plays."""


class EstimatedScene(Scene):
    """A scene with a member that an estimator serves.

    Attributes:
        estimator: the estimator.
    """

    def __init__(self, plane: Plane, estimator: NamedEstimator) -> None:
        super().__init__(plane)
        self.estimator = estimator

    def few(self) -> int:
        fits = self.estimator.replicas("1")
        if not 0 < fits < MOST:
            pytest.skip(f"needs an estimator of a member in which 1 to {MOST} replicas of one CPU fit; {fits} fit")
        return fits


@pytest.fixture(params=PLANES)
def scene(request: pytest.FixtureRequest) -> Iterator[EstimatedScene]:
    """A scene on the model with an estimator in memory, or on Karmada with the estimator of the environment."""
    made = _on_model() if request.param == "model" else _on_karmada(request)
    yield from made


def _on_model() -> Iterator[EstimatedScene]:
    server = EstimatorServer("bm-estimated", fits_on_nodes)
    plane = ModelPlane(estimators=EstimatorSettings())
    try:
        estimator = NamedEstimator(server.cluster, "127.0.0.1", server.port)
        plane.prefix = server.cluster
        plane.apply(estimator.service(EstimatorSettings().namespace))
        yield EstimatedScene(plane, estimator)
    finally:
        plane.close()
        server.close()


def _on_karmada(request: pytest.FixtureRequest) -> Iterator[EstimatedScene]:
    if not NAMED:
        pytest.skip("needs ACCEPTANCE_ESTIMATOR=CLUSTER=HOST:PORT, the address of a karmada-scheduler-estimator")
    processes: Processes = request.getfixturevalue("processes")
    unique = uuid.uuid4().hex[:8]
    estimator = NamedEstimator.parse(NAMED)
    name, namespace = scheduler_name(unique), f"bm-acceptance-{unique}"
    process = start_controllers(
        processes, name, "--controllers=binding-scheduler", "--enable-scheduler-estimator",
        f"--scheduler-estimator-service-namespace={namespace}", f"--feature-gates={','.join(OWN_GATES)}",
    )  # fmt: skip
    plane = KarmadaPlane(connect(), name, process, processes, unique, prefix=estimator.cluster)
    try:
        plane.apply(estimator.service(namespace))
        scene = EstimatedScene(plane, estimator)
        yield scene
        scene.clear()
        # The next scenario makes a cluster of this name.
        cluster = Ident(CLUSTER_VERSION, "Cluster", "", estimator.cluster)
        plane.wait("the cluster is gone", lambda: plane.get(cluster) is None)
    finally:
        plane.close()
        process.stop()


def is_unschedulable(scene: Scene, template: JSON) -> bool:
    return scene.scheduled(template).get("reason") == "Unschedulable"


def test_an_estimator_bounds_the_replicas_of_its_cluster(scene: EstimatedScene):
    fits = scene.few()
    scene.cluster(ESTIMATED, cpu=HUGE)
    web = scene.deployment(replicas=fits + 1)
    scene.policy("web", scene.placement(ESTIMATED))
    scene.plane.wait("more replicas than fit on nodes are unschedulable", lambda: is_unschedulable(scene, web))
    assert scene.assignment(web) == {}
    scene.plane.edit(web, spec={"replicas": fits})
    scene.expect(web, {ESTIMATED: fits})


def test_replicas_are_divided_by_what_fits_on_nodes(scene: EstimatedScene):
    fits = scene.few()
    scene.cluster(ESTIMATED, cpu=HUGE)
    scene.cluster(OTHER, cpu=2 * fits)
    web = scene.deployment(replicas=3)
    scene.policy("web", scene.placement(ESTIMATED, OTHER))
    scene.expect(web, {ESTIMATED: 1, OTHER: 2})


def test_a_replica_that_fits_on_no_node_goes_elsewhere(scene: EstimatedScene):
    assert scene.estimator.replicas(str(HUGE)) == 0
    scene.cluster(ESTIMATED, cpu=HUGE)
    web = scene.deployment(replicas=1, cpu=str(HUGE))
    scene.policy("web", scene.placement(ESTIMATED, OTHER))
    scene.plane.wait("no node is so large", lambda: is_unschedulable(scene, web))
    scene.cluster(OTHER, cpu=HUGE)  # it has no estimator, so that its summary counts
    scene.expect(web, {OTHER: 1})


def test_a_node_selector_reaches_the_estimator(scene: EstimatedScene):
    assert scene.estimator.replicas("1", disk="of-no-node") == 0
    scene.cluster(ESTIMATED, cpu=HUGE)
    scene.cluster(OTHER, cpu=HUGE)
    web = scene.deployment(replicas=2, nodeSelector={"disk": "of-no-node"})
    scene.policy("web", scene.placement(ESTIMATED, OTHER))
    scene.expect(web, {OTHER: 2})


def test_a_set_of_components_is_placed_where_its_nodes_hold_it(scene: EstimatedScene):
    small, large = {"driver": "1", "worker": "500m"}, {"driver": "1", "worker": str(HUGE // 2)}
    try:
        assert scene.estimator.sets(small) > 0
    except grpc.RpcError as error:
        pytest.skip(f"needs an estimator with MaxAvailableComponentSets: {error}")
    assert scene.estimator.sets(large) == 0
    scene.cluster(ESTIMATED, cpu=HUGE)
    for name, components in (("small", small), ("large", large)):
        made = scene.make(job_with_components(scene, name, components))
        read = lambda made=made: scene.plane.get(ident(made)) or {}  # noqa: E731
        scene.plane.wait(f"{name} has a condition", lambda read=read: condition(read()))
        fits = scene.estimator.sets(components) > 0
        assert condition(read())["status"] == str(fits), condition(read())
        assert assigned(read()).keys() == ({scene.name(ESTIMATED)} if fits else set())


def job_with_components(scene: Scene, name: str, cpu: dict[str, str]) -> JSON:
    """Return a binding of a workload with one replica of each component, which no detector made."""
    binding = random_binding(random.Random(1), scene, name, [ESTIMATED])
    spec = without_replicas(binding)
    spec["placement"] = scene.placement(ESTIMATED, strategy=AGGREGATED, spreadConstraints=ONE_CLUSTER)
    spec["components"] = [
        {"name": each, "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": amount}}}
        for each, amount in cpu.items()
    ]
    return {**binding, "spec": {**spec, "schedulerName": scene.plane.scheduler}}
