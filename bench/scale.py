"""Measure how memory and cost grow up to 100,000 bindings and 5,000 clusters: ``make bench-scale``.

Each part runs in a process of its own, with a model of an API server that makes the objects while it is read. The
controllers schedule everything and read all reports; a restarted process reads what is scheduled, and then gets events;
an extender reads templates and plans. Costs are processor time, so that other processes of the machine matter little.
Totals may grow as n log n from size to size. An event that concerns the same objects may not cost more.

Two more parts run if they are asked for. ``--part fairness`` times the decisions of new workloads beside so many others
that fail. ``--part start`` times a restart and a change of the leader beside a real API server (after e2e-assets). It
writes the fleet straight into etcd, and reports the time that passes and the processor time of each process.
"""

import base64
import gc
import http.client
import json
import logging
import math
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
import msgspec
from controllers import Observer, control_plane, cpu_s, resident_mib
from e2e.control_plane import ControlPlane
from e2e.processes import wait_for
from e2e.serving import Serving, start_controllers
from fake_clock import FakeClock
from kube_in_memory import ReadyResponse
from scale_fleet import PINNED_CLUSTER, ScaleFleet
from served import tree_mib
from timing import processor_s

from berthmaster.controllers.binding_scheduler.controller import BindingScheduler
from berthmaster.controllers.binding_scheduler.event_handlers import ACTIVATED
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.client import ask
from berthmaster.kube.http_client import HTTPClient, load_client
from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES
from berthmaster.kube.requests import CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, APIRequest, Collection, create
from berthmaster.model.decode import convert, decode_json, encode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.forked import Forked
from berthmaster.runtime.memory import keep_existing_objects
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.changes import Down
from berthmaster.simulation.failures import FailureDomain, Failures, losses
from berthmaster.simulation.planner import plan
from extender.metrics import ServiceMetrics
from extender.protocols.native.plan import Planner
from extender.protocols.services import Call, Services
from extender.state.state import State
from extender.state.watch import WatchSource
from extender.state.workloads import BindingOptions

LIMIT_MIB: Final = {"controllers": 1024, "restart": 1024, "extender": 2048, "start": 1024, "fairness": 1024}
SIZES: Final = (1000, 10_000, 100_000)
_LIMIT_S: Final = 3000.0
_NOISE: Final = 2.0
"""How much more than n log n a total may grow, and how many times more an event may cost, between two sizes."""
_LEAST: Final = {"MiB": 4.0, "s": 0.2, "ms": 2.0}
"""Smaller figures say nothing about growth."""
_DEPLOYMENTS: Final = Collection.of("apps/v1", "deployments")
_SERVED: Final = [{
    "metadata": {"name": "apps"},
    "versions": [{
        "version": "v1",
        "resources": [{
            "resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced",
            "verbs": ["get", "list", "watch", "patch"],
        }],
    }],
}]  # fmt: skip
"""What the model says by aggregated discovery."""
_WAITING: Final = threading.Event()
_FRESH, _REFUSED, _FITS_NOWHERE = "fresh", "refused", "fits-nowhere"


class Silence(ReadyResponse):
    """A watch without events."""

    def chunks(self) -> Iterator[bytes]:
        _WAITING.wait(_LIMIT_S)
        return iter(())


