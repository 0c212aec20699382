"""Time the pages of the console before an extender: ``make bench-console``.

The extender reads a generated fleet in use from a file, and a small ledger. The console asks it over HTTP. Both are the
commands, with one worker each. A round asks for each page with another question each time, so that the console's cache
of answers helps only where a visitor would notice it as well. The figures are the times that pass, and the processor
time of both services for each page. On a machine that runs other programs, too, the processor time is the figure that
counts.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import urllib3
from console_fleet import fleet, write
from console_ledger import recorded
from e2e.control_plane import HOST, fetch
from e2e.processes import Process, Processes
from e2e.serving import COMMAND

LIMIT_MS: Final = 150
_LIMIT_BYTES: Final = 100_000
_START_S: Final = 900.0
_SIMULATION_S: Final = 900.0
_TICKS_PER_S: Final = 100

Addresses = Callable[[random.Random], str]


@dataclass(frozen=True)
class Fleet:
    """What is generated.

    Attributes:
        clusters: the names of the clusters.
        bindings: namespace and name of each binding.
        manifests: all objects.
    """

    clusters: list[str]
    bindings: list[tuple[str, str]]
    manifests: list[dict[str, Any]]


def generated(clusters: int, workloads: int) -> Fleet:
    """Return a fleet in use."""
    manifests = fleet(clusters, workloads, now=datetime.now(UTC))
    names = [each["metadata"]["name"] for each in manifests if each["kind"] == "Cluster"]
    bindings = [
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in manifests
        if each["kind"] == "ResourceBinding"
    ]
    return Fleet(names, bindings, manifests)


def pages(made: Fleet) -> dict[str, Addresses]:
    """Return what a visitor asks, by the title of the page: each call is another question."""
    pages_of_table = max(1, len(made.bindings) // 100)
    teams = sorted({namespace for namespace, _ in made.bindings})

    def workload(draw: random.Random) -> str:
        namespace, name = draw.choice(made.bindings)
        return f"/workloads/{namespace}/{name}"

    return {
        "Fleet, map": lambda draw: f"/fleet?view=map&sort={draw.choice(('name', '-name'))}",
        "Fleet, table": lambda draw: f"/fleet?view=table&sort={draw.choice(('name', '-name'))}",
        "Workloads": lambda draw: f"/workloads?page={draw.randint(1, pages_of_table)}&sort=name",
        "Workloads, search": lambda draw: f"/workloads?q={draw.choice(('web', 'api', 'cache'))}-{draw.randint(1, 99)}",
        "Workloads, filter": lambda draw: f"/workloads?namespace={draw.choice(teams)}&only=not-preferred",
        "Workload": workload,
        "Cluster": lambda draw: f"/fleet/{draw.choice(made.clusters)}",
        "Moves": lambda draw: f"/moves?cluster={draw.choice(made.clusters)}",
        "Policies": lambda draw: f"/policies?q={draw.choice(('critical', 'everyday', 'platform'))}",
        "Search": lambda draw: f"/search?q={draw.choice(('web', 'api', 'cache'))}-{draw.randint(1, 99)}",
        "History": lambda _: "/history",
        "History, week": lambda _: "/history?range=7d",
        "What if": lambda _: "/what-if",
        "Resilience": lambda _: "/resilience?by=region",
    }


@contextmanager
def services(made: Fleet) -> Iterator[tuple[str, list[Process]]]:
    """Run an extender and a console. Yield the address of the console, and both processes."""
    with tempfile.TemporaryDirectory(prefix="bench-console-") as folder:
        processes = Processes(Path(folder))
        manifests = Path(folder) / "manifests"
        write(made.manifests, manifests)
        ledger, _ = recorded(Path(folder), datetime.now(UTC))
        ports = [processes.ports.free() for _ in range(4)]
        try:
            extender = processes.start(
                "extender",
                [
                    COMMAND, "extender", "-f", manifests, f"--bind={HOST}:{ports[0]}",
                    f"--probe-bind={HOST}:{ports[1]}", "--workers=1", "--drain-s=0", "--interval-s=600",
                    "--request-timeout-s=60", f"--ledger={ledger}",
                ],
            )  # fmt: skip
            extender.wait_for("to be ready", lambda: fetch(f"http://{HOST}:{ports[1]}/readyz"), _START_S)
            console = processes.start(
                "console",
                [
                    COMMAND, "console", f"--extender-url=http://{HOST}:{ports[0]}", f"--bind={HOST}:{ports[2]}",
                    f"--probe-bind={HOST}:{ports[3]}", "--workers=1", "--drain-s=0", "--extender-timeout-s=60",
                ],
            )  # fmt: skip
            console.wait_for("to be ready", lambda: fetch(f"http://{HOST}:{ports[3]}/readyz"), _START_S)
            yield f"http://{HOST}:{ports[2]}", [extender, console]
        finally:
            processes.stop_all()


def processor_s(processes: list[Process]) -> float:
    """Return the processor time that processes and their children have used, in seconds."""
    ticks = 0
    for process in processes:
        for pid in _tree(process.pid):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def timed(
    pool: urllib3.PoolManager, url: str, title: str, address: Addresses, rounds: int, running: list[Process]
) -> tuple[float, int]:
    """Ask for a page several times and print the figures. Return the 95th percentile in milliseconds, and the size."""
    draw = random.Random(title)
    first_ms, _ = _asked(pool, url + address(draw), title)
    before_s = processor_s(running)
    taken = [_asked(pool, url + address(draw), title) for _ in range(rounds)]
    used_ms = (processor_s(running) - before_s) * 1000 / rounds
    slow_ms = statistics.quantiles([each for each, _ in taken], n=20)[18]
    size = max(each for _, each in taken)
    print(
        f"{title:20} {statistics.median(each for each, _ in taken):7.0f} ms median {slow_ms:7.0f} ms p95 "
        f"{used_ms:7.0f} ms of a processor {first_ms:7.0f} ms first {size // 1000:6} kB",
        flush=True,
    )
    return slow_ms, size


def computed(pool: urllib3.PoolManager, url: str) -> float:
    """Wait for the drift of the fleet, which the extender computes beside the answers. Return the seconds."""
    begun_s = time.perf_counter()
    while "Refresh" in pool.request("GET", f"{url}/drift", timeout=120.0).headers:
        time.sleep(1)
        if time.perf_counter() > begun_s + _SIMULATION_S:
            raise click.ClickException("the drift is not computed in time")
    return time.perf_counter() - begun_s


def _asked(pool: urllib3.PoolManager, address: str, title: str) -> tuple[float, int]:
    begun_s = time.perf_counter()
    response = pool.request("GET", address, headers={"Accept-Encoding": "gzip"}, timeout=120.0)
    while "Refresh" in response.headers and time.perf_counter() < begun_s + _SIMULATION_S:
        time.sleep(1)  # as a browser does while the failures are simulated
        response = pool.request("GET", address, timeout=120.0)
    taken_ms = (time.perf_counter() - begun_s) * 1000
    if response.status != 200:
        raise click.ClickException(f"{title}: {address} answers {response.status}: {response.data[:2000]!r}")
    return taken_ms, len(response.data)


def script_bytes() -> int:
    """Return the size of all scripts that the console serves."""
    return sum(path.stat().st_size for path in (Path(__file__).parents[1] / "console" / "static").rglob("*.js"))


@click.command()
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads and bindings.")
@click.option("--rounds", default=40, show_default=True, help="How often each page is asked for.")
@click.option("--limit-ms", default=LIMIT_MS, show_default=True, help="The limit of the 95th percentile; 0 for none.")
def main(clusters: int, workloads: int, rounds: int, limit_ms: int) -> None:
    """Time the pages of the console."""
    slowest: dict[str, float] = {}
    sizes: dict[str, int] = {}
    made = generated(clusters, workloads)
    print(f"{clusters} clusters, {workloads} workloads; {script_bytes() // 1000} kB of scripts", flush=True)
    with services(made) as (url, running):
        pool = urllib3.PoolManager(maxsize=1)
        print(f"{computed(pool, url):.0f} s until the drift is known", flush=True)
        for title, address in pages(made).items():
            slowest[title], sizes[title] = timed(pool, url, title, address, rounds, running)
    slow = {title: round(taken) for title, taken in slowest.items() if limit_ms and taken > limit_ms}
    large = {title: size for title, size in [*sizes.items(), ("scripts", script_bytes())] if size > _LIMIT_BYTES}
    if slow or large:
        raise click.ClickException(
            f"slower than {limit_ms} ms at the 95th percentile: {slow}; larger than {_LIMIT_BYTES:,} bytes: {large}"
        )


if __name__ == "__main__":
    main()
