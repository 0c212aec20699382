"""Explain why Karmada's selection skipped a cluster, or why its division gave it no replicas."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from berthmaster.scheduling.compiled_placement import Strategy
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt
from berthmaster.scheduling.karmada.division import capacity_division, static_weights
from berthmaster.scheduling.karmada.placement import KarmadaPlacement
from berthmaster.scheduling.karmada.selection import estimate_of, places_whole_sets
from berthmaster.scheduling.resources import UNLIMITED


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
            return f"its region {region} was not selected; selected were {', '.join(self._regions)}"
        taken = f"the spread constraints selected {len(self._selected)} of {len(self._attempt.rows)} clusters that fit"
        name = self._fleet.names(np.array([row]))[0]
        return f"{taken}; {name} is number {self._rank[row]} by score and capacity"

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
        """The last tier that got replicas."""
        assignment = self._attempt.assignment or {}
        filled = [self._tier_of.get(self._fleet.row_of[name], 0) for name, replicas in assignment.items() if replicas]
        return max(filled, default=0)

    @cached_property
    def _regions(self) -> list[str]:
        return [] if self._attempt.selected is None else sorted(set(self._attempt.selected.regions()))

    def _keeps_what_is_assigned(self) -> bool:
        """Return whether a division by capacity only removed replicas or changed nothing. It ignores tiers."""
        selected = self._attempt.selected
        by_capacity = self._compiled.strategy in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}
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
        if self._compiled.strategy in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED} and self._request.divides_replicas:
            division = capacity_division(self._request, selected, self._request.replicas)
            return dict(zip(division.clusters.rows.tolist(), division.weights.tolist(), strict=True))
        return {}
