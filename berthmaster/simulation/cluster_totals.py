"""What clusters get and lose by changes: pods, and what arriving pods request beside what is free."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from berthmaster.deciding.running import with_overrides
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.component_sets import demand_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import PODS, amount_of, free_amount
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
        unit = _unit_of((before if planned.is_deleted else after).workload.binding)
        was = unit.occupied(wanted(before))
        running = was if before.workload.present and self._observed else {}
        for name, count in was.items():
            self._more[name] -= count * unit.pods
        for name, count in unit.occupied(wanted(after)).items():
            self._more[name] += count * unit.pods
            if (added := count - running.get(name, 0)) > 0:
                self._arriving[name].add(added, unit)

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


def pods_of(workload: SimulatedWorkload, assignment: Mapping[str, int]) -> Mapping[str, int]:
    """Return the pods by cluster of an assignment. A workload with several templates has one set of pods on each."""
    binding = workload.binding
    if binding is None:
        return assignment
    if not binding.spec.components:
        return with_overrides(binding, assignment, workload.overridden)
    unit = _unit_of(binding)
    return {name: count * unit.pods for name, count in unit.occupied(assignment).items()}


class _Unit(NamedTuple):
    """What an assignment counts: a replica, or one set of the pods of several templates.

    ``whole_sets``: whether each assigned cluster has one set, whatever replicas the assignment names.
    """

    request: Mapping[str, int]
    pods: int = 1
    whole_sets: bool = False

    def occupied(self, assignment: Mapping[str, int]) -> Mapping[str, int]:
        return dict.fromkeys(assignment, 1) if self.whole_sets else assignment


class _Arriving:
    """What a cluster gets: pods, and what they request."""

    __slots__ = ("pods", "requested")

    def __init__(self) -> None:
        self.pods = 0
        self.requested = dict.fromkeys(RESOURCES, 0)

    def add(self, count: int, unit: _Unit) -> None:
        self.pods += count * unit.pods
        for name, amount in unit.request.items():
            self.requested[name] += amount * count


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
