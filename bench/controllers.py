"""Time the binding scheduler on a real API server: ``make bench-controllers``, or with ``ARGS="--bindings 10000"``.

Bindings of all strategies over a generated fleet exist before the scheduler starts. The time runs from the first
assignment to the last one, and to the last status, as another client observes them. All processes share the machine,
so the benchmark also reports the CPU time of each process per binding. For comparison, a client without watch,
decision, status and events sends the same writes: that is the limit of the API server.
"""

import concurrent.futures
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec
from e2e import karmada
from e2e.control_plane import ControlPlane, crd_folder
from e2e.processes import Process, Processes
from e2e.serving import start_controllers
from workloads import Scenario, generated

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.client import ask
from berthmaster.kube.http_client import HTTPClient, load_client
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import ONLY_METADATA, Collection, create, merge_patch
from berthmaster.model.decode import builtins
from berthmaster.model.meta import Key
from berthmaster.runtime.clock import SystemClock

_CLUSTERS: Final = Collection.of(karmada.CLUSTERS, "clusters")
BINDINGS: Final = Collection.of(karmada.BINDINGS, "resourcebindings")
WRITERS: Final = 8
_LIMIT_S: Final = 900.0
_GRADES: Final = ((0, 0), (1, 4), (2, 16), (4, 32), (8, 64), (16, 128), (32, 256), (64, 512), (128, 1024))
"""Karmada's default models: the cores and GiB of the smallest node of each grade."""
_NODES: Final = (0, 4, 20, 40, 20, 10, 4, 0, 0)
_NAMESPACE: Final = "bench"
_WARMING: Final = 1024
_PAUSE_S: Final = 10.0
_COSTS: Final = ("per binding", "of CPU time: controllers", "of CPU time: controllers, API server and etcd")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


def unchanged(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the object unchanged."""
    return raw


def modeled(raw: dict[str, Any]) -> dict[str, Any]:
    """Clusters have Karmada's default resource models, and no two bindings have the same requests."""
    if raw["kind"] == "Cluster":
        ends = [*((str(cores), f"{gib}Gi") for cores, gib in _GRADES[1:]), (str(2**63 - 1),) * 2]
        raw["spec"]["resourceModels"] = [
            {
                "grade": grade,
                "ranges": [
                    {"name": "cpu", "min": str(cores), "max": end[0]},
                    {"name": "memory", "min": f"{gib}Gi", "max": end[1]},
                ],
            }
            for grade, ((cores, gib), end) in enumerate(zip(_GRADES, ends, strict=True))
        ]
        modelings = [{"grade": grade, "count": count} for grade, count in enumerate(_NODES)]
        raw["status"]["resourceSummary"]["allocatableModelings"] = modelings
    else:
        number = int(raw["spec"]["resource"]["name"].removeprefix("w"))
        asked = {"cpu": f"{100 + number}m", "memory": f"{256 + number % 512}Mi"}
        raw["spec"]["replicaRequirements"] = {"resourceRequest": asked}
    return raw


def make(
    client: HTTPClient,
    bindings: int,
    clusters: int,
    dressed: Callable[[dict[str, Any]], dict[str, Any]] = unchanged,
) -> str:
    """Fill the API server, and return the namespace of the bindings. ``dressed`` adds fields to each object."""
    ask(client, create(Collection.of("v1", "namespaces"), "", {"metadata": {"name": _NAMESPACE}}))

    def cluster(raw: dict[str, Any]) -> None:
        raw = dressed({**raw, "apiVersion": karmada.CLUSTERS, "kind": "Cluster"})
        name = raw["metadata"]["name"]
        ask(client, create(_CLUSTERS, "", raw))
        ask(client, merge_patch(_CLUSTERS, ("", name), {"status": raw["status"]}, "status"))

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(cluster, [builtins(each) for each in _workload(clusters).clusters]))
    make_bindings(client, range(bindings), clusters, dressed)
    return _NAMESPACE


