"""Karmada's profile: its built-in plugins, its stages, and the reasons that they give."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from berthmaster.model.cached import cached_property
from berthmaster.model.cluster import Cluster
from berthmaster.model.division_strategy import Strategy
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.scheduling import filters
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt
from berthmaster.scheduling.filter_remedies import FilterRemedy, LocationRemedy
from berthmaster.scheduling.karmada.division import assign, capacity_division, static_weights
from berthmaster.scheduling.karmada.selection import (
    KarmadaPlacement,
    candidates_of,
    estimate_of,
    places_whole_sets,
    region_groups,
    select,
)
from berthmaster.scheduling.peers import AFFINITY, ANTI_AFFINITY
from berthmaster.scheduling.prices import NO_PRICES, Prices
from berthmaster.scheduling.profile import Plugins, Profile, Stages
from berthmaster.scheduling.resources import UNLIMITED

DELETING: Final = "ClusterDeleting"
"""The filter that rejects clusters which are being deleted. It is not a plugin: no switch disables it."""
_SPREAD_FIELDS: Final = {"provider": "provider", "region": "region", "zone": "zones"}
"""The fields to spread by that a cluster can lack, and where its spec has them."""


class KarmadaReasons:
    """The reasons of one attempt."""

    def __init__(self, context: Context, compiled: KarmadaPlacement, attempt: Attempt) -> None:
        self._fleet = context.fleet
        self._request = context.request
        self._compiled = compiled
        self._attempt = attempt
        self._selected = set(attempt.selected.rows.tolist()) if attempt.selected is not None else set()

    def not_selected(self, row: int) -> str:
        region = self._fleet.regions.values[self._fleet.region_code[row]]
        if "region" in self._compiled.spread and region not in self._regions:
            equal = self._equal_region(region)
            why = f"; it is as good as {equal}, which comes first by name" if equal else ""
            return f"its region {region} was not selected; selected were {', '.join(self._regions)}{why}"
        taken = f"the spread constraints selected {len(self._selected)} of {len(self._attempt.rows)} clusters that fit"
        equal = self._equal_cluster(row)
        why = f"; it is as good as {equal}, which comes first by name" if equal else ""
        return f"{taken}; {self._name(row)} is number {self._rank[row]} by score and capacity{why}"

    def assigned(self, row: int, replicas: int) -> str:
        strategy, added = self._compiled.strategy, replicas - self._request.current.get(self._name(row), 0)
        ignoring = {Strategy.DUPLICATED: "Duplicated ignores", Strategy.STATIC_WEIGHT: "static weights ignore"}
        if strategy not in ignoring or not self._request.divides_replicas:
            return ""
        room, bound_by = self.capacity(row)
        if room is None or added <= room:
            return ""
        by = f" ({bound_by})" if bound_by else ""
        fit = f"only {room:,} of {added:,} more replicas fit{by}" if room else f"no further replica fits{by}"
        return f"{fit}: {ignoring[strategy]} capacity, a division by dynamicWeight or Aggregated obeys it"

    def _name(self, row: int) -> str:
        (name,) = self._fleet.names(np.array([row]))
        return name

    def _equal_region(self, region: str) -> str:
        """Return the selected region of the same weight that precedes a region by name; empty without one."""
        candidates = self._attempt.candidates
        if candidates is None:
            return ""
        weights = {each.name: each.weight for each in region_groups(self._compiled, self._request.replicas, candidates)}
        equal = [each for each in self._regions if weights[each] == weights.get(region) and each < region]
        return equal[-1] if equal else ""

    def _equal_cluster(self, row: int) -> str:
        """Return the selected cluster with the same score and room that precedes a cluster by name; empty if none."""
        candidates = self._attempt.candidates
        if candidates is None or candidates.tiers is not None:
            return ""
        scores = candidates.scores if candidates.scores is not None else np.zeros(len(candidates), dtype=np.int64)
        keys = list(zip(scores.tolist(), candidates.available.tolist(), strict=True))
        rows = candidates.rows.tolist()
        own, name = keys[rows.index(row)], self._name(row)
        equal = [self._name(other) for other, key in zip(rows, keys, strict=True) if key == own]
        chosen = [each for each in equal if self._fleet.row_of[each] in self._selected and each < name]
        return max(chosen, default="")

    def no_replicas(self, row: int) -> str:
        if not self._request.replicas:
            return "the workload requests no replicas"
        if self._tier_of.get(row, 0) > self._last_tier:
            return "the group and the overflow before it hold all replicas"
        if self._keeps_what_is_assigned():
            return "the current assignment is kept and leaves no replicas for it"
        if not self.weights.get(row):
            by_rule = self._compiled.strategy is Strategy.STATIC_WEIGHT
            return "no static weight rule matches it" if by_rule else "no further replica fits"
        if self._compiled.strategy is Strategy.AGGREGATED:
            return "clusters before it hold all replicas"
        return "its share is less than one replica"

    @cached_property
    def _rank(self) -> dict[int, int]:
        """The position of each row in the order of the candidates, from 1."""
        candidates = self._attempt.candidates
        if candidates is None:
            return {}
        rows = candidates.rows[candidates.best(len(candidates))].tolist()
        return {row: place for place, row in enumerate(rows, start=1)}

    @cached_property
    def _tier_of(self) -> dict[int, int]:
        """The overflow order of each selected row. Empty if all clusters match the group's own affinity."""
        selected = self._attempt.selected
        if selected is None or selected.tiers is None:
            return {}
        return dict(zip(selected.rows.tolist(), selected.tiers.tolist(), strict=True))

    @cached_property
    def _last_tier(self) -> int:
        assignment = self._attempt.assignment or {}
        filled = [self._tier_of.get(self._fleet.row_of[name], 0) for name, count in assignment.items() if count]
        return max(filled, default=0)

    @cached_property
    def _regions(self) -> list[str]:
        return [] if self._attempt.selected is None else sorted(set(self._attempt.selected.regions()))

    def _keeps_what_is_assigned(self) -> bool:
        """Return whether a division by capacity only removed replicas or changed nothing. It ignores tiers."""
        selected, by_capacity = self._attempt.selected, self._compiled.strategy.by_capacity
        if self._request.fresh or not by_capacity or selected is None or selected.assigned is None:
            return False
        return selected.tiers is None and int(selected.assigned.sum()) >= self._request.replicas

    def capacity(self, row: int) -> tuple[int | None, str]:
        if not self._request.replicas and not places_whole_sets(self._request, self._compiled):
            return None, ""
        estimate = estimate_of(self._fleet, self._request, self._compiled, row)
        return (None, "") if estimate.replicas >= UNLIMITED else (estimate.replicas, estimate.bound_by)

    @cached_property
    def weights(self) -> Mapping[int, int]:
        selected = self._attempt.selected
        if selected is None:
            return {}
        if self._compiled.strategy is Strategy.STATIC_WEIGHT:
            return dict(zip(selected.rows.tolist(), static_weights(self._compiled, selected).tolist(), strict=True))
        if self._compiled.strategy.by_capacity and self._request.divides_replicas:
            division = capacity_division(self._request, selected, self._request.replicas)
            return dict(zip(division.clusters.rows.tolist(), division.weights.tolist(), strict=True))
        return {}


