"""What Karmada's stages read in a placement: how to select and how to assign."""

from functools import reduce

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import Placement, ReplicaSchedulingStrategy, SpreadConstraint
from berthmaster.scheduling.columns import Column, IntArray, Journal
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.group import Affinities, AffinityColumn
from berthmaster.scheduling.plan import Plan, Strategy, strategy_of


class KarmadaPlan(Plan):
    """A placement's groups, and beside them how Karmada selects and assigns.

    Attributes:
        strategy: how replicas are assigned.
        weights: the static weight of each row; None where every cluster weighs the same.
        constrained: selection obeys the spread constraints; otherwise it takes every cluster that fits.
        spread: the last constraint for each field, the empty one for a constraint by label.
    """

    __slots__ = ("constrained", "spread", "strategy", "weights")

    def __init__(self, placement: Placement, fleet: Fleet, affinities: Affinities) -> None:
        super().__init__(placement, affinities)
        self.strategy = strategy_of(placement.replica_scheduling)
        self.weights = _static_weights(placement.replica_scheduling, fleet, affinities)
        self.constrained = bool(placement.spread_constraints) and not _ignores_constraints(placement.replica_scheduling)
        self.spread: dict[str, SpreadConstraint] = {
            constraint.spread_by_field: constraint for constraint in placement.spread_constraints
        }


def karmada_plan(plan: Plan) -> KarmadaPlan:
    """A plan under this profile: whoever takes Karmada's stages takes its plan, too."""
    return plan  # type: ignore[return-value] # asked in every decision: a cast costs as much as a lookup


class StaticWeights(Column[np.int64]):
    """The static weight of each row: the largest of the rules that mean it, 0 for none."""

    __slots__ = ("_rules",)

    def __init__(self, journal: Journal, rules: list[tuple[AffinityColumn, int]]) -> None:
        super().__init__(journal)
        self._rules = rules

    def compute(self) -> IntArray:
        """All rows."""
        weights = [np.where(column.current(), np.int64(weight), np.int64(0)) for column, weight in self._rules]
        return reduce(np.maximum, weights)

    def compute_row(self, row: int) -> int:
        """One row."""
        return max(weight if column.current()[row] else 0 for column, weight in self._rules)

    def weight_of(self, cluster: Cluster) -> int:
        """The weight of a cluster, be it in the fleet or not."""
        return max(weight if column.term.matches(cluster) else 0 for column, weight in self._rules)


def _ignores_constraints(scheduling: ReplicaSchedulingStrategy | None) -> bool:
    """Whether static weights rule spread constraints out; a weight preference without any content does not."""
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