def make_bindings(
    client: HTTPClient,
    numbers: range,
    clusters: int,
    dressed: Callable[[dict[str, Any]], dict[str, Any]] = unchanged,
) -> None:
    """Create the bindings with these numbers; see ``make``."""
    bindings = _workload(clusters).bindings

    def binding(number: int) -> None:
        raw = builtins(bindings[number % len(bindings)])
        raw |= {"apiVersion": karmada.BINDINGS, "kind": "ResourceBinding"}
        raw["metadata"] = {"name": f"w{number}-deployment", "namespace": _NAMESPACE, "labels": {karmada.LABEL: "bench"}}
        raw["spec"] |= {"schedulerName": karmada.SCHEDULER, "replicas": 3}
        raw["spec"]["resource"] |= {"uid": f"uid-{number}", "name": f"w{number}", "namespace": _NAMESPACE}
        ask(client, create(BINDINGS, _NAMESPACE, dressed(raw)))

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(binding, numbers))


@cache
def _workload(clusters: int) -> Scenario:
    return next(each for each in generated(1) if len(each.clusters) == clusters)


def cpu_s(process: Process) -> float:
    """Return the CPU time of a process in seconds."""
    after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_A_SECOND


def resident_mib(process: Process, measure: str = "VmRSS") -> int:
    """Return the resident memory of a process; ``VmHWM`` is its maximum."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{measure}:")) // 1024


class _Condition(msgspec.Struct):
    type: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Target(msgspec.Struct):
    name: str
    replicas: int = 0


class _Spec(msgspec.Struct):
    clusters: list[_Target] = []


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] = {}


class _Seen(msgspec.Struct):
    """The observed fields of a binding."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    def rewritten(self) -> dict[str, Any]:
        """Return a patch like the one that assigned it, with other numbers."""
        clusters = [{"name": each.name, "replicas": each.replicas + 1} for each in self.spec.clusters]
        return {"metadata": {"annotations": self.metadata.annotations}, "spec": {"clusters": clusters}}


class Observer:
    """A client that watches the bindings, and records when they are assigned and when their status is complete."""

    def __init__(self, client: HTTPClient, namespace: str = "") -> None:
        """Watch the bindings of a namespace, or all."""
        watched = Collection(BINDINGS.within(namespace), BINDINGS.plural)
        self._informer = Informer(watched, msgspec.json.Decoder(_Seen).decode, SystemClock())
        self._informer.subscribe(self._observed)
        self.assigned_s: list[float] = []
        self.complete_s: list[float] = []
        self._informer.start(client)
        self._informer.wait(_LIMIT_S)

    def await_complete(self, bindings: int) -> None:
        """Wait until this many bindings are assigned and have a status."""
        self._await(lambda: min(len(self.complete_s), len(self.assigned_s)), bindings)

    def await_assigned(self, bindings: int) -> None:
        """Wait until this many bindings are assigned."""
        self._await(lambda: len(self.assigned_s), bindings)

    def stop(self) -> None:
        """Stop the watch."""
        self._informer.stop()

    def patches(self) -> list[tuple[Key, dict[str, Any]]]:
        """Return for each binding a write like the one that assigned it."""
        return [(key, seen.rewritten()) for key, seen in self._informer.items()]

    def _await(self, counted: Callable[[], int], bindings: int) -> None:
        deadline_s = time.monotonic() + _LIMIT_S
        while counted() < bindings:
            if time.monotonic() > deadline_s:
                raise click.ClickException(f"only {counted()} of {bindings} in {_LIMIT_S:g} s")
            time.sleep(0.02)

    def _observed(self, _key: Key, before: _Seen | None, after: _Seen | None, /) -> None:
        now_s = time.monotonic()
        if after is not None and after.spec.clusters and not (before and before.spec.clusters):
            self.assigned_s.append(now_s)
        if after is not None and after.status.conditions and not (before and before.status.conditions):
            self.complete_s.append(now_s)


