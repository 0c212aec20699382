"""Time plans of an extender that watches a control plane: ``make bench-impact``.

A control plane in memory holds 10,000 Deployments with their bindings on 1,000 clusters, in the shapes that Karmada
gives them. Each policy holds the 100 Deployments of a namespace. A plan asks what an edit of one policy moves, as the
webhook does for each review: of a control plane that rests, and after a change of another policy. The figures are times
of the thread that plans, so that they depend little on other processes of the machine.
"""

import logging
import statistics
import time
from typing import Any, Final

import click
from controllers_memory import dressed
from karmada_plane import DIVIDED, PP_ID, policy, selector, serve_karmada
from kube_in_memory import KubeInMemory
from live import objects
from timing import processor_s

from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES
from berthmaster.model.decode import convert, decode_json
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.metrics import ServiceMetrics
from extender.protocols.native.plan import Planner
from extender.protocols.services import Call, Services
from extender.state.state import State
from extender.state.watch import WatchSource
from extender.state.workloads import BindingOptions

LIMIT_MS: Final = 150
"""The webhook waits 300 ms. The extender shares its processor with other requests."""
_LIMIT_S: Final = 600.0
_PER_NAMESPACE: Final = 100


class Plane:
    """An extender without HTTP that watches a control plane in memory."""

    def __init__(self, workloads: int, clusters: int) -> None:
        self.api, clock, self.state = KubeInMemory(), SystemClock(), State(karmada_profile())
        serve_karmada(self.api)
        for each in (raw for group in objects(workloads, clusters) for raw in group):
            if each["kind"] != "Namespace":
                self.store(dressed(each) if each["kind"] == "Cluster" else identified(each))
        self._services = Services(self.state, ServiceMetrics(), logging.getLogger("bench"), clock)
        self._planner, self._clock = Planner(), clock
        self.source = WatchSource(
            lambda: self.api, KARMADA_CLUSTERS, KARMADA_POLICIES, BindingOptions(templates=True), clock=clock
        )
        self.source.start(self.state)
        while not self.state.staleness.synced:
            time.sleep(0.05)

    def store(self, manifest: dict[str, Any]) -> None:
        """Store an object."""
        self.api.put(self.api.served.path(manifest), manifest)

    def planned(self, changed: dict[str, Any]) -> tuple[float, PlanAnswer]:
        """Plan an update of a policy. Return the milliseconds of the processor, and the answer."""
        request = convert(PlanRequest, {"update": [changed], "limit": 3})
        call = Call("bench", self._clock.monotonic_s() + _LIMIT_S)
        begun_s = processor_s()
        answer = self._planner.plan(self._services, call, request)
        return (processor_s() - begun_s) * 1000, decode_json(PlanAnswer, answer)


def identified(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object whose policy has a permanent id of its own, as in a control plane. The builders use its name."""
    labels = manifest["metadata"].get("labels", {})
    if PP_ID in labels:
        labels[PP_ID] = f"{manifest['metadata']['namespace']}-id"
    return manifest


def edited(team: int, members: range) -> dict[str, Any]:
    """Return the policy of a namespace, which now places what it holds on some clusters only."""
    placement = {**DIVIDED, "clusterAffinity": {"clusterNames": [f"member{number}" for number in members]}}
    return identified(policy("everything", selector(), namespace=f"team{team}", placement=placement))


def report(what: str, taken_ms: list[float]) -> float:
    """Print the times of plans, and return the 99th percentile."""
    slowest_ms = statistics.quantiles(taken_ms, n=100)[98]
    print(f"{statistics.median(taken_ms):6.0f} ms in the median, {slowest_ms:6.0f} ms at the 99th: {what}", flush=True)
    return slowest_ms


def measured(plane: Plane, workloads: int, clusters: int, plans: int) -> float:
    """Time plans. Return the worst 99th percentile."""
    teams = max(1, workloads // _PER_NAMESPACE)
    first_ms, answer = plane.planned(edited(0, range(clusters // 2)))
    print(f"{first_ms:6.0f} ms for the first plan, which builds the index", flush=True)
    resting, changing = [], []
    for number in range(plans):
        taken_ms, answer = plane.planned(edited(number % teams, range(clusters // 2, clusters)))
        resting.append(taken_ms)
        if answer.counts.concerned != min(workloads, _PER_NAMESPACE):
            raise click.ClickException(f"another number of workloads is concerned: {answer.counts}")
    for number in range(plans):
        before = plane.state.world().policies
        plane.store(edited((number + 1) % teams, range(number % 5, clusters)))
        while plane.state.world().policies is before:
            time.sleep(0.01)
        changing.append(plane.planned(edited(number % teams, range(clusters // 2, clusters)))[0])
    return max(
        report(f"an edit of one policy, {answer.counts.moved} of {workloads} workloads move", resting),
        report("the same, after a change of another policy", changing),
    )


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads and bindings.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
@click.option("--plans", default=100, show_default=True, help="The number of plans of each kind.")
def main(workloads: int, clusters: int, plans: int) -> None:
    """Time plans of an extender that watches a control plane."""
    plane = Plane(workloads, clusters)
    try:
        slowest_ms = measured(plane, workloads, clusters, plans)
    finally:
        plane.api.cut_watches()
        plane.source.stop()
    if slowest_ms > LIMIT_MS:
        raise click.ClickException(f"more than {LIMIT_MS} ms")


if __name__ == "__main__":
    main()