STAGES: Final = Stages(
    members=filters.ClusterTerminatingFilter(DELETING),
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
    prices: Prices = NO_PRICES,
) -> Profile:
    """Return Karmada's profile.

    ``component_sets``: Karmada's gate ``MultiplePodTemplatesScheduling``. Only workloads with components differ.
    """
    stages = replace(STAGES, compile=partial(KarmadaPlacement, component_sets=component_sets))
    return Profile(plugins or built_in(), stages, keep_empty, limits, prices)


def built_in(*, workload_affinity: bool = False) -> Plugins:
    """Return Karmada's plugins, with those behind the feature gate ``WorkloadAffinity`` if requested."""
    gated = (WorkloadAffinityFilter(), WorkloadAntiAffinityFilter()) if workload_affinity else ()
    plugins = (
        filters.ClusterAffinityFilter(),
        filters.TaintTolerationFilter(),
        filters.APIEnablementFilter(),
        SpreadConstraintFilter(),
        filters.ClusterEvictionFilter(),
        *gated,
    )
    return Plugins(plugins, (filters.ClusterLocalityScore(),))


def rejection_phrase(plugin: str) -> str:
    """Return what is said about clusters that a filter rejects; for the filter of a third party its name is enough."""
    known = (STAGES.members, *built_in(workload_affinity=True).filters)
    return next((each.phrase for each in known if each.name == plugin), f"cluster(s) are rejected by {plugin}")


