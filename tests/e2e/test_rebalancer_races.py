"""WorkloadRebalancers, and what happens between two requests: others write, watches end, controllers come and go.

The controller runs in the test's process, over a real connection that lets the test act just before a request.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.manifests import workload_rebalancer
from e2e.processes import wait_for
from e2e.rebalancing import LIMIT_S, NEXT_WEEK, WORK, Scene, access

from berthmaster.controllers.controller import QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer import controller
from berthmaster.controllers.rebalancer.reconciler import REBALANCERS, is_gone
from berthmaster.kube.client import APIResponse, ask
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import APIRequest, Collection, get
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

pytestmark = pytest.mark.e2e


class Meddled:
    """A connection that lets a test act just before a request is sent."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = load_client(kubeconfig)
        self.before: Callable[[APIRequest], None] = lambda _: None
        self.writes: list[str] = []

    def send(self, request: APIRequest) -> APIResponse:
        self.before(request)
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        return self._client.send(request)

    def before_first(self, method: str, path: str, act: Callable[[], object]) -> None:
        """Call a function before the first request with a method and a path."""
        acts = [act]

        def hook(request: APIRequest) -> None:
            if (request.method, request.path) == (method, path) and acts:
                acts.pop()()

        self.before = hook


class Running:
    """A running controller."""

    def __init__(self, kubeconfig: Path) -> None:
        self.client = Meddled(kubeconfig)
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

    def writes_to(self, name: str) -> list[str]:
        """Return the methods of all writes to an object."""
        return [write.split()[0] for write in list(self.client.writes) if f"/{name}" in write]

    def stop(self) -> None:
        self.controller.stop()
        self.informer.stop()


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    return access(control_plane, control_plane.new_namespace())


@pytest.fixture
def running(kubeconfig: Path) -> Iterator[Running]:
    started = Running(kubeconfig)
    yield started
    started.stop()


@pytest.fixture
def scene(api: Api, namespace: str) -> Iterator[Scene]:
    made = Scene(api, namespace)
    yield made
    made.clear()


def test_the_deletion_is_valid_only_for_the_version_that_was_read(scene: Scene, running: Running):
    scene.bind("web")
    api_binding = scene.bind("api")
    made = workload_rebalancer(scene.workload("web"), ttlSecondsAfterFinished=0)
    running.client.before_first(
        "DELETE",
        f"{REBALANCERS.path}/{made['metadata']['name']}",
        lambda: scene.change(made, "web", "api", ttlSecondsAfterFinished=3600),
    )
    created = scene.create(made)
    wait_for("the added workload", lambda: scene.results(made).get("api") == "Successful", LIMIT_S)
    assert scene.mark_of(api_binding) == created["metadata"]["creationTimestamp"]
    assert running.writes_to(made["metadata"]["name"])[:3] == ["PATCH", "DELETE", "PATCH"]
    assert scene.api.get(made)["metadata"]["uid"] == created["metadata"]["uid"]


def test_a_later_mark_of_another_client_is_kept(scene: Scene, running: Running):
    web, api_binding = scene.bind("web"), scene.bind("api")
    path = f"/apis/{WORK}/namespaces/{scene.namespace}/resourcebindings/web-deployment"
    running.client.before_first(
        "PATCH", path, lambda: scene.api.patch(web, {"spec": {"rescheduleTriggeredAt": NEXT_WEEK}})
    )
    made = scene.rebalance("web", "api")
    scene.finished(made)
    assert scene.results(made) == {"api": "Successful", "web": "Successful"}
    assert scene.mark_of(web) == NEXT_WEEK
    assert scene.mark_of(api_binding) == made["metadata"]["creationTimestamp"]
    assert running.writes_to("web-deployment") == ["PATCH"]  # refused, then read again


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
