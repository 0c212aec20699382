"""Time what the console asks most: ``make bench-console-api``.

An extender without HTTP has read a fleet in use. Each question is asked many times, of a fleet that rests and after a
change of one binding. The figures are times of the thread that answers, with the
encoded answer, so that they depend little on other processes of the machine. The memory is that of the index of
workloads, which the first question builds here.
"""

import logging
import statistics
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec
from console_fleet import TEAMS
from console_fleet import fleet as fleet_in_use

from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import KARMADA_BINDINGS
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.native_api.fleet import SortKey
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.metrics import ServiceMetrics
from extender.protocols.native import routes
from extender.protocols.route import Handler
from extender.protocols.services import Call, Services
from extender.state.fingerprint import difference_of
from extender.state.placed_index import PlacedIndex
from extender.state.placed_workload import placed_workload
from extender.state.state import State
from extender.state.workloads import ObservedWorkloads

LIMIT_MS: Final = {"/v1/workloads": 30.0, "/v1/fleet": 50.0, "/v1/version": 1.0, "/v1/moves": 50.0}
"""The limits for 10,000 workloads and 1,000 clusters, at the 95th percentile."""
SIZES: Final = ((10_000, 1000), (100_000, 5000))
QUESTIONS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("/v1/version", {}),
    ("/v1/fleet", {}),
    ("/v1/workloads", {}),
    ("/v1/workloads", {"sort": "-replicas", "offset": "5000"}),
    ("/v1/workloads", {"q": "checkout"}),
    ("/v1/workloads", {"only": "nowhere,short", "sort": "scheduled"}),
    ("/v1/workloads", {"cluster": "eu-west-1-01", "namespaces": "shop,payments,-"}),
    ("/v1/workloads", {"cluster": "eu-west-1-01", "limit": "10"}),
    ("/v1/workloads", {"only": "not-preferred", "namespace": TEAMS[0]}),
    ("/v1/workloads", {"cluster": "eu-", "group": "home", "parts": "true"}),
    ("/v1/moves", {"cluster": "eu-west-1-01", "limit": "50"}),
)
_LIMIT_S: Final = 600.0


class Plane:
    """An extender without HTTP and without an API server, which has read a fleet in use."""

    def __init__(self, workloads: int, clusters: int) -> None:
        self._clock, self.state = SystemClock(), State(karmada_profile())
        informers = [Informer(each.collection, each.read, self._clock) for each in KARMADA_BINDINGS]
        self._informer = informers[0]
        self.state.observed = ObservedWorkloads(informers, None)
        for each in informers:
            each.subscribe(self._changed)
        manifests = fleet_in_use(clusters, workloads, now=datetime.now(UTC))
        with self.state.updating(self._clock.now()) as cache:
            for each in manifests:
                if each["kind"] == "Cluster":
                    cache.apply_cluster(convert(Cluster, each))
        self._bindings = [each for each in manifests if each["kind"] == "ResourceBinding"]
        self._informer.replace({key_of(each): encoded(each) for each in self._bindings}.items())
        self._services = Services(self.state, ServiceMetrics(), logging.getLogger("bench"), self._clock)
        self._routes: dict[str, Handler] = {each.path: each.handler for each in routes() if each.method == "GET"}

    def change(self, number: int) -> None:
        """Change a binding."""
        changed = self._bindings[number * 7919 % len(self._bindings)]
        changed["spec"]["replicas"] += 1
        self._informer.put(key_of(changed), encoded(changed))

    def _changed(self, _key: tuple[str, str], before: Binding | None, after: Binding | None) -> None:
        self.state.fingerprint.add(difference_of(before, after))

    def index_mib(self) -> float:
        """Return the memory that an index with a list by another order takes, beside the bindings."""
        bindings = [convert(Binding, each) for each in self._bindings]
        tracemalloc.start()
        index = PlacedIndex((each.metadata.key, placed_workload(each)) for each in bindings)
        index.ordered(SortKey.REPLICAS, descending=True)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return used / 2**20

    def asked(self, path: str, query: dict[str, str]) -> float:
        """Ask a question. Return the milliseconds of the processor."""
        begun_s = time.thread_time()
        reply = self._routes[path](self._services, Call("bench", self._clock.monotonic_s() + _LIMIT_S, query=query))
        if not isinstance(reply.body, bytes) or len(reply.body) < 50:
            raise click.ClickException(f"{path} has no answer")
        return (time.thread_time() - begun_s) * 1000


def timed(work: Callable[[int], float], rounds: int) -> tuple[float, float]:
    """Return the median and the 95th percentile of the results of ``work(0)``, ``work(1)`` and so on."""
    taken_ms = [work(number) for number in range(rounds)]
    return statistics.median(taken_ms), statistics.quantiles(taken_ms, n=20)[18]


def measured(workloads: int, clusters: int, rounds: int, *, limited: bool) -> list[str]:
    """Time every question, print the figures, and return what is slower than its limit."""
    plane, slow = Plane(workloads, clusters), []
    print(f"{workloads} workloads on {clusters} clusters", flush=True)
    print(f"{plane.index_mib():8.1f} MiB for the index of workloads", flush=True)
    print(f"{plane.asked('/v1/workloads', {}):8.0f} ms for the first question, which builds the index", flush=True)

    def after_change(path: str, query: dict[str, str], number: int) -> float:
        plane.change(number)
        return plane.asked(path, query)

    for path, query in QUESTIONS:
        rests = timed(lambda _, path=path, query=query: plane.asked(path, query), rounds)
        changes = timed(lambda number, path=path, query=query: after_change(path, query, number), rounds)
        text = path + ("?" if query else "") + "&".join(f"{name}={value}" for name, value in query.items())
        print(f"{rests[0]:8.2f} {rests[1]:8.2f}  {changes[0]:8.2f} {changes[1]:8.2f} ms  {text}", flush=True)
        if limited and max(rests[1], changes[1]) > LIMIT_MS[path]:
            slow.append(f"{text} takes more than {LIMIT_MS[path]:g} ms")
    return slow


def key_of(manifest: dict[str, Any]) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def encoded(manifest: dict[str, Any]) -> msgspec.Raw:
    """Return an object as an API server sends it."""
    return msgspec.Raw(msgspec.json.encode(manifest))


@click.command()
@click.option("--rounds", default=40, show_default=True, help="How often each question is asked.")
@click.option("--large/--small", default=True, show_default=True, help="Measure the larger fleet as well.")
def main(rounds: int, large: bool) -> None:  # noqa: FBT001 - a flag of the command
    """Time what the console asks most."""
    print("median and 95th percentile of a fleet that rests, and after a change of a binding", flush=True)
    slow = measured(*SIZES[0], rounds, limited=True)
    if large:
        measured(*SIZES[1], max(10, rounds // 4), limited=False)
    if slow:
        raise click.ClickException("; ".join(slow))


if __name__ == "__main__":
    main()
