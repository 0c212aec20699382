"""Time `simulate` and `explain` on a live control plane: ``make bench-live``.

A real API server holds clusters, policies, Deployments and their bindings in the shapes that Karmada gives them. Each
command is a new process, as a user starts it. The limits are 8 s for a lost cluster and 2 s for one explanation.
"""

import concurrent.futures
import resource
import subprocess
import time
from typing import Any, Final

import click
from controllers import WRITERS, control_plane
from e2e.serving import COMMAND
from karmada_plane import binding, cluster, deployment, policy, selector

from berthmaster.kube.client import ask
from berthmaster.kube.http_client import HTTPClient, load_client
from berthmaster.kube.requests import Collection, create, merge_patch

_PER_NAMESPACE: Final = 100
_SIMULATE_S: Final = 8.0
_EXPLAIN_S: Final = 2.0
_RUNS: Final = 3
_COLLECTIONS: Final = {
    "Namespace": Collection.of("v1", "namespaces"),
    "Cluster": Collection.of("cluster.karmada.io/v1alpha1", "clusters"),
    "PropagationPolicy": Collection.of("policy.karmada.io/v1alpha1", "propagationpolicies"),
    "Deployment": Collection.of("apps/v1", "deployments"),
    "ResourceBinding": Collection.of("work.karmada.io/v1alpha2", "resourcebindings"),
}


def objects(workloads: int, clusters: int, per_namespace: int = _PER_NAMESPACE) -> list[list[dict[str, Any]]]:
    """Return all objects, in groups that are created one after the other."""
    names = [f"member{number}" for number in range(clusters)]
    namespaces, policies, templates, bindings = [], [], [], []
    for first in range(0, workloads, per_namespace):
        namespace = f"team{first // per_namespace}"
        namespaces.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        claimant = policy("everything", selector(), namespace=namespace)
        policies.append(claimant)
        for number in range(first, min(first + per_namespace, workloads)):
            template = deployment(f"app{number}", 4, namespace=namespace, by=claimant)
            template["spec"]["template"]["spec"]["containers"][0]["env"] = [
                {"name": f"VARIABLE_{index}", "value": "x" * 40} for index in range(20)
            ]
            templates.append(template)
            chosen = {names[(number + step) % clusters]: 2 for step in (0, 7)}
            bindings.append(binding(template, claimant, **chosen))
    members = [cluster(name, 1000) for name in names]
    for each in templates:
        each["metadata"].pop("managedFields")
    return [[*namespaces, *members], policies, templates, bindings]


def store(client: HTTPClient, groups: list[list[dict[str, Any]]]) -> None:
    """Create the objects, with the status of those that have one."""

    def one(manifest: dict[str, Any]) -> None:
        metadata, collection = manifest["metadata"], _COLLECTIONS[manifest["kind"]]
        namespace = metadata.get("namespace", "")
        ask(client, create(collection, namespace, manifest))
        if manifest["kind"] in {"Cluster", "ResourceBinding"}:
            patch = {"status": manifest["status"]}
            ask(client, merge_patch(collection, (namespace, metadata["name"]), patch, "status"))

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
        for group in groups:
            list(writers.map(one, group))


def timed(limit_s: float, *args: str) -> bool:
    """Run a command several times, print the best times, and return whether it keeps a limit.

    The processor time of the command does not depend on other processes of the machine; the time that passes does.
    """
    passed_s, processor_s = [], []
    for _ in range(_RUNS):
        started_s, before_s = time.perf_counter(), _processor_s()
        subprocess.run([COMMAND, *args], check=True, capture_output=True)  # noqa: S603 - our own command
        passed_s.append(time.perf_counter() - started_s)
        processor_s.append(_processor_s() - before_s)
    shown = " ".join(each for each in args if not each.startswith("--kubeconfig"))
    print(f"{min(passed_s):6.2f} s of {limit_s:g} s, {min(processor_s):6.2f} s of a processor: {shown}", flush=True)
    return min(passed_s) <= limit_s


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.option("--workloads", default=4000, show_default=True, help="The number of workloads and bindings.")
@click.option("--clusters", default=100, show_default=True, help="The number of clusters.")
@click.option("--settle-s", default=15.0, show_default=True, help="How long to wait after the start of the API server.")
def main(workloads: int, clusters: int, settle_s: float) -> None:
    """Time simulate and explain on a live control plane."""
    with control_plane(settle_s) as plane:
        store(load_client(plane.kubeconfig), objects(workloads, clusters))
        access = f"--kubeconfig={plane.kubeconfig}"
        kept = [
            timed(_SIMULATE_S, "simulate", access, "--down", "member3"),
            timed(_EXPLAIN_S, "explain", access, "deploy/app3", "-n", "team0"),
        ]
        if not all(kept):
            raise click.ClickException("slower than the limit")


if __name__ == "__main__":
    main()