class ModelAPI:
    """An ``APIClient`` that makes objects while they are listed, and accepts every patch.

    Attributes:
        made_s: the processor time that the objects took.
    """

    def __init__(self, fleet: ScaleFleet, binding: Callable[[int], bytes]) -> None:
        policies = list(fleet.policies())
        self._lists: dict[str, tuple[int, Callable[[int], bytes]]] = {
            KARMADA_CLUSTERS.collection.path: (len(fleet.names), fleet.cluster),
            RESOURCE_BINDINGS.path: (fleet.size, binding),
            KARMADA_POLICIES[0].collection.path: (len(policies), policies.__getitem__),
            _DEPLOYMENTS.path: (fleet.size, fleet.template),
        }
        self.made_s, self._version = 0.0, 10**9

    def send(self, request: APIRequest) -> ReadyResponse:
        begun_s = time.thread_time()
        try:
            return Silence([]) if request.verb == "watch" else ReadyResponse([self._answer(request)])
        finally:
            self.made_s += time.thread_time() - begun_s

    def cut_watches(self) -> None:
        """End all watches."""
        _WAITING.set()

    def _answer(self, request: APIRequest) -> bytes:
        if request.method == "PATCH":
            if f"/{_REFUSED}/" in request.path and not request.path.endswith("/status"):
                raise ApiError(403, "Forbidden", "this namespace gets no assignments")
            self._version += 1
            return encode_json({"metadata": {"resourceVersion": str(self._version), "generation": 2}})
        if request.path in ("/api", "/apis"):
            return encode_json({"items": _SERVED if request.path == "/apis" else []})
        if "limit" not in dict(request.query):
            raise ApiError(404, "NotFound", str(request))
        size, make = self._lists.get(request.path, (0, str.encode))
        first = int(dict(request.query).get("continue", 0))
        last = min(size, first + int(dict(request.query)["limit"]))
        following = {"continue": str(last)} if last < size else {}
        items = b",".join(make(each) for each in range(first, last))
        return b'{"metadata":' + encode_json({"resourceVersion": "1", **following}) + b',"items":[' + items + b"]}"


