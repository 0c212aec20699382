"""The words of the page Workload: assignments, groups, rejections and moves. Pure functions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from berthmaster.model.move import MovePhase, MoveState
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import GroupOutlook
from berthmaster.scheduling.karmada.profile import rejection_phrase
from berthmaster.views import words
from berthmaster.views.texts import count_text

_SHOWN: Final = 8
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


def rejected_words(rejected: Mapping[str, int]) -> str:
    """Return how many clusters are rejected for which reason; empty if none are."""
    return "; ".join(f"{count:,} {rejection_phrase(plugin)}" for plugin, count in rejected.items())


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
