"""The words of records of the ledger: why, what changed, and the badge of each. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, assert_never

from berthmaster.ledger.outcomes import DECISION, MOVED, RecordOutcome, outcome_of_record
from berthmaster.ledger.records import HistoryRow
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.views import words

_MAX_CHANGES: Final = 6
_TRIGGERS: Final = frozenset(each.value for each in Trigger)


def recorded_trigger_words(trigger: str) -> str:
    """Return why a workload is scheduled, by the trigger of a record; the trigger itself if it is not known."""
    if trigger == MOVED:
        return "a move took a step"
    return words.trigger_words(Trigger(trigger)) if trigger in _TRIGGERS else trigger


@dataclass(frozen=True, slots=True)
class Departure:
    """The decision by which a workload left an earlier group for its present one."""

    record: HistoryRow
    left: str


def departure_of(records: Sequence[HistoryRow], groups: Sequence[str] | None, observed: str | None) -> Departure | None:
    """Return the last decision by which a workload left an earlier group; None if it is not among the records."""
    if not groups or observed not in groups[1:]:
        return None
    grouped = [each for each in records if each.kind == DECISION and each.group]
    for later, before in pairwise(grouped):
        if later.group == observed != before.group:
            earlier = groups[: groups.index(observed)]
            return Departure(later, before.group) if before.group in earlier else None
        if later.group != observed:
            break
    return None


def change_words(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> str:
    """Return what changed between two assignments: ``member1 3 → 5, + member2 (2), - member3 (4)``."""
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
            parts.append(f"- {name} ({old})" if old else f"- {name}")
        elif old != new:
            parts.append(f"{name} {old} → {new}")
    more = len(parts) - _MAX_CHANGES
    return ", ".join(parts[:_MAX_CHANGES]) + (f" and {more} more" if more > 0 else "")


def record_badge(record: HistoryRow) -> tuple[str, str]:
    outcome = outcome_of_record(record)
    match outcome:
        case RecordOutcome.NOTE:
            return "off", record.kind
        case RecordOutcome.FAILED:
            return "bad", record.reason
        case RecordOutcome.LOST:
            return "bad", "lost all clusters"
        case RecordOutcome.SCALED_DOWN:
            return "off", "scaled down"
        case RecordOutcome.FEWER:
            return "warn", "fewer replicas"
        case RecordOutcome.EVICTED:
            return "warn", "evicted"
        case RecordOutcome.STEP:
            return "busy", "move"
        case RecordOutcome.CONFIRMED:
            return "off", "confirmed"
        case RecordOutcome.PLACED:
            return "good", "placed"
        case _:
            assert_never(outcome)
