"""What the page Workload shows: pure functions of the answers of the extender."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from berthmaster.ledger.records import HistoryRow, PastExplanation
from berthmaster.model.move import MovePhase, MoveState
from berthmaster.native_api.why import BindingOutlook, ClaimsView, Room, WhyNotView
from berthmaster.native_api.wire import BindingView
from berthmaster.scheduling.diagnosis import (
    ClusterDiagnosis,
    Diagnosis,
    GroupDiagnosis,
    GroupTotals,
    Outcome,
    RejectedClusters,
    shortened,
)
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.simulation.group_outlook import GroupOutlook
from berthmaster.simulation.report import ClaimRow, Explanation
from console.pages.workload_answers import AnswerLine, answers, past_answers
from console.pages.workload_words import (
    Departure,
    TimelineRow,
    counted,
    filter_words,
    outlook_words,
    rejected_words,
    sentence,
    timeline,
)

ROWS: Final = 50
"""The most clusters of one stage, unless the visitor asks for all."""
_STAGES: Final[Mapping[Outcome, tuple[str, str]]] = {
    Outcome.ASSIGNED: ("Selected", "These clusters get the workload."),
    Outcome.NO_REPLICAS: ("Selected, without replicas", "The division of replicas gives them none."),
    Outcome.NOT_SELECTED: ("Scored, not selected", "They pass all filters. Others were selected, or none was."),
    Outcome.REJECTED: ("Filtered out", "At least one filter rejects them. Each cluster counts for the first one."),
}


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group of a placement."""

    position: int
    name: str
    here: bool
    kind: str
    verdict: str
    text: str
    clusters: int | None
    fitting: int | None
    capacity: str
    shown: bool = False


@dataclass(frozen=True, slots=True)
class StageClusters:
    """The clusters that ended at one stage.

    Attributes:
        rows: the clusters of all stages but the first, which is in ``rejected``.
        explained: whether the failure of the group says why its clusters are at this stage.
        outside: how many clusters are not in the group at all.
    """

    key: str
    title: str
    text: str
    total: int
    rows: Sequence[ClusterDiagnosis]
    hidden: int
    rejected: tuple[RejectedClusters, ...]
    outside: int
    plugins: tuple[str, ...] = ()
    explained: bool = False


@dataclass(frozen=True, slots=True)
class StageView:
    """The clusters of one group by stage.

    Attributes:
        stages: what was selected first, what was filtered out last; stages without clusters are left out.
        names: the clusters that are not assigned, for suggestions; at most 500.
    """

    group: str
    failure: str
    stages: tuple[StageClusters, ...]
    weighted: bool
    names: tuple[str, ...]


def group_rows(
    outlook: BindingOutlook | None, diagnosis: Diagnosis | None, observed: str | None, replicas: int, shown: str | None
) -> tuple[GroupRow, ...]:
    """Return the groups of a placement in order; none for a placement without groups.

    Args:
        outlook: what each group could hold now; None for a decision of the past, or if it is not known.
        diagnosis: the decision, which has only the groups that it tried.
    """
    if outlook is not None and outlook.groups:
        found = [each for each in outlook.groups if each.group is not None]
        return tuple(_of_outlook(number, each, observed, replicas, shown) for number, each in enumerate(found, 1))
    if diagnosis is None:
        return ()
    return tuple(_of_diagnosis(diagnosis, observed, shown))


def stage_view(group: GroupDiagnosis, *, everything: bool) -> StageView:
    """Return the clusters of a group by stage.

    Args:
        everything: whether all clusters are listed; False: at most ``ROWS`` for each stage.
    """
    group, totals = _counted(group, None if everything else ROWS)
    return StageView(
        group=group.group or "",
        failure="" if group.failure is None else sentence(group.failure.message),
        stages=tuple(_stage(outcome, group, totals) for outcome in _STAGES if outcome in totals.outcomes),
        weighted=any(each.weight is not None for each in group.clusters),
        names=tuple(totals.unassigned),
    )


def _counted(group: GroupDiagnosis, most: int | None = ROWS) -> tuple[GroupDiagnosis, GroupTotals]:
    """Return a shortened group and its totals. The extender shortens groups of the present, but no recorded ones."""
    if isinstance(group.totals, GroupTotals):
        return group, group.totals
    return _counted(shortened(group, most))


def _of_outlook(number: int, group: GroupOutlook, observed: str | None, replicas: int, shown: str | None) -> GroupRow:
    holds = group.error is None
    capacity = "" if group.capacity is None else f"{group.capacity:,}"
    return GroupRow(
        position=number,
        name=group.group or "",
        here=group.group == observed,
        kind="good" if holds else "bad",
        verdict="can hold it" if holds else "cannot hold it",
        text=_holds_words(group, replicas) if holds else outlook_words(group, replicas),
        clusters=group.matched,
        fitting=group.fitting,
        capacity=capacity or ("not limited" if group.fitting else ""),
        shown=group.group == shown,
    )