class Figures:
    """The figures of one part at one size, by their names, which end with the unit."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._base_mib = self.resident_mib()
        self._most_mib = 0.0

    @staticmethod
    def resident_mib(measure: str = "VmRSS") -> float:
        gc.collect()
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{measure}:")) / 1024

    def memory(self, name: str) -> None:
        """Note the memory since the start of the part."""
        self.found[f"{name}, MiB"] = round(self.resident_mib() - self._base_mib, 1)

    def cost(self, name: str, work: Callable[[], object], unit: str = "ms", per: float = 1) -> None:
        """Note the processor time of one piece of work; divided by ``per``."""
        begun_s = processor_s()
        work()
        self.found[f"{name}, {unit}"] = round((processor_s() - begun_s) * {"s": 1, "ms": 1e3}[unit] / per, 3)

    def peak(self) -> None:
        most = max(self.resident_mib("VmHWM"), self._most_mib)
        self.found["the most of the whole process, peak MiB"] = round(most, 1)

    def watch_processes(self) -> None:
        """Look for the most memory, with that of processes that this one starts. Pages that they share count once."""

        def look() -> None:
            while True:
                with suppress(OSError):  # a process has ended meanwhile
                    self._most_mib = max(self._most_mib, tree_mib(os.getpid()))
                time.sleep(1)

        threading.Thread(target=look, daemon=True).start()


class Plane:
    """A binding scheduler without threads of its own, on a model of an API server."""

    def __init__(self, size: int, clusters: int, *, scheduled: bool) -> None:
        # Time stands still: replicas stay assumed, however long the benchmark takes.
        self.fleet, self.figures, self.clock = ScaleFleet(size, clusters), Figures(), FakeClock()

        def binding(number: int) -> bytes:
            return self.fleet.binding(number, self.fleet.assigned(number) if scheduled else {}, reports=scheduled)

        self.api = ModelAPI(self.fleet, binding)
        context = ControllerContext(self.api, self.clock, FakeRecorder())
        self.scheduler = BindingScheduler(context, ControllerSettings())
        self.informers = context.informers
        self.queue = self.scheduler.queue
        collections = KARMADA_CLUSTERS.collection, CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS
        for collection in collections:
            context.informers[collection].mute()
        for collection in collections:
            begun_s, made_s, informer = time.process_time(), self.api.made_s, context.informers[collection]
            informer.start(self.api)
            if not informer.wait(_LIMIT_S):
                raise click.ClickException(f"{collection.plural} were not read")
            taken_s = time.process_time() - begun_s - (self.api.made_s - made_s)
            if len(informer):
                self.figures.found[f"reading {collection.plural}, s"] = round(taken_s, 2)
                self.figures.memory(f"after {collection.plural} are read")

        def unmute(*, standby: bool) -> None:
            for collection in collections:
                context.informers[collection].unmute(standby=standby)

        self.figures.cost("filling the caches of a standby", lambda: unmute(standby=True), "s")
        self.figures.cost("a standby becomes the leader", lambda: unmute(standby=False), "s")
        self.figures.memory("of the leader")

    def put_binding(self, number: int, raw: bytes) -> None:
        self.informers[RESOURCE_BINDINGS].put(self.fleet.key(number), msgspec.Raw(raw))

    def put_cluster(self, number: int, raw: bytes) -> None:
        self.informers[KARMADA_CLUSTERS.collection].put(("", self.fleet.names[number]), msgspec.Raw(raw))

    def assignment(self, number: int) -> dict[str, int]:
        found = self.informers[RESOURCE_BINDINGS].get(self.fleet.key(number))
        return found.assignment if found is not None else {}

    def decide_all(self) -> int:
        """Reconcile until no key is ready. Return the number of reconciles."""
        done = 0
        while self.scheduler.workers.step() is not None:
            done += 1
        return done


class FakeRecorder:
    """Records no events."""

    def record(self, _event: object) -> None:
        """Drop an event."""


def controllers(size: int, clusters: int) -> dict[str, float]:
    """Schedule all bindings, and let all members report."""
    plane = Plane(size, clusters, scheduled=False)
    figures, fleet = plane.figures, plane.fleet
    begun_s, made_s = time.thread_time(), plane.api.made_s
    latest = plane.scheduler._bindings  # noqa: SLF001 - what was written, and not observed yet
    numbers = {fleet.key(number): number for number in range(size)}
    figures.cost("first decision", plane.scheduler.workers.step)
    observed_s = 0.0
    while (key := plane.queue.take(wait=False)) is not None:
        plane.scheduler.workers.reconcile(key)
        plane.queue.done(key)
        written = latest.get(key)
        if written is not None and written.assignment:
            number = numbers[key]
            raw = fleet.binding(number, written.assignment, version=2, stored=written.metadata.resource_version)
            before_s = time.thread_time()
            plane.put_binding(number, raw)
            observed_s += time.thread_time() - before_s
    taken_s = time.thread_time() - begun_s - (plane.api.made_s - made_s)
    figures.found["scheduling everything with its events and this benchmark, s"] = round(taken_s, 2)
    figures.found["observing an assignment, ms"] = round(observed_s * 1e3 / size, 3)
    figures.memory("after everything is scheduled")
    # All clusters have changed, so this looks at all bindings that wait for capacity.
    figures.cost(
        "first housekeeping with everything assumed, and their activation",
        lambda: [plane.scheduler.housekeep() for _ in range(1 + size // ACTIVATED)],
        "s",
    )
    figures.cost("housekeeping with everything assumed", plane.scheduler.housekeep)
    report_s = 0.0
    for number in range(size):
        if assignment := plane.assignment(number):
            raw = fleet.binding(number, assignment, version=2, reports=True)
            before_s = time.thread_time()
            plane.put_binding(number, raw)
            report_s += time.thread_time() - before_s
    figures.found["a report of all members, ms"] = round(report_s * 1e3 / size, 3)
    figures.memory("after all members have reported")
    figures.peak()
    return figures.found


def restart(size: int, clusters: int) -> dict[str, float]:
    """Read what is scheduled, and get events of clusters and bindings."""
    plane = Plane(size, clusters, scheduled=True)
    figures, fleet = plane.figures, plane.fleet
    pinned = fleet.names.index(PINNED_CLUSTER)
    figures.cost("first decision", plane.scheduler.workers.step)
    figures.cost("all decisions", plane.decide_all, "s")
    figures.peak()
    figures.cost("first housekeeping", plane.scheduler.housekeep, "s")
    figures.cost("housekeeping", lambda: [plane.scheduler.housekeep() for _ in range(10)], per=10)
    lost, back = fleet.cluster(pinned, ready=False), fleet.cluster(pinned)
    labelled = fleet.cluster(pinned, labels={"new": "label"})
    figures.cost("60 workloads lose their cluster", lambda: plane.put_cluster(pinned, lost))
    figures.found["60 workloads lose their cluster, keys"] = len(plane.queue)
    figures.cost("deciding for them", plane.decide_all)
    figures.cost("the cluster is ready again", lambda: plane.put_cluster(pinned, back))
    figures.cost("the cluster gets a label", lambda: plane.put_cluster(pinned, labelled), "s")
    plane.decide_all()
    plane.put_cluster(pinned, back)
    plane.decide_all()
    storm = [(each % clusters, fleet.cluster(each % clusters, used=1 + each)) for each in range(1000)]
    figures.cost("1,000 statuses of clusters", lambda: [plane.put_cluster(*each) for each in storm])
    figures.cost("housekeeping after them, for all that wait for capacity", plane.scheduler.housekeep, "s")
    figures.found["housekeeping after them, keys"] = len(plane.queue)
    return figures.found


def extender(size: int, clusters: int) -> dict[str, float]:
    """Read bindings and templates, plan changes and lose clusters."""
    fleet, figures, state, clock = ScaleFleet(size, clusters), Figures(), State(karmada_profile()), SystemClock()
    api = ModelAPI(fleet, lambda number: fleet.binding(number, fleet.assigned(number), reports=True))
    source = WatchSource(lambda: api, KARMADA_CLUSTERS, KARMADA_POLICIES, BindingOptions(templates=True), clock=clock)
    begun_s = time.process_time()
    source.start(state)
    while not state.staleness.synced:
        time.sleep(0.2)
    figures.found["reading everything, s"] = round(time.process_time() - begun_s - api.made_s, 2)
    figures.memory("after everything is read")
    keep_existing_objects()  # as an extender does then
    figures.watch_processes()
    services = Services(state, ServiceMetrics(), logging.getLogger("bench"), clock)
    planner = Planner()
    sizes = Counter(fleet.policy_of)
    few = [policy for policy, shape in enumerate(fleet.shapes) if shape == "few"]
    chosen = min(few, key=lambda policy: abs(sizes[policy] - 100))

    def planned(clusters_named: int) -> None:
        request = convert(PlanRequest, {"update": [json.loads(fleet.policy(chosen, clusters_named))], "limit": 3})
        planner.plan(services, Call("bench", clock.monotonic_s() + _LIMIT_S), request)

    figures.cost("the first plan, which builds the index", lambda: planned(5), "s")
    figures.cost("a plan of a policy with about 100 workloads", lambda: [planned(4 + each) for each in range(5)], per=5)
    figures.memory("after plans")
    call = Call("bench", clock.monotonic_s() + _LIMIT_S)
    index, stored = planner.index_of(state.world(), state.profile), state.world().policies
    references = tuple(each.reference for each in stored)
    everything = ChangeSet(policies=(defaulted(convert(Policy, fleet.everything())),), deleted_policies=references)
    apart = lambda: list(Forked(lambda _: plan(index, everything, datetime.now(UTC)) and None, lambda: None))  # noqa: E731 - used once
    figures.cost("a plan that claims all workloads", apart, "s")
    figures.memory("after a plan of all workloads")
    down = PlanRequest(changes=(Down(PINNED_CLUSTER),))
    figures.cost("the first plan of a lost cluster", lambda: planner.plan(services, call, down), "s")
    figures.cost("a plan of a lost cluster", lambda: planner.plan(services, call, down), "s")
    world, found = state.world(), []
    settle = lambda: found.append(Failures(world, state.profile, datetime.now(UTC)))  # noqa: E731 - used once
    figures.cost("settling the world before failures", settle, "s")
    some = losses(world.clusters, [FailureDomain.CLUSTER])[:50]
    figures.cost("100 failures of clusters", lambda: found[0].impacts(some), "s", per=len(some) / 100)
    figures.memory("after failures")
    figures.peak()
    source.stop()
    return figures.found


_SETTLE_S: Final = 15.0
_SAMPLES: Final = 300
_CLUSTER_PATH: Final = "cluster.karmada.io/clusters"
_BINDING_PATH: Final = "work.karmada.io/resourcebindings"


class _Header(msgspec.Struct):
    revision: str


class _Answer(msgspec.Struct):
    header: _Header


def store(plane: ControlPlane, objects: Iterable[tuple[str, bytes]]) -> str:
    """Write objects straight into etcd, as the API server stores them: the path below ``/registry``, and the JSON.

    Each object has a version of its own: otherwise the API server does not trust its memory, and lists from etcd.
    Returns the version of the last write.
    """
    connection = http.client.HTTPConnection(urlsplit(plane.etcd_url).netloc, timeout=60)
    version = "0"
    for path, raw in objects:
        key, value = (base64.b64encode(each).decode() for each in (f"/registry/{path}".encode(), raw))
        connection.request("POST", "/v3/kv/put", encode_json({"key": key, "value": value}))
        response = connection.getresponse()
        text = response.read()
        if response.status != http.HTTPStatus.OK:
            raise click.ClickException(f"etcd: {text.decode()}")
        version = decode_json(_Answer, text).header.revision
    connection.close()
    return version


def store_fleet(plane: ControlPlane, fleet: ScaleFleet) -> None:
    """Store the namespaces, the clusters and the scheduled bindings of a fleet."""
    kind = {"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}, "status": {"phase": "Active"}}
    names = {fleet.namespace(policy) for policy in range(len(fleet.shapes))} | {_FRESH}
    clusters = ((f"{_CLUSTER_PATH}/{name}", fleet.cluster(each)) for each, name in enumerate(fleet.names))
    made = (fleet.binding(each, fleet.assigned(each), reports=True) for each in range(fleet.size))
    bindings = ((f"{_BINDING_PATH}/{'/'.join(fleet.key(number))}", raw) for number, raw in enumerate(made))
    await_cached(plane, RESOURCE_BINDINGS, "0")
    store(plane, ((f"namespaces/{each}", encode_json({**kind, "metadata": {"name": each}})) for each in names))
    await_cached(plane, KARMADA_CLUSTERS.collection, store(plane, clusters))
    await_cached(plane, RESOURCE_BINDINGS, store(plane, bindings))


def await_cached(plane: ControlPlane, collection: Collection, version: str) -> None:
    """Wait until the API server has the objects of a version in its memory."""
    path = f"{collection.path}?fieldSelector=metadata.name%3Dnone&resourceVersion={version}"
    path += "&resourceVersionMatch=NotOlderThan"
    wait_for(f"the API server to have all {collection.plural}", lambda: plane.text(path), _LIMIT_S)


@cache
def few_clusters(fleet: ScaleFleet) -> list[int]:
    """Return the bindings whose policy names a few clusters."""
    return [number for number, policy in enumerate(fleet.policy_of) if fleet.shapes[policy] == "few"]


def unscheduled(fleet: ScaleFleet, number: int, namespace: str) -> dict[str, Any]:
    """Return a binding of another namespace without an assignment. It fits, unless the namespace says otherwise."""
    few = few_clusters(fleet)
    raw: dict[str, Any] = json.loads(fleet.binding(few[number % len(few)], {}))
    raw["metadata"] |= {"namespace": namespace, "name": f"new-{number}", "uid": f"new-{number}"}
    if namespace == _FITS_NOWHERE:
        raw["spec"]["placement"] = {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "nowhere"}}}}
    return raw


def add_new(client: HTTPClient, fleet: ScaleFleet, number: int) -> None:
    """Create a binding that is not scheduled."""
    raw = unscheduled(fleet, number, _FRESH)
    raw["metadata"] = {name: raw["metadata"][name] for name in ("name", "namespace", "labels", "annotations")}
    ask(client, create(RESOURCE_BINDINGS, _FRESH, raw))


def launched(plane: ControlPlane) -> Serving:
    """Start a process of controllers with the times of the lease that are the default."""
    return start_controllers(
        plane.processes, plane, "default", "--controllers=binding-scheduler", "--log-level=warning",
        "--leader-elect-retry-s=2", wait=False,
    )  # fmt: skip


def start(size: int, clusters: int) -> dict[str, float]:
    """Start a process beside a real API server, and let a standby become the leader."""
    fleet, found = ScaleFleet(size, clusters), dict[str, float]()
    with control_plane(_SETTLE_S) as plane:
        store_fleet(plane, fleet)
        client = load_client(plane.kubeconfig)
        add_new(client, fleet, 0)
        observer = Observer(client, _FRESH)
        server = plane.processes.named("kube-apiserver")
        found["the API server before, MiB of it"] = resident_mib(server)
        begun_s, before_s, leader = time.monotonic(), cpu_s(server), launched(plane)

        def note(name: str, process: Serving) -> None:
            found[f"{name}, s that pass"] = round(time.monotonic() - begun_s, 1)
            found[f"{name}, s"] = round(cpu_s(process.process), 1)
            found[f"{name}, s of the API server"] = round(cpu_s(server) - before_s, 1)
            found[f"{name}, MiB"] = resident_mib(process.process)
            print(*found.items(), sep="\n", file=sys.stderr, flush=True)

        leader.process.wait_for("everything to be read", leader.ready, _LIMIT_S)
        note("everything is read", leader)
        observer.await_assigned(1)
        note("first decision", leader)
        leader.process.wait_for("all decisions", lambda: decisions(leader) >= size, _LIMIT_S)
        note("all decisions", leader)
        found["the most of the whole process, peak MiB"] = resident_mib(leader.process, "VmHWM")
        found["the API server after, MiB of it"] = resident_mib(server)
        standby = launched(plane)
        standby.process.wait_for("everything to be read", standby.ready, _LIMIT_S)
        begun_s, before_s, standby_s = time.monotonic(), cpu_s(server), cpu_s(standby.process)
        leader.process.ask_to_stop()
        standby.process.wait_for("the lease", lambda: standby.leading, _LIMIT_S)
        found["the next leader has the lease, s that pass"] = round(time.monotonic() - begun_s, 1)
        add_new(client, fleet, 1)
        observer.await_assigned(2)
        found["first decision of the next leader, s that pass"] = round(observer.assigned_s[-1] - begun_s, 1)
        found["first decision of the next leader, s"] = round(cpu_s(standby.process) - standby_s, 1)
        observer.stop()
    return found


def decisions(controllers: Serving) -> float:
    """Return how many reconciles a process has ended."""
    return controllers.measure("berthmaster_controllers_reconciles_total")


class Others:
    """Workloads of one namespace that fail, beside new ones of another namespace, on a processor of their own.

    Each piece of work moves the clock by the processor time that it takes, so other processes do not matter.
    """

    def __init__(self, clusters: int) -> None:
        self.plane = Plane(1000, clusters, scheduled=True)
        self._draw, self._made, self._tick_s, self.done = random.Random(7), 0, 0.0, 0
        self.plane.decide_all()
        keep_existing_objects()

    def put(self, namespace: str) -> tuple[str, str]:
        """Add a workload, and return its key. It fits, unless the namespace says otherwise."""
        self._made += 1
        raw = unscheduled(self.plane.fleet, self._made, namespace)
        key, text = (namespace, raw["metadata"]["name"]), msgspec.Raw(encode_json(raw))
        self._timed(lambda: self.plane.informers[RESOURCE_BINDINGS].put(key, text))
        return key

    def new_workloads(self, figures: Figures, name: str) -> None:
        """Time new workloads: ten each second, from the event to the written assignment."""
        clock, written, taken_ms, before = self.plane.clock, self.plane.scheduler._bindings, [], self.done  # noqa: SLF001
        began_s = arrives_s = clock.monotonic_s()
        for _ in range(_SAMPLES):
            arrives_s += self._draw.uniform(0, 0.2)
            while clock.monotonic_s() < arrives_s:
                self.step(until_s=arrives_s)
            key = self.put(_FRESH)
            while not ((found := written.get(key)) and found.assignment):
                self.step(until_s=math.inf)
            taken_ms.append((clock.monotonic_s() - arrives_s) * 1e3)
        figures.found[f"{name}: p50, ms"] = round(statistics.median(taken_ms), 2)
        figures.found[f"{name}: p99, ms"] = round(statistics.quantiles(taken_ms, n=100)[98], 2)
        rate = (self.done - before) / (clock.monotonic_s() - began_s)
        figures.found[f"{name}: reconciles a second"] = round(rate)

    def step(self, until_s: float) -> None:
        """Reconcile the next key. If none is ready, wait for the next one, the next second or the given time."""
        clock, scheduler = self.plane.clock, self.plane.scheduler
        if clock.monotonic_s() >= self._tick_s:
            self._tick_s = clock.monotonic_s() + 1
            number = self._made % len(self.plane.fleet.names)
            self._timed(
                lambda: self.plane.put_cluster(number, self.plane.fleet.cluster(number, used=-int(self._tick_s % 900)))
            )
            self._timed(scheduler.housekeep)
        if (result := self._timed(scheduler.workers.step)) is None:
            due_s = scheduler.queue.next_due_s()
            next_s = min(until_s, self._tick_s, math.inf if due_s is None else clock.monotonic_s() + due_s)
            clock.pass_by(max(1e-4, next_s - clock.monotonic_s()))
        else:
            self.done += result is not None

    def _timed(self, work: Callable[[], object]) -> object:
        begun_s = time.thread_time()
        result = work()
        self.plane.clock.pass_by(time.thread_time() - begun_s)
        return result


def fairness(size: int, clusters: int) -> dict[str, float]:
    """Time new workloads of one namespace beside many of another one that fail."""
    logging.disable()
    others = Others(clusters)
    figures = others.plane.figures
    figures.found.clear()
    others.new_workloads(figures, "nothing else")
    for namespace, name in ((_FITS_NOWHERE, "fit nowhere"), (_REFUSED, "are refused")):
        for _ in range(size):
            others.put(namespace)
        others.new_workloads(figures, f"others {name}, at first")
        last = others.done + size
        while others.plane.queue.lengths()["active"] and others.done < last:
            others.step(until_s=math.inf)
        others.new_workloads(figures, f"others {name}, later")
    figures.peak()
    return figures.found


_PARTS: Final[dict[str, Callable[[int, int], dict[str, float]]]] = {
    "controllers": controllers, "restart": restart, "extender": extender, "start": start, "fairness": fairness,
}  # fmt: skip


def growing(name: str, values: list[float], sizes: list[int]) -> list[str]:
    """Return what grows too fast. Times and memory of everything may grow as n log n, others not at all."""
    unit = name.rpartition(" ")[2]
    if unit not in _LEAST or "peak" in name:
        return []
    found = []
    for (before, after), (small, large) in zip(pairwise(values), pairwise(sizes), strict=True):
        allowed = 1.0 if unit == "ms" else large * math.log(large) / (small * math.log(small))
        if after > max(before, _LEAST[unit]) * allowed * _NOISE:
            found.append(f"{name}: {before:g} with {small} bindings, {after:g} with {large}")
    return found


@click.command()
@click.option("--size", "sizes", multiple=True, type=int, default=SIZES, help="The numbers of bindings.")
@click.option("--clusters", default=5000, show_default=True, help="The number of clusters.")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(_PARTS)), default=list(_PARTS)[:3])
@click.option("--one", is_flag=True, hidden=True, help="Measure one part at one size, and print JSON.")
def main(sizes: tuple[int, ...], clusters: int, parts: tuple[str, ...], one: bool) -> None:  # noqa: FBT001 - a flag
    """Measure how memory and cost grow."""
    if one:
        print(json.dumps(_PARTS[parts[0]](sizes[0], clusters)))
        return
    problems = []
    for part in parts:
        columns = []
        for size in sizes:
            asked = [f"--part={part}", f"--size={size}", f"--clusters={clusters}", "--one"]
            run = subprocess.run([sys.executable, __file__, *asked], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
            columns.append(decode_json(dict[str, float], run.stdout.splitlines()[-1]))
        print(f"{part}, {clusters} clusters" + "".join(f"{size:>12,}" for size in sizes), flush=True)
        for name in columns[0]:
            values = [each[name] for each in columns]
            print(f"{name:<60}" + "".join(f"{each:>12g}" for each in values), flush=True)
            problems += growing(f"{part}: {name}", values, list(sizes))
        if (most := columns[-1].get("the most of the whole process, peak MiB", 0.0)) > LIMIT_MIB[part]:
            problems.append(f"{part}: {most:g} MiB are more than {LIMIT_MIB[part]}")
    if problems:
        raise click.ClickException("\n".join(problems))


if __name__ == "__main__":
    main()
