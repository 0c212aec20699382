"""What one tenant stores never decides about others: large objects, many of them, and deeply nested ones."""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pytest
from e2e import karmada
from e2e.api import Api
from e2e.assets import binary
from e2e.conftest import CHILDREN, needed
from e2e.control_plane import ControlPlane, crd_folder, fetch
from e2e.manifests import JSON, unique
from e2e.processes import Processes, wait_for
from e2e.serving import COMMAND, Serving, start_controllers, start_extender
from karmada_plane import binding, cluster, new_deployment, policy, selector

pytestmark = pytest.mark.e2e

LARGE: Final = 75
"""Objects of one megabyte. A page of them is larger than any reader reads at once."""
LIMIT_S: Final = 120.0
NAMES: Final = [f"a-cluster-with-a-quite-long-name-that-no-one-has-{number:05}" for number in range(17_000)]
EXPANDED: Final = "<" * 1_000_000
"""An API server stores one byte for each of these characters, and sends six."""
DEPTH: Final = 3000


class Scene(NamedTuple):
    """A control plane with the large objects of one tenant.

    Attributes:
        mine: the namespace of someone else, with one Deployment, its policy and its binding.
        theirs: the namespace of the tenant.
        members: the names of two clusters.
        waiting: a binding of someone else that no scheduler has seen.
    """

    plane: ControlPlane
    mine: str
    theirs: str
    members: tuple[str, str]
    waiting: JSON


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own, because its API server holds hundreds of megabytes afterwards."""
    crds = needed(crd_folder)
    for name in ("etcd", "kube-apiserver"):
        needed(lambda name=name: binary(name))
    children = Processes(tmp_path_factory.mktemp("full-control-plane"))
    before, request.config.stash[CHILDREN] = request.config.stash.get(CHILDREN, None), children
    try:
        made = ControlPlane(children)
        made.install(crds)
        karmada.install_clusters(made.api)
        yield made
    finally:
        children.stop_all()
        if before is not None:
            request.config.stash[CHILDREN] = before


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Iterator[Scene]:
    mine, theirs = plane.new_namespace(), plane.new_namespace()
    members = (unique("member"), unique("member"))
    web = policy(
        "web", selector(name="web"), namespace=mine, placement={"clusterAffinity": {"clusterNames": [members[0]]}}
    )
    template = new_deployment("web", 4, namespace=mine, by=web)
    bound = binding(template, web, **{members[0]: 4})
    waiting = karmada.binding(mine, {"clusterAffinity": {"clusterNames": list(members)}})
    with karmada.present(plane.api, *map(cluster, members), web, template, bound, waiting):
        with ThreadPoolExecutor(4) as writers:
            list(writers.map(plane.api.create, _large(theirs)))
        _nest(plane.api, theirs)
        yield Scene(plane, mine, theirs, members, waiting)


def _large(namespace: str) -> Iterator[JSON]:
    """Yield the objects of the tenant."""
    placement: JSON = {"clusterAffinity": {"clusterNames": NAMES}}
    for number in range(LARGE):
        yield policy(f"large-{number}", selector(name=f"large-{number}"), namespace=namespace, placement=placement)
        bound = karmada.binding(namespace, placement)
        bound["metadata"]["name"] = f"large-{number}"
        yield bound
        template = new_deployment(f"large-{number}", namespace=namespace)
        template["spec"]["template"]["spec"]["containers"][0]["args"] = NAMES
        yield template
    expanded = new_deployment("expanded", namespace=namespace)
    expanded["spec"]["template"]["spec"]["containers"][0]["args"] = [EXPANDED]
    yield expanded


def _nest(api: Api, namespace: str) -> None:
    """Create a binding whose status has more levels than a decoder of Python can read."""
    deep = karmada.binding(namespace, {})
    deep["metadata"]["name"] = "deep"
    api.create(deep)
    levels = '{"a":' * DEPTH + "1" + "}" * DEPTH
    body = f'{{"status":{{"aggregatedStatus":[{{"clusterName":"m1","status":{levels}}}]}}}}'
    path = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/deep/status"
    client = api.client
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = client.rest_client.pool_manager.request(
        "PATCH", f"{client.configuration.host}{path}", body=body, headers=headers
    )
    assert answer.status == 200, answer.data[:500]


def test_controllers_schedule_the_bindings_of_others(scene: Scene, plane: ControlPlane) -> None:
    running = start_controllers(plane.processes, plane, scene.mine, f"--scheduler-name={karmada.SCHEDULER}")
    try:
        wait_for("the binding to be scheduled", lambda: karmada.assigned(plane.api.get(scene.waiting)), LIMIT_S)
        ready = fetch(f"{running.probe_url}/readyz") or ""
        assert f"not read: resourcebindings {scene.theirs}/deep is nested more than" in ready
    finally:
        running.process.stop()


@pytest.fixture(scope="module")
def extender(scene: Scene) -> Iterator[Serving]:
    running = start_extender(scene.plane.processes, scene.plane, "workloads")
    yield running
    running.process.stop()


def test_the_extender_plans_changes_of_others_and_names_what_it_did_not_read(extender: Serving, scene: Scene) -> None:
    moved = policy(
        "web", selector(name="web"), namespace=scene.mine,
        placement={"clusterAffinity": {"clusterNames": [scene.members[1]]}},
    )  # fmt: skip
    request = urllib.request.Request(
        f"{extender.url}/v1/plan", json.dumps({"update": [moved]}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
        answer = json.load(response)
    assert answer["counts"]["moved"] == 1
    assert answer["plan"].get("gaps", []) == [], "the policy selects no object of the tenant"
    page = json.loads(fetch(f"{extender.url}/v1/workloads?limit=1") or "{}")
    gaps = " ".join(page["gaps"])
    assert f"Deployment {scene.theirs}/expanded has" in gaps
    assert f"resourcebindings {scene.theirs}/deep is nested more than" in gaps


@pytest.fixture
def run(scene: Scene) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        access = f"--kubeconfig={scene.plane.kubeconfig}"
        return subprocess.run(
            [COMMAND, *args, access], capture_output=True, text=True, check=False, timeout=2 * LIMIT_S
        )

    return run


def test_commands_answer_about_others_and_name_what_they_did_not_read(run: Callable[..., Any], scene: Scene) -> None:
    deep = f"ResourceBinding {scene.theirs}/deep is nested more than 100 levels deep"
    simulated = run("simulate", "-o", "json")
    assert simulated.returncode == 0, simulated.stderr
    assert f"{scene.mine}/Deployment/web" in {each["resource"] for each in json.loads(simulated.stdout)["items"]}
    assert deep in simulated.stderr
    assert f"Deployment {scene.theirs}/expanded has" in simulated.stderr

    drained = run("drain", scene.members[0], "--dry-run", "-o", "json")
    rows = {each["workload"]: each["state"] for each in json.loads(drained.stdout)["left"]}
    assert rows[f"{scene.theirs}/ResourceBinding/deep"] == "not known"
    assert f"{scene.mine}/Deployment/web" in rows
    assert deep in drained.stderr

    moves = run("moves", "-o", "json")
    assert (moves.returncode, deep in moves.stderr + moves.stdout) == (0, True)

    checked = run("doctor")
    assert f"{scene.theirs}/deep" in checked.stdout
