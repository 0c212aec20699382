"""Explain a decision, cluster by cluster: why a cluster got the workload, and why others did not.

The scheduler computes no explanations. A decision keeps its attempts, and ``explain`` asks every plugin for its reasons
afterwards, on the same state of the fleet.

A decision stops at the first group that fits, and starts with the group of the current assignment. So it does not say
why an earlier group was left, or what a later one would hold. ``outlook`` does: it schedules the workload from scratch
into each group alone.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berthmaster.model.cluster import Cluster
from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.scheduling.columns import BoolArray
from berthmaster.scheduling.compiled_placement import Group
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt, Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.filter_remedies import FilterRemedy
from berthmaster.scheduling.filters import ClusterAffinityFilter, Filter, PlacementFilter, Score
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import UNLIMITED
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import TooLargeError

AFFINITY: Final = ClusterAffinityFilter.name
"""The filter that rejects the clusters outside of a group."""
_NAMED: Final = 6
"""The most names of clusters that are rejected for one reason."""
_MAX_UNASSIGNED: Final = 500
MAX_GROUPS: Final = 64
_OTHER: Final = "other filters"


class Outcome(Enum):
    """The last stage that a cluster passed."""

    REJECTED = "rejected"
    NOT_SELECTED = "not selected"
    """It fits, but the spread constraints selected others, or cannot be satisfied."""
    NO_REPLICAS = "no replicas"
    """It was selected, but the division gave it no replicas, or failed."""
    ASSIGNED = "assigned"


class Rejection(msgspec.Struct, frozen=True, rename="camel"):
    """Why a filter rejected a cluster: ``<cluster> <reason>`` is a sentence."""

    plugin: str
    reason: str


class ClusterDiagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """One cluster in one attempt.

    Attributes:
        reason: why it did not pass the next stage. Empty if it got the workload.
        rejections: all filters that reject it, not only the first.
        capacity: how many more replicas fit. None if nothing limits them, or if they were not estimated.
        weight: its weight in the division. None if it took no part.
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


class RejectedClusters(msgspec.Struct, frozen=True, rename="camel"):
    """The clusters of a group that a filter was the first to reject, for one reason.

    Attributes:
        plugin: the filter; empty if none is on record.
        also: the other filters that reject some of them.
    """

    plugin: str
    reason: str
    count: int
    clusters: list[str]
    also: list[str]


class GroupTotals(msgspec.Struct, frozen=True, rename="camel"):
    """What a shortened list of clusters leaves out.

    Attributes:
        outcomes: how many clusters ended at each stage. Stages without clusters are absent.
        outside: how many of the rejected clusters are not in the group at all.
        rejected: the other rejected clusters, the largest number first.
    """

    outcomes: dict[Outcome, int]
    outside: int
    rejected: list[RejectedClusters]
    unassigned: list[str]


class GroupDiagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """One group that was tried: its name, its failure (None if it won), and its clusters, ordered by name.

    ``totals``: the counts of a shortened list (``shortened``); absent if all clusters are listed.
    ``omitted_clusters``: how many a limit leaves out; absent without a limit.
    """

    group: str | None
    failure: Failure | None
    clusters: list[ClusterDiagnosis]
    totals: GroupTotals | msgspec.UnsetType = msgspec.UNSET
    omitted_clusters: int | msgspec.UnsetType = msgspec.UNSET

    def rejected_by(self) -> list[tuple[str, int]]:
        """Return how many clusters each filter was the first to reject, largest number first."""
        return largest_first(Counter(each.rejections[0].plugin for each in self.clusters if each.rejections))


class GroupFailure(NamedTuple):
    """Why one group that was tried failed.

    ``rejected``: how many clusters each filter was the first to reject, largest number first. Empty if clusters fit.
    """

    group: str | None
    failure: Failure
    rejected: list[tuple[str, int]]


class Diagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """A decision explained. ``skipped``: groups before the one that the scheduler started with."""

    strategy: Strategy
    skipped: list[str]
    groups: list[GroupDiagnosis]
    untried: list[str]


def explain(scheduler: Scheduler, request: Request, decision: Decision, most: int | None = None) -> Diagnosis:
    """Explain a decision that this scheduler just made. The fleet must not have changed since.

    The strategy is the one that the placement names, in Karmada's words. Profiles with strategies of their own use
    ``explain_groups``. With ``most``, groups are ``shortened``.
    """
    strategy = strategy_of(request.placement.replica_scheduling)
    if decision.failure is not None and decision.failure.kind is FailureKind.TOO_LARGE:
        return Diagnosis(strategy, [], [], [])  # no group was tried to its end
    groups = scheduler.compile(request.placement).groups
    names = [group.name or "" for group in groups]
    first = groups.index(decision.attempts[0].group) if decision.attempts else 0
    return Diagnosis(
        strategy,
        names[:first],
        explain_groups(scheduler, request, decision, most),
        names[first + len(decision.attempts) :],
    )


def explain_groups(
    scheduler: Scheduler, request: Request, decision: Decision, most: int | None = None
) -> list[GroupDiagnosis]:
    """Explain the groups that were tried, by any profile. With ``most``, groups are ``shortened``."""
    return [_explain_attempt(scheduler, request, attempt, most) for attempt in decision.attempts]


def explain_cluster(scheduler: Scheduler, request: Request, attempt: Attempt, cluster: Cluster) -> ClusterDiagnosis:
    """Explain one cluster in one attempt that this scheduler just made. The fleet must not have changed since."""
    return _Explainer(scheduler, request, attempt).explain(cluster)


def cluster_remedies(
    scheduler: Scheduler, request: Request, group: Group, cluster: Cluster
) -> list[FilterRemedy] | None:
    """Return what lets a cluster pass all filters in one group; None if no small change does. All of it is needed."""
    context = Context(scheduler.fleet, request, scheduler.compile(request.placement), group, scheduler.peers)
    found: list[FilterRemedy] = []
    for each in _filters_for(scheduler, request, cluster):
        if each.reason(context, cluster) is None:
            continue
        remedies = each.remedies(context, cluster)
        if not remedies:
            return None
        found += remedies
    return found


def _filters_for(scheduler: Scheduler, request: Request, cluster: Cluster) -> Sequence[Filter]:
    """Return the filters that may reject a cluster: those that do not exempt it for the workload that it has."""
    keeps = cluster.name in request.current
    return [each for each in scheduler.filters if not (keeps and each.exempts_current)]


def shortened(
    group: GroupDiagnosis,
    most: int | None,
    outside: Sequence[str] = (),
    unlisted: Mapping[Outcome, Sequence[str]] = MappingProxyType({}),
) -> GroupDiagnosis:
    """Return a group with counts, and without the clusters that filters reject.

    Args:
        most: the most clusters of each stage, those with the most replicas and the highest scores first; None for all.
        outside: the names of clusters that the affinity of the group does not select and ``group`` does not have.
        unlisted: the names of further clusters that pass all filters, by stage. They come after those of ``group``.
    """
    inside = [each for each in group.clusters if not any(found.plugin == AFFINITY for found in each.rejections)]
    counts = Counter(each.outcome for each in inside)
    counts.update({outcome: len(names) for outcome, names in unlisted.items()})
    beyond = len(outside) + len(group.clusters) - len(inside)
    if beyond:
        counts[Outcome.REJECTED] += beyond
    ordered = sorted(
        (each for each in inside if each.outcome is not Outcome.REJECTED),
        key=lambda each: _place(each.replicas, sum(each.scores.values()), each.capacity, each.cluster),
    )
    stages: dict[Outcome, list[ClusterDiagnosis]] = {outcome: [] for outcome in reversed(Outcome)}
    for each in ordered:
        stages[each.outcome].append(each)
    unassigned = [each.cluster for each in group.clusters if each.outcome is not Outcome.ASSIGNED]
    more = chain.from_iterable(names for outcome, names in unlisted.items() if outcome is not Outcome.ASSIGNED)
    return GroupDiagnosis(
        group.group,
        group.failure,
        [each for some in stages.values() for each in some[:most]],
        GroupTotals(dict(counts), beyond, _by_reason(inside), sorted([*unassigned, *outside, *more])[:_MAX_UNASSIGNED]),
    )


