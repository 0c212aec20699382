"""Which estimators a decision needs, and what they say to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berthmaster.controllers.estimators.estimators import Estimators
from berthmaster.model.binding import BindingSpec
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.scheduling.compiled_placement import Group, Strategy, strategy_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask estimators for one decision.

    Attributes:
        clusters: whose: those that pass the filters in the turn of some group of the walk, each once.
        requirements: what a replica needs; None where that is not known.
        described: the workload, for people.
    """

    clusters: Sequence[str]
    requirements: ReplicaRequirements | None
    described: str

    def put(self, estimators: Estimators, timeout_s: float) -> Mapping[str, int]:
        """Ask; the bounds of the clusters whose estimators answered. It waits: hold no lock meanwhile."""
        return estimators.max_available(self.clusters, self.requirements, self.described, timeout_s)


def question_of(scheduler: Scheduler, request: Request, spec: BindingSpec) -> Question | None:
    """What a decision on this request needs to know; None if room plays no part in it.

    It reads the scheduler, and is as little safe for several threads.
    """
    if not request.replicas:
        return None
    compiled = scheduler.compile(request.placement)
    groups = compiled.groups[0 if request.fresh else compiled.group_index(request.observed_group) :]
    if not _asks_for_room(request, groups):
        return None
    rows = {row for group in groups for row in scheduler.fitting(request, group).tolist()}
    clusters = [cluster.name for row in sorted(rows) if (cluster := scheduler.fleet.clusters[row]) is not None]
    resource = spec.resource
    name = f"{resource.namespace}/{resource.name}" if resource.namespace else resource.name
    return Question(clusters, spec.replica_requirements, f"{resource.kind} {name}") if clusters else None


def bounds_for(
    scheduler: Scheduler, request: Request, spec: BindingSpec, estimators: Estimators, timeout_s: float
) -> Mapping[str, int] | None:
    """The bounds that a decision on this request takes; None if it needs none.

    This is ``question_of`` and ``Question.put`` in a row, for whoever has the scheduler alone. Others hold their lock
    for the first only.
    """
    question = question_of(scheduler, request, spec)
    return None if question is None else question.put(estimators, timeout_s)


def _asks_for_room(request: Request, groups: Sequence[Group]) -> bool:
    """Whether capacity can change the decision: it plays no part in copies and fixed weights by themselves."""
    if strategy_of(request.placement.replica_scheduling) in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}:
        return True
    return bool(request.placement.spread_constraints) or any(group.overflow for group in groups)
