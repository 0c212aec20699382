"""Measure the drift of a fleet after random events, and what a full and a minimal repair move.

A generated fleet is scheduled once. Then clusters join, leave, and change usage, labels and taints, and workloads are
scaled. Both repairs then decide every workload, one after the other, and see the replicas that they added before.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace
from workloads import generated_fleet

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus, ObjectReference, TargetCluster
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.decode import convert
from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.placement import Placement
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.model.taint import Taint
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.minimal import decide_minimal
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.drift import summary, workload_drifts
from berthmaster.simulation.shared_capacity import SharedCapacity
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World

EVENTS: Final = 200
_DYNAMIC: Final = {
    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}  # fmt: skip
_EQUAL: Final = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
_AGGREGATED: Final = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
_DUPLICATED: Final = {"replicaSchedulingType": "Duplicated"}
_BY_CLUSTER: Final = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 5}]
_BY_REGION: Final = [{"spreadByField": "region", "minGroups": 2, "maxGroups": 3}, _BY_CLUSTER[0]]
_SHAPES: Final[tuple[Mapping[str, object], ...]] = (
    {"replicaScheduling": _AGGREGATED},
    {"replicaScheduling": _AGGREGATED, "spreadConstraints": _BY_CLUSTER},
    {"replicaScheduling": _AGGREGATED, "spreadConstraints": _BY_REGION},
    {"replicaScheduling": _DYNAMIC, "spreadConstraints": _BY_CLUSTER},
    {"replicaScheduling": _DYNAMIC, "spreadConstraints": _BY_REGION},
    {"replicaScheduling": _DUPLICATED, "spreadConstraints": _BY_REGION},
    {"replicaScheduling": _DYNAMIC, "clusterAffinity": {"labelSelector": {"matchLabels": {"env": "stage"}}}},
    {"replicaScheduling": _EQUAL, "clusterAffinity": {"fieldSelector": {"matchExpressions": [
        {"key": "region", "operator": "In", "values": ["region-1"]}]}}},
    {"replicaScheduling": _AGGREGATED, "clusterAffinities": [
        {"affinityName": "first", "labelSelector": {"matchLabels": {"tier": "1", "env": "prod"}}},
        {"affinityName": "second", "labelSelector": {"matchLabels": {"tier": "2"}}}]},
)  # fmt: skip
_CPUS: Final = ("250m", "500m", "1", "2")
Decided = tuple[Mapping[str, int], str | None] | None
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def bindings(count: int, draw: random.Random) -> list[Binding]:
    """Return bindings that were never scheduled."""
    placements = [convert(Placement, shape) for shape in _SHAPES]
    return [
        Binding(
            BindingSpec(
                ObjectReference("apps/v1", "Deployment", f"service-{number}", "default", uid=f"uid-{number}"),
                replicas=draw.choice((1, 2, 3, 5, 8, 12, 20, 40)),
                replica_requirements=ReplicaRequirements({"cpu": Quantity.parse(draw.choice(_CPUS))}),
                placement=placements[number % len(placements)],
            ),
            ObjectMeta(name=f"service-{number}-deployment", namespace="default"),
        )
        for number in range(count)
    ]


def placed(binding: Binding, assignment: Mapping[str, int], group: str | None) -> Binding:
    """Return a binding with an assignment."""
    targets = tuple(TargetCluster(name, replicas) for name, replicas in assignment.items())
    status = BindingStatus(scheduler_observing_affinity_name=group or "", last_scheduled_time=_NOW)
    spec = replace(binding.spec, clusters=targets)
    return replace(binding, spec=spec, status=status)


def cpu_of(binding: Binding) -> int:
    """Return what a replica requests, in thousandths of a core."""
    needs = binding.spec.replica_requirements
    return 0 if needs is None else needs.resource_request["cpu"].milli_value()


def with_usage(cluster: Cluster, cpu: int, pods: int) -> Cluster:
    """Return a cluster whose pods request so much more."""
    summary = cluster.status.resource_summary or ResourceSummary()
    now = {name: summary.allocated.get(name, Quantity.parse("0")) for name in ("cpu", "pods")}
    more = {"cpu": Quantity.parse(f"{max(0, now['cpu'].milli_value() + cpu)}m")}
    more["pods"] = Quantity.parse(str(max(0, int(now["pods"].value()) + pods)))
    summary = replace(summary, allocated={**summary.allocated, **more})
    return replace(cluster, status=replace(cluster.status, resource_summary=summary))


def decide_all(
    clusters: Mapping[str, Cluster], found: list[Binding], decide: Callable[[Scheduler, Request], Decided]
) -> list[Binding]:
    """Return the bindings after a decision on each. Every decision sees the replicas that the ones before it add."""
    scheduler = Scheduler(Fleet(clusters.values()), karmada_profile())
    shared, after = SharedCapacity(scheduler.fleet, everywhere=True), []
    for binding in found:
        request = Request.of(binding)
        decided = decide(scheduler, request)
        if decided is not None:
            shared.take(request, decided[0])
            binding = placed(binding, *decided)  # noqa: PLW2901
        after.append(binding)
    return after


def afresh(scheduler: Scheduler, request: Request) -> Decided:
    """Decide as a full repair does."""
    decision = scheduler.schedule(replace(request, fresh=True))
    return None if decision.failure is not None else (decision.assignment, decision.group)


def minimal(scheduler: Scheduler, request: Request) -> Decided:
    """Decide as a minimal repair does."""
    found = decide_minimal(scheduler, request)
    return (found.assignment, found.fresh.group) if found.fresh.failure is None else None


def scaled(scheduler: Scheduler, request: Request) -> Decided:
    """Decide as the scheduler does on a workload that was scaled. None for any other."""
    divided = strategy_of(request.placement.replica_scheduling) is not Strategy.DUPLICATED
    if not divided or sum(request.current.values()) == request.replicas:
        return None
    decision = scheduler.schedule(request)
    return None if decision.failure is not None else (decision.assignment, decision.group)


def observed(clusters: Mapping[str, Cluster], found: list[Binding]) -> dict[str, Cluster]:
    """Return the clusters with what the assigned replicas request."""
    cpu, pods = Counter[str](), Counter[str]()
    for binding in found:
        for name, replicas in binding.assignment.items():
            cpu[name] += cpu_of(binding) * replicas
            pods[name] += replicas
    return {name: with_usage(cluster, cpu[name], pods[name]) for name, cluster in clusters.items()}


def disturb(
    clusters: dict[str, Cluster], found: list[Binding], spare: list[Cluster], draw: random.Random
) -> Counter[str]:
    """Let random events happen, and return how many of each kind did."""
    happened: Counter[str] = Counter()
    for _ in range(EVENTS):
        name = draw.choice(sorted(clusters))
        cluster = clusters[name]
        event = draw.choice(("join", "leave", "taint", "label", "use", "scale", "scale"))
        happened[event] += 1
        match event:
            case "join":
                joined = spare.pop()
                clusters[joined.name] = joined
            case "leave":
                del clusters[name]
            case "taint":
                spec = replace(cluster.spec, taints=(Taint(key="gone", effect="NoExecute"),))
                clusters[name] = replace(cluster, spec=spec)
            case "label":
                labels = {**cluster.metadata.labels, "env": draw.choice(("prod", "stage", "dev"))}
                metadata = replace(cluster.metadata, labels=labels)
                clusters[name] = replace(cluster, metadata=metadata)
            case "use":
                clusters[name] = with_usage(cluster, draw.randint(-8000, 8000), 0)
            case _:
                index = draw.randrange(len(found))
                spec = replace(found[index].spec, replicas=draw.choice((1, 4, 16, 48)))
                found[index] = replace(found[index], spec=spec)
    return happened


def moved(before: Sequence[Binding], after: Sequence[Binding]) -> tuple[int, int]:
    """Return how many workloads move, and how many replicas start."""
    workloads = replicas = 0
    for old, new in zip(before, after, strict=True):
        was, now = old.assignment, new.assignment
        workloads += was != now
        replicas += sum(max(0, count - was.get(name, 0)) for name, count in now.items())
    return workloads, replicas


def violations(clusters: Mapping[str, Cluster], before: Sequence[Binding], after: Sequence[Binding]) -> Counter[str]:
    """Return how often a repaired assignment violates its policy or a capacity. Reads no result of a decision."""
    scheduler = Scheduler(Fleet(clusters.values()), karmada_profile())
    found, added = Counter[str](), Counter[str]()
    for old, new in zip(before, after, strict=True):
        was, now = old.assignment, new.assignment
        if was == now:
            continue
        request = Request.of(old)
        strategy = strategy_of(request.placement.replica_scheduling)
        if strategy in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}:  # the others ignore capacity, as in Karmada
            added.update({name: cpu_of(new) * max(0, count - was.get(name, 0)) for name, count in now.items()})
        compiled = scheduler.compile(request.placement)
        group = compiled.groups[compiled.group_index(new.status.scheduler_observing_affinity_name)]
        found["on a cluster that does not fit"] += not now.keys() <= set(
            scheduler.fleet.names(scheduler.fitting(request, group))
        )
        found["replicas"] += strategy is not Strategy.DUPLICATED and sum(now.values()) != request.replicas
        regions = {clusters[name].spec.region for name in now if name in clusters}
        for each in request.placement.spread_constraints:
            count = len(regions) if each.spread_by_field == "region" else len(now)
            found[f"too many {each.spread_by_field}s"] += count > each.max_groups
    for name, cpu in (+added).items():
        summary = clusters[name].status.resource_summary or ResourceSummary()
        free = summary.allocatable["cpu"].milli_value() - summary.allocated["cpu"].milli_value()
        found["overcommitted clusters"] += cpu > max(0, free)
    return +found


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    made = list(generated_fleet(arguments.seed, arguments.clusters + EVENTS).clusters)
    draw.shuffle(made)
    spare, first = made[:EVENTS], made[EVENTS:]
    clusters = {each.name: each for each in first}
    found = decide_all(clusters, bindings(arguments.workloads, draw), afresh)
    clusters = observed(clusters, found)
    happened = disturb(clusters, found, spare, draw)
    found = decide_all(clusters, found, scaled)
    print(f"events: {', '.join(f'{count} {name}' for name, count in sorted(happened.items()))}")
    resources = [each.spec.resource for each in found]
    workloads = [
        SimulatedWorkload(each, (), binding, present=True) for each, binding in zip(resources, found, strict=True)
    ]
    start, start_cpu = time.perf_counter(), time.process_time()
    report = summary(workload_drifts(World(clusters, workloads), karmada_profile(), _NOW))
    took, took_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    total = report.total
    print(f"drift before: {total.drifted} of {total.workloads} workloads, {report.unplaced} unplaced; {report.kinds}")
    print(f"judged alone: minimal {total.moves} replicas, full {total.full_moves}; heuristic for {report.heuristic}")
    print(f"time of the whole fleet: {took:.1f} s ({took_cpu:.1f} s of processor time)")
    scheduler, times = Scheduler(Fleet(clusters.values()), karmada_profile()), []
    for binding in found[:1000]:
        request, start = Request.of(binding), time.process_time()
        decide_minimal(scheduler, request)
        times.append((time.process_time() - start) * 1e3)
    times.sort()
    print(
        f"one workload, processor time: median {times[500]:.2f} ms, 99 % {times[990]:.2f} ms, worst {times[-1]:.2f} ms"
    )
    for name, decide in (("full", afresh), ("minimal", minimal)):
        after = decide_all(clusters, found, decide)
        moving, starting = moved(found, after)
        wrong = violations(clusters, found, after)
        print(f"{name} repair: {moving} workloads move, {starting} replicas start; violations: {dict(wrong) or 0}")


if __name__ == "__main__":
    main()