def _place(replicas: int | None, score: int, capacity: int | None, cluster: str) -> tuple[int, int, int, str]:
    """Return the sort key of a cluster among those of its stage."""
    return -(replicas or 0), -score, -(capacity or 0), cluster


def _by_reason(clusters: Sequence[ClusterDiagnosis]) -> list[RejectedClusters]:
    found: dict[tuple[str, str], list[ClusterDiagnosis]] = {}
    for each in clusters:
        if each.outcome is Outcome.REJECTED:
            first = each.rejections[0] if each.rejections else Rejection("", each.reason)
            found.setdefault((first.plugin, first.reason), []).append(each)
    rows = [
        RejectedClusters(
            plugin,
            reason,
            len(some),
            [each.cluster for each in some[:_NAMED]],
            list(dict.fromkeys(more.plugin for each in some for more in each.rejections[1:])),
        )
        for (plugin, reason), some in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.plugin, row.reason))


def failures_of(scheduler: Scheduler, request: Request, decision: Decision) -> list[GroupFailure]:
    """Return why each group of a decision failed that this scheduler just made. The fleet must not have changed since.

    It says what ``explain`` says about groups, without reasons for each cluster, which take many times longer.
    """
    return [
        GroupFailure(each.group.name, each.failure, _first_rejections(scheduler, request, each))
        for each in decision.attempts
        if each.failure is not None
    ]


def _first_rejections(scheduler: Scheduler, request: Request, attempt: Attempt) -> list[tuple[str, int]]:
    if attempt.failure is None or attempt.failure.kind is not FailureKind.NO_FIT:
        return []
    context = Context(scheduler.fleet, request, scheduler.compile(request.placement), attempt.group, scheduler.peers)
    rows, counts = scheduler.fleet.occupied.nonzero()[0], Counter[str]()
    for plugin in scheduler.filters:
        left = plugin.prune(context, rows)
        counts[plugin.name] += len(rows) - len(left)
        rows = left
    return largest_first(+counts)


def largest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _explain_attempt(scheduler: Scheduler, request: Request, attempt: Attempt, most: int | None) -> GroupDiagnosis:
    explainer, fleet = _Explainer(scheduler, request, attempt), scheduler.fleet
    clusters = sorted(fleet, key=lambda cluster: cluster.name)
    if most is None:
        return GroupDiagnosis(attempt.group.name, attempt.failure, list(map(explainer.explain, clusters)))
    # A shortened group has only the number and the names of clusters outside of it, and of those that are not listed.
    inside, outside = explainer.inside(), []
    if inside is not None:
        outside = [each.name for each in clusters if not inside[fleet.row_of[each.name]]]
        clusters = [each for each in clusters if inside[fleet.row_of[each.name]]]
    listed, unlisted = explainer.divided(clusters, most)
    found = GroupDiagnosis(attempt.group.name, attempt.failure, list(map(explainer.explain, listed)))
    return shortened(found, most, outside, unlisted)


