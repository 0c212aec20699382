"""What the page Workload shows: pure functions of the answers of the extender."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berthmaster.ledger.records import HistoryRow, PastExplanation
from berthmaster.model.cached import cached_property
from berthmaster.model.move import MovePhase, MoveState
from berthmaster.native_api.why import BindingOutlook, BindingOverview
from berthmaster.scheduling.diagnosis import (
    ClusterDiagnosis,
    Diagnosis,
    GroupDiagnosis,
    GroupOutlook,
    GroupTotals,
    Outcome,
    shortened,
)
from berthmaster.simulation.report import ClaimRow, Explanation
from berthmaster.views.texts import count_text
from console.pages.workload_words import outlook_words, rejected_words, sentence

ROWS: Final = 50
"""The most clusters of one stage, unless the visitor asks for all."""
_STAGES: Final[Mapping[Outcome, tuple[str, str]]] = {
    Outcome.ASSIGNED: ("Selected", "These clusters get the workload."),
    Outcome.NO_REPLICAS: ("Selected, without replicas", "The division of replicas gives them none."),
    Outcome.NOT_SELECTED: ("Scored, not selected", "They pass all filters. Others were selected, or none was."),
    Outcome.REJECTED: ("Filtered out", "At least one filter rejects them. Each cluster counts for the first one."),
}
_GONE: Final = ("They go after the new copies are healthy.", "They go before the new copies start.")
_PASSED: Final = frozenset({"plan-accepted", "exemption"})
"""The records of a change of a policy that took effect with a plan."""


class GroupRow(NamedTuple):
    """One group of a placement. ``here`` says whether the workload is in it."""

    name: str
    kind: str
    verdict: str
    text: str
    clusters: int | None = None
    fitting: int | None = None
    capacity: str = ""
    position: int = 0
    here: bool = False


class StageClusters(NamedTuple):
    """The clusters that ended at one stage.

    Attributes:
        rows: the clusters of all stages but the last, whose clusters the totals of the group have.
        explained: whether the failure of the group says why its clusters are at this stage.
    """

    key: str
    title: str
    text: str
    total: int
    rows: Sequence[ClusterDiagnosis]
    explained: bool

    @property
    def plugins(self) -> list[str]:
        return list(dict.fromkeys(name for each in self.rows for name in each.scores))


class MoveCopies(NamedTuple):
    """The copies on one cluster during a move. None stands for no copy."""

    cluster: str
    before: int | None
    now: int | None
    after: int | None
    text: str


@dataclass(frozen=True)
class ShownWorkload:
    """One workload, now or at a recorded decision.

    Attributes:
        overview: what the extender knows; only the binding if the page is about a recorded decision.
        reviews: what is on record about changes of the policy, the latest first.
        group: the group whose clusters are listed; None for the one of the decision.
        most: the most clusters of one stage; None for all.
    """

    overview: BindingOverview
    past: PastExplanation | None = None
    reviews: Sequence[HistoryRow] = ()
    group: str | None = None
    most: int | None = ROWS

    @property
    def explained(self) -> Explanation | None:
        return self.overview.decision if self.past is None else self.past.explanation

    @property
    def diagnosis(self) -> Diagnosis | None:
        return None if self.explained is None else self.explained.diagnosis

    @property
    def from_scratch(self) -> bool:
        outlook = self.overview.outlook
        return self.group is not None and outlook is not None and outlook.diagnosis is not None

    @cached_property
    def shown(self) -> GroupDiagnosis | None:
        outlook = self.overview.outlook
        if self.group is not None and outlook is not None and outlook.diagnosis is not None:
            return outlook.diagnosis
        tried = [] if self.diagnosis is None else self.diagnosis.groups
        if self.group is not None:
            return next((each for each in tried if (each.group or "") == self.group), None)
        return next((each for each in tried if each.failure is None), next(iter(tried), None))

    @cached_property
    def totals(self) -> GroupTotals | None:
        return None if self.shown is None else counted(self.shown)[1]

    @cached_property
    def stages(self) -> list[StageClusters]:
        return [] if self.shown is None else list(stages_of(self.shown, self.most))

    @cached_property
    def groups(self) -> list[GroupRow]:
        binding, outlook = self.overview.binding, self.overview.outlook
        observed = binding.observed_group if self.past is None else self.past.record.group or None
        return list(group_rows(outlook, self.diagnosis, observed, binding.replicas))

    @property
    def move(self) -> MoveState | None:
        return None if self.overview.outlook is None else self.overview.outlook.move

    @property
    def copies(self) -> list[MoveCopies]:
        return [] if self.move is None else list(copies_of(self.move, self.overview.binding.clusters))

    @property
    def policy(self) -> str:
        """The policy that holds the workload; empty if there is none or it is not known."""
        if self.past is not None:
            return self.past.record.policy
        claims, explained = self.overview.claims, self.explained
        found = claims.holder if claims is not None else None
        return found or self.overview.binding.policy or (explained.policy if explained is not None else "") or ""

    @property
    def claims(self) -> list[ClaimRow]:
        found = self.overview.claims or self.overview.decision
        return [] if found is None else found.claims

    @property
    def last_plan(self) -> HistoryRow | None:
        """The last change of the policy with a plan on record."""
        return next((each for each in self.reviews if each.kind in _PASSED and each.details.get("plan")), None)

    @property
    def related(self) -> dict[str, list[str]]:
        required = [f"{each.namespace}/{each.name}" for each in self.overview.binding.required_by]
        followers = ([], []) if self.explained is None else (self.explained.followed_by, self.explained.missing)
        titles = ("It follows the bindings", "It is followed by", "It needs, but no workload is known of")
        return {title: names for title, names in zip(titles, (required, *followers), strict=True) if names}

    @property
    def notes(self) -> list[str]:
        outlook, notes = self.overview.outlook, list(self.overview.binding.notes) if self.past is None else []
        notes += [] if self.explained is None else self.explained.notes
        if outlook is not None:
            # The first lines say what the move does.
            notes = [each for each in notes if each != outlook.move_note] + outlook.notes
        return list(dict.fromkeys(map(sentence, notes)))

    @property
    def gaps(self) -> list[str]:
        claims = self.overview.claims
        gaps = [*self.overview.binding.gaps, *([] if claims is None else claims.gaps)]
        return list(dict.fromkeys(gaps)) if self.past is None else []


def group_rows(
    outlook: BindingOutlook | None, diagnosis: Diagnosis | None, observed: str | None, replicas: int
) -> Iterator[GroupRow]:
    """Yield the groups of a placement in order; none for a placement without groups.

    Args:
        outlook: what each group could hold now; None for a decision of the past, or if it is not known.
        diagnosis: the decision, which has only the groups that it tried.
    """
    rows: list[GroupRow] = []
    if outlook is not None and outlook.groups:
        rows = [_of_outlook(each, replicas) for each in outlook.groups if each.group is not None]
    elif diagnosis is not None:
        rows = [
            *(_not_tried(name, "the assignment before came from a later group") for name in diagnosis.skipped),
            *(_of_attempt(each) for each in diagnosis.groups if each.group is not None),
            *(_not_tried(name, "a group before it could hold the workload") for name in diagnosis.untried),
        ]
    return (row._replace(position=number, here=row.name == observed) for number, row in enumerate(rows, 1))


def _of_outlook(group: GroupOutlook, replicas: int) -> GroupRow:
    capacity = "not limited" if group.fitting else ""
    if group.capacity is not None:
        capacity = f"{group.capacity:,}"
    if group.error is not None:
        kind, verdict, text = "bad", "cannot hold it", outlook_words(group, replicas)
    else:
        what = count_text(replicas, "replica") if replicas else "the workload"
        rejected = f" Rejected: {rejected_words(group.rejected)}." if group.rejected else ""
        kind, verdict, text = "good", "can hold it", f"A decision from scratch places {what} here.{rejected}"
    return GroupRow(group.group or "", kind, verdict, text, group.matched, group.fitting, capacity)


def _not_tried(name: str, why: str) -> GroupRow:
    return GroupRow(name, "off", "not tried", f"Not tried: {why}.")


def _of_attempt(group: GroupDiagnosis) -> GroupRow:
    _, totals = counted(group)
    rejected: Counter[str] = Counter()
    for each in totals.rejected:
        rejected[each.plugin] += each.count
    counts = f" Rejected: {rejected_words(dict(rejected.most_common()))}." if rejected else ""
    if group.failure is None:
        kind, verdict, text = "good", "selected", f"It was selected.{counts}"
    else:
        kind, verdict, text = "bad", "failed", f"It failed: {sentence(group.failure.message)}{counts}"
    inside = sum(totals.outcomes.values()) - totals.outside
    return GroupRow(group.group or "", kind, verdict, text, inside, inside - rejected.total())


def counted(group: GroupDiagnosis, most: int | None = ROWS) -> tuple[GroupDiagnosis, GroupTotals]:
    """Return a shortened group and its totals. The extender shortens groups of the present, but no recorded ones."""
    if isinstance(group.totals, GroupTotals):
        return group, group.totals
    return counted(shortened(group, most))


def stages_of(group: GroupDiagnosis, most: int | None) -> Iterator[StageClusters]:
    """Yield what was selected first, what was filtered out last; stages without clusters are left out."""
    group, totals = counted(group, most)
    for outcome, (title, text) in _STAGES.items():
        if outcome in totals.outcomes:
            explained = outcome is Outcome.NO_REPLICAS or Outcome.NO_REPLICAS not in totals.outcomes
            yield StageClusters(
                outcome.value.replace(" ", "-"),
                title,
                text,
                totals.outcomes[outcome],
                [each for each in group.clusters if each.outcome is outcome],
                explained and group.failure is not None,
            )


def copies_of(move: MoveState, now: Mapping[str, int]) -> Iterator[MoveCopies]:
    """Yield the copies on each cluster during a move; nothing before it begins and after it ended."""
    for name in sorted({*move.source, *move.target, *now}) if move.under_way else ():
        before, after = move.source.get(name), move.target.get(name)
        if before == after:
            text = "They stay."
        elif after is None:
            gone = _GONE[move.phase is MovePhase.ADMITTED] if name in now else "They are gone."
            text = f"Old copies. {gone}"
        else:
            text = "New copies." if before is None else "Their number changes."
        yield MoveCopies(name, before, now.get(name), after, text)
