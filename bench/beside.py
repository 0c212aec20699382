"""Measure what other clients notice of long questions: ``make bench-beside``.

The extender is that of ``make bench-extender-memory``. Each kind of request has a process and a connection of its own,
and is due at a fixed rate. Its time counts from then if the answer before it came late. The timer sends no request: its
row shows how other processes delay the clients. Each figure is the lowest of the rounds.
"""

import itertools
import math
import multiprocessing
import statistics
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from typing import Any

import click
from extender_memory import watching
from extender_service import kube_scheduler_requests
from karmada_plane import policy, selector
from live import objects
from served import Client, Server, post

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api import client
from berthmaster.native_api.what_if import MAX_PLANNED, PlanLine, PlanRequest
from berthmaster.simulation.changes import Down
from berthmaster.simulation.failures import FailureDomain
from berthmaster.simulation.plan_answer import Switch


def short_requests() -> dict[str, list[bytes]]:
    """Return the requests that other clients send, by kind."""
    names = [f"member{number}" for number in range(10)]
    few = policy("few", selector(name="app7"), namespace="team0", priority=1)
    return {
        "POST /v1/schedule": [post("/v1/schedule", encode_json({"binding": each})) for each in objects(32, 100)[-1]],
        "GET /v1/bindings/...": [b"GET /v1/bindings/team0/app7-deployment HTTP/1.1\r\nHost: localhost\r\n\r\n"],
        "kube-scheduler filter, 10 names": kube_scheduler_requests("filter", names),
        "kube-scheduler prioritize, 10 names": kube_scheduler_requests("prioritize", names),
        "POST /v1/plan, a policy of one workload": [post("/v1/plan", encode_json({"create": [few]}))],
        "a timer": [],
    }


def everything(port: int, policies: int) -> None:
    """Plan one policy that claims all workloads in place of the others, and read the progress."""
    claimant = policy("everything", selector(), namespace="")
    stored = {"kind": "PropagationPolicy", "name": "everything"}
    deleted = [{**stored, "namespace": f"team{number}"} for number in range(policies)]
    body, headers = encode_json({"create": [claimant], "delete": deleted}), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/plan/progress", body, headers)
    with urllib.request.urlopen(request, timeout=900.0) as answer:  # noqa: S310 - our own server
        last = answer.read().splitlines()[-1]
    if (plan := decode_json(PlanLine, last).plan) is None or plan.counts.concerned < plan.counts.workloads:
        raise click.ClickException(f"not a plan of all workloads: {last[:500]!r}")


def long_questions(server: Server, policies: int) -> dict[str, Callable[[], Any]]:
    """Return what asks each long question. No two answers about failures come from one computation."""
    asking = client.Client(f"http://127.0.0.1:{server.port}", timeout_s=900.0)
    orders = itertools.cycle(itertools.permutations(FailureDomain))
    return {
        "plans of all workloads": lambda: everything(server.port, policies),
        "plans of a lost cluster": lambda: asking.plan(PlanRequest(changes=(Down("member3"),), failover=Switch.ON)),
        "questions for all failures": lambda: asking.resilience(next(orders)),
    }


def sent(server: Server, requests: Sequence[bytes], share: float, rate: float, seconds: float) -> list[float]:
    """Send requests at a rate over one connection, each after a share of its interval. Return their milliseconds."""
    connection, taken_ms = Client(server), []
    first = int(time.perf_counter() * rate) + 1 + share
    for number in range(int(rate * seconds)):
        begun_s = (first + number) / rate
        wait_s = begun_s - time.perf_counter()
        time.sleep(max(0.0, wait_s))
        if requests:
            begun_s = time.perf_counter() if wait_s > 0 else begun_s
            connection.ask(requests[number % len(requests)])
        taken_ms.append((time.perf_counter() - begun_s) * 1e3)
    return taken_ms


def percentile(rounds: Sequence[Sequence[float]], percent: int) -> float:
    """Return the lowest percentile of a round."""
    return min(statistics.quantiles(each, n=100)[percent - 1] for each in rounds)


class Phase:
    """What was measured beside a long question that ``ask`` asks, or beside none."""

    def __init__(self, ask: Callable[[], Any] | None = None) -> None:
        self._ask, self._answers_s, self._most_mib = ask, list[float](), 0.0
        self._times_ms = defaultdict[str, list[list[float]]](list)

    def measure(self, server: Server, clients: Executor, rate: float, seconds: float) -> None:
        """Let all clients send while the question is asked again and again."""
        asked = short_requests()
        sending = [(requests, number / len(asked)) for number, requests in enumerate(asked.values())]
        running = [clients.submit(sent, server, *each, rate, seconds) for each in sending]
        with ThreadPoolExecutor(1) as asking:
            repeating = asking.submit(self._repeat, running)
            while wait(running, timeout=0.5).not_done:
                self._most_mib = max(self._most_mib, server.memory_mib())
            repeating.result()
        for kind, done in zip(asked, running, strict=True):
            self._times_ms[kind].append(done.result())

    def _repeat(self, running: Sequence[Future[list[float]]]) -> None:
        while self._ask is not None and wait(running, timeout=0).not_done:
            begun_s = time.perf_counter()
            self._ask()
            self._answers_s.append(time.perf_counter() - begun_s)

    def report(self, what: str, alone: "Phase") -> None:
        """Print the percentiles of each kind of request, and which 99th is above twice its value alone."""
        print(f"\n{what:>40} {'p50 ms':>8} {'p90 ms':>8} {'p99 ms':>8} {'max ms':>8}")
        for kind, rounds in self._times_ms.items():
            p50, p90, p99 = (percentile(rounds, each) for each in (50, 90, 99))
            times = p99 / percentile(alone._times_ms[kind], 99)  # noqa: SLF001 - an object of this class
            print(f"{kind:>40} {p50:8.2f} {p90:8.2f} {p99:8.2f} {min(map(max, rounds)):8.2f}", end="")
            print(f"  p99 is {times:.1f} times its value alone" if times > 2 else "")
        took = f"; {len(self._answers_s)} answers in {sum(self._answers_s):.0f} s" if self._answers_s else ""
        print(f"{self._most_mib:40.0f} MiB at most{took}", flush=True)


@click.command()
@click.option("--workloads", default=5000, show_default=True, help="The number of workloads and bindings.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
@click.option("--rate", default=50.0, show_default=True, help="Requests a second of each kind.")
@click.option("--seconds", default=10.0, show_default=True, help="How long each phase of a round lasts.")
@click.option("--rounds", default=3, show_default=True, help="How often each phase is measured, in turn.")
def main(workloads: int, clusters: int, rate: float, seconds: float, rounds: int) -> None:
    """Measure what other clients notice of long questions."""
    per_namespace = max(100, math.ceil(workloads / MAX_PLANNED))
    with (
        watching(workloads, clusters, per_namespace) as server,
        ProcessPoolExecutor(len(short_requests()), multiprocessing.get_context("spawn")) as clients,
    ):
        questions = long_questions(server, math.ceil(workloads / per_namespace))
        for ask in questions.values():  # starts the clients, and builds the indexes
            Phase(ask).measure(server, clients, rate, 1.0)
        phases = {"alone": Phase(), **{f"beside {what}": Phase(ask) for what, ask in questions.items()}}
        for each in list(phases.values()) * rounds:
            each.measure(server, clients, rate, seconds)
    for what, each in phases.items():
        each.report(what, phases["alone"])


if __name__ == "__main__":
    main()
