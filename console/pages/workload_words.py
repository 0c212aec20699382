"""The words of the page Workload, and its first lines: where it is, in which group, and what happens next.

Pure functions. Each line is true for the stored binding; what would be decided now is said as such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import pairwise
from typing import Final, assert_never

from berthmaster.ledger.records import HistoryRow, PastExplanation
from berthmaster.model.meta import moment_of
from berthmaster.model.move import UNDER_WAY, WAITING, MovePhase, MoveReason, MoveState
from berthmaster.native_api.why import BindingOutlook, BindingOverview, Room
from berthmaster.native_api.wire import BindingView
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import GroupOutlook
from berthmaster.scheduling.karmada.minimal import DriftKind
from berthmaster.scheduling.karmada.profile import rejection_phrase
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.simulation.report import Explanation
from berthmaster.views import words
from berthmaster.views.texts import count_text
from console.pages.amounts import room_words

_SHOWN: Final = 8
_TRIGGERS: Final = frozenset(each.value for each in Trigger)
MOVED: Final = "Move"
"""What the ledger records in place of a trigger for a step of a move."""
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


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


def recorded_trigger_words(trigger: str) -> str:
    """Return why a workload is scheduled, by the trigger of a record; the trigger itself if it is not known."""
    if trigger == MOVED:
        return "a move took a step"
    return words.trigger_words(Trigger(trigger)) if trigger in _TRIGGERS else trigger


def filter_words(plugin: str) -> str:
    """Return what is said about clusters that a filter rejects."""
    return rejection_phrase(plugin)


def rejected_words(rejected: Mapping[str, int]) -> str:
    """Return how many clusters are rejected for which reason; empty if none are."""
    return "; ".join(f"{count:,} {filter_words(plugin)}" for plugin, count in rejected.items())


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
    reason = words.move_reason_words(move.reason)
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
    if move.overdue:
        return f" Its deadline has passed, and it cannot return now. {sentence(move.message)}".rstrip()
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


class RecordOutcome(Enum):
    """What a record did to a workload."""

    NOTE = "note"
    """It is no decision."""
    FAILED = "failed"
    LOST = "lost"
    """The workload lost all clusters."""
    SCALED_DOWN = "scaled-down"
    FEWER = "fewer"
    """It got fewer replicas, without a request for fewer."""
    EVICTED = "evicted"
    STEP = "step"
    """A step of a move."""
    CONFIRMED = "confirmed"
    """Nothing changed."""
    PLACED = "placed"


def outcome_of_record(record: HistoryRow) -> RecordOutcome:
    """Return what a record did. A loss of replicas or of all clusters is a loss, whatever caused it."""
    before, after = record.before or {}, record.after or {}
    if record.kind != _DECISION:
        return RecordOutcome.NOTE
    if record.reason not in _GOOD:
        return RecordOutcome.FAILED
    if before and not after:
        return RecordOutcome.LOST
    if record.trigger == MOVED:
        return RecordOutcome.STEP
    if sum(after.values()) < sum(before.values()):
        return RecordOutcome.SCALED_DOWN if record.trigger == Trigger.SCALE.value else RecordOutcome.FEWER
    if record.evicted_from:
        return RecordOutcome.EVICTED
    return RecordOutcome.CONFIRMED if before == after else RecordOutcome.PLACED


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


NOT_WRITTEN: Final = "NotWritten"
SUCCESS: Final = "Success"
_MAX_EARLIER: Final = 3
_FAILBACK: Final = (
    "Karmada does not move a workload back to an earlier group by itself. "
    "A failback of Berthmaster or a rescheduling does."
)


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One line of the answer. ``kind`` is the kind of a badge: ``good``, ``warn``, ``bad``, ``busy`` or ``off``."""

    question: str
    kind: str
    texts: tuple[str, ...]
    record: str = ""


def answers(
    known: BindingOverview, now: datetime, departure: Departure | None = None, departed: PastExplanation | None = None
) -> tuple[AnswerLine, ...]:
    binding, explained, outlook, room, drift = known.binding, known.decision, known.outlook, known.room, known.drift
    lines = [
        _where(binding, outlook, room),
        _group(binding),
        _why_not_preferred(binding, outlook),
        None if departure is None else _why_left(departure, departed),
        None if drift is None or not binding.clusters or drift.unplaced else _drift(drift),
        _next(binding, explained, outlook, now),
    ]
    return tuple(line for line in lines if line is not None)