def _holds_words(group: GroupOutlook, replicas: int) -> str:
    rejected = rejected_words(group.rejected)
    what = counted(replicas, "replica") if replicas else "the workload"
    return f"A decision from scratch places {what} here.{f' Rejected: {rejected}.' if rejected else ''}"


def _of_diagnosis(diagnosis: Diagnosis, observed: str | None, shown: str | None) -> Sequence[GroupRow]:
    rows: list[GroupRow] = []
    for name in diagnosis.skipped:
        text = "Not tried: the assignment before came from a later group."
        rows.append(GroupRow(len(rows) + 1, name, name == observed, "off", "not tried", text, None, None, ""))
    for group in diagnosis.groups:
        if group.group is not None:
            rows.append(_of_attempt(len(rows) + 1, group, observed, shown))
    for name in diagnosis.untried:
        text = "Not tried: a group before it could hold the workload."
        rows.append(GroupRow(len(rows) + 1, name, name == observed, "off", "not tried", text, None, None, ""))
    return rows


def _of_attempt(number: int, group: GroupDiagnosis, observed: str | None, shown: str | None) -> GroupRow:
    _, totals = _counted(group)
    rejected: Counter[str] = Counter()
    for each in totals.rejected:
        rejected[each.plugin] += each.count
    counts = f"Rejected: {rejected_words(dict(rejected.most_common()))}." if rejected else ""
    failed = group.failure is not None
    result = "It was selected." if group.failure is None else f"It failed: {sentence(group.failure.message)}"
    inside = sum(totals.outcomes.values()) - totals.outside
    return GroupRow(
        position=number,
        name=group.group or "",
        here=group.group == observed,
        kind="bad" if failed else "good",
        verdict="failed" if failed else "selected",
        text=f"{result} {counts}".strip(),
        clusters=inside,
        fitting=inside - rejected.total(),
        capacity="",
        shown=group.group == shown,
    )


def _stage(outcome: Outcome, group: GroupDiagnosis, totals: GroupTotals) -> StageClusters:
    title, text = _STAGES[outcome]
    key, total = outcome.value.replace(" ", "-"), totals.outcomes[outcome]
    if outcome is Outcome.REJECTED:
        rejected = tuple(replace(each, reason=each.reason or filter_words(each.plugin)) for each in totals.rejected)
        return StageClusters(key, title, text, total, (), 0, rejected, totals.outside)
    shown = [each for each in group.clusters if each.outcome is outcome]
    explained = group.failure is not None and (
        outcome is Outcome.NO_REPLICAS or Outcome.NO_REPLICAS not in totals.outcomes
    )
    plugins = tuple(dict.fromkeys(name for each in shown for name in each.scores))
    return StageClusters(key, title, text, total, shown, total - len(shown), (), 0, plugins, explained)


_GONE: Final = ("They go after the new copies are healthy.", "They go before the new copies start.")
_PASSED: Final = frozenset({"plan-accepted", "exemption"})
"""The records of a change of a policy that took effect with a plan."""


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """The answers of the extender about one workload. None stands for what it does not know.

    Attributes:
        reviews: what is on record about changes of the policy, the latest first.
    """

    binding: BindingView
    explained: Explanation | None = None
    outlook: BindingOutlook | None = None
    claims: ClaimsView | None = None
    history: Sequence[HistoryRow] = ()
    reviews: Sequence[HistoryRow] = ()
    past: PastExplanation | None = None
    why_not: WhyNotView | None = None
    room: Room | None = None
    departure: Departure | None = None
    departed: PastExplanation | None = None
    drift: WorkloadDrift | None = None


@dataclass(frozen=True, slots=True)
class WorkloadQuestion:
    """What the visitor chose. ``group`` is the group whose clusters are listed; None for the one of the decision."""

    group: str | None = None
    everything: bool = False


class MoveCopies(NamedTuple):
    """The copies on one cluster during a move. None stands for no copy."""

    cluster: str
    before: int | None
    now: int | None
    after: int | None
    text: str


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """What the page shows.

    Attributes:
        from_scratch: whether ``stages`` is about a decision from scratch in the chosen group.
        moving: whether ``stages`` is about a decision that starts from the end of a move.
    """

    answers: tuple[AnswerLine, ...]
    groups: tuple[GroupRow, ...]
    stages: StageView | None
    diagnosed: Sequence[ClusterDiagnosis]
    from_scratch: bool
    moving: bool
    strategy: str
    policy: str
    policy_why: str
    claims: tuple[ClaimRow, ...]
    last_plan: TimelineRow | None
    copies: tuple[MoveCopies, ...]
    timeline: tuple[TimelineRow, ...]
    related: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...]
    gaps: tuple[str, ...] = field(default=())


