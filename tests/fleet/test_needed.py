"""What stands beside a workload, on members that run pods: it leaves a cluster after the workload."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from e2e.api import RefusedError
from e2e.control_plane import definitions
from fleet.fleet import Fleet, propagation_policy, terms
from fleet.member import SPACE, Pods
from fleet.real_karmada import binaries
from kube_store import JSON

pytestmark = pytest.mark.e2e

REPLICAS: Final = 2
DEADLINE_S: Final = 45
SOAK_S: Final = 15
QUICK: Final[dict[str, Any]] = {"deadline": f"{DEADLINE_S}s", "soak": f"{SOAK_S}s"}
SERVICE: Final = "v1", "Service"
BUDGET: Final = "policy/v1", "PodDisruptionBudget"
INGRESS: Final = "networking.k8s.io/v1", "Ingress"
EXPORT: Final = "multicluster.x-k8s.io/v1alpha1", "ServiceExport"
BUDGETS: Final[Mapping[str, JSON]] = {"most": {"maxUnavailable": 0}, "least": {"minAvailable": REPLICAS}}

DEFINITION: Final[JSON] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "basins.storage.example.org"},
    "spec": {
        "group": "storage.example.org",
        "scope": "Namespaced",
        "names": {"plural": "basins", "singular": "basin", "kind": "Basin"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
_BASIN: Final = {"apiVersion": "storage.example.org/v1", "kind": "Basin"}
_HEALTH: Final = """
function InterpretHealth(observedObj)
  return observedObj.status ~= nil and observedObj.status.full == true
