"""The minimal decision never violates its policy and never moves more than needed, by full enumeration."""

import itertools
from fractions import Fraction
from math import ceil, floor

import oracle
import strategies as draws
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.scheduling.karmada.minimal import MinimalDecision, decide_minimal
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

TOLERANCES = st.sampled_from([0, 10, 50])
roomy = st.lists(
    st.builds(
        draws.roomy_cluster, st.sampled_from(draws.NAMES[:6]), st.sampled_from(draws.REGIONS), st.integers(0, 6)
    ),
    min_size=2, max_size=5, unique_by=lambda each: each.name,
)  # fmt: skip
spread = st.builds(
    lambda low, more, clusters, spare, by_region: (
        ([{"spreadByField": "region", "minGroups": low, "maxGroups": low + more}] if by_region else [])
        + [{"spreadByField": "cluster", "minGroups": clusters, "maxGroups": clusters + spare}]
    ),
    st.integers(1, 2), st.integers(0, 1), st.integers(1, 3), st.integers(0, 2), st.booleans(),
)  # fmt: skip


class Rules:
    """What a policy asks of an assignment, written down as it is documented."""

    def __init__(self, scheduler: Scheduler, request: Request, decided: MinimalDecision, tolerance: int):
        attempt = decided.fresh.attempts[-1]
        names, spread = attempt.candidates.names(), scheduler.compile(request.placement).spread
        self.request, self.tolerance = request, Fraction(tolerance, 100)
        self.strategy = strategy_of(request.placement.replica_scheduling)
        self.copies = self.strategy is Strategy.DUPLICATED or not request.divides_replicas
        self.available = dict(zip(names, attempt.candidates.available.tolist(), strict=True))
        self.region = {name: scheduler.fleet.get(name).spec.region for name in names}
        tiers = attempt.candidates.tiers
        self.tier = dict(zip(names, [0] * len(names) if tiers is None else tiers.tolist(), strict=True))
        self.fresh = dict(decided.fresh.assignment)
        self.constrained = scheduler.compile(request.placement).constrained
        self.limits = []
        for field, value in (("cluster", dict(zip(names, names, strict=True))), ("region", self.region)):
            if field in spread or (field == "cluster" and "region" in spread):
                low, high = (spread[field].min_groups, spread[field].max_groups) if field in spread else (0, 0)
                used, chosen = ({value[name] for name in each} for each in (self.fresh, attempt.selected.names()))
                self.limits.append((value, min(low, len(used)), max(high, len(chosen))))
        self.by_region = "region" in spread

    def allow(self, assignment: dict[str, int]) -> bool:
        if not assignment.keys() <= self.available.keys() or (self.constrained and not self.is_spread(assignment)):
            return False
        if self.copies:
            return self.constrained or assignment.keys() >= self.fresh.keys()
        return sum(assignment.values()) == self.request.replicas and self.is_divided(assignment)

    def is_spread(self, assignment) -> bool:
        if any(not low <= len({value[name] for name in assignment}) <= high for value, low, high in self.limits):
            return False
        held = sum(self.available[name] for name in assignment)
        must_hold = self.copies and not self.by_region and self.strategy is not Strategy.DUPLICATED
        return not must_hold or held >= self.request.replicas

    def is_divided(self, assignment) -> bool:
        by_capacity = self.strategy is not Strategy.STATIC_WEIGHT
        if by_capacity and any(count > self.available[name] for name, count in assignment.items()):
            return False
        for tier in set(self.tier.values()):
            of_tier = [name for name in self.available if self.tier[name] == tier]
            replicas = sum(self.fresh.get(name, 0) for name in of_tier)
            if sum(assignment.get(name, 0) for name in of_tier) != replicas:
                return False
            judged = [name for name in of_tier if name in assignment or not self.constrained]
            if self.strategy is not Strategy.AGGREGATED and not self.shares_are_right(assignment, judged, replicas):
                return False
        return True

    def shares_are_right(self, assignment, names, replicas) -> bool:
        weights = {name: self.weight(name) for name in names}
        if self.strategy is Strategy.STATIC_WEIGHT and not any(weights.values()):
            weights = dict.fromkeys(names, 1)
        seats = oracle.webster(replicas, weights, self.request.uid)
        for name, weight in weights.items():
            share = Fraction(replicas * weight, max(1, sum(weights.values())))
            low = min(floor(share * (1 - self.tolerance)), seats.get(name, 0))
            high = max(ceil(share * (1 + self.tolerance)), seats.get(name, 0))
            if not low <= assignment.get(name, 0) <= high:
                return False
        return True

    def weight(self, name) -> int:
        if self.strategy is Strategy.DYNAMIC_WEIGHT:
            return self.available[name]
        preference = self.request.placement.replica_scheduling.weight_preference
        rules = preference.static_weight_list if preference is not None else ()
        cluster = self.clusters[name]
        return max((each.weight for each in rules if oracle.matches(each.target_cluster, cluster)), default=0)

    def every_assignment(self):
        names = sorted(self.available)
        if self.copies:
            for size in range(1, len(names) + 1):
                for chosen in itertools.combinations(names, size):
                    yield dict.fromkeys(chosen, self.request.replicas)
            return
        counts = range(self.request.replicas + 1)
        for chosen in itertools.product(*([counts] * (len(names) - 1))):
            rest = self.request.replicas - sum(chosen)
            if rest >= 0:
                yield {name: count for name, count in zip(names, (*chosen, rest), strict=True) if count}


