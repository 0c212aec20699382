"""Measure an extender that watches bindings and templates: ``make bench-extender-memory``.

An API server in this process holds clusters, policies, Deployments and their bindings in the shapes that Karmada gives
them. The extender is the command with one worker. Its whole process tree is measured after it has read everything,
after plans, after the lists of the console, and after simulations, which need the most memory.
"""

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import click
from controllers_memory import dressed, reported
from karmada_plane import DIVIDED, policy, selector, serve_karmada
from kube_over_http import KubeOverHTTP
from live import objects
from served import Server, running

from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.native_api.client import Client
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.simulation.changes import Down

LIMIT_MIB: Final = 350
_LIMIT_S: Final = 900.0
_SIMULATIONS: Final = 3


@contextmanager
def watching(workloads: int, clusters: int, per_namespace: int = 100) -> Iterator[Server]:
    """Run an extender that has read an API server in this process until the end of the block.

    The objects are as large as Karmada's controllers make them. ``per_namespace`` is how many workloads a policy holds.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the API server of this process logs each request
    server = KubeOverHTTP()
    with closing(server), tempfile.NamedTemporaryFile("w") as kubeconfig:
        serve_karmada(server.api)
        for each in (raw for group in objects(workloads, clusters, per_namespace) for raw in group):
            if each["kind"] == "Namespace":
                continue
            if each["kind"] == "ResourceBinding":
                each["status"]["aggregatedStatus"] = reported(each["spec"]["clusters"])
            server.api.put(server.api.served.path(each), dressed(each) if each["kind"] == "Cluster" else each)
        kubeconfig.write(server.kubeconfig())
        kubeconfig.flush()
        flags = ("--watch=workloads", "--workers=1", f"--kubeconfig={kubeconfig.name}", "--request-timeout-s=300")
        with running("extender", *flags) as extender:
            yield extender


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
    counts = client.plan(PlanRequest(changes=(Down("member3"),))).counts
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
    with watching(workloads, clusters) as extender:
        most_mib = extender.memory_mib()
        print(f"{most_mib:6.0f} MiB with everything read", flush=True)
        with Client(f"http://127.0.0.1:{extender.port}", timeout_s=_LIMIT_S) as client:
            for question in (planned, planned, listed, *(planned_loss for _ in range(_SIMULATIONS))):
                passed_s, result = question(client)
                used_mib = extender.memory_mib()
                most_mib = max(most_mib, used_mib)
                print(f"{used_mib:6.0f} MiB after {question.__name__}: {passed_s:.1f} s, {result}", flush=True)
    if most_mib > LIMIT_MIB:
        raise click.ClickException(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
