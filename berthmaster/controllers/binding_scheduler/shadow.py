"""Shadow mode: what this scheduler would decide, compared with the decisions of the one in charge. Pure code."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from berthmaster.deciding.decide import BindingDecision
from berthmaster.model.binding import Binding, short_assignment
from berthmaster.model.meta import Key
from berthmaster.scheduling.karmada.trigger import Trigger

MAX_DIFFERENCES: Final = 1000
"""The most differences whose details are kept. All of them are counted."""


class ShadowResult(StrEnum):
    """What is known about a binding."""

    SAME = "same"
    KEPT = "kept"
    """The assignment is from before the start, and no decision was due since. It was not compared: both keep it."""
    DIFFERENT = "different"
    WAITING = "waiting"
    """A decision is due here, and the other scheduler has not answered."""


class DifferenceReason(StrEnum):
    """How two assignments differ."""

    CLUSTERS = "clusters"
    REPLICAS = "replicas"
    ONLY_THEIRS = "only-theirs"
    """The other scheduler assigns clusters, and this one finds none."""
    ONLY_OURS = "only-ours"
    """This scheduler assigns clusters, and the other one finds none."""
    UNSUPPORTED = "unsupported"
    """This version does not know a part of the placement, and would hold the binding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two assignments of a binding that differ."""

    reason: DifferenceReason
    theirs: Mapping[str, int]
    ours: Mapping[str, int]
    message: str
    at: datetime

    def shown(self, key: Key) -> dict[str, Any]:
        return {
            "namespace": key[0],
            "name": key[1],
            "reason": self.reason.value,
            "theirs": dict(self.theirs),
            "ours": dict(self.ours),
            "message": self.message,
            "at": self.at.isoformat(timespec="seconds"),
        }


def is_answered(asked: Binding, after: Binding) -> bool:
    """Whether a scheduler has answered between two versions of a binding: it changes these fields and no other client.

    A scheduler that decides for the same assignment writes only the status.
    """
    return (
        asked.spec.clusters != after.spec.clusters
        or asked.applied_placement != after.applied_placement
        or asked.status.last_scheduled_time != after.status.last_scheduled_time
        or asked.scheduled != after.scheduled
    )


def is_settled(binding: Binding, trigger: Trigger) -> bool:
    """Whether the assignment of a binding that is seen for the first time is the scheduler's latest answer.

    Args:
        trigger: why this scheduler would decide now. Copies are decided at every event even if nothing changed.
    """
    condition = binding.scheduled
    return condition is not None and condition.status == "True" and trigger in {Trigger.NONE, Trigger.RECONCILE}


def difference(decision: BindingDecision, after: Binding, now: datetime, *, held: bool) -> Difference | None:
    """Return how the assignment of a binding differs from a decision; None if it does not.

    A decision that fails without removing the assignment keeps it.

    Args:
        held: whether this scheduler would hold the binding for an unknown part of its placement.
    """
    theirs = after.assignment
    ours = dict(decision.clusters) if decision.clusters is not None else decision.binding.assignment
    if held and theirs != ours:
        reason = DifferenceReason.UNSUPPORTED
    elif ours == theirs:
        return None
    elif not ours or not decision.result.ok:
        reason = DifferenceReason.ONLY_THEIRS
    elif not theirs:
        reason = DifferenceReason.ONLY_OURS
    else:
        reason = DifferenceReason.REPLICAS if ours.keys() == theirs.keys() else DifferenceReason.CLUSTERS
    return Difference(reason, theirs, ours, decision.result.message, now)


@dataclass(slots=True)
class ShadowResults:
    """The results of all bindings. Not safe for several threads."""

    decisions: Counter[tuple[ShadowResult, str]] = field(default_factory=Counter)
    _of: dict[Key, tuple[ShadowResult, str]] = field(default_factory=dict)
    _differences: dict[Key, Difference] = field(default_factory=dict)

    def set(self, key: Key, result: ShadowResult, found: Difference | None = None, *, counts: bool = False) -> None:
        """Set the latest result of a binding. ``counts`` says whether two decisions were compared."""
        reason = found.reason.value if found is not None else ""
        self._of[key] = result, reason
        self._differences.pop(key, None)
        if found is not None and len(self._differences) < MAX_DIFFERENCES:
            self._differences[key] = found
        if counts:
            self.decisions[result, reason] += 1

    def remove(self, key: Key) -> None:
        self._of.pop(key, None)
        self._differences.pop(key, None)

    def result_of(self, key: Key) -> ShadowResult | None:
        """Return the latest result of a binding; None if there is none."""
        return self._of[key][0] if key in self._of else None

    def bindings(self) -> Counter[tuple[ShadowResult, str]]:
        return Counter(self._of.values())

    def report(self) -> dict[str, Any]:
        bindings = self.bindings()
        reasons = Counter({reason: count for (_, reason), count in bindings.items() if reason})
        different = sum(reasons.values())
        return {
            "bindings": {each.value: sum(n for (r, _), n in bindings.items() if r is each) for each in ShadowResult},
            "reasons": {each.value: reasons[each.value] for each in DifferenceReason},
            "decisions": {
                each.value: sum(count for (result, _), count in self.decisions.items() if result is each)
                for each in (ShadowResult.SAME, ShadowResult.DIFFERENT)
            },
            "differences": [each.shown(key) for key, each in sorted(self._differences.items())],
            "more": different - len(self._differences),
        }


def summary(found: Difference) -> dict[str, object]:
    """Return the fields of the log record of a difference."""
    return {
        "reason": found.reason.value,
        "theirs": short_assignment(found.theirs),
        "ours": short_assignment(found.ours),
        "message_here": found.message,
    }
