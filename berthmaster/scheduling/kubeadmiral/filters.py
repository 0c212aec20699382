"""KubeAdmiral's filters, and those of them that Karmada does not have.

The others stand in ``berthmaster.scheduling.filters``; here they get the names and the exemptions of this profile.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berthmaster.model.cluster import NO_EXECUTE, Cluster
from berthmaster.model.kubeadmiral import JOINED
from berthmaster.model.selector import Requirement
from berthmaster.scheduling.cluster_column import ClusterColumn
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import Filter, PlacementFilter
from berthmaster.scheduling.filters.api_enablement import APIEnablement
from berthmaster.scheduling.filters.cluster_affinity import ClusterAffinity
from berthmaster.scheduling.filters.cluster_eviction import ClusterEviction
from berthmaster.scheduling.filters.cluster_terminating import ClusterTerminating
from berthmaster.scheduling.filters.taint_toleration import TaintToleration
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.allocation import Allocation
from berthmaster.scheduling.kubeadmiral.request import UnitPlacement, unit_of
from berthmaster.scheduling.kubeadmiral.terms import InvalidTermError, any_matches, rows_matching
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit

READY: Final = "Ready"
_PLAIN_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def condition_column(fleet: Fleet, condition_type: str) -> Column[np.bool_]:
    """Which rows hold a cluster that has a condition."""

    def make(fleet: Fleet) -> ClusterColumn[np.bool_]:
        return ClusterColumn(fleet, fleet.structure, lambda cluster: cluster.has_condition(condition_type), np.False_)

    return fleet.kept(f"condition {condition_type}", make)


class ClusterJoined(PlacementFilter):
    """Only clusters that joined are looked at; this is no plugin."""

    name = "ClusterJoined"

    def column(self, context: Context) -> Column[np.bool_]:
        """The rows that joined."""
        return condition_column(context.fleet, JOINED)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        """Whether it joined."""
        return None if cluster.has_condition(JOINED) else "has not joined the federation"


class ClusterReady(PlacementFilter):
    """Only ready clusters, but where the object is it may stay. In Karmada taints see to it."""

    name = "ClusterReady"
    exempts_current = True

    def column(self, context: Context) -> Column[np.bool_]:
        """The rows that are ready."""
        return condition_column(context.fleet, READY)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        """Whether it is ready."""
        return None if cluster.ready else "is not ready"


class SelectorColumn(Column[np.bool_]):
    """Which rows the selector and the required terms of a placement mean."""

    __slots__ = ("_fleet", "_placement")

    def __init__(self, fleet: Fleet, placement: UnitPlacement) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._placement = placement

    def compute(self) -> BoolArray:
        """All rows, through the indexes."""
        fleet, placement = self._fleet, self._placement
        mask = np.ones(fleet.capacity, dtype=np.bool_)
        for key, value in placement.cluster_selector.items():
            mask &= fleet.labels.matching(Requirement(key, "In", frozenset({value})), fleet.capacity)
        if placement.required is not None:
            mask &= rows_matching(placement.required, fleet)
        return mask & fleet.occupied

    def compute_row(self, row: int) -> bool:
        """One row."""
        cluster = self._fleet.clusters[row]
        return cluster is not None and mismatch(self._placement, cluster) is None


class SelectorAffinity(PlacementFilter):
    """ClusterAffinity: the selector's labels, then one of the required terms.

    Unlike Karmada's plugin of that name: an invalid requirement rules a cluster out even if a later term matches, and
    terms are alternatives beside the selector.
    """

    name = "ClusterAffinity"

    def column(self, context: Context) -> SelectorColumn | None:
        """The rows that are meant."""
        placement = _placement(context)
        if not placement.cluster_selector and placement.required is None:
            return None
        return SelectorColumn(context.fleet, placement)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The first part that does not hold."""
        return mismatch(_placement(context), cluster)


def mismatch(placement: UnitPlacement, cluster: Cluster) -> str | None:
    """The first part of selector and terms that does not hold for a cluster, in words; None if it is meant."""
    labels: Mapping[str, str] = cluster.metadata.labels
    for key, value in placement.cluster_selector.items():
        if labels.get(key) != value:
            return f"label {key}={value} does not hold"
    if placement.required is None:
        return None
    try:
        return None if any_matches(placement.required, cluster) else "no term of the affinity matches"
    except InvalidTermError as error:
        return f"the affinity has an invalid term: {error}"


def _placement(context: Context) -> UnitPlacement:
    placement = context.plan.placement
    if not isinstance(placement, UnitPlacement):
        raise TypeError(f"a {type(placement).__name__} was given to KubeAdmiral's profile")
    return placement


class ClusterResourcesFit(Filter):
    """One replica must fit what is not used; ephemeral storage is never compared. Where the object is it may stay."""

    name = "ClusterResourcesFit"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """The rows where nothing is short, and those where the object is."""
        fleet, passing = context.fleet, np.ones(len(rows), dtype=np.bool_)
        for each in _compared(context, rows):
            passing &= each.taken() <= each.capacity
        current = [row for name in context.request.current if (row := fleet.row_of.get(name)) is not None]
        return rows[passing | np.isin(rows, current)]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The resources that are short."""
        row = np.array([context.fleet.row_of[cluster.name]])
        short = [each.name for each in _compared(context, row) if each.taken()[0] > each.capacity[0]]
        return f"has insufficient {', '.join(short)}" if short else None


def _compared(context: Context, rows: IntArray) -> list[Allocation]:
    """The resources that are compared: CPU and memory, and others of which something is requested."""
    unit = unit_of(context)
    if not _requests_anything(unit):
        return []
    names = ["cpu", "memory", *(name for name in unit.requests if name not in _PLAIN_RESOURCES)]
    allocations = [Allocation(context.fleet, rows, name, unit.requests) for name in names]
    return [each for each in allocations if each.wanted or each.name in {"cpu", "memory"}]


def _requests_anything(unit: SchedulingUnit) -> bool:
    """A scalar resource counts even if none of it is requested, as in KubeAdmiral."""
    return any(amount.nanos or name not in _PLAIN_RESOURCES for name, amount in unit.requests.items())


_ALL: Final[tuple[Filter, ...]] = (
    APIEnablement("APIResources", exempts_current=False),
    TaintToleration(driving_out=frozenset({NO_EXECUTE})),
    ClusterAffinity("PlacementFilter"),
    SelectorAffinity(),
    ClusterReady(),
    ClusterTerminating(),
    ClusterEviction("ClusterEvicted"),
    ClusterResourcesFit(),
)
FILTERS: Final[dict[str, Filter]] = {each.name: each for each in _ALL}
DEFAULT_FILTERS: Final = tuple(name for name in FILTERS if name != ClusterResourcesFit.name)
