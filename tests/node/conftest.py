"""Fixtures of the tests on a node: one host with one node for the run, and the commands of docs/install.md."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from charts.assets import helm_binary
from e2e.assets import binary
from e2e.conftest import needed, processes, pytest_runtest_makereport  # noqa: F401
from e2e.control_plane import crd_folder
from e2e.karmada import install_clusters, install_quotas
from e2e.processes import Processes
from node.node import Host, Node, make_network, needed_programs, remove_cgroups, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()


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
    """The ready node."""
    made = Node(host, host.processes)
    yield made
    host.processes.stop_all()
    remove_cgroups()


@pytest.fixture(scope="session")
def command(host: Host, node: Node) -> Callable[[str], str]:
    """Run a line of docs/install.md as a reader would, and return its output. A line that is not there is an error."""
    folders = [Path(sys.executable).parent, binary("kubectl").parent, helm_binary().parent]
    environment = {
        "KUBECONFIG": str(host.kubeconfig),
        "CONTAINERD_ADDRESS": str(node.socket),
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
    }

    def of_page(line: str, more: str = "") -> str:
        pages = PAGE + PAGE.replace("--namespace karmada-system", "--namespace berthmaster")
        assert re.search(rf"^{re.escape(line)}$", pages, re.MULTILINE), f"docs/install.md has no line {line}"
        return run(["bash", "-c", f"cd {ROOT} && {line}{more}"], environment=environment)

    return of_page
