"""Compile a placement for Karmada's stages: the strategy, the static weights and the spread constraints."""

from functools import reduce

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.policy import Placement, ReplicaSchedulingStrategy, SpreadConstraint
from berthmaster.scheduling.columns import AFFINITY_STEPS, Column, IntArray, Journal
from berthmaster.scheduling.fleet import (
    Affinities,
    AffinityColumn,
    CompiledPlacement,
    Fleet,
    Strategy,
    strategy_of,
)


class KarmadaPlacement(CompiledPlacement):
    """A compiled placement with what Karmada's selection and division read.

    Attributes:
        weights: the static weight of each row. None if all clusters have the same weight.
        constrained: selection obeys the spread constraints. Otherwise it selects every cluster that fits.
        whole_sets: a workload of several pod templates is placed as a whole: a constraint asks for exactly one cluster
            (karmada ``isMultiTemplateSchedulingApplicable``).
        spread: the last constraint for each field. A constraint by label has the empty field.
    """

    __slots__ = ("constrained", "spread", "strategy", "weights", "whole_sets")

    def __init__(
        self, placement: Placement, fleet: Fleet, affinities: Affinities, *, component_sets: bool = True
    ) -> None:
        super().__init__(placement, affinities)
        self.strategy = strategy_of(placement.replica_scheduling)
        self.weights = _static_weights(placement.replica_scheduling, fleet, affinities)
        if self.weights is not None:
            self.steps += self.weights.steps(fleet.capacity)
        self.constrained = bool(placement.spread_constraints) and not ignores_constraints(placement.replica_scheduling)
        self.whole_sets = component_sets and any(
            (each.spread_by_field, each.min_groups, each.max_groups) == ("cluster", 1, 1)
            for each in placement.spread_constraints
        )
        self.spread: dict[str, SpreadConstraint] = {
            constraint.spread_by_field: constraint for constraint in placement.spread_constraints
        }


class StaticWeights(Column[np.int64]):
    """The static weight of each row: the largest weight of the rules that match it, or 0."""

    __slots__ = ("_rules",)

    def __init__(self, journal: Journal, rules: list[tuple[AffinityColumn, int]]) -> None:
        super().__init__(journal)
        self._rules = rules

    def compute(self) -> IntArray:
        weights = (np.where(column.current(), np.int64(weight), np.int64(0)) for column, weight in self._rules)
        return reduce(np.maximum, weights)

    def steps(self, rows: int) -> int:
        own = super().steps(rows)
        return sum(AFFINITY_STEPS + column.steps(rows) + 8 * own for column, _ in self._rules)

    def compute_row(self, row: int) -> int:
        return max(weight if column.current()[row] else 0 for column, weight in self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def weight_of(self, cluster: Cluster) -> int:
        return max(weight if column.term.matches(cluster) else 0 for column, weight in self._rules)


def ignores_constraints(scheduling: ReplicaSchedulingStrategy | None) -> bool:
    """Return whether static weights disable spread constraints. An empty weight preference does not."""
    if strategy_of(scheduling) is not Strategy.STATIC_WEIGHT or scheduling is None:
        return False
    return scheduling.weight_preference is None or bool(scheduling.weight_preference.static_weight_list)


def _static_weights(
    scheduling: ReplicaSchedulingStrategy | None, fleet: Fleet, affinities: Affinities
) -> StaticWeights | None:
    preference = scheduling.weight_preference if scheduling is not None else None
    if preference is None or not preference.static_weight_list:
        return None
    rules = [(affinities.column(rule.target_cluster), rule.weight) for rule in preference.static_weight_list]
    return StaticWeights(fleet.structure, rules)
