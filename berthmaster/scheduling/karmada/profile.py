"""Karmada's profile: its built-in plugins and its stages."""

from dataclasses import replace
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.model.placement import Placement
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import AFFINITY, ANTI_AFFINITY, Context
from berthmaster.scheduling.filters import (
    APIEnablementFilter,
    ClusterAffinityFilter,
    ClusterEvictionFilter,
    ClusterTerminatingFilter,
    Filter,
    PlacementFilter,
    TaintTolerationFilter,
)
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.division import assign
from berthmaster.scheduling.karmada.placement import KarmadaPlacement, PlacementWithoutComponents
from berthmaster.scheduling.karmada.reasons import KarmadaReasons
from berthmaster.scheduling.karmada.selection import candidates_of, select
from berthmaster.scheduling.profile import Plugins, Profile, Stages
from berthmaster.scheduling.scores import MAX_SCORE, Score

DELETING: Final = "ClusterDeleting"
"""The filter that rejects clusters which are being deleted. It is not a plugin: no switch disables it."""

STAGES: Final = Stages(
    members=ClusterTerminatingFilter(DELETING),
    compile=KarmadaPlacement,
    candidates=candidates_of,
    select=select,
    assign=assign,
    reasons=KarmadaReasons,
)


def karmada_profile(
    plugins: Plugins | None = None,
    *,
    keep_empty: bool = False,
    limits: PlacementLimits = DEFAULT_LIMITS,
    component_sets: bool = True,
) -> Profile:
    """Return Karmada's profile.

    Args:
        plugins: the filters and scores, the built-in ones by default.
        keep_empty: see ``Profile``.
        limits: the largest placement that is scheduled.
        component_sets: Karmada's gate ``MultiplePodTemplatesScheduling``. Only workloads with components differ.
    """
    stages = STAGES if component_sets else replace(STAGES, compile=PlacementWithoutComponents)
    return Profile(plugins or built_in(), stages, keep_empty, limits)


def built_in(*, workload_affinity: bool = False) -> Plugins:
    """Return Karmada's plugins, with those behind the feature gate ``WorkloadAffinity`` if requested."""
    gated = (WorkloadAffinityFilter(), WorkloadAntiAffinityFilter()) if workload_affinity else ()
    filters = (
        ClusterAffinityFilter(),
        TaintTolerationFilter(),
        APIEnablementFilter(),
        SpreadConstraintFilter(),
        ClusterEvictionFilter(),
        *gated,
    )
    return Plugins(filters, (ClusterLocalityScore(),))


class SpreadFieldsColumn(Column[np.bool_]):
    """Which rows have all of some fields."""

    __slots__ = ("_fields", "_fleet")

    def __init__(self, fleet: Fleet, fields: list[str]) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._fields = fields

    def compute(self) -> BoolArray:
        present: BoolArray = np.logical_and.reduce([self._present(field) for field in self._fields])
        return present

    def compute_row(self, row: int) -> bool:
        return all(bool(self._present(field)[row]) for field in self._fields)

    def _present(self, field: str) -> BoolArray:
        fleet = self._fleet
        return {"provider": fleet.has_provider, "region": fleet.has_region, "zone": fleet.has_zones}[field]


class SpreadConstraintFilter(PlacementFilter):
    """Require the fields that the placement spreads by. A cluster without them belongs to no group of a spread."""

    name = "SpreadConstraint"

    def column(self, context: Context) -> SpreadFieldsColumn | None:
        fields = _spread_fields(context.compiled.placement)
        return SpreadFieldsColumn(context.fleet, fields) if fields else None

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        present = {
            "provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones
        }  # fmt: skip
        missing = next((field for field in _spread_fields(context.compiled.placement) if not present[field]), None)
        return None if missing is None else f"has no {missing}, but the placement spreads by {missing}"


def _spread_fields(placement: Placement) -> list[str]:
    fields = (constraint.spread_by_field for constraint in placement.spread_constraints)
    return [field for field in fields if field in {"provider", "region", "zone"}]


class WorkloadAffinityFilter(Filter):
    """Require that every scheduled peer of the affinity group is on the cluster."""

    name = "WorkloadAffinity"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        request = context.request
        if not request.affinity_group:
            return rows
        group = request.affinity_group
        total, counts = context.peers.counts(AFFINITY, request.namespace, group, except_for=request.name)
        names = context.fleet.names(rows)
        passing = [name in request.current or counts.get(name, 0) == total for name in names]
        return rows[np.array(passing, dtype=np.bool_)]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        request = context.request
        peers = context.peers.of(AFFINITY, request.namespace, request.affinity_group, except_for=request.name)
        missing = min((name for name, clusters in peers.items() if cluster.name not in clusters), default=None)
        return missing and f"does not have {missing}, of the affinity group {request.affinity_group}"


class WorkloadAntiAffinityFilter(Filter):
    """Reject clusters that have a peer of the anti-affinity group, even if they have the workload."""

    name = "WorkloadAntiAffinity"

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        request = context.request
        if not request.anti_affinity_group:
            return rows
        group = request.anti_affinity_group
        _, counts = context.peers.counts(ANTI_AFFINITY, request.namespace, group, except_for=request.name)
        return rows[np.array([name not in counts for name in context.fleet.names(rows)], dtype=np.bool_)]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        request = context.request
        peers = context.peers.of(ANTI_AFFINITY, request.namespace, request.anti_affinity_group, except_for=request.name)
        present = min((name for name, clusters in peers.items() if cluster.name in clusters), default=None)
        return present and f"has {present}, of the anti-affinity group {request.anti_affinity_group}"


class ClusterLocalityScore(Score):
    """Prefer clusters that have the workload, even with 0 replicas."""

    name = "ClusterLocality"

    def score(self, context: Context, cluster: Cluster) -> int:
        return MAX_SCORE if cluster.name in context.request.current else 0

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        current = context.request.current
        if not current:
            return None
        return context.fleet.holds(current)[rows] * np.int64(MAX_SCORE)