def bare_rate(client: HTTPClient, patches: Sequence[tuple[Key, dict[str, Any]]]) -> float:
    """Return the writes per second of as many threads as the scheduler has workers."""
    requests = [merge_patch(BINDINGS, key, patch)._replace(accept=ONLY_METADATA) for key, patch in patches]
    with concurrent.futures.ThreadPoolExecutor(ControllerSettings().concurrent_bindings) as writers:
        started_s = time.monotonic()
        list(writers.map(lambda request: ask(client, request), requests))
    return len(requests) / (time.monotonic() - started_s)


def measure(
    plane: ControlPlane,
    bindings: int,
    clusters: int,
    flags: Sequence[str],
    dressed: Callable[[dict[str, Any]], dict[str, Any]] = unchanged,
) -> None:
    """Run the benchmark once; see ``make``."""
    client = load_client(plane.kubeconfig)
    started_s = time.monotonic()
    namespace = make(client, bindings, clusters, dressed)
    print(f"made {bindings} bindings over {clusters} clusters in {time.monotonic() - started_s:.1f} s", flush=True)
    observer = Observer(client)
    servers = {name: plane.processes.named(name) for name in ("kube-apiserver", "etcd")}
    before = {name: cpu_s(each) for name, each in servers.items()}
    controllers = start_controllers(
        plane.processes, plane, namespace, "--controllers=binding-scheduler", "--kube-api-qps=0", "--log-level=warning",
        *flags,
    )  # fmt: skip
    observer.await_complete(bindings)
    spent = {name: cpu_s(each) - before[name] for name, each in servers.items()} | {
        "controllers": cpu_s(controllers.process)
    }
    begun_s = observer.assigned_s[0]
    for what, times_s in (("assigned", observer.assigned_s), ("with their status", observer.complete_s)):
        elapsed_s = times_s[bindings - 1] - begun_s
        print(f"{bindings / elapsed_s:8.0f} bindings per second {what} ({elapsed_s:.1f} s)")
    for name, seconds in spent.items():
        print(f"{seconds / bindings * 1000:8.2f} ms of CPU time per binding: {name}")
    print(f"{resident_mib(controllers.process):8d} MiB resident: controllers")
    for result in ("success", "requeued", "conflict", "error", "crash"):
        count = int(controllers.measure("berthmaster_controllers_reconciles_total", result=result))
        print(f"{count:8d} reconciled: {result}")
    controllers.process.stop()
    observer.stop()
    print(f"{bare_rate(client, observer.patches()):8.0f} bindings per second from a client that only writes")


class Cost(NamedTuple):
    """What a binding costs.

    Attributes:
        elapsed_ms: the time from one binding to the next.
        controllers_ms: the CPU time of the controllers.
        all_ms: the CPU time of the controllers, the API server and etcd.
    """

    elapsed_ms: float
    controllers_ms: float
    all_ms: float


def cost_of(plane: ControlPlane, bindings: int, clusters: int, flags: Sequence[str], start: threading.Barrier) -> Cost:
    """Schedule many bindings at once, and return what one of them costs.

    The first bindings are not measured: meanwhile the process imports modules, and opens its ledger.
    """
    client = load_client(plane.kubeconfig)
    make(client, _WARMING + bindings, clusters)
    observer = Observer(client)
    start.wait(_LIMIT_S)
    controllers = start_controllers(
        plane.processes, plane, "default", "--controllers=binding-scheduler", "--kube-api-qps=0", "--log-level=warning",
        *flags,
    )  # fmt: skip
    measured = {name: plane.processes.named(name) for name in ("kube-apiserver", "etcd")}
    measured["controllers"] = controllers.process
    observer.await_assigned(_WARMING)
    begun_s, known = time.monotonic(), len(observer.assigned_s)
    before_s = {name: cpu_s(each) for name, each in measured.items()}
    observer.await_complete(_WARMING + bindings)
    ended_s = time.monotonic()
    time.sleep(_PAUSE_S)  # the last records and the last events are written later
    spent_s = {name: cpu_s(each) - before_s[name] for name, each in measured.items()}
    if flags:
        recorded = int(controllers.measure("berthmaster_ledger_records_total", result="written"))
        if recorded < _WARMING + bindings:
            raise click.ClickException(f"the ledger has only {recorded} records {_PAUSE_S:g} s after the last decision")
    controllers.process.stop()
    observer.stop()
    each_ms = 1000 / (_WARMING + bindings - known)
    return Cost((ended_s - begun_s) * each_ms, spent_s["controllers"] * each_ms, sum(spent_s.values()) * each_ms)


