"""`simulate` and `explain` on a real API server: a fleet in the shapes of Karmada, and dumps."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from e2e import karmada
from e2e.control_plane import ControlPlane
from e2e.manifests import JSON, unique
from e2e.serving import COMMAND
from karmada_plane import binding, claimed, cluster, new_deployment, policy, resource, selector

pytestmark = pytest.mark.e2e

_LIMIT_S = 120
Run = Callable[..., Any]


class Shop(NamedTuple):
    """The namespace of the workloads, the names of the clusters, and a cluster-scoped resource."""

    namespace: str
    members: tuple[str, str, str]
    role: str


@pytest.fixture
def shop(control_plane: ControlPlane, namespace: str) -> Iterator[Shop]:
    members = [cluster(unique("member")) for _ in range(3)]
    role_name = unique("viewer")
    names = tuple(each["metadata"]["name"] for each in members)
    selected = selector(name="web"), selector("ConfigMap", "v1", name="settings")
    web = policy("web", *selected, namespace=namespace)
    role_selector = selector("ClusterRole", "rbac.authorization.k8s.io/v1", name=role_name)
    roles = policy(role_name, role_selector, namespace="", placement={})
    checkout = new_deployment("web", 4, namespace=namespace, by=web)
    unclaimed = new_deployment("unclaimed", namespace=namespace)
    role = resource(role_name, "ClusterRole", "rbac.authorization.k8s.io/v1", namespace="", rules=[])
    role["metadata"] |= claimed(roles)
    settings = resource("settings", "ConfigMap", namespace=namespace, data={"key": "hush-hush"})
    bound = [binding(checkout, web, **dict.fromkeys(names[:2], 2)), binding(role, roles, **dict.fromkeys(names, 0))]
    for field in ("replicas", "replicaRequirements"):
        bound[1]["spec"].pop(field)
    with karmada.present(control_plane.api, *members, web, roles, checkout, unclaimed, role, settings, *bound):
        yield Shop(namespace, names, role_name)


@pytest.fixture
def run(control_plane: ControlPlane) -> Run:
    return lambda *args: offline(*args, f"--kubeconfig={control_plane.kubeconfig}")


def offline(*args: object) -> tuple[Any, str]:
    result = subprocess.run(
        [COMMAND, *map(str, args), "-o", "json"], capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    return found.get("items", found), result.stderr


def by_name(rows: list[JSON]) -> dict[str, JSON]:
    return {each["resource"]: each for each in rows}


def test_a_live_fleet_is_simulated_and_explained(shop: Shop, run: Run) -> None:
    rows, notes = run("simulate", "-n", shop.namespace)
    web = by_name(rows)[f"{shop.namespace}/Deployment/web"]
    assert web["clusters"] == dict.fromkeys(shop.members[:2], 2)
    assert notes == ""
    explained, notes = run("explain", "deploy/web", "-n", shop.namespace)
    assert (explained["policy"], explained["clusters"]) == (f"PropagationPolicy {shop.namespace}/web", web["clusters"])
    assert notes == ""
    everywhere, _ = run("explain", "clusterrole", shop.role)
    assert set(shop.members) <= everywhere["clusters"].keys()


def test_a_dump_gives_the_same_answers_and_a_redacted_one_holds_no_data(shop: Shop, run: Run, tmp_path: Path) -> None:
    dump = tmp_path / "fleet.json"
    live, _ = run("simulate", "-n", shop.namespace, "--down", shop.members[0], "--dump", dump, "--redact")
    assert offline("simulate", "-n", shop.namespace, "--down", shop.members[0], "-f", dump) == (live, "")
    assert "registry.example" not in dump.read_text()
    assert "hush-hush" not in dump.read_text()


def test_a_placement_test_reads_the_live_fleet(shop: Shop, control_plane: ControlPlane, tmp_path: Path) -> None:
    workload = {"workload": f"{shop.namespace}/Deployment/web"}
    test = {
        "apiVersion": "test.berthmaster.io/v1alpha1",
        "kind": "PlacementTest",
        "metadata": {"name": "web stays"},
        "fleet": "live",
        "given": [{"scale": {"resource": f"{shop.namespace}/Deployment/web", "replicas": 6}}],
        "expect": [{**workload, "replicas": {"equal": 6}, "clusters": {"in": list(shop.members)}}],
    }
    wrong = {**test, "metadata": {"name": "web grows"}, "expect": [{**workload, "replicas": {"atLeast": 7}}]}
    path = tmp_path / "tests.json"

    def tested(content: JSON, code: int) -> JSON:
        path.write_text(json.dumps(content))
        words = [COMMAND, "test", str(path), f"--kubeconfig={control_plane.kubeconfig}", "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
        assert done.returncode == code, done.stdout + done.stderr
        report: JSON = json.loads(done.stdout)
        return report

    assert tested(test, 0)["summary"]["passed"] == 1
    (difference,) = tested(wrong, 1)["tests"][0]["differences"]
    assert difference["path"] == "expect[0].replicas"