class _Explainer:
    def __init__(self, scheduler: Scheduler, request: Request, attempt: Attempt) -> None:
        compiled = scheduler.compile(request.placement)
        self.scheduler = scheduler
        self.fleet = scheduler.fleet
        self.request = request
        self.attempt = attempt
        self.context = Context(scheduler.fleet, request, compiled, attempt.group, scheduler.peers)
        self.reasons = scheduler.profile.stages.reasons(self.context, compiled, attempt)
        self.scores = _scores(scheduler.profile.plugins.scores, self.context, attempt)
        self.selected = set(attempt.selected.rows.tolist()) if attempt.selected is not None else set()

    def inside(self) -> BoolArray | None:
        """Return which rows are in the group; None if all are, or if nothing asks for it."""
        plugin = next((each for each in self.scheduler.filters if each.name == AFFINITY), None)
        column = plugin.column(self.context) if isinstance(plugin, PlacementFilter) else None
        return None if column is None else column.current()

    def divided(self, clusters: Sequence[Cluster], most: int) -> tuple[list[Cluster], Mapping[Outcome, Sequence[str]]]:
        """Return the clusters that a group of ``most`` clusters in each stage lists, and the names of the others."""
        listed, stages = [], defaultdict[Outcome, list[Cluster]](list)
        for each in clusters:
            row = self.fleet.row_of[each.name]
            if row in self.scores:
                stages[self._stage(row, self._replicas(each))].append(each)
            else:
                listed.append(each)
        unlisted = {}
        for outcome, some in stages.items():
            ordered = sorted(some, key=self._place) if len(some) > most else some
            listed += ordered[:most]
            unlisted[outcome] = [each.name for each in ordered[most:]]
        return listed, unlisted

    def explain(self, cluster: Cluster) -> ClusterDiagnosis:
        row = self.fleet.row_of[cluster.name]
        current = self.request.current.get(cluster.name)
        scores = self.scores.get(row)
        if scores is None:
            rejections = self._rejections(cluster)
            reason = f"{cluster.name} {rejections[0].reason}" if rejections else ""
            return ClusterDiagnosis(cluster.name, Outcome.REJECTED, reason, rejections, current=current)
        replicas = self._replicas(cluster)
        outcome = self._stage(row, replicas)
        capacity, bound_by = self.reasons.capacity(row)
        return ClusterDiagnosis(
            cluster.name,
            outcome,
            self._reason(row, outcome, replicas),
            scores=dict(scores),
            capacity=capacity,
            bound_by=bound_by,
            current=current,
            weight=self.reasons.weights.get(row),
            replicas=replicas,
        )

    def _rejections(self, cluster: Cluster) -> list[Rejection]:
        asked = _filters_for(self.scheduler, self.request, cluster)
        return [
            Rejection(each.name, reason) for each in asked if (reason := each.reason(self.context, cluster)) is not None
        ]

    def _replicas(self, cluster: Cluster) -> int | None:
        return (self.attempt.assignment or {}).get(cluster.name)

    def _place(self, cluster: Cluster) -> tuple[int, int, int, str]:
        row = self.fleet.row_of[cluster.name]
        capacity, _ = self.reasons.capacity(row)
        return _place(self._replicas(cluster), sum(self.scores[row].values()), capacity, cluster.name)

    def _stage(self, row: int, replicas: int | None) -> Outcome:
        if replicas is not None:
            return Outcome.ASSIGNED
        return Outcome.NO_REPLICAS if row in self.selected else Outcome.NOT_SELECTED

    def _reason(self, row: int, outcome: Outcome, replicas: int | None) -> str:
        failure = self.attempt.failure
        if outcome is Outcome.ASSIGNED:
            return self.reasons.assigned(row, replicas or 0)
        if outcome is Outcome.NOT_SELECTED:
            unreached = failure if self.attempt.selected is None else None
            return self.reasons.not_selected(row) if unreached is None else unreached.message
        return failure.message if failure is not None else self.reasons.no_replicas(row)


def _scores(plugins: Sequence[Score], context: Context, attempt: Attempt) -> Mapping[int, Mapping[str, int]]:
    """Return the score of each plugin for each row that fits. Empty if scoring was not reached or failed."""
    scores: dict[int, dict[str, int]] = {row: {} for row in attempt.rows.tolist()}
    if attempt.candidates is not None:
        for plugin in plugins:
            given = plugin.scores(context, attempt.rows)
            for position, of_row in enumerate(scores.values()):
                of_row[plugin.name] = 0 if given is None else int(given[position])
    return scores


