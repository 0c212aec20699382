"""Plans: what changes would move in total, and what they do to each cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.component_sets import demand_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import PODS, amount_of, free_amount
from berthmaster.simulation.run import WorkloadResult, moves

RESOURCES = ("cpu", "memory")


class PlanSummary(msgspec.Struct, frozen=True, rename="camel"):
    """What changes would move in total.

    Attributes:
        workloads: the number of workloads.
        moved: how many of them move.
        replicas: the replicas that move: of each workload those that arrive or those that leave, whichever are more.
        nowhere: the workloads that have no cluster afterwards and cannot be scheduled.
        short: the workloads that keep their clusters, but cannot be scheduled with all replicas.
        new_failures: those of the last two that can be scheduled without the changes.
        due: how many of the workloads that move would move in the same way without the changes.
    """

    workloads: int
    moved: int
    replicas: int
    nowhere: list[str]
    short: list[str]
    new_failures: list[str]
    due: int = 0


class ResourceTotal(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of a cluster, in millicores of CPU or bytes of memory.

    Attributes:
        requested: what the replicas request that the cluster does not run now; of all replicas if that is not known.
        available: what is free by the status of the cluster, negative if it is overcommitted already; None if unknown.
    """

    requested: int
    available: int | None

    @property
    def overcommitted(self) -> bool:
        """Whether more is requested than is available."""
        return self.requested > 0 and self.available is not None and self.requested > self.available


class ClusterTotal(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster before and after changes.

    Attributes:
        cluster: the name.
        before, after: the replicas of all workloads.
        arriving: the replicas that the cluster does not run now; None if it is not known what clusters run.
        resources: ``cpu`` and ``memory``.
        overcommitted: the resources of which more is requested than is available.
    """

    cluster: str
    before: int
    after: int
    arriving: int | None
    resources: dict[str, ResourceTotal]
    overcommitted: list[str]


def plan_of(
    before: Sequence[WorkloadResult], settled: Sequence[WorkloadResult], after: Sequence[WorkloadResult]
) -> PlanSummary:
    """Return what changes would move in total.

    Args:
        before: the results before the changes.
        settled: the results without the changes.
        after: the results after the changes, all in the same order.
    """
    found = [moves(*pair) for pair in zip(before, after, strict=True)]
    failed = [result for result in after if result.failure is not None]
    return PlanSummary(
        workloads=len(after),
        moved=sum(bool(each) for each in found),
        replicas=sum(map(moved_replicas, found)),
        nowhere=[str(result.workload) for result in failed if not result.assignment],
        short=[str(result.workload) for result in failed if result.assignment],
        new_failures=[
            str(result.workload)
            for result, without in zip(after, settled, strict=True)
            if result.failure is not None and without.failure is None
        ],
        due=sum(
            bool(each) and not moves(without, now) for each, without, now in zip(found, settled, after, strict=True)
        ),
    )


def moved_replicas(found: Mapping[str, tuple[int | None, int | None]]) -> int:
    """Return the replicas that move: those that arrive or those that leave, whichever are more."""
    differences = [(now or 0) - (then or 0) for then, now in found.values()]
    return max(sum(each for each in differences if each > 0), -sum(each for each in differences if each < 0))


def cluster_totals(
    clusters: Iterable[Cluster],
    before: Sequence[WorkloadResult],
    after: Sequence[WorkloadResult],
    *,
    observed: bool = True,
) -> list[ClusterTotal]:
    """Return each cluster before and after changes, ordered by name.

    Args:
        clusters: the clusters, with the status that they report.
        before: the results before the changes. Replicas of bindings that exist are part of the status.
        after: the results after the changes, in the same order.
        observed: whether it is known what clusters run, see ``world.is_observed``.
    """
    totals = {each.name: _Total(each) for each in clusters}
    for then, now in zip(before, after, strict=True):
        unit = _unit_of(now.workload.binding)
        was = unit.occupied(then.assignment)
        running = was if then.workload.present else {}
        for name, count in was.items():
            if name in totals:
                totals[name].before += count * unit.pods
        for name, count in unit.occupied(now.assignment).items():
            if name in totals:
                totals[name].add(count, max(0, count - running.get(name, 0)), unit)
    return [totals[name].result(observed=observed) for name in sorted(totals)]


class _Unit(NamedTuple):
    """What an assignment counts: a replica, or one set of the pods of several templates.

    Attributes:
        request: what it requests.
        pods: its pods.
        whole_sets: whether each assigned cluster has one set, whatever replicas the assignment names.
    """

    request: Mapping[str, int]
    pods: int = 1
    whole_sets: bool = False

    def occupied(self, assignment: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many of it an assignment has, by cluster."""
        return dict.fromkeys(assignment, 1) if self.whole_sets else assignment


class _Total:
    """The sums of one cluster."""

    __slots__ = ("_arriving", "_cluster", "_requested", "after", "before")

    def __init__(self, cluster: Cluster) -> None:
        self.before = self.after = self._arriving = 0
        self._cluster = cluster
        self._requested = dict.fromkeys(RESOURCES, 0)

    def add(self, count: int, arriving: int, unit: _Unit) -> None:
        self.after += count * unit.pods
        self._arriving += arriving * unit.pods
        if arriving:
            for name, amount in unit.request.items():
                self._requested[name] += amount * arriving

    def result(self, *, observed: bool) -> ClusterTotal:
        summary = self._cluster.status.resource_summary
        resources = {
            name: ResourceTotal(requested, free_amount(summary, name) if summary is not None else None)
            for name, requested in self._requested.items()
        }
        over = [name for name, each in resources.items() if each.overcommitted]
        arriving = self._arriving if observed else None
        return ClusterTotal(self._cluster.name, self.before, self.after, arriving, resources, over)


def _unit_of(binding: Binding | None) -> _Unit:
    if binding is None:
        return _Unit({})
    if binding.spec.components:
        request = Request.of(binding)
        if request.set_templates:
            demand = dict(demand_of(request.set_templates))
            of_set = {name: amount for name, amount in demand.items() if name in RESOURCES}
            return _Unit(of_set, demand.get(PODS, 0), whole_sets=True)
    requirements = binding.spec.replica_requirements
    amounts = requirements.resource_request if requirements is not None else {}
    return _Unit({name: amount_of(name, each) for name, each in amounts.items() if name in RESOURCES})
