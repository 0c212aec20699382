"""The groups of a placement as steps: the first on which a node may take the pod is the one that counts.

A step is a group's number and, below it, the overflow tier: a group's own clusters before those that widen it.
Whether a node may take a pod depends on nothing but the two of them, so that each node has its step; how many replicas
go where, and over how many clusters they are spread, is no question of one pod.

``step_of`` is the definition, for nodes that come with the request; ``steps_of_rows`` says the same for all nodes that
are known.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import UNMATCHED_TIER, Group
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import ClusterAffinityFilter, Filter
from berthmaster.scheduling.karmada.placement import KarmadaPlacement
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.scores import Score

NEVER: Final = 2**62
"""The step of a node that may not take the pod at all."""

_TIERS: Final = UNMATCHED_TIER + 24
_NAMES_SHOWN: Final = 4


class Climb(NamedTuple):
    """What steps are asked about: a pod's placement on one scheduler, a context for each group."""

    filters: Sequence[Filter]
    scores: Sequence[Score]
    placement: KarmadaPlacement
    contexts: Sequence[Context]

    @classmethod
    def of(cls, scheduler: Scheduler, request: Request) -> "Climb":
        """The climb of a request."""
        compiled = scheduler.compile(request.placement)
        if not isinstance(compiled, KarmadaPlacement):
            raise TypeError("pods are placed by Karmada's profile")
        contexts = [Context(scheduler.fleet, request, compiled, group, scheduler.peers) for group in compiled.groups]
        return cls(scheduler.filters, scheduler.profile.plugins.scores, compiled, contexts)

    def context_of(self, step: int) -> Context:
        """The turn of a step's group."""
        return self.contexts[step // _TIERS]

    def group_name(self, step: int) -> str:
        """The name of a step's group, with the tier where that is not its own; empty without groups."""
        group, tier = self.context_of(step).group, step % _TIERS
        if group.name is None:
            return ""
        return f"{group.name}, overflow {tier}" if tier else group.name


def step_of(climb: Climb, cluster: Cluster) -> int:
    """The first step on which a cluster may take the pod."""
    for index, context in enumerate(climb.contexts):
        for plugin in climb.filters:
            if plugin.reason(context, cluster) is not None:
                break
        else:
            return index * _TIERS + _tier_of(context.group, cluster)
    return NEVER


def steps_of_rows(scheduler: Scheduler, request: Request) -> IntArray:
    """The same for every row of the fleet; ``NEVER`` in free rows."""
    steps = np.full(scheduler.fleet.capacity, NEVER, dtype=np.int64)
    groups = scheduler.compile(request.placement).groups
    for index in range(len(groups) - 1, -1, -1):
        rows = scheduler.fitting(request, groups[index])
        tiers = groups[index].tiers(rows)
        steps[rows] = index * _TIERS if tiers is None else index * _TIERS + tiers
    return steps


def why_never(climb: Climb, cluster: Cluster) -> tuple[str, str]:
    """Why a cluster may not take the pod on any step: the filter's name, and the end of a sentence about it."""
    outside: tuple[str, str] | None = None
    for context in climb.contexts:
        plugin, reason = _first_rejection(climb.filters, context, cluster)
        if plugin != ClusterAffinityFilter.name:
            return plugin, reason
        outside = outside or (plugin, reason)
    if outside is None or len(climb.contexts) == 1:
        return outside or (ClusterAffinityFilter.name, "is in no cluster group")
    names = [str(context.group.name) for context in climb.contexts]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ClusterAffinityFilter.name, f"is in none of the cluster groups {', '.join(names[:_NAMES_SHOWN])}{more}"


def _first_rejection(filters: Sequence[Filter], context: Context, cluster: Cluster) -> tuple[str, str]:
    for plugin in filters:
        reason = plugin.reason(context, cluster)
        if reason is not None:
            return plugin.name, reason
    return "", "may take the pod"


def _tier_of(group: Group, cluster: Cluster) -> int:
    if not group.overflow or group.own is None or group.own.term.matches(cluster):
        return 0
    tiers = (index for index, column in enumerate(group.overflow, start=1) if column.term.matches(cluster))
    return next(tiers, UNMATCHED_TIER)
