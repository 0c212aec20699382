"""Time the completion of names on a real API server with 10,000 workloads in one namespace: ``make bench-completion``.

Each completion is a new process, as the shell starts it. Printed are the median and the 95th percentile of the time of
the whole process, for each kind of names, and for each shell. An answer of the control plane that comes too late
completes nothing, so each completion must have names.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click
from controllers import control_plane
from e2e.serving import COMMAND
from live import objects, store

from berthmaster.kube.http_client import load_client

_CLUSTERS: Final = 1000
_LIMIT_S: Final = 0.3
_WARM_UP: Final = 2
_PLUGIN: Final = str(Path(COMMAND).with_name("kubectl_complete-berthmaster"))


class Times(NamedTuple):
    """How many names complete a line, and how long it takes."""

    names: int
    median_s: float
    p95_s: float


def timed(line: str, shell: str, runs: int) -> Times:
    """Complete the last word of a line as a shell does, several times."""
    command, environment = _asked(line.split(" "), shell)
    found, times_s = 0, []
    for _ in range(_WARM_UP + runs):
        started_s = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own command
            command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
        )
        times_s.append(time.perf_counter() - started_s)
        if done.stderr:
            raise click.ClickException(f"{line}: a completion printed {done.stderr}")
        found = len(done.stdout.splitlines())
    measured = sorted(times_s[_WARM_UP:])
    return Times(found, statistics.median(measured), measured[round(0.95 * (len(measured) - 1))])


def _asked(words: Sequence[str], shell: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the command that completes the last word, and its variables."""
    if shell == "kubectl":
        return [_PLUGIN, *words[1:]], {}
    given = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    if shell == "fish":
        given = {"COMP_WORDS": " ".join(words[:-1]), "COMP_CWORD": words[-1]}
    return [COMMAND], {"_BERTHMASTER_COMPLETE": f"{shell}_complete", **given}


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads, all in one namespace.")
@click.option("--settle-s", default=15.0, show_default=True, help="How long to wait after the start of the API server.")
@click.option("--runs", default=20, show_default=True, help="How often each line is completed.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A control plane that has the objects already.")
def main(workloads: int, settle_s: float, runs: int, kubeconfig: Path | None) -> None:
    """Time the completion of names on a real API server."""
    if kubeconfig is not None:
        measure(workloads, runs, kubeconfig)
        return
    with control_plane(settle_s) as plane:
        store(load_client(plane.kubeconfig), objects(workloads, _CLUSTERS, workloads))
        measure(workloads, runs, plane.kubeconfig)


def measure(workloads: int, runs: int, kubeconfig: Path) -> None:
    """Complete each kind of names with bash, and a workload with each shell."""
    access = f"--kubeconfig={kubeconfig}"
    prefix = f"berthmaster explain {access} -n team0 deployments/app99"
    lines = [
        (f"berthmaster explain {access} --context ", "bash", 1),
        (f"berthmaster simulate {access} -n ", "bash", 1),
        (f"berthmaster simulate {access} --down ", "bash", _CLUSTERS),
        (f"berthmaster history {access} -n team0 --policy ", "bash", 1),
        (f"berthmaster explain {access} -n team0 deployments/", "bash", workloads),
        *((prefix, shell, workloads // 100) for shell in ("bash", "zsh", "fish", "kubectl")),
    ]
    late = []
    for line, shell, least in lines:
        found = timed(line, shell, runs)
        shown = f"{shell}: {line.replace(f' {access}', '')}"
        print(
            f"{found.names:6,} names, median {1000 * found.median_s:4.0f} ms, "
            f"p95 {1000 * found.p95_s:4.0f} ms: {shown}",
            flush=True,
        )
        if found.names < least or found.median_s > _LIMIT_S:
            late.append(shown)
    if late:
        raise click.ClickException(f"no names within {1000 * _LIMIT_S:.0f} ms: {'; '.join(late)}")


if __name__ == "__main__":
    main()
