"""Measure an extender that watches bindings and templates: ``make bench-extender-memory``.

An API server in this process holds clusters, policies, Deployments and their bindings in the shapes that Karmada gives
them. The extender is the command with one worker. Its whole process tree is measured after it has read everything,
after plans, after the lists of the console, and after simulations, which need the most memory.
"""

import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import yaml
from controllers_memory import dressed, reported
from e2e.control_plane import fetch
from e2e.processes import Processes, wait_for
from e2e.serving import COMMAND
from karmada_plane import DIVIDED, policy, selector, serve_karmada
from kube_over_http import KubeOverHTTP
from live import objects

from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.native_api.client import Client
from berthmaster.native_api.what_if import DownChange, PlanRequest

LIMIT_MIB: Final = 350
_LIMIT_S: Final = 900.0
_SIMULATIONS: Final = 3


def tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from tree(int(child))


def tree_mib(pid: int) -> int:
    """Return the memory of a process tree. Pages that processes share count once, as in the limit of a container."""
    lines = [line for each in tree(pid) for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024


def fill(server: KubeOverHTTP, workloads: int, clusters: int) -> None:
    """Store the objects, as large as Karmada's controllers make them."""
    serve_karmada(server.api)
    for each in (raw for group in objects(workloads, clusters) for raw in group):
        if each["kind"] == "Namespace":
            continue
        if each["kind"] == "ResourceBinding":
            each["status"]["aggregatedStatus"] = reported(each["spec"]["clusters"])
        server.api.put(server.api.served.path(each), dressed(each) if each["kind"] == "Cluster" else each)


def kubeconfig_of(url: str) -> dict[str, Any]:
    """Return a kubeconfig for an API server without authentication."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
    }


def simulated(client: Client) -> tuple[float, str]:
    """Simulate a lost cluster. Return the seconds and what moves."""
    begun_s = time.perf_counter()
    answer = client.simulate([DownChange("member3")])
    return time.perf_counter() - begun_s, f"{answer.moved} of {answer.workloads} move"


def planned(client: Client) -> tuple[float, str]:
    """Plan a change that moves every workload of a namespace. Return the seconds and what moves."""
    members = [f"member{number}" for number in range(5)]
    placement = {**DIVIDED, "clusterAffinity": {"clusterNames": members}}
    changed = convert(Policy, policy("everything", selector(), namespace="team0", placement=placement))
    begun_s = time.perf_counter()
    counts = client.plan(PlanRequest(update=(changed,))).counts
    return time.perf_counter() - begun_s, f"{counts.moved} of {counts.workloads} move"


def planned_loss(client: Client) -> tuple[float, str]:
    """Plan the loss of a cluster, which has an index of its own. Return the seconds and what moves."""
    begun_s = time.perf_counter()
    counts = client.plan(PlanRequest(changes=(DownChange("member3"),))).counts
    return time.perf_counter() - begun_s, f"{counts.moved} of {counts.workloads} move"


def listed(client: Client) -> tuple[float, str]:
    """Ask for the fleet and for workloads, as the console does. Return the seconds and how many there are."""
    begun_s = time.perf_counter()
    client.fleet()
    return time.perf_counter() - begun_s, f"{client.workloads().total} workloads"


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads and bindings.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
def main(workloads: int, clusters: int) -> None:
    """Measure the memory of an extender that watches bindings and templates."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the API server of this process logs each request
    with tempfile.TemporaryDirectory() as folder:
        processes, server = Processes(Path(folder)), KubeOverHTTP()
        try:
            fill(server, workloads, clusters)
            kubeconfig = Path(folder, "kubeconfig")
            kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server.url)))
            port, probe_port = processes.ports.free(), processes.ports.free()
            process = processes.start("extender", [
                COMMAND, "extender", "--watch=workloads", "--workers=1", f"--kubeconfig={kubeconfig}",
                f"--bind=127.0.0.1:{port}", f"--probe-bind=127.0.0.1:{probe_port}", "--request-timeout-s=60",
            ])  # fmt: skip
            wait_for("the extender to be ready", lambda: fetch(f"http://127.0.0.1:{probe_port}/readyz"), _LIMIT_S)
            most_mib = tree_mib(process.pid)
            print(f"{most_mib:6d} MiB with everything read", flush=True)
            with Client(f"http://127.0.0.1:{port}", timeout_s=_LIMIT_S) as client:
                for question in (planned, planned, listed, planned_loss, *(simulated for _ in range(_SIMULATIONS))):
                    passed_s, result = question(client)
                    used_mib = tree_mib(process.pid)
                    most_mib = max(most_mib, used_mib)
                    print(f"{used_mib:6d} MiB after {question.__name__}: {passed_s:.1f} s, {result}", flush=True)
        finally:
            processes.stop_all()
            server.close()
    if most_mib > LIMIT_MIB:
        raise click.ClickException(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
