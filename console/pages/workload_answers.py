"""The first lines of the page Workload: where it is, in which group, why, and what happens next. Pure functions.

Each line is true for the stored binding; what would be decided now is said as such.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.binding import deletes_directly
from berthmaster.model.meta import moment_of
from berthmaster.model.move import UNDER_WAY, WAITING, MoveReason
from berthmaster.native_api.why import BindingOutlook, BindingOverview, Room
from berthmaster.native_api.wire import BindingView
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.simulation.report import Explanation
from berthmaster.views import words
from berthmaster.views.texts import count_text
from console.pages.amounts import room_words
from console.pages.record_words import Departure, recorded_trigger_words
from console.pages.workload_words import (
    assignment_words,
    listed,
    move_words,
    ordinal,
    outlook_words,
    sentence,
    time_words,
)

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
    evictions = _evictions(binding)
    if evictions:
        texts += evictions
        kind = "warn" if kind == "good" else kind
    return AnswerLine("Where", kind, tuple(texts))


def _evictions(binding: BindingView) -> list[str]:
    kept = {task.from_cluster for task in binding.eviction_tasks if not deletes_directly(task.purge_mode)}
    evicted = (
        (kept, "Copies there stay until new ones are ready."),
        (binding.waits_for_deletion, "New copies start only when those there are deleted (purge mode Directly)."),
    )
    return [f"It is being evicted from {listed(sorted(names), 'cluster')}. {then}" for names, then in evicted if names]


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
