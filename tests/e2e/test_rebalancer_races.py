"""WorkloadRebalancers on a real API server. The controllers run in the process of the test."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from access_rules import role_rule
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.manifests import JSON, deployments, manifest, unique, workload_rebalancer
from e2e.processes import wait_for

from berthmaster.controllers.controller import QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rbac import rules_of
from berthmaster.controllers.rebalancer import controller
from berthmaster.controllers.rebalancer.reconciler import REBALANCERS, is_gone
from berthmaster.kube.client import ask
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import Collection, get
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 15.0
LAST_WEEK: Final = (datetime.now(UTC) - timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    """The kubeconfig of a user with exactly the documented rights. The lease is in a namespace of its own."""
    namespace = control_plane.new_namespace()
    rules = [
        (role_rule(rule, "berthmaster-controllers"), namespace if rule.scope == "lease" else None)
        for rule in rules_of(["workload-rebalancer"])
    ]
    return control_plane.user(unique("rebalancer"), rules)


def bind(api: Api, namespace: str, name: str) -> JSON:
    """Create a binding that was scheduled a week ago."""
    spec = {"resource": deployments(name=name, namespace=namespace), "clusters": [{"name": "member1"}]}
    made = manifest("work.karmada.io/v1alpha2", "ResourceBinding", namespace, spec)
    made["metadata"]["name"] = f"{name}-deployment"
    api.create(made)
    api.patch(made, {"status": {"lastScheduledTime": LAST_WEEK}}, subresource="status")
    return made


def test_an_unserved_kind_is_not_a_missing_binding(api: Api, namespace: str, kubeconfig: Path):
    bind(api, namespace, "web")
    client = load_client(kubeconfig)
    refusals = {}
    for version, name in (("v1alpha2", "ghost-deployment"), ("v1alpha9", "web-deployment")):
        bindings = Collection.of(f"work.karmada.io/{version}", "resourcebindings")
        with pytest.raises(ApiError) as refusal:
            ask(client, get(bindings, (namespace, name)))
        refusals[version] = refusal.value.status, is_gone(refusal.value)
    assert refusals["v1alpha2"] == (404, True)
    assert not refusals["v1alpha9"][1]


def test_two_controllers_do_not_undo_each_others_writes(api: Api, namespace: str, kubeconfig: Path):
    bindings = [bind(api, namespace, f"web{number}") for number in range(20)]
    both = [Running(kubeconfig), Running(kubeconfig)]
    try:
        workloads = [deployments(name=f"web{number}", namespace=namespace) for number in range(20)]
        made = api.create(workload_rebalancer(*workloads)).object
        wait_for("the rebalancer to be finished", lambda: "finishTime" in api.get(made).get("status", {}), LIMIT_S)
        marks = {api.get(each)["spec"].get("rescheduleTriggeredAt") for each in bindings}
        assert marks == {made["metadata"]["creationTimestamp"]}
        wait_for("both to rest", lambda: all(len(one.controller.queue) == 0 for one in both), LIMIT_S)
        time.sleep(1.0)
        before = api.get(made)["metadata"]["resourceVersion"]
        time.sleep(1.0)
        assert api.get(made)["metadata"]["resourceVersion"] == before
        generations = {api.get(each)["metadata"]["generation"] for each in bindings}
        assert generations == {2}  # created and marked once
        api.delete(made)
    finally:
        for one in both:
            one.stop()
