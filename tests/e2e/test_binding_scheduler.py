"""The binding scheduler on a real API server, with exactly the access rights that the docs list."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from access_rules import role_rule
from e2e import karmada
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import Controllers, events_about, start_controllers, wait_for_leader
from e2e.karmada import assigned, binding, cluster, condition, divided
from e2e.manifests import JSON, unique
from e2e.processes import Processes, wait_for

from berthmaster.controllers.rbac import rules_of

pytestmark = pytest.mark.e2e

LIMIT_S = 20.0

Join = Callable[..., JSON]


@pytest.fixture(scope="module")
def fleet_plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with Karmada's Clusters."""
    karmada.install_clusters(control_plane.api)
    return control_plane


def run(processes: Processes, plane: ControlPlane, *flags: str) -> tuple[Controllers, str]:
    """Start a process with exactly the rights that it needs; return it and its scheduler name."""
    name, namespace = unique("scheduler"), plane.new_namespace()
    rules = [
        (role_rule(rule, "berthmaster-controllers"), namespace if rule.scope == "lease" else None)
        for rule in rules_of(["binding-scheduler"])
    ]
    controllers = start_controllers(
        processes,
        plane,
        namespace,
        "--controllers=binding-scheduler",
        f"--scheduler-name={name}",
        *flags,
        kubeconfig=plane.user(name, rules),
    )
    wait_for_leader([controllers], LIMIT_S)
    return controllers, name


@pytest.fixture(scope="module")
def scheduler(processes: Processes, fleet_plane: ControlPlane) -> Iterator[str]:
    controllers, name = run(processes, fleet_plane)
    yield name
    assert controllers.measure("berthmaster_controllers_reconciles_total", result="crash") == 0
    controllers.process.stop()


@pytest.fixture
def join(fleet_plane: ControlPlane) -> Iterator[Join]:
    """A function that adds a cluster (arguments of ``karmada.cluster``); it is removed after the test."""
    api, joined = fleet_plane.api, []

    def one(*given: Any, **more: Any) -> JSON:
        member = cluster(*given, **more)
        joined.append(member)
        return karmada.join(api, member)

    yield one
    for member in joined:
        if api.exists(member):
            api.delete(member)


def name_of(thing: JSON) -> str:
    return str(thing["metadata"]["name"])


def until(api: Api, target: JSON, what: str, check: Callable[[JSON], bool]) -> JSON:
    """Wait until a check is true for the object, and return it."""

    def look() -> JSON | None:
        found = api.get(target)
        return found if check(found) else None

    return wait_for(what, look, LIMIT_S)


def until_assigned(api: Api, target: JSON, clusters: dict[str, int]) -> JSON:
    return until(
        api, target, f"assignment to {clusters}", lambda each: assigned(each) == clusters and bool(condition(each))
    )


def test_a_binding_is_assigned_to_the_first_group_with_capacity(api: Api, namespace: str, scheduler: str, join: Join):
    first, second = join(cpu="1"), join()
    placement = divided(("small", [name_of(first)]), ("large", [name_of(second)]))
    made = api.create(binding(namespace, placement, replicas=3, schedulerName=scheduler)).object

    found = until_assigned(api, made, {name_of(second): 3})

    status = until(api, made, "its status", lambda each: "lastScheduledTime" in each.get("status", {}))["status"]
    assert status["schedulerObservingAffinityName"] == "large"
    assert status["schedulerObservedGeneration"] == found["metadata"]["generation"]
    assert (condition(found)["status"], condition(found)["reason"]) == ("True", "Success")
    assert "policy.karmada.io/applied-placement" in found["metadata"]["annotations"]
    for about in (name_of(made), made["spec"]["resource"]["name"]):
        events = wait_for("an event", lambda about=about: events_about(api, namespace, about), LIMIT_S)
        assert [(each["reason"], each["type"]) for each in events] == [("ScheduleBindingSucceed", "Normal")]
        assert f"scheduled to group large: {name_of(second)}:3" in events[0]["note"]


def test_a_cluster_scoped_binding_is_scheduled_too(api: Api, scheduler: str, join: Join):
    member = join()
    wanted = karmada.cluster_binding({"clusterAffinity": {"clusterNames": [name_of(member)]}})
    wanted["spec"]["schedulerName"] = scheduler
    made = api.create(wanted).object

    until_assigned(api, made, {name_of(member): 0})
    events = wait_for("an event", lambda: events_about(api, "default", name_of(made)), LIMIT_S)
    assert events[0]["reason"] == "ScheduleBindingSucceed"
    api.delete(made)
