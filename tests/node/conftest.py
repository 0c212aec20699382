"""Fixtures of the tests on a node: one host with one node for the run, and the commands of the installation pages."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from charts.assets import helm_binary
from e2e.assets import binary
from e2e.conftest import needed, processes, pytest_runtest_makereport  # noqa: F401
from e2e.control_plane import HOST, ControlPlane, crd_folder
from e2e.installed import kubeconfig_secret
from e2e.karmada import install_clusters, install_quotas
from e2e.processes import Processes
from node.node import ADDRESS, Host, Node, make_network, needed_programs, remove_cgroups, run
from page_lines import whole_lines

ROOT = Path(__file__).parents[2]
JSON = dict[str, Any]
PAGE = whole_lines("\n".join((ROOT / "docs" / name).read_text() for name in ("install.md", "install-karmada.md")))


class Target(ControlPlane):
    """An API server that pods reach, as karmada-apiserver or that of KubeAdmiral."""

    hosts = (HOST, ADDRESS)

    def secret(self, name: str, namespace: str) -> JSON:
        """The Secret that the control plane's own installation creates: an administrator's kubeconfig."""
        made = kubeconfig_secret(name, namespace, self.kubeconfig)
        made["stringData"]["kubeconfig"] = made["stringData"]["kubeconfig"].replace(HOST, ADDRESS)
        return made


@pytest.fixture(scope="session")
def host(processes: Processes) -> Host:  # noqa: F811
    """A control plane with Karmada's API, as a single cluster that serves it."""
    needed(needed_programs)
    crds = needed(crd_folder)
    make_network()
    plane = Host(processes)
    plane.install(crds)
    install_clusters(plane.api)
    install_quotas(plane.api)
    return plane


@pytest.fixture(scope="session")
def node(host: Host) -> Iterator[Node]:
    made = Node(host, host.processes)
    yield made
    host.processes.stop_all()
    remove_cgroups()


@pytest.fixture(scope="session")
def target(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """An API server of its own. It asks the DNS of the cluster for the names of Services, as a pod does."""
    run(["mount", "--bind", str(node.names.file), "/etc/resolv.conf"])
    apart = Processes(tmp_path_factory.mktemp("target"))
    try:
        plane = Target(apart, flags=("--bind-address=0.0.0.0",))
        plane.install(crd_folder())
        install_clusters(plane.api)
        install_quotas(plane.api)
        yield plane
    finally:
        apart.stop_all()
        run(["umount", "/etc/resolv.conf"], ok=False)


@pytest.fixture(scope="session")
def command(host: Host, node: Node) -> Callable[[str], str]:
    """Run a line of an installation page as a reader would, and return its output. It is an error if no page has it.

    The values files of the page lie in the working directory.
    """
    folder = host.processes.folder / "reader"
    folder.mkdir()
    for each in ("charts", "dist"):
        (folder / each).symlink_to(ROOT / each)
    for name, values in re.findall(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(values)
    folders = [Path(sys.executable).parent, binary("kubectl").parent, helm_binary().parent]
    environment = {
        "KUBECONFIG": str(host.kubeconfig),
        "CONTAINERD_ADDRESS": str(node.socket),
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
    }

    def of_page(line: str, more: str = "") -> str:
        namespaces = ("karmada-system", "berthmaster", "kubeadmiral-system")
        pages = "".join(PAGE.replace("--namespace karmada-system", f"--namespace {each}") for each in namespaces)
        assert re.search(rf"^{re.escape(line)}$", pages, re.MULTILINE), f"docs/install.md has no line {line}"
        return run(["bash", "-c", f"cd {folder} && {line}{more}"], environment=environment)

    return of_page