def _drift(drift: WorkloadDrift) -> AnswerLine:
    if not drift.kinds:
        return AnswerLine("Drift", "good", ("It is as its policy asks.",))
    kinds = "; ".join(words.drift_words(kind) for kind in DriftKind if kind.value in drift.kinds)
    repair = f"A minimal repair moves {count_text(drift.moves, 'replica')}, to {assignment_words(drift.minimal)}."
    full = f"A full repair moves {drift.full_moves:,}."
    return AnswerLine("Drift", "warn", (f"Differs from its policy: {kinds}.", repair, full))


def _where(binding: BindingView, outlook: BindingOutlook | None, room: Room | None) -> AnswerLine:
    texts, kind = [], "good"
    if not binding.present:
        texts.append("The control plane has no binding for it yet. This is the binding that is due.")
        kind = "warn"
    clusters, replicas = binding.clusters, binding.replicas
    assigned = sum(clusters.values())
    if not clusters:
        texts.append("It is assigned to no cluster.")
        kind = "bad"
    else:
        texts.append(f"It is assigned to {count_text(len(clusters), 'cluster')}: {assignment_words(clusters)}.")
    if replicas and assigned < replicas and clusters:
        texts.append(f"{assigned:,} of {count_text(replicas, 'replica')} have a place; {replicas - assigned:,} do not.")
        kind = "warn"
    elif replicas and assigned > replicas and outlook is not None and outlook.move is not None:
        texts.append(
            f"These are old and new copies: {assigned:,} during the move, of {count_text(replicas, 'replica')}."
        )
        leaves = {name: count for name, count in outlook.move.source.items() if outlook.move.target.get(name) != count}
        texts.append(f"The old copies are on {assignment_words(leaves)} until the new ones are healthy.")
    elif replicas and clusters:
        each = len(clusters) > 1 and all(count == replicas for count in clusters.values())
        texts.append(
            f"Each cluster has all {count_text(replicas, 'replica')}." if each else _all_placed(assigned, replicas)
        )
    if room is not None:
        texts += room_words(binding.requests, room)
    evicted = sorted({task.from_cluster for task in binding.eviction_tasks})
    if evicted:
        texts.append(
            f"It is being evicted from {listed(evicted, 'cluster')}. Copies there stay until new ones are ready."
        )
        kind = "warn" if kind == "good" else kind
    return AnswerLine("Where", kind, tuple(texts))


def _all_placed(assigned: int, replicas: int) -> str:
    if assigned == replicas:
        return f"All {count_text(replicas, 'replica')} have a place." if replicas > 1 else "Its replica has a place."
    return f"{count_text(assigned, 'replica')} are assigned, and {replicas:,} are desired."


def _group(binding: BindingView) -> AnswerLine | None:
    groups, observed = binding.groups, binding.observed_group
    if groups is None:
        return None
    order = " → ".join(groups[:12]) + (" → …" if len(groups) > 12 else "")
    kind = "warn"
    if not groups:
        text = "Its placement has an empty list of groups, which places nothing."
    elif not binding.clusters:
        kind, text = "off", f"It is in no group. Its placement tries {order}."
    elif observed is None:
        kind, text = "off", f"The group of this assignment is not recorded. Its placement tries {order}."
    elif observed not in groups:
        text = f"It came from the group {observed}, which its placement no longer has. It tries {order}."
    elif observed == groups[0]:
        only = "the only group" if len(groups) == 1 else f"the first of {len(groups)}: {order}"
        kind, text = "good", f"It is in its preferred group {observed}, {only}."
    else:
        text = f"It is in the group {observed}, the {ordinal(groups.index(observed))} of {len(groups)}: {order}."
    return AnswerLine("Group", kind, (text,))


def _why_not_preferred(binding: BindingView, outlook: BindingOutlook | None) -> AnswerLine | None:
    groups = binding.groups
    if not groups or not binding.clusters or binding.observed_group not in groups[1:]:
        return None
    question = f"Why not {groups[0]}"
    if outlook is None:
        return AnswerLine(question, "off", ("It is not known what the earlier groups could hold.",))
    earlier = [each for each in outlook.groups if each.group in groups[: groups.index(binding.observed_group)]]
    if not earlier:
        return AnswerLine(question, "off", tuple(map(sentence, outlook.notes)) or ("It is not known.",))
    alone = len(earlier) == 1
    texts = [
        outlook_words(each, binding.replicas) if alone else f"{each.group}: {outlook_words(each, binding.replicas)}"
        for each in earlier[:_MAX_EARLIER]
    ]
    if len(earlier) > _MAX_EARLIER:
        texts.append(f"The table below has {count_text(len(earlier) - _MAX_EARLIER, 'more earlier group')}.")
    if any(each.error is None for each in earlier):
        move = outlook.move
        wants = move is not None and move.reason is MoveReason.FAILBACK and (move.phase in WAITING | UNDER_WAY)
        return AnswerLine(question, "warn", (*texts, *(() if wants else (_FAILBACK,))))
    return AnswerLine(question, "bad", tuple(texts))


