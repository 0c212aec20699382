"""Measure the memory of the binding scheduler: ``make bench-controllers-memory``.

Bindings of all strategies over a generated fleet. Each object is as large as Karmada's controllers make it: clusters
serve two hundred kinds, bindings have the annotations of a policy and the reports of all members. The process is
measured after it has synced, after it has scheduled everything, after all members have reported, and after a restart.
At the end this process reads everything again, and reports the size of each field.
"""

import concurrent.futures
import sys
from collections import Counter
from typing import Any, Final

import click
import msgspec
from controllers import BINDINGS, WRITERS, Observer, control_plane, make, resident_mib
from e2e import karmada
from e2e.control_plane import ControlPlane
from e2e.processes import Process, wait_for
from e2e.serving import Serving, start_controllers, wait_for_leader

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.client import ask
from berthmaster.kube.events import EventRecorder
from berthmaster.kube.http_client import HTTPClient, load_client
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.requests import merge_patch
from berthmaster.runtime.clock import SystemClock

LIMIT_MIB: Final = 500
_LIMIT_S: Final = 300.0
_MIB: Final = 2**20
_GROUPS: Final = 40
_KINDS: Final = 5
_ANNOTATIONS: Final = {
    "policy.karmada.io/generation": "1",
    "propagationpolicy.karmada.io/name": "web-everywhere",
    "propagationpolicy.karmada.io/namespace": "bench",
}


def dressed(raw: dict[str, Any]) -> dict[str, Any]:
    """Add the fields that Karmada's own controllers write."""
    if raw["kind"] == "Cluster":
        served = [
            {
                "groupVersion": f"group{group}.example.org/v1",
                "resources": [
                    {"kind": f"Kind{group}x{kind}", "name": f"kind{group}x{kind}s"} for kind in range(_KINDS)
                ],
            }
            for group in range(_GROUPS)
        ]
        raw["status"] = {**raw["status"], "apiEnablements": [*raw["status"]["apiEnablements"], *served]}
    else:
        raw["metadata"] |= {"annotations": _ANNOTATIONS, "finalizers": ["karmada.io/binding-controller"]}
    return raw


def reported(clusters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the members' reports of a Deployment."""
    return [
        {
            "clusterName": each["name"],
            "applied": True,
            "health": "Healthy",
            "status": {
                "availableReplicas": each.get("replicas", 0),
                "generation": 1,
                "observedGeneration": 1,
                "readyReplicas": each.get("replicas", 0),
                "replicas": each.get("replicas", 0),
                "resourceTemplateGeneration": 1,
                "updatedReplicas": each.get("replicas", 0),
            },
        }
        for each in clusters
    ]


def report_all(plane: ControlPlane, client: HTTPClient, namespace: str) -> None:
    """Write the report of every member for every workload."""

    def one(found: dict[str, Any]) -> None:
        status = {"aggregatedStatus": reported(found["spec"].get("clusters", []))}
        name = found["metadata"]["name"]
        ask(client, merge_patch(BINDINGS, (namespace, name), {"status": status}, "status"))

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(one, plane.api.list(karmada.BINDINGS, "ResourceBinding", namespace)))


def weigh(value: object, seen: set[int]) -> int:
    """Return the bytes of a value and of everything it refers to, without objects in ``seen``."""
    if id(value) in seen or value is None or isinstance(value, bool | type):
        return 0
    seen.add(id(value))
    return sys.getsizeof(value) + sum(weigh(each, seen) for each in _parts(value))


def _parts(value: object) -> list[Any]:
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, list | tuple | set | frozenset) else []


def by_field(values: list[Any]) -> Counter[str]:
    """Return the bytes of objects by ``part.field``; shared values count for the first object."""
    seen: set[int] = set()
    counted: Counter[str] = Counter()
    for value in values:
        for part in ("metadata", "spec", "status"):
            inner = getattr(value, part)
            for name in inner.__struct_fields__:
                counted[f"{part}.{name}"] += weigh(getattr(inner, name), seen)
        counted["the objects themselves"] += weigh(value, seen)
    return counted


def show_fields(plane: ControlPlane) -> None:
    """Read everything as the scheduler does, and print the sizes of the fields."""
    client, clock = load_client(plane.kubeconfig), SystemClock()
    context = ControllerContext(client, clock, EventRecorder(client, clock, "bench", "bench", lambda _: None))
    clusters, bindings = context.informer(*KARMADA_CLUSTERS), BindingCache(context)
    for informer in context.informers.values():
        informer.start(client)
        informer.wait(_LIMIT_S)
    for what, values in (("bindings", bindings.items()), ("clusters", clusters.items())):
        counted = by_field([value for _, value in values])
        print(f"{counted.total() / _MIB:8.1f} MiB in all decoded {what}, of which")
        for name, size in counted.most_common(6):
            print(f"{size / _MIB:12.1f} MiB {name}")
    for informer in context.informers.values():
        informer.stop()


def started(plane: ControlPlane, namespace: str, scheduler_name: str) -> Serving:
    """Start a process for a scheduler name, and wait until it has synced and leads."""
    controllers = start_controllers(
        plane.processes, plane, namespace, "--controllers=binding-scheduler", f"--scheduler-name={scheduler_name}",
        "--kube-api-qps=0", "--log-level=warning", f"--leader-elect-name={scheduler_name}",
    )  # fmt: skip
    wait_for_leader([controllers], _LIMIT_S)
    return controllers


@click.command()
@click.option("--bindings", default=10_000, show_default=True, help="The number of bindings.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters: 3, 10, 100, 1000 or 5000.")
@click.option("--settle-s", default=15.0, show_default=True, help="How long to wait after the start of the API server.")
def main(bindings: int, clusters: int, settle_s: float) -> None:
    """Measure the memory of the binding scheduler."""
    with control_plane(settle_s) as plane:
        client = load_client(plane.kubeconfig)
        nothing = started(plane, "default", "nothing-to-do").process
        show(nothing, "with nothing to do")
        nothing.stop()
        namespace = make(client, bindings, clusters, dressed)
        idle = started(plane, namespace, "another-scheduler").process
        show(idle, "with everything listed, nothing to be scheduled")
        idle.stop()
        controllers = started(plane, namespace, karmada.SCHEDULER)
        Observer(client).await_complete(bindings)
        show(controllers.process, "with everything scheduled")
        report_all(plane, client, namespace)
        wait_for("all reports to be observed", lambda: quiet(controllers), _LIMIT_S)
        show(controllers.process, "with all members having reported")
        most_mib = resident_mib(controllers.process, "VmHWM")
        print(f"{most_mib:6d} MiB at most", flush=True)
        controllers.process.stop()
        controllers = started(plane, namespace, karmada.SCHEDULER)
        show(controllers.process, "after a restart")
        restarted_mib = resident_mib(controllers.process, "VmHWM")
        print(f"{restarted_mib:6d} MiB at most during the restart")
        most_mib = max(most_mib, restarted_mib)
        show_fields(plane)
        if most_mib > LIMIT_MIB:
            raise click.ClickException(f"more than {LIMIT_MIB} MiB")


def show(process: Process, what: str) -> None:
    """Print the memory of a process."""
    print(f"{resident_mib(process):6d} MiB {what}", flush=True)


def quiet(controllers: Serving) -> bool:
    """Whether no replicas are assumed any more: each cluster has reported its replicas."""
    return not controllers.measure("berthmaster_scheduler_assumed_assignments")


if __name__ == "__main__":
    main()
