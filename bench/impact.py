"""Time plans of an extender that watches a control plane: ``make bench-impact``.

An API server in this process holds 10,000 Deployments with their bindings on 1,000 clusters, in the shapes that Karmada
gives them. Each policy holds the 100 Deployments of a namespace. A plan asks what an edit of one policy moves, as the
webhook does for each review. The figures are those of one process of the extender: plans of a control plane that rests,
and plans after each of which a policy changes.
"""

import json
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import click
import yaml
from e2e.processes import Processes, wait_for
from e2e.service import COMMAND
from extender_memory import fill, is_ready, kubeconfig_of, tree_mib
from karmada_plane import policy, selector
from kube_over_http import KubeOverHTTP

LIMIT_MS: Final = 300
LIMIT_MIB: Final = 350
_LIMIT_S: Final = 300.0
_PER_NAMESPACE: Final = 100


def edited(team: int, members: range) -> dict[str, Any]:
    """Return the policy of a namespace, which now places what it holds on some clusters only."""
    placement = {"clusterAffinity": {"clusterNames": [f"member{number}" for number in members]}}
    return policy("everything", selector(), namespace=f"team{team}", placement=placement)


def planned(url: str, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Ask for a plan. Return the milliseconds and the answer."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/v1/plan", data, {"Content-Type": "application/json"})  # noqa: S310 - loopback
    begun_s = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as response:  # noqa: S310 - loopback
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        problem = error.read().decode()
        if "is stale" not in problem:
            raise click.ClickException(f"the extender answered {error.code}: {problem}") from None
        # The server of the bench shares the processor, and may be too slow for a watch.
        time.sleep(1.0)
        return planned(url, body)
    return (time.perf_counter() - begun_s) * 1000, answer


def report(what: str, taken_ms: list[float]) -> float:
    """Print the times of plans, and return the 99th percentile."""
    slowest_ms = statistics.quantiles(taken_ms, n=100)[98]
    print(f"{statistics.median(taken_ms):6.0f} ms in the median, {slowest_ms:6.0f} ms at the 99th: {what}", flush=True)
    return slowest_ms


def measured(server: KubeOverHTTP, url: str, workloads: int, clusters: int, plans: int) -> float:
    """Time plans. Return the worst 99th percentile."""
    teams, limit = max(1, workloads // _PER_NAMESPACE), {"limit": 3}
    first_ms, answer = planned(url, {"update": [edited(0, range(clusters // 2))], **limit})
    print(f"{first_ms:6.0f} ms for the first plan, which builds the index", flush=True)
    resting, changing = [], []
    for number in range(plans):
        team = number % teams
        taken_ms, answer = planned(url, {"update": [edited(team, range(clusters // 2, clusters))], **limit})
        resting.append(taken_ms)
        if answer["counts"]["concerned"] != min(workloads, _PER_NAMESPACE):
            raise click.ClickException(f"another number of workloads is concerned: {answer['counts']}")
    moved = answer["counts"]["moved"]
    for number in range(plans):
        changed = edited((number + 1) % teams, range(number % 5, clusters))
        server.api.put(server.api.served.path(changed), changed)
        body = {"update": [edited(number % teams, range(clusters // 2, clusters))], **limit}
        changing.append(planned(url, body)[0])
    return max(
        report(f"an edit of one policy, {moved} of {workloads} workloads move", resting),
        report("the same, after a change of another policy", changing),
    )


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads and bindings.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
@click.option("--plans", default=100, show_default=True, help="The number of plans of each kind.")
def main(workloads: int, clusters: int, plans: int) -> None:
    """Time plans of an extender that watches a control plane."""
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
            wait_for("the extender to be ready", lambda: is_ready(f"http://127.0.0.1:{probe_port}") or None, _LIMIT_S)
            slowest_ms = measured(server, f"http://127.0.0.1:{port}", workloads, clusters, plans)
            used_mib = tree_mib(process.pid)
            print(f"{used_mib:6d} MiB afterwards", flush=True)
        finally:
            processes.stop_all()
            server.close()
    if slowest_ms > LIMIT_MS or used_mib > LIMIT_MIB:
        raise click.ClickException(f"more than {LIMIT_MS} ms or {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
