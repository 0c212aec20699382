"""Why it landed there, and why not elsewhere: a decision explained, cluster by cluster.

Nothing here is worked out while deciding. A decision keeps what it looked at, and ``explain`` asks every plugin for
its reasons afterwards, on the same state of the fleet.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt, Decision, Failure
from berthmaster.scheduling.plan import Strategy, strategy_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.scores import Score


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
        bound_by: the resource that allows no more; empty with no capacity.
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
    """The reasons of a decision that this scheduler just made; the fleet must not have changed since.

    The strategy is what the placement says of it in Karmada's words; other profiles have their own, and
    ``explain_groups`` says the rest.
    """
    groups = scheduler.plan(request.placement).groups
    names = [group.name or "" for group in groups]
    first = groups.index(decision.attempts[0].group) if decision.attempts else 0
    return Diagnosis(
        strategy_of(request.placement.replica_scheduling),
        names[:first],
        explain_groups(scheduler, request, decision),
        names[first + len(decision.attempts) :],
    )


def explain_groups(scheduler: Scheduler, request: Request, decision: Decision) -> list[GroupDiagnosis]:
    """The same of the groups that were tried, whatever the scheduler's profile."""
    return [_explain_attempt(scheduler, request, attempt) for attempt in decision.attempts]


def _explain_attempt(scheduler: Scheduler, request: Request, attempt: Attempt) -> GroupDiagnosis:
    explainer = _Explainer(scheduler, request, attempt)
    clusters = [cluster for cluster in scheduler.fleet.clusters if cluster is not None]
    explained = [explainer.explain(cluster) for cluster in sorted(clusters, key=lambda cluster: cluster.name)]
    return GroupDiagnosis(attempt.group.name, attempt.failure, explained)


class _Explainer:
    def __init__(self, scheduler: Scheduler, request: Request, attempt: Attempt) -> None:
        plan = scheduler.plan(request.placement)
        self.filters = scheduler.filters
        self.fleet = scheduler.fleet
        self.request = request
        self.attempt = attempt
        self.context = Context(scheduler.fleet, request, plan, attempt.group, scheduler.peers)
        self.reasons = scheduler.stages.reasons(self.context, attempt)
        self.scores = _scores(scheduler.profile.plugins.scores, self.context, attempt)
        self.selected = set(attempt.selected.rows.tolist()) if attempt.selected is not None else set()

    def explain(self, cluster: Cluster) -> ClusterDiagnosis:
        row = self.fleet.row_of[cluster.name]
        current = self.request.current.get(cluster.name)
        scores = self.scores.get(row)
        if scores is None:
            rejections = self._rejections(cluster)
            reason = f"{cluster.name} {rejections[0].reason}" if rejections else ""
            return ClusterDiagnosis(cluster.name, Outcome.REJECTED, reason, rejections, current=current)
        replicas = (self.attempt.assignment or {}).get(cluster.name)
        outcome, reason = self._outcome(row, replicas)
        capacity, bound_by = self.reasons.capacity(row)
        return ClusterDiagnosis(
            cluster.name,
            outcome,
            reason,
            scores=dict(scores),
            capacity=capacity,
            bound_by=bound_by,
            current=current,
            weight=self.reasons.weights.get(row),
            replicas=replicas,
        )

    def _rejections(self, cluster: Cluster) -> list[Rejection]:
        found = []
        for plugin in self.filters:
            spared = plugin.exempts_current and cluster.name in self.request.current
            reason = None if spared else plugin.reason(self.context, cluster)
            if reason is not None:
                found.append(Rejection(plugin.name, reason))
        return found

    def _outcome(self, row: int, replicas: int | None) -> tuple[Outcome, str]:
        if replicas is not None:
            return Outcome.ASSIGNED, ""
        failure = self.attempt.failure
        if row not in self.selected:
            if self.attempt.selected is None and failure is not None:
                return Outcome.NOT_SELECTED, failure.message
            return Outcome.NOT_SELECTED, self.reasons.not_selected(row)
        if failure is not None:
            return Outcome.NO_REPLICAS, failure.message
        return Outcome.NO_REPLICAS, self.reasons.no_replicas(row)


def _scores(plugins: Sequence[Score], context: Context, attempt: Attempt) -> Mapping[int, Mapping[str, int]]:
    """What each plugin gave each row that fits; nothing where they were not asked, or could not say."""
    scores: dict[int, dict[str, int]] = {row: {} for row in attempt.rows.tolist()}
    if attempt.candidates is not None:
        for plugin in plugins:
            given = plugin.scores(context, attempt.rows)
            for position, told in enumerate(scores.values()):
                told[plugin.name] = 0 if given is None else int(given[position])
    return scores
