"""Why it landed there, and why not elsewhere: a decision explained, cluster by cluster.

Nothing here is worked out while deciding. A decision keeps what it looked at, and ``explain`` asks every plugin for
its reasons afterwards, on the same state of the fleet.
"""

from collections import Counter
from enum import Enum
from functools import cached_property

import msgspec

from extender.scheduling.assignment.division import load_of, static_weights
from extender.scheduling.candidates import Candidates, estimate_of
from extender.scheduling.context import Context
from extender.scheduling.decision import Attempt, Decision, Failure
from extender.scheduling.plan import Plan, Strategy
from extender.scheduling.request import Request
from extender.scheduling.resources import UNLIMITED
from extender.scheduling.scheduler import Scheduler
from fleet.model.cluster import Cluster

DELETING = "ClusterDeleting"


class Outcome(Enum):
    """How far a cluster came."""

    REJECTED = "rejected"
    """A filter ruled it out."""

    NOT_SELECTED = "not selected"
    """It fits, but the spread constraints took others, or could not be met."""

    NO_REPLICAS = "no replicas"
    """It was selected, but the division left nothing for it, or failed."""

    ASSIGNED = "assigned"
    """It gets the workload."""


class Told(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a diagnosis: encoded as it is, in camelCase."""


class Rejection(Told, frozen=True):
    """Why a filter ruled a cluster out: ``<cluster> <reason>`` is a sentence."""

    plugin: str
    reason: str


class ClusterDiagnosis(Told, frozen=True):
    """One cluster in one group's turn.

    Attributes:
        cluster: its name.
        outcome: how far it came.
        reason: why no further; empty for an assigned one.
        rejections: all filters that rule it out, not only the first.
        scores: what each score plugin gave.
        capacity: how many more replicas fit; None where nothing bounds them, or nothing was estimated.
        bound_by: what allows no more: a resource, or its scheduler estimator; empty with no capacity.
        current: replicas that are there now; None if it does not have the workload.
        weight: its weight in the division; None if it took no part.
        replicas: what it gets; None if it does not get the workload.
    """

    cluster: str
    outcome: Outcome
    reason: str = ""
    rejections: list[Rejection] = []
    scores: dict[str, int] = {}
    capacity: int | None = None
    bound_by: str = ""
    current: int | None = None
    weight: int | None = None
    replicas: int | None = None


class GroupDiagnosis(Told, frozen=True):
    """One group's turn: its name, why it was left (None if it won), and its clusters by name."""

    group: str | None
    failure: Failure | None
    clusters: list[ClusterDiagnosis]

    def rejected_by(self) -> list[tuple[str, int]]:
        """How many clusters each filter ruled out first, the busiest filter first."""
        counts = Counter(each.rejections[0].plugin for each in self.clusters if each.rejections)
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


class Diagnosis(Told, frozen=True):
    """A decision explained.

    Attributes:
        strategy: how replicas are divided.
        skipped: groups before the one that the walk started with.
        groups: those that were tried, in order.
        untried: groups after the one that won.
    """

    strategy: Strategy
    skipped: list[str]
    groups: list[GroupDiagnosis]
    untried: list[str]


def explain(scheduler: Scheduler, request: Request, decision: Decision) -> Diagnosis:
    """The reasons of a decision that this scheduler just made; the fleet must not have changed since."""
    plan = scheduler.plan(request.placement)
    names = [group.name or "" for group in plan.groups]
    first = plan.groups.index(decision.attempts[0].group) if decision.attempts else 0
    return Diagnosis(
        plan.strategy,
        names[:first],
        [_explain_attempt(scheduler, request, plan, attempt) for attempt in decision.attempts],
        names[first + len(decision.attempts) :],
    )


def _explain_attempt(scheduler: Scheduler, request: Request, plan: Plan, attempt: Attempt) -> GroupDiagnosis:
    explainer = _Explainer(scheduler, request, plan, attempt)
    clusters = [cluster for cluster in scheduler.fleet.clusters if cluster is not None]
    explained = [explainer.explain(cluster) for cluster in sorted(clusters, key=lambda cluster: cluster.name)]
    return GroupDiagnosis(attempt.group.name, attempt.failure, explained)


class _Explainer:
    def __init__(self, scheduler: Scheduler, request: Request, plan: Plan, attempt: Attempt) -> None:
        self.plugins = scheduler.profile.plugins
        self.fleet = scheduler.fleet
        self.request = request
        self.plan = plan
        self.attempt = attempt
        self.context = Context(scheduler.fleet, request, plan, attempt.group, scheduler.peers)
        self.fitting = set(attempt.rows.tolist())
        self.rank = _ranks(attempt.candidates)
        self.selected = set(attempt.selected.rows.tolist()) if attempt.selected is not None else set()
        self.weights = self._weights(attempt.selected) if attempt.selected is not None else {}

    def explain(self, cluster: Cluster) -> ClusterDiagnosis:
        row = self.fleet.row_of[cluster.name]
        current = self.request.current.get(cluster.name)
        if row not in self.fitting:
            rejections = self._rejections(cluster)
            reason = f"{cluster.name} {rejections[0].reason}" if rejections else ""
            return ClusterDiagnosis(cluster.name, Outcome.REJECTED, reason, rejections, current=current)
        replicas = (self.attempt.assignment or {}).get(cluster.name)
        outcome, reason = self._outcome(row, cluster.name, replicas)
        capacity, bound_by = self._capacity(row)
        return ClusterDiagnosis(
            cluster.name,
            outcome,
            reason,
            scores={plugin.name: plugin.score(self.context, cluster) for plugin in self.plugins.scores},
            capacity=capacity,
            bound_by=bound_by,
            current=current,
            weight=self.weights.get(row),
            replicas=replicas,
        )

    def _rejections(self, cluster: Cluster) -> list[Rejection]:
        found = [Rejection(DELETING, "is being deleted")] if cluster.deleting else []
        for plugin in self.plugins.filters:
            spared = plugin.exempts_current and cluster.name in self.request.current
            reason = None if spared else plugin.reason(self.context, cluster)
            if reason is not None:
                found.append(Rejection(plugin.name, reason))
        return found

    def _outcome(self, row: int, name: str, replicas: int | None) -> tuple[Outcome, str]:
        if replicas is not None:
            return Outcome.ASSIGNED, ""
        failure = self.attempt.failure
        if row not in self.selected:
            if self.attempt.selected is None and failure is not None:
                return Outcome.NOT_SELECTED, failure.message
            return Outcome.NOT_SELECTED, self._why_not_selected(row, name)
        if failure is not None:
            return Outcome.NO_REPLICAS, failure.message
        return Outcome.NO_REPLICAS, self._why_no_replicas(row)

    def _why_not_selected(self, row: int, name: str) -> str:
        region = self.fleet.regions.values[self.fleet.region_code[row]]
        if "region" in self.plan.spread and region not in self.regions:
            return f"its region {region} was not chosen; chosen were {', '.join(self.regions)}"
        taken = f"the spread constraints took {len(self.selected)} of {len(self.fitting)} clusters that fit"
        return f"{taken}; {name} is number {self.rank[row]} by score and capacity"

    def _why_no_replicas(self, row: int) -> str:
        if not self.request.replicas:
            return "no replicas are wanted"
        if self._is_beyond_what_was_filled(row):
            return "the group, and the overflow before it, hold all replicas"
        if self._keeps_what_is_assigned():
            return "what is assigned already is kept, which leaves nothing to place on it"
        if not self.weights.get(row):
            by_rule = self.plan.strategy is Strategy.STATIC_WEIGHT
            return "no rule of the static weights means it" if by_rule else "it has no room for another replica"
        if self.plan.strategy is Strategy.AGGREGATED:
            return "clusters that come before it hold all replicas"
        return "its share is less than one replica"

    def _is_beyond_what_was_filled(self, row: int) -> bool:
        """Whether overflow ended before the row's turn came."""
        return self.tier_of.get(row, 0) > self.last_tier

    @cached_property
    def tier_of(self) -> dict[int, int]:
        """The overflow order of each selected row; empty where all are the group's own."""
        selected = self.attempt.selected
        if selected is None or selected.tiers is None:
            return {}
        return dict(zip(selected.rows.tolist(), selected.tiers.tolist(), strict=True))

    @cached_property
    def last_tier(self) -> int:
        """The last overflow that got replicas."""
        assignment = self.attempt.assignment or {}
        filled = [self.tier_of.get(self.fleet.row_of[name], 0) for name, replicas in assignment.items() if replicas]
        return max(filled, default=0)

    @cached_property
    def regions(self) -> list[str]:
        """The regions of what was selected."""
        return [] if self.attempt.selected is None else sorted(set(self.attempt.selected.regions()))

    def _keeps_what_is_assigned(self) -> bool:
        """Whether a division by capacity only took replicas away, or changed nothing; tiers are told apart above."""
        selected = self.attempt.selected
        by_capacity = self.plan.strategy in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}
        if self.request.fresh or not by_capacity or selected is None or selected.assigned is None:
            return False
        return selected.tiers is None and int(selected.assigned.sum()) >= self.request.replicas

    def _capacity(self, row: int) -> tuple[int | None, str]:
        if not self.request.replicas:
            return None, ""
        estimate = estimate_of(self.fleet, self.request, row)
        return (None, "") if estimate.replicas >= UNLIMITED else (estimate.replicas, estimate.bound_by)

    def _weights(self, selected: Candidates) -> dict[int, int]:
        """The weight of each selected row; in overflow every tier divides by the same measure."""
        if self.plan.strategy is Strategy.STATIC_WEIGHT:
            return dict(zip(selected.rows.tolist(), static_weights(self.plan, selected).tolist(), strict=True))
        if self.plan.strategy in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED} and self.request.divides_replicas:
            load = load_of(self.request, selected, self.request.replicas)
            return dict(zip(load.clusters.rows.tolist(), load.weights.tolist(), strict=True))
        return {}


def _ranks(candidates: Candidates | None) -> dict[int, int]:
    """The place of each row in the order of the candidates, from 1."""
    if candidates is None:
        return {}
    rows = candidates.rows[candidates.best(len(candidates))].tolist()
    return {row: place for place, row in enumerate(rows, start=1)}
