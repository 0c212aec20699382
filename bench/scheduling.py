"""Time decisions in one process: ``make bench``, or ``make bench ARGS="--input FILE"``.

A decision starts with a decoded binding and ends with its assignment. *static*: nothing else happens. *churn*: before
each decision one cluster's resource numbers change, and taking that change in is part of the time. *cold*: the
placement was never seen before. Decisions of all bindings are timed one by one, after one round of each.
"""

import gc
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from workloads import Workload, generated, generated_regions, read, with_other_usage

from extender.scheduling.fleet import Fleet
from extender.scheduling.request import Request
from extender.scheduling.scheduler import Scheduler
from fleet.model.binding import Binding
from fleet.model.decode import decode_json, encode_json

_UPDATES = 512


class Figures(NamedTuple):
    """Microseconds per decision."""

    p50: float
    p99: float
    mean: float


def measure(decide: Callable[[int], object], decisions: int) -> Figures:
    """Time each call of ``decide``."""
    times: list[float] = []
    gc.collect()
    for index in range(decisions):
        start = time.perf_counter()
        decide(index)
        times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    return Figures(times[len(times) // 2], times[int(len(times) * 0.99)], sum(times) / len(times))


def time_workload(workload: Workload, decisions: int, seed: int) -> dict[str, Figures]:
    """All three figures of one workload."""
    scheduler = Scheduler(Fleet(workload.clusters))
    bindings = workload.bindings

    def static(index: int) -> object:
        return scheduler.schedule(Request.of(bindings[index % len(bindings)]))

    for index in range(len(bindings)):
        static(index)
    draw = random.Random(seed)
    updates = [with_other_usage(draw.choice(workload.clusters), draw) for _ in range(_UPDATES)]

    def churn(index: int) -> object:
        scheduler.fleet.apply(updates[index % _UPDATES])
        return static(index)

    unseen = [_with_unseen_placement(bindings[index % len(bindings)], index) for index in range(min(decisions, 256))]

    def cold(index: int) -> object:
        return scheduler.schedule(Request.of(unseen[index]))

    return {
        "static": measure(static, decisions),
        "churn": measure(churn, decisions),
        "cold": measure(cold, len(unseen)),
    }


def _with_unseen_placement(binding: Binding, index: int) -> Binding:
    """The binding with a placement that no cache knows: every affinity excludes a cluster that is not there."""
    raw = msgspec.json.decode(encode_json(binding))
    placement = raw["spec"]["placement"]
    for term in placement.get("clusterAffinities") or [placement.setdefault("clusterAffinity", {})]:
        term["exclude"] = [*term.get("exclude", []), f"nowhere-{index}"]
    return decode_json(Binding, msgspec.json.encode(raw))


def report(workload: Workload, figures: dict[str, Figures]) -> str:
    """One line of the table."""
    cells = [f"{figures[way].p50:8.1f} {figures[way].p99:8.1f}" for way in ("static", "churn", "cold")]
    rate = 1e6 / figures["static"].mean
    return f"{workload.name:>24} {'  '.join(cells)} {rate:12,.0f}"


@click.command()
@click.option("--input", "path", type=click.Path(path_type=Path, exists=True), help="Fleets in the vectors' format.")
@click.option("--decisions", default=3000, show_default=True, type=click.IntRange(100), help="Timed, for each figure.")
@click.option("--seed", default=7, show_default=True, help="Of the generated fleets and of the churn.")
def main(path: Path | None, decisions: int, seed: int) -> None:
    """Print microseconds per decision for each fleet."""
    print(f"{'':>24} {'static':>17}  {'churn':>17}  {'cold':>17} {'decisions':>12}")
    print(f"{'us per decision':>24} {'p50      p99':>17}  {'p50      p99':>17}  {'p50      p99':>17} {'a second':>12}")
    workloads = [read(path)] if path else [generated(seed), generated_regions(seed)]
    for source in workloads:
        for workload in source:
            count = decisions if len(workload.bindings) > 1 else max(100, decisions // 10)
            print(report(workload, time_workload(workload, count, seed)), flush=True)


if __name__ == "__main__":
    main()
