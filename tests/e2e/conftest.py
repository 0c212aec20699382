"""Fixtures of the e2e tests: a control plane for the run, a namespace for each test, logs of a failure."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from e2e.api import Api
from e2e.assets import MissingAssetError, binary
from e2e.control_plane import ControlPlane, crd_folder
from e2e.manifests import node
from e2e.processes import Process, Processes, sigterm_as_ctrl_c

Value = TypeVar("Value")

CHILDREN = pytest.StashKey[Processes]()


def needed(find: Callable[[], Value]) -> Value:
    """Return what ``find`` finds. Otherwise skip the tests and say how to get it, or fail where they are required."""
    try:
        return find()
    except MissingAssetError as problem:
        if os.environ.get("BERTHMASTER_E2E") == "required" or os.environ.get("CI") == "true":
            pytest.fail(f"the e2e tests are required here, but: {problem}", pytrace=False)
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def processes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """All child processes of the run. They are stopped at its end, also after Ctrl-C and SIGTERM."""
    children = Processes(tmp_path_factory.mktemp("control-plane"))
    request.config.stash[CHILDREN] = children
    with sigterm_as_ctrl_c():
        try:
            yield children
        finally:
            children.stop_all()
            shutil.rmtree(children.folder / "etcd", ignore_errors=True)  # large, and of no use without the server


@pytest.fixture(scope="session")
def control_plane(processes: Processes) -> ControlPlane:
    """etcd and kube-apiserver with every custom resource definition installed."""
    crds = needed(crd_folder)
    for name in ("etcd", "kube-apiserver"):
        needed(lambda name=name: binary(name))
    plane = ControlPlane(processes)
    plane.install(crds)
    return plane


@pytest.fixture
def api(control_plane: ControlPlane) -> Api:
    return control_plane.api


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    return control_plane.new_namespace()


@pytest.fixture
def nodes(api: Api) -> Iterator[Callable[..., dict[str, Any]]]:
    """A function that adds a ready Node (arguments of ``manifests.node``); removed after the test."""
    added = []

    def add(cpu: str = "4", memory: str = "8Gi", **labels: str) -> dict[str, Any]:
        wanted = node(cpu, memory, **labels)
        added.append(wanted)
        api.create(wanted)
        api.patch(wanted, {"spec": {"taints": None}})  # admission adds not-ready, for a controller to take away
        return api.patch(wanted, {"status": wanted["status"]}, subresource="status").object

    yield add
    for wanted in added:
        api.delete(wanted)


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[Callable[[dict[str, Any]], Process]]:
    """A function that starts a kube-scheduler with a configuration of the test's; stopped after the test."""
    needed(lambda: binary("kube-scheduler"))
    started: list[Process] = []

    def start(configuration: dict[str, Any]) -> Process:
        started.append(control_plane.start_scheduler(configuration))
        return started[-1]

    yield start
    for process in started:
        process.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Put the end of every running child's log under a failure, with the path of the whole."""
    report = yield
    if report.failed and (children := item.config.stash.get(CHILDREN, None)):
        report.sections.extend(children.tails())
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests in a browser last: their services stay until the end of the run, and slow other tests down."""
    items.sort(key=lambda item: "console" in item.path.parts)
