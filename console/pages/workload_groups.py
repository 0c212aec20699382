"""The groups and the clusters of a decision: what each group rejected or could hold, and clusters by stage."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.scheduling.diagnosis import (
    ClusterDiagnosis,
    Diagnosis,
    GroupDiagnosis,
    GroupTotals,
    Outcome,
    RejectedClusters,
    shortened,
)
from berthmaster.simulation.group_outlook import GroupOutlook
from console.pages.workload_words import counted, filter_words, outlook_words, rejected_words, sentence

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
class ClusterRow:
    """One cluster of a stage. Empty texts stand for what does not apply."""

    name: str
    replicas: str
    current: str
    capacity: str
    score: str
    scores: Mapping[str, int]
    weight: str
    reason: str


@dataclass(frozen=True, slots=True)
class StageClusters:
    """The clusters that ended at one stage.

    Attributes:
        rows: the clusters of all stages but the first, which is in ``rejected``.
        outside: how many clusters are not in the group at all.
    """

    key: str
    title: str
    text: str
    total: int
    rows: tuple[ClusterRow, ...]
    hidden: int
    rejected: tuple[RejectedClusters, ...]
    outside: int
    plugins: tuple[str, ...] = ()


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
    rows = tuple(_cluster_row(each, explained=explained) for each in shown)
    plugins = tuple(dict.fromkeys(name for each in shown for name in each.scores))
    return StageClusters(key, title, text, total, rows, total - len(shown), (), 0, plugins)


def _cluster_row(each: ClusterDiagnosis, *, explained: bool) -> ClusterRow:
    bound = f" ({each.bound_by})" if each.bound_by else ""
    return ClusterRow(
        name=each.cluster,
        replicas=_number(each.replicas),
        current=_number(each.current),
        capacity="not limited" if each.capacity is None else f"{each.capacity:,}{bound}",
        score=f"{sum(each.scores.values()):,}" if each.scores else "",
        scores=each.scores,
        weight=_number(each.weight),
        reason="" if explained else sentence(each.reason),
    )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
