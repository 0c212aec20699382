"""WorkloadRebalancers on a real API server. The controllers run in the process of the test."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.processes import wait_for
from e2e.rebalancing import LIMIT_S, Scene, access

from berthmaster.controllers.controller import QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer import controller
from berthmaster.controllers.rebalancer.reconciler import REBALANCERS, is_gone
from berthmaster.kube.client import ask
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import Collection, get
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

pytestmark = pytest.mark.e2e


class Running:
    """A running controller."""

    def __init__(self, kubeconfig: Path) -> None:
        self.client = load_client(kubeconfig)
        context = ControllerContext(self.client, SystemClock(), self, self)
        built = controller(context, workers=2)
        assert isinstance(built, QueueController)
        self.controller = built
        self.informer = context.informers[REBALANCERS]
        self.informer.start(self.client)
        assert self.informer.wait(LIMIT_S)
        self.controller.start()

    def record(self, *_: Any) -> None:
        """Ignore events."""

    def reconciled(self, *_: Any) -> None:
        """Ignore metrics."""

    def stop(self) -> None:
        self.controller.stop()
        self.informer.stop()


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    return access(control_plane, control_plane.new_namespace())


@pytest.fixture
def scene(api: Api, namespace: str) -> Iterator[Scene]:
    made = Scene(api, namespace)
    yield made
    made.clear()


def test_an_unserved_kind_is_not_a_missing_binding(scene: Scene, kubeconfig: Path):
    scene.bind("web")
    client = load_client(kubeconfig)
    refusals = {}
    for version, name in (("v1alpha2", "ghost-deployment"), ("v1alpha9", "web-deployment")):
        bindings = Collection.of(f"work.karmada.io/{version}", "resourcebindings")
        with pytest.raises(ApiError) as refusal:
            ask(client, get(bindings, (scene.namespace, name)))
        refusals[version] = refusal.value.status, is_gone(refusal.value)
    assert refusals["v1alpha2"] == (404, True)
    assert not refusals["v1alpha9"][1]


def test_two_controllers_do_not_undo_each_others_writes(scene: Scene, kubeconfig: Path):
    bindings = [scene.bind(f"web{number}") for number in range(20)]
    both = [Running(kubeconfig), Running(kubeconfig)]
    try:
        made = scene.rebalance(*(f"web{number}" for number in range(20)))
        scene.finished(made)
        assert {scene.mark_of(each) for each in bindings} == {made["metadata"]["creationTimestamp"]}
        wait_for("both to rest", lambda: all(len(one.controller.queue) == 0 for one in both), LIMIT_S)
        time.sleep(1.0)
        before = scene.api.get(made)["metadata"]["resourceVersion"]
        time.sleep(1.0)
        assert scene.api.get(made)["metadata"]["resourceVersion"] == before
        generations = {scene.api.get(each)["metadata"]["generation"] for each in bindings}
        assert generations == {2}  # created and marked once
    finally:
        for one in both:
            one.stop()