class GroupOutlook(msgspec.Struct, frozen=True, rename="camel"):
    """What one group could hold.

    Attributes:
        rejected: how many of them each filter was the first to reject, largest number first. A cluster that has the
            workload now and may keep it counts here, and in ``fitting`` as well.
        capacity: how many replicas fit on these in total, with the replicas that the workload has there now; None if
            nothing limits them, or if they were not estimated.
        clusters: the replicas by cluster that a decision from scratch gives; empty if the group fails.
    """

    group: str | None
    matched: int
    rejected: dict[str, int]
    fitting: int
    capacity: int | None
    clusters: dict[str, int]
    error: FailureKind | None = None
    message: str = ""


class Outlook(msgspec.Struct, frozen=True, rename="camel"):
    """What the groups of a workload could hold."""

    groups: list[GroupOutlook]
    diagnosis: GroupDiagnosis | None = None
    problem: str = ""


def outlook(scheduler: Scheduler, request: Request, explained: int | None = None, most: int | None = None) -> Outlook:
    """Try each group of a workload alone, as if the workload were scheduled from scratch.

    ``request``: the workload. Its replicas are counted where they are now, and may stay there.
    """
    asked = replace(request, fresh=True)
    try:
        attempts = scheduler.attempts(asked, MAX_GROUPS)
    except TooLargeError as error:
        return Outlook([], problem=str(error))
    groups = len(scheduler.compile(asked.placement).groups)
    diagnosis = None
    if explained is not None and explained < len(attempts):
        decision = Decision(None, {}, None, Mode.FRESH, [attempts[explained]])
        (diagnosis,) = explain_groups(scheduler, asked, decision, most)
    problem = f"only the first {MAX_GROUPS} of {groups} groups were tried" if groups > MAX_GROUPS else ""
    return Outlook([_outlook(scheduler, asked, attempt) for attempt in attempts], diagnosis, problem)


def _outlook(scheduler: Scheduler, request: Request, attempt: Attempt) -> GroupOutlook:
    counts = Counter(scheduler.rejected(request, attempt))
    matched = len(scheduler.fleet) - counts.pop(AFFINITY, 0)
    deleting = scheduler.profile.stages.members.name
    if counts.get(deleting):
        # The scheduler leaves these clusters out before it looks at affinities.
        outside = _deleting_outside(scheduler, request, attempt.group)
        matched, counts[deleting] = matched - outside, counts[deleting] - outside
    fitting = len(attempt.rows)
    # Filters that look at the binding are not counted one by one.
    other = matched - sum(counts.values()) - fitting
    if other > 0:
        counts[_OTHER] = other
    failure = attempt.failure
    return GroupOutlook(
        group=attempt.group.name,
        matched=matched,
        rejected=dict(largest_first(+counts)),
        fitting=fitting,
        capacity=_capacity(attempt, request),
        clusters=dict(attempt.assignment or {}),
        error=failure.kind if failure is not None else None,
        message=failure.message if failure is not None else "",
    )


def _deleting_outside(scheduler: Scheduler, request: Request, group: Group) -> int:
    """Return how many clusters are being deleted and in no affinity of the group."""
    if group.own is None:
        return 0
    columns = [group.own, *((group.overflow or ()) if request.is_workload else ())]
    clusters = (each for each in scheduler.fleet if each.deleting)
    return sum(not any(column.term.matches(each) for column in columns) for each in clusters)


def _capacity(attempt: Attempt, request: Request) -> int | None:
    """Return how many replicas fit on the clusters of a group; None if they are not limited or not estimated."""
    candidates = attempt.candidates
    if candidates is None:
        return 0 if not len(attempt.rows) else None
    if not request.replicas or bool((candidates.allocatable >= UNLIMITED).any()):
        return None
    return int(candidates.available.sum())
