"""What clusters get and lose by changes: pods, and what arriving pods request beside what is free."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from berthmaster.deciding.running import with_overrides
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import Requests, free_amount
from berthmaster.simulation.losses import wanted
from berthmaster.simulation.plan_answer import ClusterTotal, ResourceTotal
from berthmaster.simulation.results import PlannedWorkload
from berthmaster.simulation.workload import SimulatedWorkload

RESOURCES: Final = ("cpu", "memory")
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class ClusterTotals:
    """Clusters before and after the changes of some workloads.

    Args:
        clusters: the clusters after the changes, with the status that they report.
        present: the pods that each cluster has before the changes.
        observed: whether the status of a cluster counts what it runs. Otherwise all replicas count as arriving.
    """

    def __init__(
        self, clusters: Mapping[str, Cluster], present: Mapping[str, int] = _NOTHING, *, observed: bool = True
    ) -> None:
        self._clusters, self._present, self._observed = clusters, present, observed
        self._more: defaultdict[str, int] = defaultdict(int)
        self._arriving: defaultdict[str, _Arriving] = defaultdict(_Arriving)

    def add(self, planned: PlannedWorkload) -> None:
        """Add a workload whose replicas move, or change by overrides."""
        before, after = planned.before, planned.after
        for name, pods in pods_by_cluster(before.workload, before.assignment).items():
            self._more[name] -= pods
        for name, pods in pods_by_cluster(after.workload, after.assignment).items():
            self._more[name] += pods
        if after.workload.binding is None:
            return
        request = Request.of(after.workload.binding)
        running = request.occupied(wanted(before)) if before.workload.present and self._observed else {}
        for name, count in request.occupied(wanted(after)).items():
            if (added := count - running.get(name, 0)) > 0:
                self._arriving[name].add(request.pods(added))

    def results(self, names: Iterable[str]) -> list[ClusterTotal]:
        """Return the totals of those clusters that there are after the changes, ordered by name."""
        return [self._result(name) for name in sorted(names) if name in self._clusters]

    def _result(self, name: str) -> ClusterTotal:
        summary, arriving = self._clusters[name].status.resource_summary, self._arriving[name]
        resources = {
            resource: ResourceTotal(requested, free_amount(summary, resource) if summary else None)
            for resource, requested in arriving.requested.items()
        }
        over, before = [name for name, each in resources.items() if each.overcommitted], self._present.get(name, 0)
        pods = arriving.pods if self._observed else None
        return ClusterTotal(name, before, before + self._more[name], pods, resources, over)


def pods_by_cluster(workload: SimulatedWorkload, assignment: Mapping[str, int]) -> Mapping[str, int]:
    """Return the pods of an assignment. A workload with several templates has one set of pods on each cluster."""
    binding = workload.binding
    if binding is None or not binding.spec.is_workload:
        return {}
    if not binding.spec.components:
        return with_overrides(binding, assignment, workload.overridden)
    request = Request.of(binding)
    return {name: sum(pods for pods, _ in request.pods(count)) for name, count in request.occupied(assignment).items()}


class _Arriving:
    """What a cluster gets: pods, and what they request."""

    __slots__ = ("pods", "requested")

    def __init__(self) -> None:
        self.pods = 0
        self.requested = dict.fromkeys(RESOURCES, 0)

    def add(self, pods: Iterable[tuple[int, Requests]]) -> None:
        for count, requests in pods:
            self.pods += count
            for name, amount in requests:
                if name in self.requested:
                    self.requested[name] += amount * count
