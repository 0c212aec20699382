"""The words of the page Workload: assignments, triggers, filters, groups and moves as people read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.move import MovePhase, MoveReason, MoveState
from berthmaster.scheduling.diagnosis import GroupOutlook
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import FailureKind
from berthmaster.views.texts import count_text

_SHOWN: Final = 8
_TRIGGERS: Final[Mapping[str, str]] = {
    Trigger.FIRST.value: "it was never scheduled",
    Trigger.RECONCILE.value: "its placement changed, or Karmada schedules such workloads at every event",
    Trigger.SCALE.value: "the requested replicas differ from the assigned ones",
    Trigger.RESCHEDULED.value: "a rescheduling was requested",
    Trigger.FAILOVER.value: "a cluster of its assignment is lost, or evicts it",
    "Move": "a move took a step",
}
_FILTERS: Final[Mapping[str, str]] = {
    "ClusterAffinity": "not in the group",
    "TaintToleration": "a taint that it does not tolerate",
    "ClusterDeleting": "being deleted",
    "APIEnablement": "the kind is not served",
    "SpreadConstraint": "a field of the spread constraints is missing",
    "ClusterEviction": "the workload is being evicted from there",
    "WorkloadAffinity": "no workload of its affinity group there",
    "WorkloadAntiAffinity": "a workload of its anti-affinity group there",
    "other filters": "it is being evicted from there, or workload affinity forbids it",
}
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_MOVE_REASONS: Final[Mapping[MoveReason, str]] = {
    MoveReason.FAILBACK: "an earlier group can hold it again",
    MoveReason.DRAIN: "a cluster of its assignment is being drained",
    MoveReason.FAILOVER: "a cluster of its assignment is lost",
    MoveReason.RESCHEDULED: "a rescheduling was requested",
    MoveReason.REBALANCE: "it has drifted from its policy",
}


def assignment_words(clusters: Mapping[str, int]) -> str:
    """Return clusters and replicas, the most replicas first: ``member1 (5), member2 (3) and 4 more clusters``."""
    ordered = sorted(clusters.items(), key=lambda pair: (-pair[1], pair[0]))
    return listed([f"{name} ({count:,})" if count else name for name, count in ordered], "cluster")


def listed(names: Sequence[str], noun: str) -> str:
    """Return names as a list in a sentence; of many names the first ones, and how many more there are."""
    shown, more = list(names[:_SHOWN]), len(names) - _SHOWN
    if more > 0:
        return f"{', '.join(shown)} and {count_text(more, f'more {noun}')}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def ordinal(index: int) -> str:
    """Return the position of an index from 0: ``first``, ``second``, ... ``number 11``."""
    return _ORDINALS[index] if index < len(_ORDINALS) else f"number {index + 1}"


def trigger_words(trigger: str) -> str:
    """Return why a workload is scheduled; the trigger itself if it has no words."""
    return _TRIGGERS.get(trigger, trigger)


def filter_words(plugin: str) -> str:
    """Return why a filter rejects a cluster, in general; the name of an unknown plugin."""
    return _FILTERS.get(plugin, plugin)


def rejected_words(rejected: Mapping[str, int]) -> str:
    """Return how many clusters are rejected for which reason; empty if none are."""
    return "; ".join(f"{count:,} × {filter_words(plugin)}" for plugin, count in rejected.items())


def outlook_words(group: GroupOutlook, replicas: int) -> str:
    """Return in one sentence why a group cannot hold a workload, or that it can."""
    if group.error is None:
        return f"This group could hold {count_text(replicas, 'replica') if replicas else 'it'} now."
    if not group.matched:
        return "No cluster of the fleet is in this group."
    rejected = rejected_words(group.rejected)
    if not group.fitting:
        why = f": {rejected}" if rejected else ""
        return f"None of its {count_text(group.matched, 'cluster')} passes the filters{why}."
    # The message about too little capacity has the numbers.
    left_out = group.capacity is None or group.error is FailureKind.INSUFFICIENT
    room = "" if left_out else f", with capacity for {count_text(group.capacity or 0, 'replica')}"
    filtered = f" Rejected: {rejected}." if rejected else ""
    passes = "passes" if group.fitting == 1 else "pass"
    of = count_text(group.matched, "cluster")
    return f"{group.fitting:,} of its {of} {passes} the filters{room}: {sentence(group.message)}{filtered}"


def move_words(move: MoveState, now: datetime) -> tuple[str, str]:
    """Return the kind of a badge and the next step of a move in words."""
    to = f"group {move.target_group}" if move.target_group else assignment_words(move.target) or "other clusters"
    why = f" It waits: {sentence(move.message)}" if move.message else ""
    reason = _MOVE_REASONS[move.reason]
    match move.phase:
        case MovePhase.ELIGIBLE:
            return "warn", f"It should move, because {reason}, and cannot yet.{why}"
        case MovePhase.STABILISING if move.until is not None and move.until > now:
            return "busy", f"It moves to {to} at {time_words(move.until)} if the place stays, because {reason}."
        case MovePhase.STABILISING:
            return "busy", f"It waits to move to {to}, because {reason}.{why}"
        case MovePhase.ADMITTED:
            return "busy", f"It moves to {to}. Its old copies are being removed first.{_until(move)}"
        case MovePhase.SURGING:
            return "busy", f"It moves to {to}. The new copies are not all healthy yet.{_until(move)}"
        case MovePhase.SOAKING:
            ends = "" if move.until is None else f" The old copies go at {time_words(move.until)}."
            return "busy", f"It moves to {to}. All new copies are healthy.{ends}"
        case MovePhase.RELEASED:
            return "good", f"It moved to {to} at {time_words(move.since)}, because of this: {reason}."
        case _:
            return _held_words(move, now)


def time_words(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def sentence(text: str) -> str:
    """Return a message with a full stop. Its first word may be a name, and stays as it is."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def _until(move: MoveState) -> str:
    return "" if move.until is None else f" If this does not end before {time_words(move.until)}, it returns."


def _held_words(move: MoveState, now: datetime) -> tuple[str, str]:
    how = f" {sentence(move.message)}" if move.message else ""
    if move.held_down(now):
        return (
            "warn",
            f"It is held down: no move except a failover starts before {time_words(move.held_down_until)}.{how}",
        )
    return "off", f"Its last move ended, and it may move again.{how}"


_DECISION: Final = "decision"
_MAX_CHANGES: Final = 6
_GOOD: Final = frozenset({"", "Success"})


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


def moment_of(text: str) -> datetime | None:
    """Return the time of a record; None if its text is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def record_badge(record: HistoryRow) -> tuple[str, str]:
    if record.kind != _DECISION:
        return "off", record.kind
    if record.reason not in _GOOD:
        return "bad", record.reason
    if record.trigger == "Move":
        return "busy", "move"
    return ("off", "confirmed") if record.before == record.after else ("good", "placed")
