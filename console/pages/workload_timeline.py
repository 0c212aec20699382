"""The timeline of a workload: decisions and moves on record, each with the address of the page as it was then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from berthmaster.ledger.records import ChangeRecord, HistoryRow, InputDifference
from console.pages.plan_model import binding_place
from console.pages.workload_words import sentence, trigger_words

_DECISION: Final = "decision"
_MAX_CHANGES: Final = 6
_GOOD: Final = frozenset({"", "Success"})


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One record."""

    id: str
    resource: str
    place: tuple[str, str] | None
    time: datetime | None
    kind: str
    title: str
    why: str
    change: str
    group: str
    message: str
    plan: str
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """What changed between a recorded decision and the one before."""

    previous: str
    summary: str
    changes: Sequence[ChangeRecord]
    more: int


def timeline(records: Sequence[HistoryRow], chosen: str = "") -> tuple[TimelineRow, ...]:
    """Return the rows of a timeline, in the order of the records."""
    return tuple(_row(each, chosen) for each in records)


@dataclass(frozen=True, slots=True)
class Departure:
    """The decision by which a workload left an earlier group for its present one."""

    record: HistoryRow
    left: str


def departure_of(records: Sequence[HistoryRow], groups: Sequence[str] | None, observed: str | None) -> Departure | None:
    """Return the last decision by which a workload left an earlier group; None if it is not among the records."""
    if not groups or observed not in groups[1:]:
        return None
    grouped = [each for each in records if each.kind == _DECISION and each.group]
    for later, before in pairwise(grouped):
        if later.group == observed != before.group:
            earlier = groups[: groups.index(observed)]
            return Departure(later, before.group) if before.group in earlier else None
        if later.group != observed:
            break
    return None


def change_words(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> str:
    """Return what changed between two assignments: ``member1 3 → 5, + member2 (2), - member3``."""
    if before is None or after is None:
        return ""
    if before == after:
        return "no change"
    parts = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            parts.append(f"+ {name} ({new})" if new else f"+ {name}")
        elif new is None:
            parts.append(f"- {name}")
        elif old != new:
            parts.append(f"{name} {old} → {new}")
    more = len(parts) - _MAX_CHANGES
    return ", ".join(parts[:_MAX_CHANGES]) + (f" and {more} more" if more > 0 else "")


def difference_view(difference: InputDifference | None, *, most: int = 50) -> DifferenceView | None:
    """Return what changed between a decision and the one before; None if that is not known."""
    if difference is None:
        return None
    shown, more = difference.changes[:most], max(0, len(difference.changes) - most)
    return DifferenceView(difference.previous, sentence(difference.summary), shown, more)


def moment_of(text: str) -> datetime | None:
    """Return the time of a record; None if its text is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _row(record: HistoryRow, chosen: str) -> TimelineRow:
    decision = record.kind == _DECISION
    moved = decision and record.before != record.after
    if not decision:
        kind, title = "off", record.kind
    elif record.reason not in _GOOD:
        kind, title = "bad", record.reason
    elif record.trigger == "Move":
        kind, title = "busy", "move"
    else:
        kind, title = ("good", "placed") if moved else ("off", "confirmed")
    return TimelineRow(
        id=record.id if decision else "",
        resource=record.resource,
        place=binding_place(record.resource) if decision else None,
        time=moment_of(record.time),
        kind=kind,
        title=title,
        why=sentence(trigger_words(record.trigger)) if decision else "",
        change=change_words(record.before, record.after),
        group=record.group,
        message=record.message,
        plan=str(record.details.get("plan", "")),
        chosen=record.id == chosen,
    )
