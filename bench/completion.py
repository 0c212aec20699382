"""Time the completion of names on a real API server with 10,000 workloads in one namespace: ``make bench-completion``.

Each completion is a new process, as the shell starts it. A control plane has 300 ms to answer (``completion.py``); an
answer that comes later completes nothing. So each completion must have names, and the time of the whole process is
printed beside the time of a completion without any request.
"""

import os
import subprocess
import time
from typing import Final

import click
from controllers import control_plane
from e2e.serving import COMMAND
from live import objects, store

from berthmaster.kube.http_client import load_client

_RUNS: Final = 5
_CLUSTERS: Final = 1000


def completed(line: str) -> tuple[int, float]:
    """Return how many names complete the last word of a line, and the best time in seconds."""
    words = line.split(" ")
    environment = {"_BERTHMASTER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    found, times_s = 0, []
    for _ in range(_RUNS):
        started_s = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own command
            [COMMAND], check=True, capture_output=True, text=True, env={**os.environ, **environment}
        )
        times_s.append(time.perf_counter() - started_s)
        found = len(done.stdout.splitlines())
    return found, min(times_s)


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads, all in one namespace.")
@click.option("--settle-s", default=15.0, show_default=True, help="How long to wait after the start of the API server.")
def main(workloads: int, settle_s: float) -> None:
    """Time the completion of names on a real API server."""
    with control_plane(settle_s) as plane:
        store(load_client(plane.kubeconfig), objects(workloads, _CLUSTERS, workloads))
        access = f"--kubeconfig={plane.kubeconfig}"
        _, offline_s = completed("berthmaster explain --down")
        lines = {
            f"berthmaster explain {access} -n team0 deployments/": workloads,
            f"berthmaster explain {access} -n team0 deployments/app99": workloads // 90,
            f"berthmaster simulate {access} --down ": _CLUSTERS,
            f"berthmaster simulate {access} -n ": 1,
            f"berthmaster history {access} -n team0 --policy ": 1,
        }
        slow = []
        for line, least in lines.items():
            found, whole_s = completed(line)
            shown = line.replace(f" {access}", "")
            more_ms, start_ms = 1000 * (whole_s - offline_s), 1000 * offline_s
            print(f"{found:6,} names, {more_ms:4.0f} ms more than {start_ms:.0f} ms: {shown}", flush=True)
            if found < min(least, workloads // 100) or found < 1:
                slow.append(shown)
    if slow:
        raise click.ClickException(f"no names within the limit: {'; '.join(slow)}")


if __name__ == "__main__":
    main()