def changed(before: dict[str, int], after: dict[str, int], *, copies: bool) -> int:
    if copies:
        return len(before.keys() ^ after.keys())
    return sum(abs(before.get(name, 0) - after.get(name, 0)) for name in before.keys() | after.keys())


def check(clusters, binding, tolerance):
    scheduler = Scheduler(Fleet(clusters), karmada_profile())
    request = Request.of(binding)
    decided = decide_minimal(scheduler, request, tolerance=tolerance)
    assume(decided.fresh.failure is None and decided.fresh.attempts)
    assume(request.replicas or not request.divides_replicas)
    rules = Rules(scheduler, request, decided, tolerance)
    rules.clusters = {each.name: each for each in clusters}
    assume(not rules.copies or set(rules.tier.values()) == {0})
    assert rules.allow(rules.fresh)
    assert rules.allow(dict(decided.assignment))
    needed = min(
        changed(request.current, each, copies=rules.copies) for each in rules.every_assignment() if rules.allow(each)
    )
    found = changed(request.current, decided.assignment, copies=rules.copies)
    event("exact" if decided.is_exact else f"heuristic, {found - needed} too many")
    event("moves" if needed else "stays")
    assert found >= needed
    assert found == needed or not decided.is_exact
    assert found <= changed(request.current, rules.fresh, copies=rules.copies)
    assert bool(decided.drift.keys() - {DriftKind.GROUP}) == (not rules.allow(request.current)) or (
        DriftKind.GROUP in decided.drift
    )


def as_assigned(binding, at_most=8):
    """Return the binding with as many requested replicas as are assigned, if they are few."""
    current = {each.name: each.replicas for each in binding.spec.clusters if each.replicas}
    total = sum(current.values())
    wanted = total if 0 < total <= at_most else min(binding.spec.replicas, at_most)
    return draws.at(replace(binding, spec=replace(binding.spec, replicas=wanted)), current)


@settings(max_examples=60)
@given(draws.fleets(min_size=2, max_size=5), draws.bindings(replicas=st.integers(1, 6), fresh=False), TOLERANCES)
def test_a_minimal_decision_moves_no_more_than_needed(clusters, binding, tolerance):
    check(clusters, as_assigned(binding), tolerance)


@settings(max_examples=120)
@given(
    roomy,
    draws.bindings(placed=draws.placements(scheduling=draws.dividing | st.just(draws.DUPLICATED), spread=spread),
                   replicas=st.integers(1, 6), fresh=False),
    TOLERANCES,
)  # fmt: skip
def test_a_minimal_decision_with_spread_constraints_moves_no_more_than_needed(clusters, binding, tolerance):
    unlimited = replace(binding.spec.placement, cluster_affinity=None, cluster_affinities=None)
    check(clusters, as_assigned(draws.with_placement(binding, unlimited)), tolerance)


@settings(max_examples=40)
@given(
    draws.fleets(min_size=3, max_size=6),
    draws.bindings(placed=draws.overflowing_placements(), replicas=st.integers(1, 6), fresh=False),
    TOLERANCES,
)
def test_a_minimal_decision_with_overflow_moves_no_more_than_needed(clusters, binding, tolerance):
    check(clusters, as_assigned(binding), tolerance)
