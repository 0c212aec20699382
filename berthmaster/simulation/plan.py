"""Plans: what changes would move in total, and what they do to each cluster."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.resources import amount_of, free_amount
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
    """

    workloads: int
    moved: int
    replicas: int
    nowhere: list[str]
    short: list[str]
    new_failures: list[str]


class ResourceTotal(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of a cluster, in millicores of CPU or bytes of memory.

    Attributes:
        requested: what the replicas request that the cluster does not run now.
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
        arriving: the replicas that the cluster does not run now.
        resources: ``cpu`` and ``memory``.
        overcommitted: the resources of which more is requested than is available.
    """

    cluster: str
    before: int
    after: int
    arriving: int
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
    failed = [(result, fails(result)) for result in after]
    return PlanSummary(
        workloads=len(after),
        moved=sum(bool(each) for each in found),
        replicas=sum(map(moved_replicas, found)),
        nowhere=[str(result.workload) for result, fails_now in failed if fails_now and not result.assignment],
        short=[str(result.workload) for result, fails_now in failed if fails_now and result.assignment],
        new_failures=[
            str(result.workload)
            for (result, fails_now), without in zip(failed, settled, strict=True)
            if fails_now and not fails(without)
        ],
    )


def fails(result: WorkloadResult) -> bool:
    """Return whether a workload cannot be scheduled."""
    return result.decision is not None and result.decision.failure is not None


def moved_replicas(found: Mapping[str, tuple[int | None, int | None]]) -> int:
    """Return the replicas that move: those that arrive or those that leave, whichever are more."""
    differences = [(now or 0) - (then or 0) for then, now in found.values()]
    return max(sum(each for each in differences if each > 0), -sum(each for each in differences if each < 0))


def cluster_totals(
    clusters: Iterable[Cluster], before: Sequence[WorkloadResult], after: Sequence[WorkloadResult]
) -> list[ClusterTotal]:
    """Return each cluster before and after changes, ordered by name.

    Args:
        clusters: the clusters, with the status that they report.
        before: the results before the changes. Replicas of bindings that exist are part of the status.
        after: the results after the changes, in the same order.
    """
    totals = {each.name: _Total(each) for each in clusters}
    for then, now in zip(before, after, strict=True):
        running = then.assignment if then.workload.present else {}
        request = _request_of_replica(now.workload.binding)
        for name, replicas in then.assignment.items():
            if name in totals:
                totals[name].before += replicas
        for name, replicas in now.assignment.items():
            if name in totals:
                totals[name].add(replicas, max(0, replicas - running.get(name, 0)), request)
    return [totals[name].result() for name in sorted(totals)]


class _Total:
    """The sums of one cluster."""

    __slots__ = ("_arriving", "_cluster", "_requested", "after", "before")

    def __init__(self, cluster: Cluster) -> None:
        self.before = self.after = self._arriving = 0
        self._cluster = cluster
        self._requested = dict.fromkeys(RESOURCES, 0)

    def add(self, replicas: int, arriving: int, request: Mapping[str, int]) -> None:
        self.after += replicas
        self._arriving += arriving
        if arriving:
            for name, amount in request.items():
                self._requested[name] += amount * arriving

    def result(self) -> ClusterTotal:
        summary = self._cluster.status.resource_summary
        resources = {
            name: ResourceTotal(requested, free_amount(summary, name) if summary is not None else None)
            for name, requested in self._requested.items()
        }
        over = [name for name, each in resources.items() if each.overcommitted]
        return ClusterTotal(self._cluster.name, self.before, self.after, self._arriving, resources, over)


def _request_of_replica(binding: Binding | None) -> dict[str, int]:
    requirements = binding.spec.replica_requirements if binding is not None else None
    if requirements is None:
        return {}
    return {name: amount_of(name, each) for name, each in requirements.resource_request.items() if name in RESOURCES}
