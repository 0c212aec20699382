"""What the page Workload shows: a pure function of the answers of the extender."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from berthmaster.ledger.records import HistoryRow, PastExplanation
from berthmaster.model.move import MovePhase, MoveState
from berthmaster.native_api.outlook import BindingOutlook, Room
from berthmaster.native_api.why import ClaimsView, WhyNotView
from berthmaster.native_api.wire import BindingView
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, GroupDiagnosis
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.simulation.report import ClaimRow, Explanation
from console.pages.workload_answers import AnswerLine, answers, past_answers
from console.pages.workload_groups import GroupRow, StageView, group_rows, stage_view
from console.pages.workload_timeline import Departure, DifferenceView, TimelineRow, difference_view, moment_of, timeline
from console.pages.workload_words import assignment_words, sentence

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


@dataclass(frozen=True, slots=True)
class PastView:
    """The recorded decision that the page shows."""

    id: str
    time: datetime | None
    reproduced: bool
    notes: tuple[str, ...]
    difference: DifferenceView | None


@dataclass(frozen=True, slots=True)
class WhyNotPart:
    """The answer about one cluster."""

    cluster: str
    taken: bool
    reasons: tuple[str, ...]
    changes: tuple[str, ...]
    alternatives: tuple[tuple[str, ...], ...]
    after: str
    unknown: tuple[str, ...]


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
    past: PastView | None
    why_not: WhyNotPart | None
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
        past=None if past is None else _past_view(past),
        why_not=None if facts.why_not is None else _why_not_part(facts.why_not),
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


def _past_view(past: PastExplanation) -> PastView:
    return PastView(
        past.record.id,
        moment_of(past.record.time),
        past.reproduced,
        tuple(map(sentence, past.notes)),
        difference_view(past.difference),
    )


def _why_not_part(found: WhyNotView) -> WhyNotPart:
    return WhyNotPart(
        found.cluster,
        found.taken,
        tuple(map(sentence, found.reasons)),
        tuple(found.changes),
        tuple(map(tuple, found.alternatives)),
        assignment_words(found.clusters),
        tuple(map(sentence, (*found.unknown, *found.gaps))),
    )


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