def _why_left(departure: Departure, departed: PastExplanation | None) -> AnswerLine:
    record, left = departure.record, departure.left
    why = f"It left at {time_words(moment_of(record.time))}, because {recorded_trigger_words(record.trigger)}."
    gone = record.evicted_from
    texts = [why, *([f"It was evicted from {listed(gone, 'cluster')}."] if gone else [])]
    tried = departed.explanation.diagnosis.groups if departed is not None and departed.explanation.diagnosis else []
    texts += [sentence(f"{left}: {each.failure.message}") for each in tried if each.group == left and each.failure]
    if departed is not None and departed.difference is not None:
        changes = [each for each in departed.difference.changes if each.decisive]
        texts += [
            f"This made the difference: {each.subject}, {each.aspect}: {each.before} → {each.after}."
            for each in changes[:3]
        ]
    return AnswerLine(f"Why it left {left}", "off", tuple(texts), record.id)


def _next(
    binding: BindingView, explained: Explanation | None, outlook: BindingOutlook | None, now: datetime
) -> AnswerLine:
    if binding.deleting:
        return AnswerLine("Next", "off", ("Its binding is being deleted.",))
    texts, kind = [], "off"
    move = outlook.move if outlook is not None else None
    if move is not None:
        kind, text = move_words(move, now)
        texts.append(text)
    if binding.suspended:
        return AnswerLine("Next", "off", (*texts, "Its scheduling is suspended: no decision is made until that ends."))
    if explained is None:
        return AnswerLine("Next", kind, (*texts, "It is not known what a decision would do now."))
    if explained.not_scheduled is not None:
        message = explained.message
        none = f"No decision is made: {sentence(message)}" if message else "No scheduler looks at it."
        return AnswerLine("Next", "off", (*texts, none))
    if explained.trigger is Trigger.NONE and move is not None and move.phase in WAITING | UNDER_WAY:
        return AnswerLine("Next", kind, tuple(texts))
    decided_kind, decided = _decision(binding, explained)
    return AnswerLine("Next", decided_kind if kind == "off" else kind, (*texts, decided))


def _decision(binding: BindingView, explained: Explanation) -> tuple[str, str]:
    if explained.trigger is Trigger.NONE:
        stays = "It stays where it is." if binding.clusters else "It stays without a cluster."
        return "off", f"Nothing asks for a new decision. {stays}"
    why = f"The scheduler decides again, because {words.trigger_words(explained.trigger)}."
    if explained.error is not None:
        keeps = " It keeps its clusters." if explained.clusters else ""
        return "bad", f"{why} A decision now finds no place: {sentence(explained.message or '')}{keeps}"
    if not explained.clusters:
        return "warn", f"{why} A decision now places nothing: {sentence(explained.message or 'no reason is given')}"
    if explained.clusters == binding.clusters:
        return "good", f"{why} A decision now changes nothing."
    group = f" in the group {explained.group}" if explained.group and explained.group != binding.observed_group else ""
    return "busy", f"{why} A decision now gives {assignment_words(explained.clusters)}{group}."


def past_answers(past: PastExplanation) -> tuple[AnswerLine, ...]:
    """Return the first lines of the page about a recorded decision. They are about that time."""
    record, explained = past.record, past.explanation
    lines = [AnswerLine("Why", "off", (f"The scheduler decided because {recorded_trigger_words(record.trigger)}.",))]
    after = record.after or {}
    if record.reason == NOT_WRITTEN:
        lines.append(AnswerLine("Where", "bad", (f"The decision was not written: {sentence(record.message)}",)))
    elif record.before == record.after:
        stays = f"It stayed on {assignment_words(after)}." if after else "It stayed without a cluster."
        lines.append(AnswerLine("Where", "good" if after else "bad", (stays,)))
    else:
        to = f"It went to {assignment_words(after)}." if after else "It lost all clusters."
        was = f"Before, it was on {assignment_words(record.before)}." if record.before else "Before, it had no cluster."
        lines.append(AnswerLine("Where", "good" if after else "bad", (to, was)))
    if record.group:
        lines.append(AnswerLine("Group", "off", (f"The assignment is in the group {record.group}.",)))
    if explained.error is not None:
        lines.append(AnswerLine("Problem", "bad", (sentence(explained.message or record.message),)))
    elif record.message and record.reason not in {"", SUCCESS, NOT_WRITTEN}:
        lines.append(AnswerLine("Problem", "bad", (sentence(record.message),)))
    return tuple(lines)