class SpreadConstraintFilter(filters.PlacementFilter):
    """Require the fields that the placement spreads by. A cluster without them belongs to no group of a spread."""

    name = "SpreadConstraint"
    phrase = "cluster(s) did not have a property that the placement spreads by"

    def phrase_of(self, placement: Placement) -> str:
        properties = [f"{_SPREAD_FIELDS[each]} property" for each in _spread_fields(placement)]
        return f"cluster(s) did not have {' or '.join(properties)}" if properties else self.phrase

    def column(self, context: Context) -> Column[np.bool_] | None:
        fields = _spread_fields(context.compiled.placement)
        return context.fleet.column(fields, lambda each: not any(_missing(fields, each)), np.False_) if fields else None

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        missing = next(_missing(_spread_fields(context.compiled.placement), cluster), None)
        return None if missing is None else f"has no {missing}, but the placement spreads by {missing}"

    def remedies(self, context: Context, cluster: Cluster) -> Sequence[FilterRemedy]:
        return [LocationRemedy(each) for each in _missing(_spread_fields(context.compiled.placement), cluster)]


def _spread_fields(placement: Placement) -> tuple[str, ...]:
    fields = (constraint.spread_by_field for constraint in placement.spread_constraints)
    return tuple(field for field in fields if field in _SPREAD_FIELDS)


def _missing(fields: Sequence[str], cluster: Cluster) -> Iterator[str]:
    return (each for each in dict.fromkeys(fields) if not getattr(cluster.spec, _SPREAD_FIELDS[each]))


class WorkloadAffinityFilter(filters.Filter):
    """Require that every scheduled peer of the affinity group is on the cluster."""

    name = "WorkloadAffinity"
    phrase = "ResourceBinding with the same affinity group does not target this cluster"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        request, group = context.request, context.request.affinity_group
        if not group:
            return rows
        total, counts = context.peers.counts(AFFINITY, request.namespace, group, except_for=request.name)
        names = context.fleet.names(rows)
        passing = [name in request.current or counts.get(name, 0) == total for name in names]
        return rows[np.array(passing, dtype=np.bool_)]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        request = context.request
        peers = context.peers.of(AFFINITY, request.namespace, request.affinity_group, except_for=request.name)
        missing = min((name for name, clusters in peers.items() if cluster.name not in clusters), default=None)
        return missing and f"does not have {missing}, of the affinity group {request.affinity_group}"


class WorkloadAntiAffinityFilter(filters.Filter):
    """Reject clusters that have a peer of the anti-affinity group, even if they have the workload."""

    name = "WorkloadAntiAffinity"
    phrase = "cluster already has workload with the same anti-affinity group"

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        request, group = context.request, context.request.anti_affinity_group
        if not group:
            return rows
        _, counts = context.peers.counts(ANTI_AFFINITY, request.namespace, group, except_for=request.name)
        return rows[np.array([name not in counts for name in context.fleet.names(rows)], dtype=np.bool_)]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        request = context.request
        peers = context.peers.of(ANTI_AFFINITY, request.namespace, request.anti_affinity_group, except_for=request.name)
        present = min((name for name, clusters in peers.items() if cluster.name in clusters), default=None)
        return present and f"has {present}, of the anti-affinity group {request.anti_affinity_group}"