end
"""


@pytest.fixture
def quick(fleet: Fleet) -> Fleet:
    """The fleet with a short deadline and a real Karmada, whose interpreter says what is healthy."""
    if not fleet.driver.real:
        pytest.skip("the model applies workloads only")
    fleet.berthmaster(**QUICK)
    return fleet


@pytest.fixture
def exporting(quick: Fleet) -> Fleet:
    """The fleet with the definition of ServiceExport in each member. It stays there: Karmada watches its resources."""
    folder = binaries()
    assert folder is not None
    (export,) = (each for each in definitions(folder) if each["spec"]["names"]["kind"] == EXPORT[1])
    for name, member in quick.members.items():
        with suppress(RefusedError):
            member.plane.api.create(export)
        quick.until(f"ServiceExports in {name}", lambda name=name: quick.offers(name, *EXPORT))
    return quick


def beside(kind: tuple[str, str], name: str, spec: JSON | None = None) -> JSON:
    version, named = kind
    manifest: JSON = {"apiVersion": version, "kind": named, "metadata": {"name": name, "namespace": SPACE}}
    return manifest if spec is None else {**manifest, "spec": spec}


def run_with(fleet: Fleet, app: str, *others: JSON, **more: Any) -> JSON:
    """Run a workload in m1, or then in m2, with others in the same policy. Wait until all are there."""
    own = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": app}]
    own += [{**_kind(each), "name": each["metadata"]["name"]} for each in others]
    workload = fleet.run(app, REPLICAS, ["m1"], ["m2"], policy_spec={"resourceSelectors": own}, **more)
    for each in others:
        fleet.api.create(each)
    fleet.until_ready(app, {"m1": REPLICAS})
    for each in others:
        fleet.until(f"{each['kind']} in m1", lambda each=each: there(fleet, "m1", each))
    return workload


def _kind(manifest: JSON) -> JSON:
    return {key: manifest[key] for key in ("apiVersion", "kind")}


def there(fleet: Fleet, name: str, *manifests: JSON) -> list[JSON]:
    """Return those of some resources that a member has."""
    return [each for each in manifests if fleet.members[name].plane.api.exists(each)]


def leave(fleet: Fleet, name: str, workload: JSON, *others: JSON, also: Callable[[], object] = lambda: None) -> None:
    """Wait until a workload, and what stands beside it, have left a cluster, the workload first."""
    app, early = workload["metadata"]["name"], set[str]()

    def left() -> bool:
        also()
        gone = {each["kind"] for each in others} - {each["kind"] for each in there(fleet, name, *others)}
        if there(fleet, name, workload):
            early.update(gone)
            return False
        return len(gone) == len(others)

    fleet.until(f"{app} and all beside it leave {name}", left, 240)
    assert not early, f"they leave {name} before {app}"


@pytest.mark.parametrize("strategy", ["", "BreakBeforeMake"])
def test_a_pod_disruption_budget_leaves_after_its_workload(quick: Fleet, strategy: str):
    """One budget allows no disruption, another one needs all replicas. Their status counts the pods in the member."""
    suffix, running = strategy.lower(), list[tuple[JSON, JSON]]()
    for name, spec in BUDGETS.items():
        app = f"{name}{suffix}"
        budget = beside(BUDGET, f"{app}-budget", {**spec, "selector": {"matchLabels": {"app": app}}})
        running.append((run_with(quick, app, budget, strategy=strategy), budget))
    quick.drain("m1")
    for workload, budget in running:
        leave(quick, "m1", workload, budget)
        quick.until_ready(workload["metadata"]["name"], {"m2": REPLICAS})
        assert there(quick, "m2", budget)
    quick.drain("m1", on=False)
    for workload, budget in running:
        leave(quick, "m2", workload, budget)
        quick.until_ready(workload["metadata"]["name"], {"m1": REPLICAS})
        assert there(quick, "m1", budget)


def test_what_brings_requests_to_a_workload_leaves_after_it(exporting: Fleet):
    """A Service, an Ingress and a ServiceExport. All are healthy at once where the pods take long to start."""
    service = beside(SERVICE, "front-service", {"selector": {"app": "front"}, "ports": [{"port": 80}]})
    ingress = beside(INGRESS, "front-ingress", backend("front-service"))
    export = beside(EXPORT, "front-service")
    workload = run_with(exporting, "front", service, ingress, export)
    serve(exporting, "m1", ingress)
    exporting.treat("m2", Pods.SLOW)
    exporting.drain("m1")
    leave(exporting, "m1", workload, service, ingress, export, also=lambda: serve(exporting, "m2", ingress))
    exporting.until_ready("front", {"m2": REPLICAS})
    assert len(there(exporting, "m2", service, ingress, export)) == 3


def test_an_ingress_that_no_controller_serves_stays(quick: Fleet):
    """The workload moves. The Ingress follows when a controller gives it an address."""
    ingress = beside(INGRESS, "unserved-ingress", backend("unserved"))
    workload = run_with(quick, "unserved", ingress)
    serve(quick, "m1", ingress)
    quick.drain("m1")
    leave(quick, "m1", workload)
    time.sleep(DEADLINE_S)
    assert there(quick, "m1", ingress)
    leave(quick, "m1", workload, ingress, also=lambda: serve(quick, "m2", ingress))


def backend(service: str) -> JSON:
    return {"defaultBackend": {"service": {"name": service, "port": {"number": 80}}}}


def serve(fleet: Fleet, name: str, ingress: JSON) -> None:
    """Give an Ingress in a member an address, as its controller does."""
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    with suppress(RefusedError):
        fleet.members[name].plane.api.patch(ingress, {"status": status}, subresource="status")


def test_a_service_follows_its_workload(quick: Fleet):
    """It is in a cluster as long as the workload has copies there, or may return to it."""
    workload = quick.run("served", REPLICAS, ["m1"], ["m2"])
    service = with_own_policy(quick, "served")
    quick.until_ready("served", {"m1": REPLICAS})
    quick.until("the Service", lambda: there(quick, "m1", service))
    quick.treat("m2", Pods.STUCK)
    quick.drain("m1")
    quick.until_phase("served", "RolledBack", limit_s=180)
    assert there(quick, "m1", service)
    quick.treat("m2", Pods.NORMAL)
    leave(quick, "m1", workload, service)
    quick.until_ready("served", {"m2": REPLICAS})
    assert there(quick, "m2", service)


def with_own_policy(fleet: Fleet, app: str) -> JSON:
    """Create the Service of a workload, and a policy for it with the same groups. Return the Service."""
    service = beside(SERVICE, f"{app}-service", {"selector": {"app": app}, "ports": [{"port": 80}]})
    selector = {**_kind(service), "name": f"{app}-service"}
    placement = {"clusterAffinities": terms([["m1"], ["m2"]])}
    spec = {"resourceSelectors": [selector], "placement": placement, "schedulerName": "berthmaster"}
    for each in ({**propagation_policy(f"{app}-service"), "spec": spec}, service):
        fleet.api.create(each)
    return service


def test_a_definition_leaves_a_drained_cluster_after_its_resources(quick: Fleet):
    with basins(quick) as north:
        quick.drain("m3")
        time.sleep(SOAK_S + 40)
        for each in (north, DEFINITION):
            assert quick.members["m3"].plane.api.exists(each), "it has no healthy copy elsewhere, or is needed"
        fill(quick, "m2", north)
        quick.until("the Basin is in m2 only", lambda: not quick.members["m3"].plane.api.exists(north))
        quick.until("no definition is in m3", lambda: not quick.members["m3"].plane.api.exists(DEFINITION))
        assert quick.members["m2"].plane.api.exists(north)


@contextmanager
def basins(fleet: Fleet) -> Iterator[JSON]:
    """Create a definition everywhere, and a resource of it in m3 that is healthy there. Yield the resource."""
    anywhere = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "basin-definition"},
        "spec": {
            "schedulerName": "berthmaster",
            "resourceSelectors": [{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                                   "name": DEFINITION["metadata"]["name"]}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2", "m3"]}},
        },
    }  # fmt: skip
    health = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "basin"},
        "spec": {"target": _BASIN, "customizations": {"healthInterpretation": {"luaScript": _HEALTH}}},
    }
    groups = [{"affinityName": "home", "clusterNames": ["m3"]}, {"affinityName": "away", "clusterNames": ["m2"]}]
    own = propagation_policy("basins") | {
        "spec": {
            "schedulerName": "berthmaster",
            "resourceSelectors": [_BASIN],
            "placement": {"clusterAffinities": groups},
        }
    }
    north = {**_BASIN, "metadata": {"name": "north", "namespace": SPACE}, "spec": {"litres": 900}}
    made: list[JSON] = []

    def create(each: JSON) -> None:
        fleet.api.create(each)
        made.append(each)

    try:
        create(DEFINITION)
        fleet.until("Basins", lambda: fleet.api.lists(_BASIN["apiVersion"], _BASIN["kind"]))
        for each in (anywhere, health, own, north):
            create(each)
        fill(fleet, "m3", north)
        yield north
    finally:
        for each in reversed(made):
            with suppress(RefusedError):
                fleet.api.delete(each)
        fleet.until("no definition is left", lambda: not _defined(fleet))


def _defined(fleet: Fleet) -> bool:
    return any(each.plane.api.exists(DEFINITION) for each in fleet.members.values())


def fill(fleet: Fleet, name: str, basin: JSON) -> None:
    """Make a resource healthy in a member."""
    api = fleet.members[name].plane.api

    def done() -> bool:
        with suppress(RefusedError, AssertionError):
            api.patch(basin, {"status": {"full": True}}, subresource="status")
            return True
        return False

    fleet.until(f"the Basin in {name}", done)
