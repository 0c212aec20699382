"""KubeAdmiral's filter plugins."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.kubeadmiral.clusters import JOINED
from berthmaster.model.selector import Requirement
from berthmaster.model.taint import NO_EXECUTE
from berthmaster.scheduling import filters
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.allocation import compared
from berthmaster.scheduling.kubeadmiral.unit import (
    InvalidTermError,
    UnitPlacement,
    any_matches,
    rows_matching,
)
from berthmaster.scheduling.steps import PYTHON_STEPS

READY: Final = "Ready"


def condition_column(fleet: Fleet, condition_type: str) -> Column[np.bool_]:
    """Return the rows that hold a cluster with a condition."""
    return fleet.column(f"condition {condition_type}", lambda each: each.has_condition(condition_type), np.False_)


class ClusterJoinedFilter(filters.PlacementFilter):
    """Consider only clusters that joined. This is not a plugin."""

    name = "ClusterJoined"

    def column(self, context: Context) -> Column[np.bool_]:
        return condition_column(context.fleet, JOINED)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        return None if cluster.has_condition(JOINED) else "has not joined the federation"


class ClusterReadyFilter(filters.PlacementFilter):
    """Reject clusters that are not ready, unless they have the object. Karmada uses taints for this."""

    name = "ClusterReady"
    exempts_current = True

    def column(self, context: Context) -> Column[np.bool_]:
        return condition_column(context.fleet, READY)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        return None if cluster.ready else "is not ready"


class SelectorColumn(Column[np.bool_]):
    """Which rows match the selector and the required terms of a placement."""

    __slots__ = ("_fleet", "_placement")

    def __init__(self, fleet: Fleet, placement: UnitPlacement) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._placement = placement

    def compute(self) -> BoolArray:
        fleet, placement = self._fleet, self._placement
        mask = np.ones(fleet.capacity, dtype=np.bool_)
        for key, value in placement.cluster_selector.items():
            mask &= fleet.labels.matching(Requirement(key, "In", frozenset({value})), fleet.capacity)
        if placement.required is not None:
            mask &= rows_matching(placement.required, fleet)
        return mask & fleet.occupied

    def steps(self, rows: int) -> int:
        placement = self._placement
        expressions = len(placement.cluster_selector) + sum(
            len(term.match_expressions) + len(term.match_fields) for term in placement.required or ()
        )
        return super().steps(rows) * (1 + expressions) + PYTHON_STEPS * expressions

    def compute_row(self, row: int) -> bool:
        cluster = self._fleet.clusters[row]
        return cluster is not None and mismatch(self._placement, cluster) is None


class SelectorAffinityFilter(filters.PlacementFilter):
    """Require the labels of the selector and one of the required terms.

    Karmada's plugin of the same name differs. Here an invalid requirement rejects a cluster even if a later term
    matches, and the terms are alternatives in addition to the selector.
    """

    name = "ClusterAffinity"

    def column(self, context: Context) -> SelectorColumn | None:
        placement = _placement(context)
        if not placement.cluster_selector and placement.required is None:
            return None
        return SelectorColumn(context.fleet, placement)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        return mismatch(_placement(context), cluster)


def mismatch(placement: UnitPlacement, cluster: Cluster) -> str | None:
    """Describe the first part of selector and terms that a cluster does not match. Return None if it matches."""
    labels: Mapping[str, str] = cluster.metadata.labels
    for key, value in placement.cluster_selector.items():
        if labels.get(key) != value:
            return f"label {key}={value} does not match"
    if placement.required is None:
        return None
    try:
        return None if any_matches(placement.required, cluster) else "no term of the affinity matches"
    except InvalidTermError as error:
        return f"the affinity has an invalid term: {error}"


def _placement(context: Context) -> UnitPlacement:
    placement = context.compiled.placement
    if not isinstance(placement, UnitPlacement):
        raise TypeError(f"a {type(placement).__name__} was given to KubeAdmiral's profile")
    return placement


class ClusterResourcesFitFilter(filters.Filter):
    """Require that one replica fits, unless the cluster has the object. Ephemeral storage is never compared."""

    name = "ClusterResourcesFit"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        fleet, passing = context.fleet, np.ones(len(rows), dtype=np.bool_)
        for each in compared(context, rows):
            passing &= each.taken() <= each.capacity
        return rows[passing | fleet.holds(context.request.current)[rows]]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        row = np.array([context.fleet.row_of[cluster.name]])
        short = [each.name for each in compared(context, row) if each.taken()[0] > each.capacity[0]]
        return f"has insufficient {', '.join(short)}" if short else None


_FILTERS: Final[tuple[filters.Filter, ...]] = (
    filters.APIEnablementFilter("APIResources", exempts_current=False),
    filters.TaintTolerationFilter(evicting_effects=frozenset({NO_EXECUTE})),
    filters.ClusterAffinityFilter("PlacementFilter"),
    SelectorAffinityFilter(),
    ClusterReadyFilter(),
    filters.ClusterTerminatingFilter(),
    filters.ClusterEvictionFilter("ClusterEvicted"),
    ClusterResourcesFitFilter(),
)
FILTERS: Final[dict[str, filters.Filter]] = {each.name: each for each in _FILTERS}
DEFAULT_FILTERS: Final = tuple(name for name in FILTERS if name != ClusterResourcesFitFilter.name)