def workload_page(facts: WorkloadFacts, question: WorkloadQuestion, now: datetime) -> WorkloadPart:
    """Return what the page shows."""
    binding, past = facts.binding, facts.past
    explained = past.explanation if past is not None else facts.explained
    outlook = facts.outlook if past is None else None
    shown, from_scratch = _shown_group(explained, outlook, question)
    observed = binding.observed_group if past is None else past.record.group or None
    return WorkloadPart(
        answers=_answers(facts, now),
        groups=group_rows(
            outlook,
            explained.diagnosis if explained is not None else None,
            observed,
            binding.replicas,
            shown.group if shown is not None else None,
        ),
        stages=None if shown is None else stage_view(shown, everything=question.everything),
        diagnosed=() if shown is None else shown.clusters,
        from_scratch=from_scratch,
        moving=outlook is not None and outlook.move is not None and outlook.move.under_way,
        strategy=explained.diagnosis.strategy.value if explained is not None and explained.diagnosis else "",
        policy=_policy(facts, explained),
        policy_why=sentence(facts.claims.why) if facts.claims is not None and past is None else "",
        claims=_claims(facts, explained),
        last_plan=next((each for each in timeline(facts.reviews) if each.plan and each.title in _PASSED), None),
        copies=_copies(outlook.move, binding.clusters) if outlook is not None and outlook.move is not None else (),
        timeline=timeline(facts.history, past.record.id if past is not None else ""),
        related=_related(facts, explained),
        notes=_notes(facts, explained),
        gaps=_gaps(facts) if past is None else (),
    )


def _copies(move: MoveState, now: Mapping[str, int]) -> tuple[MoveCopies, ...]:
    if not move.under_way:
        return ()
    rows = []
    for name in sorted({*move.source, *move.target, *now}):
        before, after = move.source.get(name), move.target.get(name)
        if before == after:
            text = "They stay."
        elif after is None:
            gone = _GONE[move.phase is MovePhase.ADMITTED] if name in now else "They are gone."
            text = f"Old copies. {gone}"
        else:
            text = "New copies." if before is None else "Their number changes."
        rows.append(MoveCopies(name, before, now.get(name), after, text))
    return tuple(rows)


def _answers(facts: WorkloadFacts, now: datetime) -> tuple[AnswerLine, ...]:
    if facts.past is not None:
        return past_answers(facts.past)
    return answers(
        facts.binding, facts.explained, facts.outlook, now, facts.room, facts.departure, facts.departed, facts.drift
    )


def _shown_group(
    explained: Explanation | None, outlook: BindingOutlook | None, question: WorkloadQuestion
) -> tuple[GroupDiagnosis | None, bool]:
    """Return the group whose clusters are listed, and whether it is about a decision from scratch."""
    if question.group is not None and outlook is not None and outlook.diagnosis is not None:
        return outlook.diagnosis, True
    tried = explained.diagnosis.groups if explained is not None and explained.diagnosis is not None else []
    if question.group is not None:
        return next((each for each in tried if (each.group or "") == question.group), None), False
    selected = next((each for each in tried if each.failure is None), None)
    return selected or (tried[0] if tried else None), False


def _policy(facts: WorkloadFacts, explained: Explanation | None) -> str:
    if facts.past is not None:
        return facts.past.record.policy
    if facts.claims is not None and facts.claims.holder is not None:
        return facts.claims.holder
    return facts.binding.policy or (explained.policy if explained is not None else "") or ""


def _claims(facts: WorkloadFacts, explained: Explanation | None) -> tuple[ClaimRow, ...]:
    if facts.past is not None:
        return ()
    if facts.claims is not None:
        return tuple(facts.claims.claims)
    return tuple(explained.claims) if explained is not None else ()


def _related(facts: WorkloadFacts, explained: Explanation | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    required = tuple(f"{each.namespace}/{each.name}" for each in facts.binding.required_by)
    parts = [("It follows the bindings", required)]
    if explained is not None:
        parts.append(("It is followed by", tuple(explained.followed_by)))
        parts.append(("It needs, but no workload is known of", tuple(explained.missing)))
    return tuple((text, names) for text, names in parts if names)


def _notes(facts: WorkloadFacts, explained: Explanation | None) -> tuple[str, ...]:
    notes = list(facts.binding.notes) if facts.past is None else []
    notes += explained.notes if explained is not None else []
    if facts.outlook is not None and facts.past is None:
        # The first lines say what the move does.
        notes = [each for each in notes if each != facts.outlook.move_note] + facts.outlook.notes
    return tuple(dict.fromkeys(map(sentence, notes)))


def _gaps(facts: WorkloadFacts) -> tuple[str, ...]:
    gaps = list(facts.binding.gaps)
    gaps += facts.claims.gaps if facts.claims is not None else []
    return tuple(dict.fromkeys(gaps))
