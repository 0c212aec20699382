"""What a decision asks the estimators: about which clusters, and whether their answers can change it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec.structs

from berthmaster.controllers.estimators import messages
from berthmaster.controllers.estimators.messages import Question
from berthmaster.deciding.move_settings import RebalanceSettings
from berthmaster.model.binding import Binding, BindingSpec, ObjectReference
from berthmaster.model.division_strategy import strategy_of
from berthmaster.model.meta import object_name
from berthmaster.scheduling.compiled_placement import Group
from berthmaster.scheduling.karmada.selection import places_whole_sets
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import TooLargeError, Work

SHORTEST_STUCK_S: Final = 60
"""Replicas that are unschedulable for less time never leave their cluster, because it may just be adding a node."""

NO_NAMESPACE: Final = "-"
"""No namespace has this name, so that no quota is in it. An empty one would mean all namespaces to some estimators."""


@dataclass(frozen=True, slots=True)
class EstimatorQuery:
    """A question to the estimators, for one decision.

    Attributes:
        clusters: the clusters that pass the filters in any group that may be tried, each once.
        encode: encodes the question from its content, later: a decision under the lock only collects the content. It
            raises ``InputError`` if a node affinity is invalid.
        workload: the workload's kind and name, for the logs of the estimators.
        outside: the content of the same question outside its namespace; empty if no quota counts.
    """

    clusters: Sequence[str]
    encode: Callable[..., Question]
    content: tuple[Any, ...]
    workload: str
    outside: tuple[Any, ...] = ()

    def without_quotas(self, clusters: Sequence[str]) -> "EstimatorQuery":
        """Return the question about some clusters as if there were no quota. ``outside`` must be given."""
        return replace(self, clusters=clusters, content=self.outside)


def query_of(scheduler: Scheduler, request: Request, spec: BindingSpec) -> EstimatorQuery | None:
    """Return the query for a decision; None if capacity does not matter for it, or the decision is too large.

    The function reads the scheduler: the caller must not change it at the same time.
    """
    if not request.replicas and not request.components:
        return None
    work = Work(scheduler.profile.limits.steps)
    try:
        compiled = scheduler.compile(request.placement)
        groups = compiled.groups[0 if request.fresh else compiled.group_index(request.observed_group) :]
        if not _needs_capacity(request, groups):
            return None
        rows = {row for group in groups for row in scheduler.fitting(request, group, work).tolist()}
    except TooLargeError:
        return None
    clusters = [cluster.name for row in sorted(rows) if (cluster := scheduler.fleet.clusters[row]) is not None]
    if not clusters:
        return None
    workload = _named(spec.resource)
    outside: tuple[Any, ...] = ()
    if spec.components and places_whole_sets(request, compiled):
        namespace = spec.resource.namespace
        if namespace:
            outside = (spec.components, NO_NAMESPACE)
        return EstimatorQuery(clusters, messages.sets_question, (spec.components, namespace), workload, outside)
    requirements = spec.replica_requirements
    if requirements is not None and requirements.namespace:
        outside = (msgspec.structs.replace(requirements, namespace=NO_NAMESPACE),)
    return EstimatorQuery(clusters, messages.replicas_question, (requirements,), workload, outside)


def stuck_query_of(binding: Binding, missing: Mapping[str, int], settings: RebalanceSettings) -> EstimatorQuery | None:
    """Return the query for the replicas that are unschedulable for too long; None if they do not matter.

    As for karmada-descheduler, only Deployments that are divided by available replicas count. Estimators of Karmada
    know no other kind. Only clusters with ``missing`` replicas are asked: those that their members report as not ready.
    """
    resource, placement = binding.spec.resource, binding.spec.placement
    if (
        settings.mode == "Off"
        or placement is None
        or (resource.api_version, resource.kind) != ("apps/v1", "Deployment")
    ):
        return None
    if not strategy_of(placement.replica_scheduling).by_capacity:
        return None
    content = (resource, max(settings.after_s, SHORTEST_STUCK_S))
    return EstimatorQuery(sorted(missing), messages.unschedulable_question, content, _named(resource))


def _named(workload: ObjectReference) -> str:
    return f"{workload.kind} {object_name(workload.namespace, workload.name)}"


def _needs_capacity(request: Request, groups: Sequence[Group]) -> bool:
    """Whether capacity can change the decision. It cannot for copies and static weights on all clusters that fit."""
    if strategy_of(request.placement.replica_scheduling).by_capacity:
        return True
    return bool(request.placement.spread_constraints) or any(group.overflow for group in groups)
