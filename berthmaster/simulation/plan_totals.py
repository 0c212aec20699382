"""What changes move in total, and what they do to each cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.component_sets import demand_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import PODS, amount_of, free_amount
from berthmaster.simulation.losses import Gone, is_left, runs_nowhere
from berthmaster.simulation.plan_answer import ClusterTotal, PlanSummary, ResourceTotal
from berthmaster.simulation.run import Moves, PlannedWorkload

_NONE_GONE: Final = Gone()
RESOURCES: Final = ("cpu", "memory")


def summary_of(planned: Sequence[PlannedWorkload], workloads: int, gone: Gone = _NONE_GONE) -> PlanSummary:
    """Return what changes would move in total.

    Args:
        planned: the workloads that the changes concern, in the order of the names in the answer.
        workloads: the number of all workloads.
        gone: the clusters whose copies stop.
    """
    moving = [each for each in planned if each.moves]
    failed = [each for each in planned if each.after.failure is not None or is_left(each, gone)]
    return PlanSummary(
        workloads=workloads,
        moved=len(moving),
        replicas=sum(moved_replicas(each.moves) for each in moving),
        nowhere=[each.resource for each in failed if runs_nowhere(each, gone)],
        short=[each.resource for each in failed if not runs_nowhere(each, gone)],
        new_failures=[each.resource for each in failed if is_left(each, gone)],
        due=sum(each.is_due for each in moving),
    )


def moved_replicas(found: Moves) -> int:
    """Return the replicas that move: those that arrive or those that leave, whichever are more."""
    differences = [(now or 0) - (then or 0) for then, now in found.values()]
    return max(sum(each for each in differences if each > 0), -sum(each for each in differences if each < 0))


def cluster_totals(
    clusters: Iterable[Cluster], planned: Iterable[PlannedWorkload], *, observed: bool = True
) -> list[ClusterTotal]:
    """Return each cluster before and after changes, ordered by name.

    Args:
        clusters: the clusters after the changes. What runs there now is part of their status.
        planned: the workloads.
        observed: whether it is known what clusters run, see ``world.is_observed``.
    """
    totals = {each.name: _Total(each) for each in clusters}
    for each in planned:
        unit = _unit_of((each.before if each.is_deleted else each.after).workload.binding)
        was = unit.occupied(each.before.assignment)
        running = was if each.before.workload.present else {}
        for name, count in was.items():
            if name in totals:
                totals[name].before += count * unit.pods
        for name, count in unit.occupied(each.after.assignment).items():
            if name in totals:
                totals[name].add(count, max(0, count - running.get(name, 0)), unit)
    return [totals[name].result(observed=observed) for name in sorted(totals)]


class _Unit(NamedTuple):
    """What an assignment counts: a replica, or one set of the pods of several templates.

    Attributes:
        whole_sets: whether each assigned cluster has one set, whatever replicas the assignment names.
    """

    request: Mapping[str, int]
    pods: int = 1
    whole_sets: bool = False

    def occupied(self, assignment: Mapping[str, int]) -> Mapping[str, int]:
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