def ledger_costs(settle_s: float, bindings: int, clusters: int, *, swapped: bool) -> Cost:
    """Compare two schedulers, one with a ledger, each with a control plane of its own. Return the quotients.

    Both work at the same time: the speed of a machine changes by more than what a ledger costs.
    """
    with (
        control_plane(settle_s) as one,
        control_plane(0.0) as other,
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(2) as running,
    ):
        start = threading.Barrier(2)
        planes = (other, one) if swapped else (one, other)
        flags: tuple[Sequence[str], ...] = (), (f"--ledger=sqlite:///{folder}/ledger.db",)
        without, recorded = running.map(
            lambda plane, flags: cost_of(plane, bindings, clusters, flags, start), planes, flags
        )
    quotients = Cost(*(with_ms / without_ms for with_ms, without_ms in zip(recorded, without, strict=True)))
    for what, without_ms, with_ms in zip(_COSTS, without, recorded, strict=True):
        print(f"{without_ms:6.2f} ms without, {with_ms:6.2f} ms with a ledger: {what}", flush=True)
    return quotients


def compare_ledger(pairs: int, settle_s: float, bindings: int, clusters: int) -> None:
    """Measure what a ledger adds; see ``ledger_costs``."""
    found = [ledger_costs(settle_s, bindings, clusters, swapped=bool(number % 2)) for number in range(pairs)]
    for what, quotients in zip(_COSTS, zip(*found, strict=True), strict=True):
        added = [quotient - 1 for quotient in quotients]
        print(f"a ledger adds {statistics.median(added):+.1%} ({min(added):+.1%} to {max(added):+.1%}) {what}")


@contextmanager
def control_plane(settle_s: float) -> Iterator[ControlPlane]:
    """Start a control plane with Karmada's kinds, and wait some seconds; it stops with all other processes."""
    folder = Path(tempfile.mkdtemp(prefix="berthmaster-bench-"))
    processes = Processes(folder)
    try:
        # The API server must be able to read a large fleet at one version, however busy the machine is.
        plane = ControlPlane(processes, flags=("--etcd-compaction-interval=0",))
        plane.install(crd_folder())
        karmada.install_clusters(plane.api)
        time.sleep(settle_s)  # it rebuilds its OpenAPI documents for each kind, which takes seconds
        yield plane
    finally:
        processes.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


@click.command()
@click.option("--bindings", default=1024, show_default=True, help="The number of bindings.")
@click.option("--clusters", default=100, show_default=True, help="The number of clusters: 3, 10, 100, 1000 or 5000.")
@click.option("--settle-s", default=15.0, show_default=True, help="How long to wait after the start of the API server.")
@click.option("--modeled", "with_models", is_flag=True, help=modeled.__doc__)
@click.option("--ledger-pairs", default=0, help="Compare the CPU time without and with a ledger, this many times each.")
@click.argument("flags", nargs=-1)
def main(
    *, bindings: int, clusters: int, settle_s: float, with_models: bool, ledger_pairs: int, flags: tuple[str, ...]
) -> None:
    """Time the binding scheduler. FLAGS after -- go to the controllers."""
    if ledger_pairs:
        compare_ledger(ledger_pairs, settle_s, bindings, clusters)
        return
    with control_plane(settle_s) as plane:
        measure(plane, bindings, clusters, flags, modeled if with_models else unchanged)


if __name__ == "__main__":
    main()
