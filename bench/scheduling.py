"""Time decisions in one process: ``make bench``; ``make bench ARGS="--input FILE"``; ``ARGS="--profile kubeadmiral"``.

A decision starts with a decoded binding, or a prepared unit, and ends with its assignment. *static*: nothing else
happens. *churn*: before each decision the resource numbers of one cluster change, and the time includes the update.
*cold*: the placement was never used before. All bindings are scheduled once before the timed decisions.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from workloads import GeneratedUnits, Scenario, generated, generated_regions, generated_units, read, with_other_usage

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.taint import Toleration
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.kubeadmiral.profile import kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import request_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

_UPDATES = 512
_UNSEEN = 256


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


class Case(NamedTuple):
    """A profile, a fleet, and the requests that are timed one after the other.

    Attributes:
        name: of the row.
        clusters: the fleet.
        profile: the profile.
        requests: functions that make a request from a binding or unit.
        unseen: the same with a distinct placement each.
    """

    name: str
    clusters: Sequence[Cluster]
    profile: Profile
    requests: Sequence[Callable[[], Request]]
    unseen: Sequence[Callable[[], Request]]


def case_of(workload: Scenario) -> Case:
    """Return a case with bindings and Karmada's profile."""
    bindings = workload.bindings
    unseen = [_with_unseen_placement(bindings[index % len(bindings)], index) for index in range(_UNSEEN)]
    requests, others = ([partial(Request.of, each) for each in some] for some in (bindings, unseen))
    return Case(workload.name, workload.clusters, karmada_profile(), requests, others)


def unit_case_of(workload: GeneratedUnits) -> Case:
    """Return a case with units and KubeAdmiral's profile."""
    units = workload.units
    unseen = [
        replace(units[index % len(units)], tolerations=(Toleration(key=f"unseen-{index}"),)) for index in range(_UNSEEN)
    ]
    requests, others = ([partial(request_of, each) for each in some] for some in (units, unseen))
    return Case(workload.name, workload.clusters, kubeadmiral_profile(), requests, others)


def time_case(case: Case, decisions: int, seed: int) -> dict[str, Figures]:
    """Return all three figures of one case."""
    scheduler = Scheduler(Fleet(case.clusters), case.profile)
    requests, unseen = case.requests, case.unseen

    def static(index: int) -> object:
        return scheduler.schedule(requests[index % len(requests)]())

    for index in range(len(requests)):
        static(index)
    draw = random.Random(seed)
    updates = [with_other_usage(draw.choice(case.clusters), draw) for _ in range(_UPDATES)]

    def churn(index: int) -> object:
        scheduler.fleet.apply(updates[index % _UPDATES])
        return static(index)

    def cold(index: int) -> object:
        return scheduler.schedule(unseen[index]())

    return {
        "static": measure(static, decisions),
        "churn": measure(churn, decisions),
        "cold": measure(cold, min(decisions, len(unseen))),
    }


def _with_unseen_placement(binding: Binding, index: int) -> Binding:
    """Return the binding with a new placement: every affinity excludes a cluster that does not exist."""
    raw = msgspec.json.decode(encode_json(binding))
    placement = raw["spec"]["placement"]
    for term in placement.get("clusterAffinities") or [placement.setdefault("clusterAffinity", {})]:
        term["exclude"] = [*term.get("exclude", []), f"nowhere-{index}"]
    return decode_json(Binding, msgspec.json.encode(raw))


def report(name: str, figures: dict[str, Figures]) -> str:
    """Return one line of the table."""
    cells = [f"{figures[way].p50:8.1f} {figures[way].p99:8.1f}" for way in ("static", "churn", "cold")]
    rate = 1e6 / figures["static"].mean
    return f"{name:>24} {'  '.join(cells)} {rate:12,.0f}"


@click.command()
@click.option("--input", "path", type=click.Path(path_type=Path, exists=True), help="Fleets in the vectors' format.")
@click.option("--profile", type=click.Choice(["karmada", "kubeadmiral"]), default="karmada", show_default=True)
@click.option(
    "--decisions", default=3000, show_default=True, type=click.IntRange(100), help="Timed decisions per figure."
)
@click.option("--seed", default=7, show_default=True, help="Seed of fleets and churn.")
def main(path: Path | None, profile: str, decisions: int, seed: int) -> None:
    """Print microseconds per decision for each fleet."""
    print(f"{'':>24} {'static':>17}  {'churn':>17}  {'cold':>17} {'decisions':>12}")
    print(f"{'us per decision':>24} {'p50      p99':>17}  {'p50      p99':>17}  {'p50      p99':>17} {'a second':>12}")
    for case in _cases(path, profile, seed):
        count = decisions if len(case.requests) > 1 else max(100, decisions // 10)
        print(report(case.name, time_case(case, count, seed)), flush=True)


def _cases(path: Path | None, profile: str, seed: int) -> Iterator[Case]:
    if path is not None:
        return map(case_of, read(path))
    if profile == "kubeadmiral":
        return map(unit_case_of, generated_units(seed))
    return map(case_of, chain(generated(seed), generated_regions(seed)))


if __name__ == "__main__":
    main()
